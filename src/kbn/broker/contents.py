"""Contents: notifications read and matched ahead of time, several together."""

from __future__ import annotations

from collections.abc import Iterable

from kbn.broker import content
from kbn.broker.routing_table import RoutingTable, Wanted
from kbn.errors import KbnError
from kbn.filters import Notification


class Contents:
    """Reads and matches contents; what was prematched costs nothing more."""

    __slots__ = ("_known", "_version")

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Notification, Wanted]] = {}
        self._version = 0  # of the table that matched

    def prematch(self, contents: Iterable[bytes], table: RoutingTable) -> None:
        """Read and match contents that are about to come, in place of those before."""
        read: dict[bytes, Notification] = {}
        for each in contents:
            try:
                read[each] = content.decode(each)
            except KbnError:
                continue
        wanted = table.match_many(list(read.values()))
        self._known = dict(zip(read, zip(read.values(), wanted, strict=True), strict=True))
        self._version = table.version

    def clear(self) -> None:
        """Forget all: the table is another."""
        self._known.clear()

    def read(self, encoded: bytes) -> Notification:
        """The notification in a content; a KbnError when there is none."""
        known = self._known.get(encoded)
        return content.decode(encoded) if known is None else known[0]

    def match(self, encoded: bytes, notification: Notification, table: RoutingTable) -> Wanted:
        """Who wants a notification."""
        known = self._known.get(encoded)
        if known is None or self._version != table.version:
            return table.match(notification)
        return known[1]
