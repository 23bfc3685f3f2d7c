"""bench/python/loops.py measures every cell: one tiny round, whose figures mean nothing."""
from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.commands import ROOT

LIMIT_S = 100


def bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(ROOT / "bench" / "python" / "loops.py"),
                           *map(str, arguments)], capture_output=True, text=True, check=False,
                          timeout=LIMIT_S)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("bench") / "record.json"
    done = bench("--quick", "--json", path)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert "ratio=" in done.stdout.splitlines()[-1]
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_every_cell_is_measured_for_ringloop_and_for_what_it_is_compared_with(
        record: dict[str, Any]) -> None:
    listed = bench("--list").stdout.splitlines()
    assert len(record["cells"]) == len(listed) > 50
    for name, cell in record["cells"].items():
        assert cell["failures"] == {}, name
        for subject, rounds in cell["values"].items():
            assert len(rounds) == 1 and cell["main"] in rounds[0], (name, subject)


def test_the_record_says_where_and_with_what_it_was_made(record: dict[str, Any]) -> None:
    assert record["machine"]["cores"] == os.cpu_count()
    assert set(record["loops"]) == {"ringloop", "asyncio"}


def test_a_rival_that_is_not_there_is_named_and_the_rest_runs(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    done = bench("--quick", "--cells", "future resolved", "--loops", "nonesuch,asyncio", "--json",
                 path)
    assert done.returncode == 0, done.stderr
    assert "without nonesuch: ModuleNotFoundError" in done.stdout
    record = json.loads(path.read_text())
    assert set(record["cells"]["future resolved"]["values"]) == {"ringloop", "asyncio"}


def test_a_wrong_echo_is_an_error_and_not_a_figure(tmp_path: Path) -> None:
    """The native client compares every byte."""
    client = Path(os.environ["RINGLOOP_BUILD"], "bench", "load", "loopclient")
    server = tmp_path / "server.py"
    server.write_text(
        "import socket\n"
        "with socket.create_server(('127.0.0.1', 0)) as server:\n"
        "    print(server.getsockname()[1], flush=True)\n"
        "    made, _ = server.accept()\n"
        "    while data := made.recv(65536):\n"
        "        made.sendall(data[:-1] + b'!')\n")
    with subprocess.Popen([sys.executable, str(server)], stdout=subprocess.PIPE,
                          text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            done = subprocess.run([str(client), f"address={port}", "connections=1"],
                                  capture_output=True, text=True, check=False, timeout=LIMIT_S)
        finally:
            process.kill()
    assert done.returncode == 1
    assert "an answer differs from what is right, from byte 0 on: " in done.stderr


def test_no_cell_of_a_name_is_an_error() -> None:
    done = bench("--cells", "no such cell")
    assert done.returncode == 2
    assert "--list shows all" in done.stderr


def verdicts(bars: tuple[Any, ...], ours: list[float], theirs: list[float]) -> list[Any]:
    """Of a cell with these values of uvloop and of ours, round by round."""
    cells = importlib.import_module("cells.results")
    model = importlib.import_module("cells.model")
    cell = model.Cell("cell", "group", None, ("uvloop",), bars)
    results = cells.Results([cell], {"cell": ["ringloop", "uvloop"]})
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        results.add(cell, "ringloop", number, {model.CPU: one})
        results.add(cell, "uvloop", number, {model.CPU: other})
    return list(results.verdicts(cell))


@pytest.fixture
def bar(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "bench" / "python"))
    return importlib.import_module("cells.model").Bar


def test_a_bar_is_met_by_the_median_of_the_ratios_within_rounds(bar: Any) -> None:
    found = verdicts((bar(1.5, "uvloop"), bar(1.6, "uvloop"), bar(0.7, "uvloop", at_most=True),
                      bar(0.6, "uvloop", at_most=True)),
                     ours=[1.0, 10.0, 100.0], theirs=[1.5, 15.0, 100.0])
    assert [each.met for each in found] == [True, False, True, False]
    assert found[0].ratio.value == 1.5


def test_the_best_peer_is_the_one_that_costs_least(bar: Any) -> None:
    found = verdicts((bar(1.2, "best peer"), bar(1.0)), ours=[2.0], theirs=[3.0])
    assert (found[0].against, found[0].met, found[0].ratio.value) == ("uvloop", True, 1.5)
    assert found[1].met is True      # our own figure, 2, is at least 1


def test_a_bar_without_values_is_neither_met_nor_short(bar: Any) -> None:
    assert [each.met for each in verdicts((bar(1.2, "uvloop"),), [], [])] == [None]
