"""Runs Python scenarios on the loop over the simulated kernel: clean, with each single fault at
each step, and with seeded chaos; checks after each run what must hold whatever went wrong."""
from __future__ import annotations

import asyncio
import dataclasses
import gc
import itertools
import os
from typing import Any, Awaitable, Callable, Iterator

import ringloop
from ringloop import _native

from simulated.world import World

Main = Callable[[World], Awaitable[None]]
LIMIT_S = 600.0                       # of virtual time
FAILURES_SHOWN = 5
FIRST_DESCRIPTOR = 20_000             # simulated ones; see simulated_kernel.hpp
# What a program may see when a descriptor, a connection or memory fails.
SHORT_OF_DESCRIPTORS = "socket.accept() out of system resource"  # said, waited for, got over
EXPECTED = (OSError, EOFError, asyncio.CancelledError, MemoryError)


@dataclasses.dataclass
class Outcome:
    broken: list[str]
    thrown: str
    simulation: Any

    @property
    def faults(self) -> list[str]:
        """Every single fault that this run offers."""
        found: list[str] = self.simulation.possible_faults()
        return found

    @property
    def steps(self) -> list[str]:
        found: list[str] = self.simulation.steps
        return found

    @property
    def report(self) -> str:
        text: str = self.simulation.report("at the end")
        return text


def leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


_current: Any = None                  # the simulation that runs


def close_file(number: int) -> None:
    """os.close() for files that nobody took."""
    if number >= FIRST_DESCRIPTOR:
        _current.close(number)
    else:
        os.close(number)


_native.Simulation.set_file_close(close_file)


def run(main: Main, **options: Any) -> Outcome:
    global _current
    simulation = _current = _native.Simulation(**options)
    loop = ringloop.new_event_loop(driver=simulation.driver())
    world = World(simulation, loop, options.get("seed", 0))
    loop.set_exception_handler(lambda _, context: world.reported.append(context))
    thrown: BaseException | None = None

    def failed(report: str) -> None:
        world.must(False, report.splitlines()[0])
        loop.call_soon_threadsafe(cancel_all, loop)

    simulation.on_failure = failed
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                runner.run(bounded(main, world))
            except BaseException as error:  # noqa: BLE001 - judged below
                thrown = error
            simulation.stop_faults()
            runner.run(settle(world))
    finally:
        simulation.on_failure = None
        if not loop.is_closed():
            loop.close()
    judge(world, thrown)
    outcome = Outcome(world.broken, repr(thrown) if thrown else "", simulation)
    world.reported.clear()
    world.protocols.clear()
    return outcome


def cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()


async def bounded(main: Main, world: World) -> None:
    async with asyncio.timeout(LIMIT_S):
        await main(world)


async def settle(world: World) -> None:
    """What a program's end would do: abort what is still connected; then all comes to rest."""
    await asyncio.sleep(1)
    for protocol in world.protocols:
        if protocol.transport is not None and "lost" not in protocol.calls:
            protocol.transport.abort()
    await asyncio.sleep(1)
    for protocol in world.protocols:
        if "made" in protocol.calls:
            world.must("lost" in protocol.calls, "connection_lost never came after abort()")
    world.close_sockets()


def judge(world: World, thrown: BaseException | None) -> None:
    for error in leaves(thrown) if thrown is not None else ():
        world.must(isinstance(error, EXPECTED), f"ended by an unexpected {error!r}")
    world.must_if_clean(thrown is None, f"ended by {thrown!r}")
    for context in world.reported:
        error = context.get("exception")
        world.must(error is None or isinstance(error, EXPECTED), f"the loop reported {context}")
        if context.get("message") != SHORT_OF_DESCRIPTORS:
            world.must_if_clean(False, f"the loop reported {context}")
    simulation = world.simulation
    world.must(simulation.open_descriptors == 0, "a descriptor was left open")
    world.must(simulation.leased_buffers == 0, "a buffer was not given back")
    world.broken.extend(simulation.violations)


def replay(name: str, options: dict[str, Any]) -> str:
    words = [name] + [f"{key}={value!r}".replace(" ", "") for key, value in options.items()]
    return (f"RINGLOOP_SIM_REPLAY=\"{' '.join(words)}\" "
            f"pytest tests/python/test_simulation.py -k replay")


class Tally:
    def __init__(self, name: str) -> None:
        self.name = name
        self.runs = 0
        self.failures: list[str] = []

    def add(self, main: Main, options: dict[str, Any]) -> Outcome:
        outcome = run(main, **options)
        self.runs += 1
        if self.runs % 50 == 0:
            gc.collect()
        if outcome.broken:
            rules = "\n  broken: ".join(dict.fromkeys(outcome.broken))
            self.failures.append(f"{self.name} {options}, ended by {outcome.thrown or 'itself'}"
                                 f"\n  broken: {rules}\n  again: {replay(self.name, options)}\n"
                                 f"{outcome.report}")
        return outcome

    def check(self) -> None:
        shown = "\n".join(self.failures[:FAILURES_SHOWN])
        assert not self.failures, f"{len(self.failures)} of {self.runs} runs failed:\n{shown}"


def exhaust(name: str, main: Main) -> int:
    """Every single fault at every step (RINGLOOP_SIM_STRIDE: every n-th); how many there are."""
    tally = Tally(name)
    clean = tally.add(main, {})
    tally.check()
    stride = int(os.environ.get("RINGLOOP_SIM_STRIDE", "1"))
    faults = clean.faults
    for fault in itertools.islice(faults, 0, None, stride):
        tally.add(main, {"plan": [fault]})
    tally.check()
    return len(faults)


def options_of(seed: int) -> dict[str, Any]:
    options = {"seed": seed, "faults": (0, 5, 20, 60)[seed % 4], "latencies": seed // 4 % 3 * 200,
               "disorder": seed // 12 % 3 * 300, "harmless_only": seed // 36 % 2 == 0}
    if not (options["faults"] or options["latencies"] or options["disorder"]):
        options["latencies"] = 100
    return options


def chaos(name: str, main: Main, seeds: range) -> None:
    tally = Tally(name)
    for seed in seeds:
        tally.add(main, options_of(seed))
    tally.check()
