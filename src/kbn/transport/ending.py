"""How processes of an overlay end: when they are told to, or when whoever started them is gone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any


def at_end_of_stdin(act: Callable[[], object]) -> None:
    """Have something done when our input ends: whoever started us is gone then."""
    loop, file = asyncio.get_running_loop(), sys.stdin.fileno()

    def look() -> None:
        if not os.read(file, 4096):
            loop.remove_reader(file)
            act()

    loop.add_reader(file, look)


def end() -> None:
    """Tell this process to end."""
    os.kill(os.getpid(), signal.SIGTERM)


async def until_told(
    work: Coroutine[Any, Any, None],
    *,
    with_stdin: bool = False,
    at_hangup: Callable[[], None] | None = None,
) -> None:
    """Work until it is done or the process is told to end (SIGTERM, SIGINT); then cancel it."""
    loop = asyncio.get_running_loop()
    working = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, working.cancel)
    if at_hangup is not None and hasattr(signal, "SIGHUP"):
        loop.add_signal_handler(signal.SIGHUP, at_hangup)
    if with_stdin:
        at_end_of_stdin(working.cancel)
    with suppress(asyncio.CancelledError):
        await working
