"""Scenarios of ringloop.fs on the simulated kernel: names change whole or not at all."""
from __future__ import annotations

import asyncio
from typing import Any, Callable, Coroutine

import ringloop
from simulated.world import World, content

Main = Callable[[World], Coroutine[Any, Any, None]]
SCENARIOS: dict[str, Main] = {}


def scenario(main: Main) -> Main:
    SCENARIOS[main.__name__] = main  # type: ignore[attr-defined]
    return main


@scenario
async def names_saved(world: World) -> None:
    """Written beside and renamed: under the name is the old text or the new one, never a part."""
    old, new = content(24, 0, 100), content(25, 0, 3000)
    world.simulation.add_file("/doc", old)
    try:
        await ringloop.fs.makedirs("/a/b")
        await ringloop.fs.write_bytes("/a/b/new", new)
        await ringloop.fs.rename("/a/b/new", "/doc")
        await ringloop.fs.symlink("doc", "/link")
        world.must(await ringloop.fs.read_bytes("/link") == new, "the link leads to the new text")
        await ringloop.fs.link("/doc", "/twin")
        await ringloop.fs.unlink("/doc")
        world.must(world.simulation.file_content("/twin") == new, "its other name keeps the text")
        await ringloop.fs.replace("/twin", "/doc")
        await ringloop.fs.rmdir("/a/b")
        for made in ("/a/b", "/twin"):
            world.must_if_clean(not await ringloop.fs.exists(made), f"{made} is gone")
    finally:
        world.must(world.simulation.file_content("/doc") in (old, new, b""), "a part is there")


@scenario
async def names_cancelled(world: World) -> None:
    """Renames given up at any moment: what has not happened by then never does."""
    world.simulation.add_file("/0", content(26, 0, 50))
    at = 0
    for turn in range(10):
        try:
            async with asyncio.timeout(0.00002 * turn):
                await ringloop.fs.rename(f"/{at}", f"/{at + 1}")
                at += 1
        except TimeoutError:
            at += world.simulation.file_content(f"/{at}") == b""
        await asyncio.sleep(0.01)
        world.must(world.simulation.file_content(f"/{at}") == content(26, 0, 50),
                   "it was renamed behind the cancel")
    try:
        await ringloop.fs.unlink("/none")
        world.must(False, "a missing file was removed")
    except OSError as error:
        world.must_if_clean(isinstance(error, FileNotFoundError), f"{error!r} for a missing file")
