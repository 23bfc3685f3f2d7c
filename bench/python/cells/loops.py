"""The loops by name: making one, and saying which are missing here and why."""
from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

Loop = asyncio.AbstractEventLoop
MakeLoop = Callable[[], Loop]
_NAMES = {"talyn": "Loop"}      # the others have new_event_loop()


def maker(name: str) -> MakeLoop:
    """What makes loops of package `name` and sets them as the thread's current one."""
    make: MakeLoop = getattr(importlib.import_module(name), _NAMES.get(name, "new_event_loop"))

    def made() -> Loop:
        loop = make()
        asyncio.set_event_loop(loop)
        return loop

    return made


def missing(name: str) -> str | None:
    """Why the package cannot be used here; None if it can."""
    try:
        maker(name)
    except Exception as error:  # a rival's own failure, whatever it is, is what is reported
        refused = _refusals().get(name)
        return f"not installed: {refused}" if refused else f"{type(error).__name__}: {error}"
    return None


def _refusals() -> dict[str, str]:
    """What pip said to the rivals that it did not install; ./dev writes it down."""
    stamp = Path(sys.prefix) / "ringloop-stamp.json"
    if not stamp.exists():
        return {}
    found: dict[str, str] = json.loads(stamp.read_text(encoding="utf-8")).get("refused", {})
    return found
