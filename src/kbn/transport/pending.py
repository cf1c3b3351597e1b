"""The answers that coroutines wait for."""

from __future__ import annotations

import asyncio
from typing import Any

from kbn.errors import KbnError


class Pending:
    """Futures by what was asked and its number; each is answered once, or fails."""

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: dict[tuple[str, int], asyncio.Future[Any]] = {}

    def expect(self, what: str, number: int = 0) -> asyncio.Future[Any]:
        """The future of an answer; several who wait for the same share one."""
        future = self._futures.get((what, number))
        if future is None or future.done():
            future = asyncio.get_running_loop().create_future()
            self._futures[what, number] = future
        return future

    def is_expected(self, what: str, number: int = 0) -> bool:
        """Whether somebody waits for this answer."""
        future = self._futures.get((what, number))
        return future is not None and not future.done()

    def answer(self, what: str, number: int = 0, result: object = None) -> None:
        """An answer is here; nothing happens when nobody waits for it."""
        future = self._futures.pop((what, number), None)
        if future is not None and not future.done():
            future.set_result(result)

    def fail(self, what: str, number: int, error: KbnError) -> bool:
        """It was refused; whether somebody waited for it."""
        future = self._futures.pop((what, number), None)
        if future is None or future.done():
            return False
        future.set_exception(error)
        return True

    def fail_all(self, error: KbnError) -> None:
        """No answer comes any more."""
        futures = list(self._futures.values())
        self._futures.clear()
        for future in futures:
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever waits is told; if nobody does, that is no mistake
