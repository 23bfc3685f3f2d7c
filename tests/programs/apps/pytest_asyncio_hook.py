"""The hook by which pytest-asyncio gets our loop; a project has it in its conftest.py."""
from __future__ import annotations

from typing import Any

import ringloop


def pytest_asyncio_loop_factories(config: Any, item: Any) -> dict[str, Any]:
    return {"ringloop": ringloop.new_event_loop}
