"""ringloop.Graph: nodes in Python, native and on threads; failures, cancels, what runs again."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import gc
import threading
import weakref
from typing import Any

import pytest
import ringloop
from harness.extensions import load
from harness.loops import Run


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def later(value: int) -> int:
    await asyncio.sleep(0)
    return value + 1


def add(left: int, right: int) -> int:
    return left + right


def native(value: object) -> Any:
    """A NOP on the ring, an awaitable of `value`."""
    nop: Any = ringloop._native._probe_nop
    return nop(value, True)


class Diamond:
    """a -> b, c -> d of three kinds; e depends on x alone."""

    def __init__(self) -> None:
        self.graph = graph = ringloop.Graph()
        self.a = graph.input(1, name="a")
        self.x = graph.input(100, name="x")
        self.b = graph.node(later, deps=[self.a], name="b")
        self.c = graph.node(native, deps=[self.a], where="native", name="c")
        self.d = graph.node(add, deps=[self.b, self.c], where="pool", name="d")
        self.e = graph.node(later, deps=[self.x], name="e")


def test_nodes_of_all_kinds_run_once_and_in_order(on_host: Run) -> None:
    async def main() -> None:
        made = Diamond()
        report = await made.graph.run()
        assert made.d.result() == 3 and made.e.result() == 101
        assert sorted(report.ran) == ["b", "c", "d", "e"] and report.ran.index("d") > 1
        assert report.kept == 0
        assert {node.name: node.state for node in made.graph} == dict.fromkeys("abcdex", "DONE")
        assert [node.runs for node in made.graph] == [0, 0, 1, 1, 1, 1]

    on_host(main())


def test_a_changed_input_runs_its_descendants_and_nothing_else(on_host: Run) -> None:
    async def main() -> None:
        made = Diamond()
        await made.graph.run()
        assert await made.graph.run() == ringloop.GraphReport([], 4)
        made.x.set(5)
        assert made.graph.due() == ["e"]
        assert await made.graph.run() == ringloop.GraphReport(["e"], 3)
        made.a.set(10)
        report = await made.graph.run()
        assert sorted(report.ran) == ["b", "c", "d"] and report.kept == 1
        assert made.d.result() == 21
        made.c.touch()
        assert await made.graph.run() == ringloop.GraphReport(["c", "d"], 2)
        assert [made.graph[name].runs for name in "bcde"] == [2, 3, 3, 2]

    on_host(main())


def test_a_leaf_of_a_thousand_nodes_runs_its_descendants_alone(on_host: Run) -> None:
    """100 columns of ten nodes of all kinds, which meet in one."""

    async def main() -> None:
        graph = ringloop.Graph()
        inputs = [graph.input(each, name=f"in {each}") for each in range(100)]
        row: list[Any] = list(inputs)
        kinds = [(later, "python"), (native, "native"), (lambda value: value + 1, "pool")]
        for level in range(10):
            fn, where = kinds[level % 3]
            row = [graph.node(fn, deps=[each], where=where) for each in row]
        total = graph.node(lambda *values: sum(values), deps=row)
        assert len((await graph.run()).ran) == 1001
        assert total.result() == sum(range(100)) + 700
        inputs[42].set(1042)
        report = await graph.run()
        assert len(report.ran) == 11 and report.kept == 990
        assert total.result() == sum(range(100)) + 1700

    on_host(main())


def test_a_target_runs_with_what_it_depends_on(on_host: Run) -> None:
    async def main() -> None:
        made = Diamond()
        assert sorted((await made.graph.run(made.d)).ran) == ["b", "c", "d"]
        made.a.set(2)
        assert (await made.graph.run("b")).ran == ["b"]
        assert sorted(made.graph.due()) == ["c", "d", "e"]
        assert made.d.result() == 3         # of the run before
        with pytest.raises(ValueError, match="there is no node 'q'"):
            await made.graph.run("q")

    on_host(main())


def test_names_may_come_before_their_nodes(on_host: Run) -> None:
    async def main() -> None:
        graph = ringloop.Graph()
        last = graph.node(add, deps=["one", "two"])
        graph.node(lambda: 1, name="one")
        graph.node(native, deps=["one"], where="native", name="two")
        await graph.run()
        assert last.result() == 2 and last.name == "add"

    on_host(main())


def test_a_graph_that_cannot_be_is_refused(on_host: Run) -> None:
    async def main() -> None:
        graph = ringloop.Graph()
        graph.node(later, deps=["c"], name="a")
        with pytest.raises(ValueError, match="node 'a' depends on 'c', and there is no node of"):
            await graph.run()
        graph.node(later, deps=["a"], name="b")
        with pytest.raises(ValueError, match="there is a node 'b' already"):
            graph.node(later, deps=["a"], name="b")
        graph.node(later, deps=["b"], name="c")
        cycle = "'a' depends on 'c' depends on 'b' depends on 'a'"
        with pytest.raises(ValueError, match=f"a cycle, which could never begin: {cycle}"):
            graph.check()
        with pytest.raises(ValueError, match="cycle"):
            await graph.run()
        assert "which cannot run" in graph.explain() and '"c" -> "a"' in graph.dot()

    on_host(main())


def test_what_is_no_node_is_refused() -> None:
    graph = ringloop.Graph()
    with pytest.raises(TypeError, match="cannot take 1 dependencies"):
        graph.node(add, deps=["one"])
    with pytest.raises(TypeError, match="not its coroutine"):
        graph.node(later(1))  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="takes a function"):
        graph.node(5)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="where is one of 'python', 'native', 'pool'"):
        graph.node(add, deps=["a", "b"], where="device")
    with pytest.raises(TypeError, match="a node or a name"):
        graph.node(later, deps=[1])
    with pytest.raises(ValueError, match="of another graph"):
        graph.node(later, deps=[ringloop.Graph().input(1, name="far")])
    with pytest.raises(TypeError):
        graph.input(1, name=2)  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        graph["nothing"]
    assert len(graph) == 0
    first, second = (graph.node(later, deps=["in"]) for _ in range(2))
    assert (first.name, second.name) == ("later", "later-2")
    with pytest.raises(asyncio.InvalidStateError, match="'later' has not run yet: it is PENDING"):
        first.result()


@pytest.mark.parametrize("where", ["python", "async", "native", "pool"])
def test_a_failure_cancels_what_depends_on_it_and_leaves_a_trail(on_host: Run, where: str) -> None:
    def fail(value: int) -> int:
        raise LookupError("no such row")

    async def fail_later(value: int) -> int:
        await asyncio.sleep(0)
        raise LookupError("no such row")

    def fail_natively(value: int) -> Any:
        return ringloop._native._offload(fail, value)

    fns: dict[str, Any] = {"async": fail_later, "native": fail_natively}

    async def main() -> None:
        graph = ringloop.Graph()
        source = graph.input(1, name="source")
        parse = graph.node(fns.get(where, fail), deps=[source], name="parse",
                           where="python" if where == "async" else where)
        rows = graph.node(later, deps=[parse], name="rows")
        report = graph.node(later, deps=[rows], where="pool", name="report")
        beside = graph.node(later, deps=[source], name="beside")
        with pytest.raises(ringloop.GraphError) as caught:
            await graph.run()
        failure = parse.exception()
        assert type(failure) is LookupError and caught.value.__cause__ is failure
        assert str(caught.value) == "graph: node 'parse' failed; not run for that: 2 nodes"
        assert caught.value.failures == {"parse": failure}
        assert [each.state for each in (parse, rows, report, beside)] == [
            "FAILED", "CANCELLED", "CANCELLED", "DONE"]
        assert beside.result() == 2
        with pytest.raises(ringloop.GraphError) as of_report:
            report.result()
        error = of_report.value
        assert str(error) == (
            "node 'report' was not run: node 'parse' failed (report <- rows <- parse)")
        assert error.failures == {"parse": failure}
        assert error.__cause__ is not None and error.__cause__.__cause__ is failure
        with pytest.raises(LookupError):
            parse.result()
        assert "due: it failed" in graph.explain()
        assert "due: 'parse' was not done" in graph.explain()

    on_host(main())


def test_all_failures_are_named_and_mended_nodes_run_alone(on_host: Run) -> None:
    async def main() -> None:
        broken = {"b", "c"}

        def work(name: str) -> Any:
            async def run(*values: int) -> str:
                await asyncio.sleep(0)
                if name in broken:
                    raise ValueError(name)
                return name
            return run

        graph = ringloop.Graph()
        for name, deps in (("a", []), ("b", ["a"]), ("c", ["a"]), ("d", ["b", "c"])):
            graph.node(work(name), deps=deps, name=name)
        with pytest.raises(ringloop.GraphError, match="'b' failed, node 'c' failed; not run for"
                                                      " that: 1 node"):
            await graph.run()
        broken.clear()
        assert await graph.run() == ringloop.GraphReport(["b", "c", "d"], 1)

    on_host(main())


def test_a_cancel_ends_what_runs_and_begins_nothing(on_host: Run) -> None:
    async def main() -> None:
        ended: list[str] = []

        async def wait(name: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await turns(2)
                ended.append(name)

        graph = ringloop.Graph()
        first = graph.node(lambda: "first", name="first")
        slow = graph.node(wait, deps=[first], name="slow")
        hop = graph.node(lambda _: ringloop._native._probe_hop(60), deps=[first], where="native",
                         name="hop")
        after = graph.node(lambda *_: None, deps=[slow, hop], name="after")
        for run in range(2):
            task = asyncio.create_task(graph.run())
            while slow.state != "RUNNING" or hop.state != "RUNNING":
                await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="running already"):
                await graph.run()
            with pytest.raises(RuntimeError, match="during a run"):
                graph.node(later, deps=[first], name="late")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert ended == ["first"] * (run + 1)
            assert [node.state for node in graph] == ["DONE", *["CANCELLED"] * 3]
            assert first.runs == 1 and after.runs == 0
            with pytest.raises(asyncio.CancelledError):
                after.result()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await graph.run()

    on_host(main())


def test_a_call_on_a_worker_that_has_begun_is_waited_for(on_host: Run) -> None:
    async def main() -> None:
        begun, goes_on = threading.Event(), threading.Event()
        finished: list[int] = []

        def work() -> None:
            begun.set()
            goes_on.wait()
            finished.append(1)

        graph = ringloop.Graph()
        node = graph.node(work, where="pool")
        task = asyncio.create_task(graph.run())
        while not begun.is_set():
            await asyncio.sleep(0)
        task.cancel()
        await turns()
        assert not task.done()
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert finished == [1] and node.state == "CANCELLED"

    on_host(main())


def test_a_node_that_is_cancelled_takes_its_descendants_with_it(on_host: Run) -> None:
    async def main() -> None:
        graph = ringloop.Graph()
        gate = asyncio.Event()
        waits = graph.node(asyncio.Event().wait, name="waits")
        after = graph.node(later, deps=[waits], name="after")
        opened = graph.node(gate.wait, name="opened")
        never = graph.node(later, deps=[opened], name="never")
        assert not waits.cancel()      # nothing runs
        task = asyncio.create_task(graph.run())
        await turns()
        assert waits.cancel() and never.cancel() and not never.cancel()
        gate.set()
        with pytest.raises(ringloop.GraphError) as caught:
            await task
        assert set(caught.value.failures) == {"waits", "never"}
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        assert opened.state == "DONE" and never.runs == 0
        with pytest.raises(ringloop.GraphError, match="'after' was not run: node 'waits' was canc"):
            after.result()

    on_host(main())


def test_what_is_set_during_a_run_counts_from_the_next_one_on(on_host: Run) -> None:
    async def main() -> None:
        graph = ringloop.Graph()
        source = graph.input(1, name="source")

        async def first(value: int) -> int:
            if value == 1:
                source.set(2)
            await asyncio.sleep(0)
            return value

        last = graph.node(lambda one, two: (one, two),
                          deps=[graph.node(first, deps=[source]), source])
        await graph.run()
        assert last.result() == (1, 1)
        await graph.run()
        assert last.result() == (2, 2)
        assert (await graph.run()).ran == []

    on_host(main())


def test_awaitables_of_all_kinds_are_awaited(on_host: Run) -> None:
    class Own:
        def __await__(self) -> Any:
            yield from asyncio.sleep(0).__await__()
            return "own"

    async def main() -> None:
        graph = ringloop.Graph()
        loop = asyncio.get_running_loop()

        def future() -> asyncio.Future[str]:
            made = loop.create_future()
            loop.call_soon(made.set_result, "future")
            return made

        made = [graph.node(fn) for fn in
                (future, Own, lambda: ringloop._native._probe_immediate("there"))]
        await graph.run()
        assert [node.result() for node in made] == ["future", "own", "there"]

    on_host(main())


def test_native_nodes_must_be_native(on_host: Run) -> None:
    async def main() -> None:
        graph = ringloop.Graph()
        node = graph.node(lambda: 5, where="native", name="five")
        with pytest.raises(ringloop.GraphError):
            await graph.run()
        with pytest.raises(TypeError, match="node 'five' is native, but .* returned 5"):
            node.result()

    on_host(main())


def test_an_executor_of_ones_own_runs_nodes(on_host: Run) -> None:
    async def main() -> None:
        with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="own") as pool:
            graph = ringloop.Graph()
            name = graph.node(lambda: threading.current_thread().name, where=pool)
            await graph.run()
            assert name.result().startswith("own")
            assert "executor" in graph.explain()

    on_host(main())


def test_nodes_run_in_copies_of_the_context_of_run(on_host: Run) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")

    async def main() -> None:
        def look(*_: object) -> str:
            found = variable.get()
            variable.set("a node's own")
            return found

        async def look_later(*_: object) -> str:
            await asyncio.sleep(0)
            return look()

        graph = ringloop.Graph()
        nodes = [graph.node(look), graph.node(look_later), graph.node(look, where="pool")]
        nodes.append(graph.node(look, deps=nodes))
        variable.set("of run()")
        await graph.run()
        assert [node.result() for node in nodes] == ["of run()"] * 4
        assert variable.get() == "of run()"

    on_host(main())


def test_plain_functions_in_a_row_let_the_loop_turn(run: Run) -> None:
    async def main() -> None:
        turned: list[int] = []
        loop = asyncio.get_running_loop()

        def work() -> None:
            end = loop.time() + 0.002
            while loop.time() < end:
                pass
            turned.append(len(turned))

        graph = ringloop.Graph()
        for _ in range(5):
            graph.node(work)
        between: list[int] = []

        def look() -> None:
            between.append(len(turned))
            if len(turned) < 5:
                loop.call_soon(look)

        loop.call_soon(look)
        await graph.run()
        assert len(set(between)) >= 4, between

    run(main())


def test_an_interrupt_in_a_node_ends_the_run_of_the_loop(run: Run) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    graph = ringloop.Graph()
    first = graph.node(asyncio.sleep, deps=[graph.input(0, name="time")], name="first")
    graph.node(interrupt, deps=[first], name="interrupt")
    graph.node(asyncio.Event().wait, name="waits")
    with pytest.raises(KeyboardInterrupt):
        run(graph.run())
    assert graph["interrupt"].state == "FAILED" and graph["waits"].state == "CANCELLED"


def test_a_graph_runs_on_one_loop_after_another(backend: str) -> None:
    made = Diamond()
    for number, host in enumerate((f"ringloop-{backend}", "asyncio", "uvloop")):
        made.a.set(number)
        Run(host)(made.graph.run())
        assert made.d.result() == 2 * number + 1


def test_a_graph_leaves_nothing_behind(on_host: Run) -> None:
    class Value:
        pass

    async def main() -> list[weakref.ref[Any]]:
        graph = ringloop.Graph()
        made = graph.node(Value, where="pool")
        graph.node(lambda value: value, deps=[made])

        def fail(value: Value) -> None:
            raise ValueError(value)

        graph.node(fail, deps=[made], where="pool")
        with pytest.raises(ringloop.GraphError):
            await graph.run()
        return [weakref.ref(graph), weakref.ref(made.result())]

    left = on_host(main())
    gc.collect()
    assert [each() for each in left] == [None, None]


def test_a_run_that_is_dropped_leaves_the_graph_usable(run: Run) -> None:
    async def main() -> None:
        graph = ringloop.Graph()
        node = graph.node(asyncio.Event().wait)
        dropped = graph.run()
        dropped.send(None)
        dropped.close()
        assert node.state == "CANCELLED"
        await turns()
        task = asyncio.create_task(graph.run())
        await turns()
        task.cancel()
        await asyncio.wait([task])

    run(main())


def test_calls_into_an_extension_are_nodes(on_host: Run) -> None:
    calls = load("bridge_calls")

    async def main() -> None:
        graph = ringloop.Graph()
        one = graph.input(20, name="one")
        added = graph.node(calls.add, deps=[one, one], where="native", name="added")
        twice = graph.node(calls.twice, deps=[added], where="native", name="twice")
        fails = graph.node(lambda _: calls.fail("runtime", True), deps=[twice], name="fails")
        with pytest.raises(ringloop.GraphError) as caught:
            await graph.run()
        assert twice.result() == 80
        assert isinstance(caught.value.__cause__, RuntimeError)
        assert fails.state == "FAILED"

    on_host(main())


def test_drawings(on_host: Run) -> None:
    async def main() -> None:
        made = Diamond()
        assert made.graph.explain().startswith("graph of 6 nodes, 4 due\n")
        await made.graph.run()
        made.a.set(3)
        lines = made.graph.explain().splitlines()
        assert lines[0] == "graph of 6 nodes, 3 due"
        row = next(line.split() for line in lines if line.split()[0] == "d")
        assert row[1:5] == ["pool", "DONE", "1", "run"] and row[6:] == [
            "ms", "<-", "b,", "c", "due:", "'b'", "is", "due"]
        dot = made.graph.dot()
        assert '"b" -> "d";' in dot and '"c" [label="c\\nnative, DONE"' in dot

    on_host(main())
