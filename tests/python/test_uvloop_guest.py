"""ringloop/interop/uv.hpp inside of uvloop: its uv_loop_t, with the libuv that it brings."""
from __future__ import annotations

import asyncio

import pytest
from harness.extensions import FOLDER, load

uvloop = pytest.importorskip("uvloop")
uvloop_loop = pytest.importorskip("uvloop.loop")
if not list(FOLDER.glob("bridge_uvloop_guest.*")):
    pytest.skip("built without libuv's headers (apt-get install libuv1-dev)",
                allow_module_level=True)
extension = load("bridge_uvloop_guest")


def of(loop: asyncio.AbstractEventLoop) -> object:
    return extension.Guest(uvloop_loop.libuv_get_loop_t_ptr(loop), uvloop_loop.__file__)


def test_native_tasks_run_in_uvloop_s_own_rounds() -> None:
    async def main() -> int:
        guest = of(asyncio.get_running_loop())
        guest.start(5)
        while guest.steps < 5:
            await asyncio.sleep(0.001)
        return guest.steps

    assert uvloop.run(main()) == 5


def test_its_end_stops_what_it_runs_and_leaves_the_loop_to_go_on() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(20):
            guest = of(loop)
            guest.start(1_000_000)
            with pytest.raises(RuntimeError, match="has a uv_guest or a uv_host already"):
                of(loop)
            await asyncio.sleep(0)
            del guest
            await asyncio.sleep(0.001)      # the round in which its handles are closed

    uvloop.run(main())


def test_a_module_without_libuv_is_refused() -> None:
    async def main() -> None:
        capsule = uvloop_loop.libuv_get_loop_t_ptr(asyncio.get_running_loop())
        with pytest.raises(RuntimeError, match="has no uv_version"):
            extension.Guest(capsule, extension.__file__)

    uvloop.run(main())
