"""The parts of a broker that do not know each other, put together.

What a broker *does* with them is in the classes that are given all of them, and take what they
need: `ClientRequests`, `NeighbourMessages`, `Membership`, `Heartbeat`, `OntologyChange`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from kbn.broker.client_sessions import ClientSessions
from kbn.broker.fan_out import FanOuts
from kbn.broker.interests import Interests
from kbn.broker.mark_forms import EPOCH_MAX, set_aside_unreadable
from kbn.broker.messages import Peer
from kbn.broker.neighbour_sessions import NeighbourSessions
from kbn.broker.outbox import Outbox
from kbn.broker.room import Room
from kbn.broker.router import Router
from kbn.broker.routing_table import RoutingTable
from kbn.broker.set_aside import Aside
from kbn.broker.settings import Settings, SettingsGiven
from kbn.broker.shape import Shape
from kbn.broker.store import MemoryStore, Store
from kbn.broker.unacked import UnackedQueue
from kbn.broker.waves import Waves

SEQUENCE_BITS = 31
"""Sequences of an epoch are above all those of the one before."""
EPOCH_BY_CLOCK_MAX = EPOCH_MAX - 2**20


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the broker of a name, in one epoch; `sequences` number what must not be lost."""

    name: str
    epoch: int
    settings: Settings
    store: Store
    sequences: Iterator[int]
    outbox: Outbox
    aside: Aside
    clients: ClientSessions
    neighbours: NeighbourSessions
    shape: Shape
    interests: Interests
    waves: Waves
    room: Room
    router: Router

    def begin_wave(
        self, request: Callable[[], None], reaching: Iterable[str] | None = None
    ) -> None:
        """Call `request` when all that was said before now has arrived everywhere, or in all of the
        network that can be reached, these brokers with it.
        """
        self.waves.begin(request, self.neighbours.names_in_tree(), reaching)


def parts_of(name: str, given: SettingsGiven) -> Parts:
    """The parts of a broker that starts now, with what its store has."""
    settings, store, now = Settings.of(given), given.get("store"), given.get("now", 0.0)
    store = MemoryStore() if store is None else store
    outbox = Outbox(now)
    aside = Aside(store, outbox)
    set_aside_unreadable(store, aside)
    epoch = _next_epoch(store, now)
    sequences = count(epoch << SEQUENCE_BITS)

    def unacked_of(peer: Peer) -> UnackedQueue:
        return UnackedQueue(store, peer, sequences, aside)

    clients = ClientSessions(settings.limits, store, outbox, unacked_of, aside)
    neighbours = NeighbourSessions(name, epoch, settings.routing, store, outbox, unacked_of)
    neighbours.greetings.ontology = given.get("ontology_digest", "")
    neighbours.traffic.uses_advertisements = settings.advertisements
    neighbours.queue_bytes = settings.broker_limits.neighbour_queue_bytes
    interests = Interests(
        RoutingTable(
            given.get("ontology"),
            keeps_roots=given.get("keeps_roots", False),
            by_equality=settings.advertisements,
        ),
        neighbours.traffic.send,
        neighbours.by_name.get,
        outbox.work,
        gated=settings.advertisements,
    )
    interests.announced_max = settings.broker_limits.neighbour_filters
    waves = Waves(name, epoch, neighbours.traffic.send_wave)
    room = Room(settings.broker_limits, store, outbox, clients.traffic.free_most)
    fan_outs = FanOuts(clients, store, sequences, aside, outbox.work)
    router = Router(store, outbox, clients, neighbours, interests, room, fan_outs)
    router.uses_advertisements = settings.advertisements
    interests.start = router.chores.start
    shape = Shape(neighbours, store, adapts=settings.adapts)
    return Parts(
        name, epoch, settings, store, sequences, outbox, aside, clients, neighbours, shape,
        interests, waves, room, router,
    )  # fmt: skip


def _next_epoch(store: Store, now: float) -> int:
    """The broker's epoch: larger each time it starts."""
    # A clock that is far ahead, once, must not leave sequences that no store can hold.
    epoch = max(min(int(now), EPOCH_BY_CLOCK_MAX), int(store.marked("epoch") or 0) + 1)
    store.mark("epoch", str(epoch).encode())
    return epoch
