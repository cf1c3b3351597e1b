"""What all parts of a broker share: its settings, its state, and how it sends.

A broker is built in layers, each in a file: this, then how notifications are routed (`routing.py`),
how neighbours are kept (`links.py`), how clients are served (`service.py`),
and on top the face its shell sees (`broker.py`). A layer calls only those below.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from typing import Literal, TypedDict

from kbn.broker.access import AllowAll, Authorizer, Limits
from kbn.broker.changes import Changes
from kbn.broker.client_session import ClientSession
from kbn.broker.messages import (
    AnyMessage,
    Body,
    Echo,
    NotificationId,
    Peer,
    Send,
    Wave,
)  # fmt: skip
from kbn.broker.neighbour import Neighbour
from kbn.broker.rehoming import Rehoming
from kbn.broker.spanning import SpanningTree
from kbn.broker.store import MemoryStore, Store
from kbn.broker.table import Register, RoutingTable, Told, Wanted
from kbn.broker.waves import Waves
from kbn.filters import Notification, Subscription
from kbn.ontology import Ontology

Routing = Literal["hierarchical", "acyclic", "general"]
READ_MAX = 65_536


class Settings(TypedDict, total=False):
    """What a broker can be told when it is made; see `Broker`."""

    routing: Routing
    ontology: Ontology | None
    ontology_digest: str
    store: Store | None
    keeps: bool
    advertisements: bool
    authorizer: Authorizer | None
    limits: Limits | None
    keeps_roots: bool
    now: float
    heartbeat_s: float
    dead_after_s: float
    retransmit_s: float | None


class Core:
    """A broker's state. For its parts only."""

    def __init__(
        self,
        name: str,
        *,
        routing: Routing = "acyclic",
        ontology: Ontology | None = None,
        ontology_digest: str = "",
        store: Store | None = None,
        keeps: bool = True,
        advertisements: bool = False,
        authorizer: Authorizer | None = None,
        limits: Limits | None = None,
        keeps_roots: bool = False,
        now: float = 0.0,
        heartbeat_s: float = 1.0,
        dead_after_s: float = 5.0,
        retransmit_s: float | None = None,
    ) -> None:
        self.name = name
        self.routing = routing
        self.limits = limits or Limits()
        self.counts = {
            "published": 0, "delivered": 0, "forwarded": 0, "received": 0, "dropped": 0,
            "refused": 0, "matched": 0,
        }  # fmt: skip
        self.table = RoutingTable(ontology, keeps_roots=keeps_roots)
        self.offers = Register()
        self.changes = Changes()
        self._hops_every_s = 0.0
        self._ontology_digest = ontology_digest
        self._store: Store = MemoryStore() if store is None else store
        self._keeps = keeps
        self._advertises = advertisements
        self._authorizer = authorizer or AllowAll()
        self._heartbeat_s = heartbeat_s
        self._dead_after_s = dead_after_s
        self._retransmit_s = retransmit_s
        self._beat_at = now
        self._now = now
        self._out: list[Send] = []
        self._clients: dict[str, ClientSession] = {}
        self._neighbours: dict[str, Neighbour] = {}
        self._to_pump: dict[str, ClientSession] = {}
        self._next_key = 0
        self._read: dict[tuple[str, bool], Subscription] = {}
        self._seen: OrderedDict[NotificationId, str] = OrderedDict()
        # What `prematch` read and matched, and in which version of the table.
        self._prematched: dict[bytes, tuple[Notification, Wanted]] = {}
        self._prematched_in = 0
        self.epoch = self._begin_epoch(now)
        self._link_epoch = self.epoch << 20
        self._sequences = count(self.epoch << 31)
        self._tree = SpanningTree(name, self._link_epoch)
        self._waves = Waves(name, self.epoch, self._send_wave)
        self._rehoming: Rehoming | None = None
        self._own_waves = Waves(name, self.epoch, self._send_wave, "move")

    def _next_link_epoch(self) -> int:
        """For whom we begin anew with: larger than all before."""
        self._link_epoch += 1
        return self._link_epoch

    def _begin_epoch(self, now: float) -> int:
        epoch = max(int(now), int(self._store.marked("epoch") or 0) + 1)
        self._store.mark("epoch", str(epoch).encode())
        return epoch

    def _parsed(self, text: str, is_text: bool) -> Subscription:
        known = self._read.get((text, is_text))
        if known is None:
            if len(self._read) >= READ_MAX:
                self._read.clear()
            known = self._read[text, is_text] = self._parse(text, is_text)
        return known

    def _parse(self, text: str, is_text: bool) -> Subscription:
        if is_text:
            ontology = self.table.ontology
            return Subscription.parse(text, None if ontology is None else ontology.prefixes)
        return Subscription.from_json(text)

    def _tree_neighbours(self) -> list[Neighbour]:
        if self.routing != "general":
            return list(self._neighbours.values())
        return [n for n in self._neighbours.values() if n.name in self._tree.neighbours]

    def _is_in_tree(self, neighbour: Neighbour) -> bool:
        return self.routing != "general" or neighbour.name in self._tree.neighbours

    def _is_trusted(self, neighbour: Neighbour) -> bool:
        """Whether a neighbour wants nothing but what it announced."""
        return neighbour.is_complete and neighbour.ontology == self._ontology_digest

    def _wave(self, request: Callable[[], None]) -> None:
        self._waves.begin(request, self._wave_targets())

    def _wave_targets(self) -> list[str]:
        return [neighbour.name for neighbour in self._tree_neighbours()]

    def _send(self, to: Peer, message: AnyMessage) -> None:
        self._out.append(Send(to, message))

    def _send_body(self, name: str, body: Body) -> None:
        neighbour = self._neighbours.get(name)
        if neighbour is not None and neighbour.channel is not None:
            self._send(neighbour.peer, neighbour.channel.send(body, self._now))

    def _send_wave(self, name: str, body: Wave | Echo) -> None:
        """Send a wave or an echo, but not ahead of notifications that wait.

        What we put aside in a move of our own waits for the waves of that move. Those of another
        mover do not wait for it, or the two would wait for each other.
        """
        neighbour = self._neighbours.get(name)
        moves_there = self._rehoming is not None and name == self._rehoming.new
        if moves_there and body.kind == "move":
            self._send_body(name, body)
        elif neighbour is not None and neighbour.channel is not None:
            neighbour.put_behind(body)
            self._follow(neighbour)

    def _follow(self, neighbour: Neighbour) -> None:
        for body in neighbour.no_longer_behind():
            self._send_body(neighbour.name, body)

    def _tell_interest(self, told: list[Told]) -> None:
        for name, announce in told:
            self._send_body(name, announce)

    _tell_offer = _tell_interest
