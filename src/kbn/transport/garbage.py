"""Garbage: Python's search for it, in parts.

Python looks through everything that lives for a long time, now and then, for objects that only
refer to each other. With a hundred thousand subscriptions that takes a good part of a second, and
nobody is served meanwhile. So here it never looks through everything: it looks through what came
since the last time, and leaves what it finds in use alone from then on. That is freed when nobody
refers to it any more, as nearly everything in Python is; only what then refers to itself in a
circle would stay. What a broker has much of does not (`tests/transport/test_garbage.py`).
"""

from __future__ import annotations

import asyncio
import gc

NEVER = 1 << 30
LOOKED_AT = 8
"""How many times a thousand or so new objects are looked through before they are left alone."""
EVERY_S = 0.05


class GarbageSearch:
    """Looks for garbage among what is new; one in a process."""

    def __init__(self) -> None:
        self._looks = 0

    def begin(self) -> None:
        """Leave all that is there by now alone; never look through everything by itself."""
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, NEVER)
        gc.collect()
        gc.freeze()
        self._looks = _looks()

    def go_on(self) -> bool:
        """Look through what is new, if that is enough by now; whether it was."""
        if _looks() - self._looks < LOOKED_AT:
            return False
        gc.collect()
        gc.freeze()
        self._looks = _looks()
        return True

    async def run(self) -> None:
        """Go on as long as the process serves."""
        while True:
            await asyncio.sleep(EVERY_S)
            self.go_on()


def _looks() -> int:
    """How often the middle generation was looked through: each time, some thousand objects."""
    return int(gc.get_stats()[1]["collections"])
