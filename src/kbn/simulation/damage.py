"""Damage in a world: what disks have lost or spoilt, and what is not owed because of it.

What a disk has lost that lies is not owed. A spoilt row excuses nothing by itself: what it held is
owed until its broker has told that the row is set aside.

**Spoilt marks** lose nothing, but a broker may be brought again what it has had, and not know that:
then subscribers that have had it drop it, and those who have subscribed since get it, behind what
is newer. That is excused for these only:

- of the mark how far a neighbour is: what that neighbour had sent and was not told has come;
- of the mark what was past after a move: what was past, and still on its way between brokers;
- of the mark how far a publisher is: what that publisher was not told is stored. If it may not be
  published any more when it comes again, its publisher is told so, though some have had it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from msgspec import msgpack

from kbn.broker import NotificationId, notes
from kbn.simulation.client import SimulatedClient
from kbn.simulation.disk import Losses, Spoilt
from kbn.simulation.ledger import Ledger
from kbn.simulation.network import Network

# Read when the broker starts: these must be found whatever happens later.
FOUND_AT_START = ("subscription/", "mark/received/", "mark/past/", "mark/redirect/")

Ids = set[NotificationId]

_NEWEST = msgpack.Decoder(dict[tuple[str, int, int], int])


class Damage:
    """The damaged disks of one world; `counts` says what was lost, spoilt and told.

    Of some deliveries that clients have lost to a limit a disk has lost the count: `uncounted`.
    """

    def __init__(self, network: Network, ledger: Ledger) -> None:
        self.counts: Counter[str] = Counter()
        self.uncounted: Counter[str] = Counter()
        self._network = network
        self._ledger = ledger
        self._spoilt: dict[tuple[str, str], Callable[[], None]] = {}

    def lost(self, losses: Losses) -> None:
        """A disk that lies has lost something."""
        self.counts["commits lost"] += losses.commits
        self.counts["publications lost"] += len(losses.publications)
        self.uncounted.update(losses.uncounted)
        self._ledger.lost(losses.publications)
        for name, id in losses.subscriptions:
            self._lose_subscription(name, id)

    def spoilt(self, broker: str, rows: Iterable[Spoilt]) -> None:
        """Rows of a broker cannot be read any more."""
        for row in rows:
            self.counts["rows spoilt"] += 1
            excuse = partial(self._excuse, row, *self._again(broker, row))
            if row.is_told:
                excuse()
            self._spoilt.update({(broker, name): excuse for name in row.told_as})

    def noted(self, broker: str, note: notes.Note) -> None:
        """A broker tells something: what it has set aside is not owed any more."""
        if not isinstance(note, notes.SetAside):
            return
        excuse = self._spoilt.pop((broker, note.what), None)
        if excuse is not None:
            excuse()

    def _excuse(self, row: Spoilt, from_brokers: Ids, from_publisher: Ids) -> None:
        self.counts["rows told"] += 1
        if row.publication is not None:
            self._ledger.lost([row.publication])
        if row.subscription is not None:
            self._lose_subscription(*row.subscription)
        self._ledger.may_come_again(from_brokers)
        self._ledger.may_be_published_again(from_publisher)

    def _again(self, broker: str, row: Spoilt) -> tuple[Ids, Ids]:
        """What other brokers, and a publisher, may bring again because a mark is spoilt."""
        for name in row.told_as:
            kind, _, of = name.removeprefix("mark/").partition("/")
            if kind == "received":
                sent = self._network.unacked_for(of, broker)
                return {id for id, sequence in sent.items() if sequence <= int(row.value)}, set()
            if kind == "past":
                return self._past(row.value) & self._on_their_way(), set()
            if kind == "publisher" and (client := self._network.clients.get(of)) is not None:
                return set(), self._ledger.unconfirmed(client)
        return set(), set()

    def _past(self, mark: bytes) -> Ids:
        newest: dict[tuple[str, int], int] = {}
        for (publisher, epoch, _), number in _NEWEST.decode(mark).items():
            newest[publisher, epoch] = max(number, newest.get((publisher, epoch), 0))
        return self._ledger.up_to(newest)

    def _on_their_way(self) -> Ids:
        brokers = self._network.topology.brokers
        return {id for by in brokers for to in brokers for id in self._network.unacked_for(by, to)}

    def untold(self) -> str | None:
        """A spoilt row that a broker should have found when it started, if there is one."""
        for broker, name in self._spoilt:
            if name.startswith(FOUND_AT_START):
                return f"{broker} never told that its row {name} is spoilt"
        return None

    def _lose_subscription(self, name: str, id: int) -> None:
        interest = self._ledger.interests[name].get(id)
        client: SimulatedClient | None = self._network.clients.get(name)
        if interest is None:
            return
        interest.in_force_at = None
        if client is not None:
            interest.begin_again(client.barrier())
