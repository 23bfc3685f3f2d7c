"""Loop lag: how late a timer of 5 ms fires, taken about 200 times a second."""
from __future__ import annotations

import asyncio
import time

INTERVAL_S = 0.005


class LagMeter:
    """Measures while it is entered; take() gives percentiles since the last take()."""

    def __init__(self) -> None:
        self._late_s: list[float] = []
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> LagMeter:
        self._arm()
        return self

    def __exit__(self, *why: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def take(self) -> dict[str, float]:
        late, self._late_s = sorted(self._late_s), []
        if not late:
            return {"p50": 0.0, "p99": 0.0, "max": 0.0}
        return {"p50": late[len(late) // 2] * 1e6, "p99": late[len(late) * 99 // 100] * 1e6,
                "max": late[-1] * 1e6}

    # By perf_counter: some loops' own clock stands still during a turn and counts milliseconds.
    def _arm(self) -> None:
        self._armed = time.perf_counter()
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_S, self._fired)

    def _fired(self) -> None:
        self._late_s.append(max(0.0, time.perf_counter() - self._armed - INTERVAL_S))
        self._arm()
