"""The buffer of a parent: what it passed on lately, for a child that comes and has missed some."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kbn.filters import Notification
from kbn.peering.messages import Item, Mark

ITEMS_MAX = 8192
BYTES_MAX = 16 << 20
ITEM_BYTES = 200  # what an item takes besides its content


class Kept(NamedTuple):
    item: Item
    notification: Notification


class Buffer:
    """The last items, bounded in number and in bytes."""

    def __init__(self, items_max: int = ITEMS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._items: deque[Kept] = deque()
        self._items_max, self._bytes_max = items_max, bytes_max
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: Item, notification: Notification) -> None:
        self._items.append(Kept(item, notification))
        self.bytes += len(item.content) + ITEM_BYTES
        while len(self._items) > self._items_max or self.bytes > self._bytes_max:
            oldest = self._items.popleft()
            self.bytes -= len(oldest.item.content) + ITEM_BYTES

    def after(self, marks: Iterable[Mark]) -> Iterator[Kept]:
        """What came later than the marks; of publishers without one, everything."""
        known = {(mark.publisher, mark.epoch): mark.number for mark in marks}
        for kept in self._items:
            item = kept.item
            if item.number > known.get((item.publisher, item.epoch), -1):
                yield kept
