"""The connections of a peer with others: made by it, made to it, and how long they take."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from kbn.peering.delays import Samples
from kbn.peering.limits import Bucket
from kbn.peering.messages import LINKS_MAX, LinkDelay

PROBE_S = 0.5
PROBE_OFTEN_S = 0.05
PROBES = 64
SILENT_S = 1.5
REDIAL_S = 0.1
REDIAL_MAX_S = 2.0
MESSAGES_RATE, MESSAGES_BURST = 500.0, 5000.0


@dataclass(slots=True)
class Outgoing:
    """A connection that we make to another peer, and make again while it is needed."""

    name: str
    url: str
    connection: int | None = None
    is_ready: bool = False
    is_dialling: bool = False
    dial_at: float = 0.0
    attempts: int = 0
    heard_at: float = 0.0
    probe_at: float = 0.0
    probes_left: int = 0

    def failed(self, now: float) -> None:
        """It is not there: try again, later each time."""
        self.connection, self.is_ready, self.is_dialling = None, False, False
        self.dial_at = now + min(REDIAL_MAX_S, REDIAL_S * 2.0 ** min(self.attempts, 10))
        self.attempts += 1


@dataclass(slots=True)
class Incoming:
    """A connection that another peer made to us; its name is known once it has shown the key."""

    connection: int
    bucket: Bucket
    name: str = ""
    opened_at: float = 0.0
    certificate: str | None = None


class Times:
    """The delays from others to us, measured lately; bounded."""

    def __init__(self) -> None:
        self._links: OrderedDict[str, Samples] = OrderedDict()

    def add(self, name: str, delay_s: float) -> None:
        found = self._links.get(name)
        if found is None:
            found = self._links[name] = Samples()
            if len(self._links) > LINKS_MAX:
                self._links.popitem(last=False)
        found.add(delay_s)

    def reports(self) -> Iterator[LinkDelay]:
        """What is new of each link."""
        for name, samples in self._links.items():
            if taken := samples.taken():
                yield LinkDelay(name, taken)
