"""Errors that a loop only logs.

What a callback raises goes to the loop's exception handler, which logs it: the test that scheduled
the callback would pass for all that. So each record of level ERROR fails its test, unless the test
looks at the log itself (the `caplog` fixture) or says that it expects such
(@pytest.mark.logs_errors).
"""
from __future__ import annotations

import contextlib
import logging
from typing import Iterator

LOGGERS = ("asyncio", "ringloop")


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {record.exc_info[1]!r}"
        self.texts.append(text)


@contextlib.contextmanager
def errors() -> Iterator[list[str]]:
    """The texts of the errors that are logged inside the block; a copy, they keep no objects."""
    kept = _Kept()
    for name in LOGGERS:
        logging.getLogger(name).addHandler(kept)
    try:
        yield kept.texts
    finally:
        for name in LOGGERS:
            logging.getLogger(name).removeHandler(kept)
