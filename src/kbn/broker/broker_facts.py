"""Facts about a broker: what it has done, whom it knows, how much it holds."""

from __future__ import annotations

from kbn.broker.administration import status_of
from kbn.broker.broker_status import BrokerStatus
from kbn.broker.client_requests import ClientRequests
from kbn.broker.client_rounds import ClientRounds
from kbn.broker.incoming import Incoming
from kbn.broker.parts import Parts

LISTED_COST = 4  # units of work for each client in a status


class BrokerFacts:
    """What one broker tells of itself."""

    __slots__ = ("_incoming", "_parts", "_requests", "rounds")

    def __init__(self, parts: Parts, requests: ClientRequests, incoming: Incoming) -> None:
        self._parts = parts
        self._requests = requests
        self._incoming = incoming
        self.rounds = ClientRounds(parts.clients)

    @property
    def counts(self) -> dict[str, int]:
        """What the broker has done since it started."""
        parts = self._parts
        return {
            "forwarded": parts.router.forwarded,
            "received": self._incoming.received,
            "dropped": self._incoming.dropped,
            "published": self._requests.publishing.published,
            "refused": self._requests.answers.refused,
            "unknown_terms": self._requests.publishing.unknown_terms.count,
            "matched": parts.clients.traffic.matched,
            "delivered": parts.clients.traffic.delivered,
            "lost": parts.clients.traffic.lost,
            "set_aside": parts.aside.count,
        }

    @property
    def is_complete(self) -> bool:
        """Whether every neighbour has said all it has to say."""
        neighbours = self._parts.neighbours
        is_unmet = neighbours.unmet.may_subscribe(parents_count=False)
        return not is_unmet and all(
            n.is_trusted for n in neighbours.in_tree() if n.role != "parent"
        )

    def status(self) -> BrokerStatus:
        """What a person wants to know of this broker."""
        parts = self._parts
        table, neighbours = parts.interests.table, parts.neighbours
        roots = table.roots
        clients, totals = self.rounds.told()
        parts.outbox.work.done += LISTED_COST * len(clients)
        return status_of(
            {
                "broker": parts.name,
                "epoch": parts.epoch,
                "routing": neighbours.routing,
                "ontology": neighbours.greetings.ontology,
                "subscriptions": len(table),
                "filters": table.filter_count,
                "roots": None if roots is None else len(roots),
                "advertisements": len(parts.interests.advertisements),
                "store_bytes": parts.store.used_bytes,
                "counts": self.counts,
                "clients": tuple(clients),
                "totals": totals,
                "neighbours": [neighbours.status(each) for each in neighbours.by_name.values()],
            }
        )
