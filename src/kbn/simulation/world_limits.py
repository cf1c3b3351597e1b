"""Worlds with limits: small queues, little that may be owed, subscribers that read slowly or block.

What is promised then: a publication is refused and told, or it is acknowledged; a durable client is
told how many deliveries it has lost, and lacks no more than that; no queue is longer than it may
be; and publishers get on, whoever does not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from kbn.broker import Broker, BrokerLimits, ClientLimits
from kbn.simulation.client import SimulatedClient

LIMITED_SHARE = 0.4
MANY = 1 << 40


@dataclass(frozen=True, slots=True)
class WorldLimits:
    """The limits of every broker in a world, and how many of its subscribers are slow."""

    clients: ClientLimits
    broker: BrokerLimits
    windows: tuple[int, ...] = (1000,)
    blocking_share: float = 0.0

    @classmethod
    def of_seed(cls, seed: int) -> WorldLimits | None:
        """The limits of a world; most have none that matter."""
        rng = Random(f"limits of {seed}")
        if rng.random() >= LIMITED_SHARE:
            return None
        unacked, unacked_bytes = rng.choice([(MANY, MANY), (rng.randint(2, 12), MANY), (MANY, 500)])
        clients = ClientLimits(
            unacked=unacked,
            unacked_bytes=unacked_bytes,
            queue=rng.choice([2, 5, 1000]),
            queue_bytes=rng.choice([2_000, MANY]),
            publish_ahead=rng.choice([4, 20, 1000]),
            block_s=rng.choice([0.3, 1.5]),
        )
        broker = BrokerLimits(
            store_bytes=rng.choice([500, 2_000, MANY, MANY]),
            neighbour_unacked_bytes=rng.choice([150, 600, MANY, MANY]),
            neighbour_queue_bytes=rng.choice([2_000, MANY]),
        )
        return cls(clients, broker, rng.choice([(1, 3), (2, 1000)]), rng.choice([0.0, 0.5]))

    @classmethod
    def usual(cls) -> WorldLimits:
        """Those of a broker that was told nothing."""
        return cls(ClientLimits(), BrokerLimits())

    def client_settings(self, rng: Random) -> tuple[int, Literal["drop", "block"]]:
        """The window of a subscriber, and what is to be done when it is slow."""
        if len(self.windows) == 1:
            return self.windows[0], "drop"
        return rng.choice(self.windows), "block" if rng.random() < self.blocking_share else "drop"

    def too_much_at(self, broker: Broker) -> str | None:
        """What a broker holds for a client beyond the limits, if it does."""
        limits = self.clients
        for session in broker.clients.values():
            queue, unacked = session.deliveries.queue, session.deliveries.unacked
            if len(queue) > limits.queue or queue.size > limits.queue_bytes:
                return f"{len(queue)} in the queue of {session.name} at {broker.name}"
            if unacked is not None and (
                len(unacked) > limits.unacked or unacked.size > limits.unacked_bytes
            ):
                return f"{session.name} is owed {len(unacked)}, {unacked.size} bytes"
        return None


def refused_to(publisher: SimulatedClient) -> set[int]:
    """The numbers of the durable notifications that a publisher was told are refused."""
    return {f.reference for f in publisher.failed if f.what == "publish" and f.durable}


def lost_by(client: SimulatedClient) -> int:
    """How many deliveries a client was told that it has lost."""
    return sum(each.more for each in client.lost)
