"""Graph: work with dependencies, in Python, in native code and on threads; run in parallel, and
again only where something changed.

What is known without running anything (names, edges, states, what is due) is native, GraphCore; a
run is `_graph_run.Run`. Owns the nodes' functions and values. Thread: one at a time, that of the
loop while it runs.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, overload

from . import _native
from ._graph_run import PLACES, Run

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_R = TypeVar("_R")
_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")
_Where = str | concurrent.futures.Executor


class GraphReport(NamedTuple):
    """What a run did."""

    ran: list[str]  # names, in the order in which they began
    kept: int  # nodes whose values were still good


class GraphError(Exception):
    """Nodes of a graph failed or were cancelled, or one was not run for another's sake.

    failures: by name, what those raised that failed or were cancelled themselves, first come first.
    The exception's __cause__ is the first of them; of a node that was not run, its dependency's.
    """

    def __init__(self, message: str, failures: dict[str, BaseException]) -> None:
        super().__init__(message)
        self.failures = failures


class GraphNode(Generic[_T_co]):
    """A node of a Graph, which makes it."""

    def __init__(self, graph: Graph, number: int, name: str, fn: Callable[..., Any], where: Any):
        self._graph = graph
        self._number = number
        self._fn = fn
        self._where = where
        self._needs: list[GraphNode[Any]] = []  # found by a run
        self._value: Any = None
        self._error: BaseException | None = None
        self.name = name

    @property
    def state(self) -> str:
        """PENDING, READY, RUNNING, DONE, FAILED or CANCELLED."""
        return self._graph._core.state(self._number)

    @property
    def runs(self) -> int:
        """How often it has begun."""
        return self._graph._core.runs(self._number)

    def result(self) -> _T_co:
        """Its value, or what exception() returns, raised. asyncio.InvalidStateError while it has
        not run yet."""
        error = self.exception()
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback holds this frame
        value: _T_co = self._value
        return value

    def exception(self) -> BaseException | None:
        """What it raised. CancelledError where it was cancelled. GraphError where it was not run
        for another's sake: its __cause__ leads to that one. None where it is done."""
        state = self.state
        if state == "DONE":
            return None
        if state not in ("FAILED", "CANCELLED"):
            raise asyncio.InvalidStateError(f"node {self.name!r} has not run yet: it is {state}")
        return self._error if self._error is not None else self._graph._not_run(self)

    def touch(self) -> None:
        """It runs again, with what depends on it, though nothing it depends on has changed."""
        self._graph._core.touch(self._number)

    def cancel(self) -> bool:
        """Cancels it in this run, and with it what depends on it. False: it has ended. A call on a
        worker that has begun is waited for."""
        return self._graph._cancel(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} {self.state}>"


class GraphInput(GraphNode[_T]):
    """A value from outside."""

    def set(self, value: _T) -> None:
        """Counts as a change, also for an equal value. During a run it counts from the next one
        on."""
        self._graph._set(self, value)


class Graph:
    """Nodes with dependencies, run in parallel and again only where something changed.

        graph = ringloop.Graph()
        path = graph.input("a.txt", name="path")
        rows = graph.node(read_rows, deps=[path])                    # async or plain
        pages = graph.node(ringloop.kernels.matmul, deps=[rows, rows], where="native")
        total = graph.node(add_up, deps=[rows], where="pool")
        await graph.run()
        print(total.result())
        path.set("b.txt")
        await graph.run()               # what depends on the path, and nothing else

    A graph is run on any event loop. Nothing is started before run(), and nothing is left when it
    has ended.
    """

    def __init__(self) -> None:
        self._core = _native.GraphCore()
        self._nodes: list[GraphNode[Any]] = []
        self._names: dict[str, GraphNode[Any]] = {}
        self._run: Run | None = None
        self._set_in_run: dict[GraphInput[Any], Any] = {}
        self._fits: set[tuple[object, int]] = set()
        self._found = 0  # nodes whose dependencies are known

    def input(self, value: _T, name: str) -> GraphInput[_T]:
        """A node whose value comes from outside, by this and by its set()."""
        number = self._core.add_input(name)
        made: GraphInput[_T] = GraphInput(self, number, name, _never_called, "input")
        made._value = value
        self._enter(made)
        return made

    @overload
    def node(
        self,
        fn: Callable[[], Awaitable[_R]],
        deps: tuple[()] = (),
        where: _Where = "python",
        name: str | None = None,
    ) -> GraphNode[_R]: ...
    @overload
    def node(
        self,
        fn: Callable[[], _R],
        deps: tuple[()] = (),
        where: _Where = "python",
        name: str | None = None,
    ) -> GraphNode[_R]: ...
    @overload
    def node(
        self,
        fn: Callable[[_A], Awaitable[_R]],
        deps: tuple[GraphNode[_A]],
        where: _Where = "python",
        name: str | None = None,
    ) -> GraphNode[_R]: ...
    @overload
    def node(
        self,
        fn: Callable[[_A], _R],
        deps: tuple[GraphNode[_A]],
        where: _Where = "python",
        name: str | None = None,
    ) -> GraphNode[_R]: ...
    @overload
    def node(
        self,
        fn: Callable[[_A, _B], Awaitable[_R]],
        deps: tuple[GraphNode[_A], GraphNode[_B]],
        where: _Where = "python",
        name: str | None = None,
    ) -> GraphNode[_R]: ...
    @overload
    def node(
        self,
        fn: Callable[[_A, _B], _R],
        deps: tuple[GraphNode[_A], GraphNode[_B]],
        where: _Where = "python",
        name: str | None = None,
    ) -> GraphNode[_R]: ...
    @overload
    def node(
        self,
        fn: Callable[[_A, _B, _C], Awaitable[_R]],
        deps: tuple[GraphNode[_A], GraphNode[_B], GraphNode[_C]],
        where: _Where = "python",
        name: str | None = None,
    ) -> GraphNode[_R]: ...
    @overload
    def node(
        self,
        fn: Callable[[_A, _B, _C], _R],
        deps: tuple[GraphNode[_A], GraphNode[_B], GraphNode[_C]],
        where: _Where = "python",
        name: str | None = None,
    ) -> GraphNode[_R]: ...
    @overload
    def node(
        self,
        fn: Callable[..., Awaitable[_R]],
        deps: list[Any],
        where: _Where = "python",
        name: str | None = None,
    ) -> GraphNode[_R]: ...
    @overload
    def node(
        self,
        fn: Callable[..., _R],
        deps: list[Any],
        where: _Where = "python",
        name: str | None = None,
    ) -> GraphNode[_R]: ...
    def node(
        self,
        fn: Callable[..., Any],
        deps: Sequence[GraphNode[Any] | str] = (),
        where: _Where = "python",
        name: str | None = None,
    ) -> GraphNode[Any]:
        """A node that calls fn with the values of its dependencies, in order.

        where: "python", on the loop's thread, and what it returns is awaited if it can be; a plain
        function holds the loop up for as long as it runs. "native": the same, for a function that
        gives a ringloop.Awaitable, which needs no task. "pool": a plain function on a thread of
        ringloop's, or on those of a concurrent.futures.Executor that is given itself. All but that
        one's run in a copy of the context of run().

        deps: nodes, or names, also of nodes that come later. A type checker holds a tuple of up to
        three nodes against fn's parameters. name: fn's own unless it is given; a number is added
        where that is taken.

        ValueError for a name that is given twice, TypeError for a function that cannot take so many
        values, RuntimeError during a run.
        """
        self._check_function(fn, len(deps))
        if not isinstance(where, concurrent.futures.Executor) and where not in PLACES:
            places = ", ".join(map(repr, PLACES))
            raise ValueError(f"where is one of {places}, or an Executor, not {where!r}")
        needs = [self._need(each) for each in deps]
        shown = where if isinstance(where, str) else "executor"
        if name is None:
            name = self._free_name(getattr(fn, "__name__", None) or type(fn).__name__)
        made: GraphNode[Any] = GraphNode(
            self, self._core.add(name, shown, needs), name, fn, where
        )
        self._enter(made)
        return made

    def check(self) -> None:
        """ValueError for a name that no node has and for a cycle, as run() raises it."""
        self._core.check()

    def due(self) -> list[str]:
        """The names of what run() would run, in order."""
        return [self._nodes[number].name for number in self._core.due([])]

    async def run(self, *targets: GraphNode[Any] | str) -> GraphReport:
        """Runs what is due: of all nodes, or of the targets and what they depend on.

        A node begins as soon as all that it depends on is done. It is due when one of these has a
        new value, when touch() asked for it, and when it is not done. What fails or is cancelled
        cancels the nodes that depend on it; all others go on. Then run() raises GraphError.

        Cancel: nodes that run are cancelled and waited for, others do not begin. What was done
        stays done for the next run. RuntimeError where the graph is running already.
        """
        if self._core.is_running:
            raise RuntimeError("this graph is running already: await that run first")
        self._core.begin([self._find(each)._number for each in targets])
        try:
            self._find_needs()
            self._run = Run(self._core, self._nodes)
            await self._run.drive()
        finally:
            if self._run is not None:
                self._run.leave()
            self._run = None
            report = GraphReport(*self._core.finish())
            while self._set_in_run:
                self._set(*self._set_in_run.popitem())
        troubles = [self._nodes[number] for number in self._core.troubles()]
        if troubles:
            raise self._failed(self._core.describe_troubles(), troubles)
        return report

    def dot(self) -> str:
        """A drawing for Graphviz: `dot -Tsvg`. Of a graph that check() refuses, too."""
        return self._core.dot()

    def explain(self) -> str:
        """A drawing as text: a line for each node, with its state, what it depends on, and why it
        is due. Of a graph that check() refuses, too."""
        return self._core.text()

    def __getitem__(self, name: str) -> GraphNode[Any]:
        return self._names[name]

    def __iter__(self) -> Iterator[GraphNode[Any]]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def _enter(self, node: GraphNode[Any]) -> None:
        self._nodes.append(node)
        self._names[node.name] = node

    def _free_name(self, wanted: str) -> str:
        name, count = wanted, 1
        while name in self._names:
            count += 1
            name = f"{wanted}-{count}"
        return name

    def _check_function(self, fn: object, count: int) -> None:
        if (fn, count) in self._fits:
            return
        if inspect.isawaitable(fn):
            if hasattr(fn, "close"):
                fn.close()  # else it would warn that nobody awaited it
            raise TypeError("node() takes the function, not its coroutine, which could run once")
        if not callable(fn):
            raise TypeError(f"node() takes a function, not {fn!r}")
        try:
            signature = inspect.signature(fn)
        except ValueError:  # one of C's, which does not say
            return
        try:
            signature.bind(*(None,) * count)
        except TypeError as error:
            raise TypeError(f"{fn!r} cannot take {count} dependencies: {error}") from None
        self._fits.add((fn, count))

    def _need(self, dependency: GraphNode[Any] | str) -> int | str:
        if isinstance(dependency, str):
            return dependency
        if not isinstance(dependency, GraphNode):
            raise TypeError(f"a dependency is a node or a name, not {dependency!r}")
        if dependency._graph is not self:
            raise ValueError(f"{dependency!r} is of another graph")
        return dependency._number

    def _find(self, target: GraphNode[Any] | str) -> GraphNode[Any]:
        if isinstance(target, str) and target not in self._names:
            raise ValueError(f"there is no node {target!r}")
        number = self._need(target)
        return self._names[number] if isinstance(number, str) else self._nodes[number]

    def _find_needs(self) -> None:
        if self._found == len(self._nodes):
            return
        for node in self._nodes:
            node._needs = [self._nodes[number] for number in self._core.needs(node._number)]
        self._found = len(self._nodes)

    def _set(self, node: GraphInput[Any], value: Any) -> None:
        if self._core.is_running:
            self._set_in_run[node] = value
            return
        node._value = value
        self._core.changed(node._number)

    def _cancel(self, node: GraphNode[Any]) -> bool:
        return self._run is not None and self._run.cancel(node)

    def _not_run(self, node: GraphNode[Any]) -> BaseException:
        number = self._core.because(node._number)
        if number is None:
            return asyncio.CancelledError()
        because = self._nodes[number]
        done = because.state == "DONE"  # by a run since then
        error = GraphError(self._core.describe_cancelled(node._number), {})
        if not done:
            cause = because.exception()
            error.__cause__ = cause
            error.failures = (
                cause.failures if isinstance(cause, GraphError) and because._error is None
                else {because.name: cause} if cause is not None else {}
            )
        return error

    def _failed(self, message: str, troubles: list[GraphNode[Any]]) -> GraphError:
        failures = {node.name: node.exception() for node in troubles}
        found = {name: error for name, error in failures.items() if error is not None}
        error = GraphError(message, found)
        error.__cause__ = next(iter(found.values()))
        return error


def _never_called() -> None:
    raise AssertionError("inputs are not run")
