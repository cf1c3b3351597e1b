"""Contents: notifications read and matched ahead of time, several together."""

from __future__ import annotations

from collections.abc import Iterable

from kbn.broker import content
from kbn.broker.routing_table import RoutingTable, Wanted
from kbn.broker.work import CONTENT_BYTES, MATCHED, Work
from kbn.errors import KbnError
from kbn.filters import Notification


class Contents:
    """Reads and matches contents; what was prematched costs nothing more."""

    __slots__ = ("_known", "_version", "_work")

    def __init__(self, work: Work) -> None:
        self._work = work
        self._known: dict[bytes, tuple[Notification, Wanted]] = {}
        self._version = 0  # of the table that matched

    def prematch(self, contents: Iterable[bytes], table: RoutingTable) -> None:
        """Read and match contents that are about to come, in place of those before.

        What was prematched, and has waited since, is not matched again.
        """
        before = self._known if self._version == table.version else {}
        self._known, self._version = {}, table.version
        read: dict[bytes, Notification] = {}
        for each in contents:
            if each in before:
                self._known[each] = before[each]
                continue
            try:
                read[each] = self._decoded(each)
            except KbnError:  # who sent it is told when it comes
                continue
        if read:
            self._work.done += MATCHED * len(read) // 2
            wanted = table.match_many(list(read.values()))
            self._known.update(zip(read, zip(read.values(), wanted, strict=True), strict=True))

    def clear(self) -> None:
        """Forget all: the table is another."""
        self._known.clear()

    def read(self, encoded: bytes) -> Notification:
        """The notification in a content; a KbnError when there is none."""
        known = self._known.get(encoded)
        return self._decoded(encoded) if known is None else known[0]

    def _decoded(self, encoded: bytes) -> Notification:
        self._work.done += len(encoded) // CONTENT_BYTES
        return content.decode(encoded)

    def match(self, encoded: bytes, notification: Notification, table: RoutingTable) -> Wanted:
        """Who wants a notification."""
        known = self._known.get(encoded)
        if known is None or self._version != table.version:
            self._work.done += MATCHED
            return table.match(notification)
        return known[1]
