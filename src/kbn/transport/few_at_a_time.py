"""Few at a time: an event loop that serves some of the sockets that are ready, then looks again.

A loop of asyncio reads from all that are ready before anything else has its turn. When ten thousand
clients say something at once, or begin TLS, that takes longer than a turn may. Here it is told of a
few of them. The others stay ready, and the system tells of them next, in turn.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Mapping
from contextlib import suppress
from math import ceil
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector, SelectorKey
from typing import Any

AT_ONCE = 32
"""So many sockets are served before it looks again; beginning TLS takes a millisecond for each."""


class FewAtATime(BaseSelector):
    """Sockets that are ready, `at_once` of them at most; for Linux."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._epoll = select.epoll()
        self._keys: dict[int, SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        number = _number(fileobj)
        if number in self._keys:
            raise KeyError(f"{fileobj!r} is registered")
        self._epoll.register(number, _as_epoll(events))
        key = self._keys[number] = SelectorKey(fileobj, number, events, data)
        return key

    def unregister(self, fileobj: Any) -> SelectorKey:
        key = self._keys.pop(_number(fileobj))
        with suppress(OSError):  # it is closed
            self._epoll.unregister(key.fd)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        number = _number(fileobj)
        if self._keys[number].events != events:
            self._epoll.modify(number, _as_epoll(events))
        key = self._keys[number] = SelectorKey(fileobj, number, events, data)
        return key

    def get_key(self, fileobj: Any) -> SelectorKey:
        return self._keys[_number(fileobj)]

    def get_map(self) -> Mapping[Any, SelectorKey]:
        return self._keys

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        wait_s = -1.0 if timeout is None else max(0, ceil(timeout * 1e3)) / 1e3
        ready = []
        for number, found in self._epoll.poll(wait_s, self._at_once):
            key = self._keys.get(number)
            if key is not None:
                reads = EVENT_READ if found & ~select.EPOLLOUT else 0
                writes = EVENT_WRITE if found & ~select.EPOLLIN else 0
                ready.append((key, (reads | writes) & key.events))
        return ready

    def close(self) -> None:
        self._epoll.close()
        self._keys.clear()


def new_loop() -> asyncio.AbstractEventLoop:
    """An event loop that serves few at a time, where there is one."""
    if not hasattr(select, "epoll"):
        return asyncio.new_event_loop()
    return asyncio.SelectorEventLoop(FewAtATime())


def _number(fileobj: Any) -> int:
    return fileobj if isinstance(fileobj, int) else int(fileobj.fileno())


def _as_epoll(events: int) -> int:
    reads = select.EPOLLIN if events & EVENT_READ else 0
    return reads | (select.EPOLLOUT if events & EVENT_WRITE else 0)
