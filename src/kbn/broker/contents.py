"""Contents: notifications read and matched ahead of time, several together.

Matching mostly looks things up and is done at once. Where it would take long, because a large
notification meets many constraints that have to be asked one by one, it is *prepared*: some of it
in each turn, and the message that brings it is handled when that is done.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from kbn.broker import content
from kbn.broker.routing_table import RoutingTable
from kbn.broker.wanted import LISTED_AT_ONCE, Listing, Wanted
from kbn.broker.work import BYTES_DECODED, CONTENT_BYTES, MATCHED, Work
from kbn.errors import KbnError
from kbn.filters import Notification, notification_size
from kbn.matching import Meter, OutOfWork, metered

MATCHED_AT_ONCE = 3_000  # units of work
LISTED_TOGETHER = 16_384  # subscriptions that want what is matched together
PREPARED_MAX = 1_000
SMALL = 1_024  # bytes
VALUES_READ = 3  # of a large content, for one unit


class Prepared:
    """A notification that is being matched; `wanted` holds for one version of the table."""

    __slots__ = ("listing", "notification", "version", "wanted")

    def __init__(self, notification: Notification) -> None:
        self.notification = notification
        self.listing: Listing | None = None
        self.wanted = Wanted(set(), {})
        self.version = -1

    def go_on(self, table: RoutingTable, work: Work, units: float, *, overdraws: bool) -> bool:
        """Match some more of it; whether `wanted` holds now."""
        if self.version == table.version:
            return True
        listing = self.listing
        if listing is None:
            return self._match_at_once(table, work, units)
        is_done = listing.go_on(units, overdraws=overdraws)
        work.done += MATCHED + listing.spent
        if is_done:
            self.wanted, self.version = listing.wanted, table.version
        return is_done

    def _match_at_once(self, table: RoutingTable, work: Work, units: float) -> bool:
        """Match all of it, as is nearly always possible; begin to do it in parts if it is not."""
        meter = Meter(units, overdraws=False)
        wanted = None
        try:
            with metered(meter):
                wanted = table.match_up_to(LISTED_AT_ONCE, self.notification)
        except OutOfWork:
            pass
        finally:
            work.done += MATCHED + meter.spent
        if wanted is None:
            self.listing = table.match_in_parts(self.notification, meter)
            return False
        self.wanted, self.version = wanted, table.version
        return True


class Contents:
    """Reads and matches contents; what was prematched costs nothing more."""

    __slots__ = ("_heavy", "_known", "_prepared", "_version", "_work")

    def __init__(self, work: Work) -> None:
        self._work = work
        self._known: dict[bytes, tuple[Notification, Wanted]] = {}
        self._version = 0  # of the table that matched
        self._prepared: dict[bytes, Prepared] = {}
        self._heavy: frozenset[bytes] = frozenset()  # took too long to match together

    def prematch(self, contents: Iterable[bytes], table: RoutingTable) -> None:
        """Read and match contents that are about to come, in place of those before.

        What was prematched, and has waited since, is not matched again.
        """
        before = self._known if self._version == table.version else {}
        self._known, self._version = {}, table.version
        read: dict[bytes, Notification] = {}
        contents = list(contents)
        self._heavy = self._heavy.intersection(contents)
        for each in contents:
            if each in before:
                self._known[each] = before[each]
                continue
            if each in self._heavy:
                continue
            try:
                read[each] = self._decoded(each)
            except KbnError:  # who sent it is told when it comes
                continue
        if read:
            self._work.done += MATCHED * len(read) // 2
            meter = Meter(MATCHED_AT_ONCE, overdraws=False)
            try:
                with metered(meter):
                    wanted = table.match_many_up_to(LISTED_TOGETHER, list(read.values()))
            except OutOfWork:  # each is prepared when it comes
                self._heavy |= read.keys()
                return
            finally:
                self._work.done += meter.spent
            for (each, notification), who in zip(read.items(), wanted, strict=True):
                if who is not None:
                    self._known[each] = (notification, who)

    def has_matched(self, encoded: bytes, table: RoutingTable) -> bool:
        """Whether a content was prematched, with the table as it is."""
        return encoded in self._known and self._version == table.version

    def is_ready(self, encoded: bytes, table: RoutingTable) -> bool:
        """Whether a content can be handled now; if not, `prepare` it, as often as it takes."""
        if self.has_matched(encoded, table):
            return True
        return not self.open(encoded) or self._go_on(encoded, table, overdraws=False)

    def is_open(self, encoded: bytes) -> bool:
        """Whether a content was read, and is kept."""
        return encoded in self._prepared or encoded in self._known

    def open(self, encoded: bytes) -> bool:
        """Read a content and keep it until it is `handled`; False when it cannot be read."""
        if encoded in self._prepared:
            return True
        try:
            notification = self.read(encoded)
        except KbnError:  # who sent it is told when it is handled
            return False
        if len(self._prepared) >= PREPARED_MAX:
            self._prepared.pop(next(iter(self._prepared)))
        self._prepared[encoded] = Prepared(notification)
        return True

    def prepare(self, encoded: bytes, table: RoutingTable) -> bool:
        """Go on with matching a content; whether that is done."""
        return self._go_on(encoded, table, overdraws=True)

    def _go_on(self, encoded: bytes, table: RoutingTable, *, overdraws: bool) -> bool:
        prepared = self._prepared.get(encoded)
        if prepared is None:
            return True  # it was given up
        return prepared.go_on(table, self._work, MATCHED_AT_ONCE, overdraws=overdraws)

    def handled(self, encoded: bytes) -> None:
        """What was prepared is not needed any more."""
        self._prepared.pop(encoded, None)

    def clear(self) -> None:
        """Forget all: the table is another."""
        self._known.clear()
        self._prepared.clear()
        self._heavy = frozenset()

    def read(self, encoded: bytes) -> Notification:
        """The notification in a content; a KbnError when there is none."""
        known = self._known.get(encoded)
        if known is not None:
            return known[0]
        prepared = self._prepared.get(encoded)
        return self._decoded(encoded) if prepared is None else prepared.notification

    def _decoded(self, encoded: bytes) -> Notification:
        found = content.decode(encoded)
        if len(encoded) <= SMALL:
            self._work.done += len(encoded) // CONTENT_BYTES
        else:
            size = notification_size(found.attributes)
            values = len(found) + size.elements
            self._work.done += len(encoded) // BYTES_DECODED + values // VALUES_READ
        return found

    def match(self, encoded: bytes, notification: Notification, table: RoutingTable) -> Wanted:
        """Who wants a notification."""
        known = self._known.get(encoded)
        if known is not None and self._version == table.version:
            return known[1]
        prepared = self._prepared.get(encoded)
        if prepared is None:
            prepared = Prepared(notification)
        while not prepared.go_on(table, self._work, inf, overdraws=True):
            pass  # it was prepared, if it is large
        return prepared.wanted
