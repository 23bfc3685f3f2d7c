"""ringloop.hooks: functions around the steps of tasks, on every host."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import gc
import io
import sys
import weakref
from typing import Any, Callable, Coroutine

import pytest
import ringloop
from harness import loops
from harness.loops import Run
from ringloop import hooks

STEP_KINDS = ("on_ready", "before_run", "after_run", "on_slow")


class Log:
    """Functions for hooks.add() that note their kind, for tasks whose name begins with "t"."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, kind: str) -> Callable[..., None]:
        def note(about: Any, *_: Any) -> None:
            if not hasattr(about, "get_name"):
                self.lines.append(kind)
            elif about.get_name().startswith("t"):
                self.lines.append(f"{kind} {about.get_name()}")

        return note


@pytest.fixture(params=["asyncio", "uvloop", *(f"ringloop-{name}" for name in ("uring", "epoll"))])
def hooked(request: pytest.FixtureRequest) -> Any:
    """Runs a coroutine function on a loop whose tasks hooks see."""
    if request.param not in loops.HOSTS:
        pytest.skip("not among the loops of this run")
    if request.param.startswith("ringloop-"):
        if reason := loops.refusal(request.param.removeprefix("ringloop-")):
            pytest.skip(reason)

    def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        loop = loops.factory(request.param)()
        if not isinstance(loop, ringloop.EventLoop):
            loop.set_task_factory(ringloop.task_factory())
        try:
            return loop.run_until_complete(main())
        finally:
            loop.close()

    return run


def named(work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
    loop = asyncio.get_running_loop()
    factory = loop.get_task_factory()
    # Before Python 3.13.3 the name comes after on_ready has been called.
    return factory(loop, work, name=name) if factory else loop.create_task(work, name=name)


async def three_steps() -> str:
    await asyncio.sleep(0)
    await ringloop._native._probe_hop()
    return "done"


def test_each_step_has_its_hooks_in_order(hooked: Any) -> None:
    async def main() -> None:
        asyncio.get_running_loop().slow_callback_duration = 0
        log = Log()
        with hooks.add(**{kind: log(kind) for kind in STEP_KINDS}):
            assert await named(three_steps(), "t") == "done"
        expected = ["on_ready t", "before_run t", "after_run t", "on_slow t"] * 3
        # The step that yielded to sleep(0) is ready again at once.
        assert log.lines == expected

    hooked(main)


def test_a_task_that_waits_is_ready_when_the_wait_is_over(hooked: Any) -> None:
    async def main() -> None:
        gate = asyncio.get_running_loop().create_future()
        log = Log()

        async def waits() -> None:
            log.lines.append("runs")
            await gate
            log.lines.append("goes on")

        with hooks.add(on_ready=log("on_ready")):
            task = named(waits(), "t")
            assert log.lines == ["on_ready t"]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert log.lines == ["on_ready t", "runs"]
            gate.set_result(None)
            await task
        assert log.lines == ["on_ready t", "runs", "on_ready t", "goes on"]

    hooked(main)


def test_a_cancel_is_a_step_too(hooked: Any) -> None:
    async def main() -> None:
        log = Log()
        with hooks.add(**{kind: log(kind) for kind in STEP_KINDS}):
            task = named(asyncio.sleep(60), "t")
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert log.lines == ["on_ready t", "before_run t", "after_run t"] * 2

    hooked(main)


def test_hooks_of_one_kind_are_called_as_they_were_added(hooked: Any) -> None:
    async def main() -> None:
        order: list[int] = []
        with hooks.add(before_run=lambda _: order.append(1)), \
             hooks.add(before_run=lambda _: order.append(2)):
            await asyncio.create_task(asyncio.sleep(0, 5))
        assert order[:4] == [1, 2, 1, 2]

    hooked(main)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks need Python 3.12")
def test_an_eager_task_has_its_hooks_inside_of_create_task(hooked: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(ringloop.task_factory(eager=True))
        log = Log()
        with hooks.add(**{kind: log(kind) for kind in STEP_KINDS}):
            task = named(three_steps(), "t1")
            assert log.lines == ["on_ready t1", "before_run t1", "after_run t1", "on_ready t1"]
            await task

    hooked(main)


def test_a_slow_step_is_told_with_its_seconds(hooked: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = 3600
        told: list[float] = []
        with hooks.add(on_slow=lambda task, seconds: told.append(seconds)):
            await asyncio.create_task(asyncio.sleep(0))
            assert told == []
            loop.slow_callback_duration = 0
            await asyncio.create_task(asyncio.sleep(0))
        assert len(told) >= 2 and all(0 <= seconds < 60 for seconds in told)

    hooked(main)


def test_idle_is_told_once_when_no_step_comes(hooked: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        told: list[Any] = []
        came = loop.create_future()

        def idle(which: Any) -> None:
            told.append(which)
            if not came.done():
                loop.call_soon(came.set_result, None)

        with hooks.add(on_idle=idle):
            for _ in range(5):
                await asyncio.create_task(asyncio.sleep(0))
                assert told == []
            await asyncio.create_task(asyncio.wait_for(came, 60))
            assert told == [loop]

    hooked(main)


def test_a_hook_that_fails_is_reported_and_changes_nothing(hooked: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = 0
        reports: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, report: reports.append(report))

        def broken(*_: Any) -> None:
            raise LookupError("in the hook")

        for kind in (*STEP_KINDS, "on_idle"):
            reports.clear()
            with hooks.add(**{kind: broken}):
                assert await asyncio.create_task(three_steps()) == "done"
                with pytest.raises(ValueError, match="of the step"):
                    await asyncio.create_task(fails())
                task = asyncio.create_task(asyncio.sleep(0.001))
                await task
            assert reports, kind
            for report in reports:
                assert report["message"] == f"ringloop.hooks: {kind} hook {broken!r} failed"
                assert isinstance(report["exception"], LookupError)

    async def fails() -> None:
        raise ValueError("of the step")

    hooked(main)


@pytest.mark.parametrize("kind", ["before_run", "after_run"])
def test_an_interrupt_in_a_hook_ends_the_step(backend: str, kind: str) -> None:
    calls: list[str] = []

    def interrupt(task: Any) -> None:
        calls.append(task.get_name())
        if calls.count("t") == 2:
            raise SystemExit(7)

    async def interrupted() -> str:
        try:
            return await three_steps()
        except SystemExit as error:
            told.append(error)
            raise

    async def main() -> None:
        tasks.append(named(interrupted(), "t"))
        await asyncio.sleep(60)

    told: list[BaseException] = []
    tasks: list[asyncio.Task[Any]] = []
    loop = ringloop.new_event_loop(backend=backend)
    with hooks.add(**{kind: interrupt}):
        waits = loop.create_task(main())
        with pytest.raises(SystemExit):
            loop.run_until_complete(waits)
        assert isinstance(tasks[0].exception(), SystemExit)
        assert len(told) == (kind == "before_run")     # after a step its coroutine is not there
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(waits)
    loop.close()


def test_a_registration_may_be_removed_amid_a_task(hooked: Any) -> None:
    async def main() -> None:
        log = Log()
        registration = hooks.add(before_run=log("before_run"))
        task = named(three_steps(), "t")
        await asyncio.sleep(0)
        assert log.lines == ["before_run t"]
        registration.remove()
        registration.remove()
        assert await task == "done"
        assert log.lines == ["before_run t"]

    hooked(main)


def test_a_hook_may_remove_itself(hooked: Any) -> None:
    async def main() -> None:
        calls: list[Any] = []

        def once(task: Any) -> None:
            calls.append(task)
            registration.remove()

        registration = hooks.add(before_run=once, after_run=calls.append)
        task = asyncio.create_task(three_steps())
        assert await task == "done" and calls == [task]

    hooked(main)


def test_tasks_made_without_hooks_are_never_seen(on_host: Run) -> None:
    async def main() -> None:
        log = Log()
        before = asyncio.create_task(three_steps(), name="t")
        with hooks.add(before_run=log("before_run"), on_idle=log("on_idle")):
            await before
            loop = asyncio.get_running_loop()
            if not isinstance(loop, ringloop.EventLoop):
                await asyncio.create_task(three_steps(), name="t")   # no task factory
            await asyncio.sleep(0.001)
        assert log.lines == []

    on_host(main())


def test_hooks_run_in_the_task_s_context(hooked: Any) -> None:
    word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="outside")

    async def sets() -> None:
        word.set("inside")
        await asyncio.sleep(0)

    async def main() -> None:
        seen: list[str] = []
        with hooks.add(after_run=lambda task: seen.append(word.get())):
            await asyncio.create_task(sets())
        assert seen == ["inside", "inside"] and word.get() == "outside"

    hooked(main)


@pytest.mark.parametrize("value", [None, (1, 2), StopIteration(3), KeyError("kept")])
def test_values_pass_unchanged(hooked: Any, value: Any) -> None:
    async def gives() -> Any:
        await asyncio.sleep(0)
        return value

    async def main() -> None:
        with hooks.add(before_run=callable):
            assert await asyncio.create_task(gives()) is value

    hooked(main)


def test_native_work_as_a_task_has_its_hooks(hooked: Any) -> None:
    async def main() -> None:
        log = Log()
        with hooks.add(**{kind: log(kind) for kind in STEP_KINDS}):
            assert await named(ringloop._native._probe_hop(), "t") is not None
            leaves = named(ringloop._native._probe_hop(1_000_000), "t")
            await asyncio.sleep(0)
            leaves.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaves
        assert log.lines == ["on_ready t", "before_run t", "after_run t"] * 4

    hooked(main)


def test_what_a_task_shows_of_itself_is_its_coroutine_s(hooked: Any) -> None:
    async def main() -> None:
        with hooks.add(before_run=callable):
            task = asyncio.create_task(three_steps(), name="t")
            await asyncio.sleep(0)
            file = io.StringIO()
            ringloop.print_tasks(file=file)
            assert "t three_steps() " in file.getvalue()
            assert "    three_steps() at " in file.getvalue()
            assert "coro=<three_steps() running at" in repr(task)
            assert task.get_stack()[0].f_code.co_name == "three_steps"
            await task

    hooked(main)


def test_a_hooked_task_is_freed_with_its_last_reference(hooked: Any) -> None:
    async def main() -> None:
        gc.collect()
        gc.disable()
        try:
            with hooks.add(**{kind: callable for kind in ("before_run", "after_run", "on_ready")}):
                task = asyncio.create_task(three_steps())
                await task
            gone = weakref.ref(task)
            del task
            await asyncio.sleep(0)
            assert gone() is None
        finally:
            gc.enable()

    hooked(main)


def test_a_factory_of_somebody_else_is_hooked_on_our_loop(run: Run) -> None:
    class Theirs(asyncio.Task[Any]):
        pass

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(lambda loop, coro, **named: Theirs(coro, loop=loop, **named))
        log: list[Any] = []
        with hooks.add(on_ready=log.append, before_run=log.append):
            task = loop.create_task(asyncio.sleep(0))
            await task
        assert type(task) is Theirs and log == [task] * 4

    run(main())


def test_a_coroutine_that_nobody_ran_warns_as_always(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with hooks.add(before_run=callable):
            with pytest.raises(TypeError, match="a coroutine was expected, got 5"):
                loop.create_task(5)
            task = asyncio.create_task(three_steps())
            assert asyncio.iscoroutine(task.get_coro())
            assert await task == "done"

    run(main())


def test_a_wrong_hook_is_named() -> None:
    async def hook(task: Any) -> None: ...

    with pytest.raises(TypeError, match="takes at least one of before_run, after_run"):
        hooks.add()
    with pytest.raises(TypeError, match="before_run is a plain function, not 5"):
        hooks.add(before_run=5)
    with pytest.raises(TypeError, match="on_idle is a plain function, not <function"):
        hooks.add(on_idle=hook)


# ---- native hooks


Native = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_double, ctypes.c_void_p)


def test_a_native_hook_is_called_around_each_step(hooked: Any) -> None:
    async def main() -> None:
        capsule = ringloop._native._probe_hook()
        before = ringloop._native._probe_hook_calls()
        with hooks.add(before_run=capsule, after_run=capsule):
            assert await named(three_steps(), "t") == "done"
        assert ringloop._native._probe_hook_calls() - before == 2 * 3
        await named(three_steps(), "t")
        assert ringloop._native._probe_hook_calls() - before == 2 * 3

    hooked(main)


def test_native_hooks_get_the_task_and_the_time(hooked: Any) -> None:
    async def main() -> None:
        asyncio.get_running_loop().slow_callback_duration = 0
        calls: list[tuple[Any, ...]] = []

        def note(kind: str) -> Any:
            return Native(lambda subject, seconds, context:
                          calls.append((kind, subject, seconds > 0, context)))

        with hooks.add(**{kind: note(kind) for kind in STEP_KINDS}):
            task = named(three_steps(), "t")
            await task
        mine = [call for call in calls if call[1] == id(task)]
        assert mine == [(kind, id(task), kind == "on_slow", None) for kind in STEP_KINDS] * 3

    hooked(main)


def test_native_and_python_hooks_keep_their_order(hooked: Any) -> None:
    async def main() -> None:
        order: list[int] = []
        native = Native(lambda *_: order.append(2))
        with hooks.add(before_run=lambda _: order.append(1)), hooks.add(before_run=native), \
             hooks.add(before_run=lambda _: order.append(3)):
            await asyncio.create_task(asyncio.sleep(0))
        assert order[:6] == [1, 2, 3] * 2

    hooked(main)


def test_a_native_on_idle_gets_the_loop(hooked: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        idle = loop.create_future()

        def note(subject: int, seconds: float, context: None) -> None:
            if not idle.done():
                idle.set_result((subject, seconds, context))

        with hooks.add(on_idle=Native(note)):
            await asyncio.create_task(asyncio.sleep(0))
            assert await idle == (id(loop), 0.0, None)

    hooked(main)


@pytest.mark.parametrize("kind", ["before_run", "on_idle"])
def test_what_a_native_hook_leaves_set_is_reported(hooked: Any, kind: str) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        reports: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, report: reports.append(report))
        address = ctypes.cast(ctypes.pythonapi.PyErr_NoMemory, ctypes.c_void_p).value
        raises = Native(address)
        with hooks.add(**{kind: raises}):
            assert await asyncio.create_task(three_steps()) == "done"
            while not reports:
                await asyncio.sleep(0)
        assert reports[0]["message"] == f"ringloop.hooks: {kind} hook {raises!r} failed"
        assert isinstance(reports[0]["exception"], MemoryError)

    hooked(main)


def test_a_wrong_native_hook_is_named() -> None:
    with pytest.raises(TypeError, match='before_run is a capsule named "ringloop._native.api": a '
                                        'native hook\'s is named "ringloop.hook"'):
        hooks.add(before_run=ringloop._native.api)
    for wrong in (ctypes.CFUNCTYPE(None)(print), ctypes.CFUNCTYPE(ctypes.c_int, *Native._argtypes_)(
                  print), ctypes.CDLL(None).abs):
        with pytest.raises(TypeError, match="on_idle is a ctypes function of another type: set "):
            hooks.add(on_idle=wrong)
    with pytest.raises(ValueError, match="after_run is a ctypes function at the null pointer"):
        hooks.add(after_run=Native(0))


def test_a_capsule_goes_with_its_registration() -> None:
    capsule = ringloop._native._probe_hook()
    held = sys.getrefcount(capsule)
    registration = hooks.add(before_run=capsule, on_slow=capsule)
    assert sys.getrefcount(capsule) > held
    registration.remove()
    del registration
    assert sys.getrefcount(capsule) == held
