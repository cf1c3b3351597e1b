"""Damage in a world: what disks have lost or spoilt, and what is not owed because of it.

What a disk has lost that lies is not owed. A spoilt row excuses nothing by itself: what it held is
owed until its broker has told that the row is set aside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kbn.broker import notes
from kbn.simulation.client import SimulatedClient
from kbn.simulation.disk import Losses, Spoilt
from kbn.simulation.ledger import Ledger
from kbn.simulation.network import Network

# Read when the broker starts: these must be found whatever happens later.
FOUND_AT_START = ("subscription/", "mark/received/", "mark/past/", "mark/redirect/")


class Damage:
    """The damaged disks of one world; `counts` says what was lost, spoilt and told."""

    def __init__(self, network: Network, ledger: Ledger) -> None:
        self.counts: Counter[str] = Counter()
        self._network = network
        self._ledger = ledger
        self._spoilt: dict[tuple[str, str], Spoilt] = {}

    def lost(self, losses: Losses) -> None:
        """A disk that lies has lost something."""
        self.counts["commits lost"] += losses.commits
        self.counts["publications lost"] += len(losses.publications)
        self._ledger.lost(losses.publications)
        for name, id in losses.subscriptions:
            self._lose_subscription(name, id)

    def spoilt(self, broker: str, rows: Iterable[Spoilt]) -> None:
        """Rows of a broker cannot be read any more."""
        for row in rows:
            self.counts["rows spoilt"] += 1
            if row.is_told:
                self._excuse(row)
            self._spoilt.update({(broker, name): row for name in row.told_as})

    def noted(self, broker: str, note: notes.Note) -> None:
        """A broker tells something: what it has set aside is not owed any more."""
        if not isinstance(note, notes.SetAside):
            return
        row = self._spoilt.pop((broker, note.what), None)
        if row is not None:
            self._excuse(row)

    def _excuse(self, row: Spoilt) -> None:
        self.counts["rows told"] += 1
        if row.publication is not None:
            self._ledger.lost([row.publication])
        if any(name.startswith("mark/received/") for name in row.told_as):
            self._ledger.mark_lost()
        if row.subscription is not None:
            self._lose_subscription(*row.subscription)

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
        interest.is_lost, interest.in_force_at = True, None
        if client is not None:
            interest.begin_again(client.barrier())
