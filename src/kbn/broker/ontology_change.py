"""A change of the ontology: the table is made anew, and clients and neighbours are told."""

from __future__ import annotations

from collections.abc import Callable

from kbn.broker.client_requests import ClientRequests
from kbn.broker.membership import Membership
from kbn.broker.messages import Subscribe
from kbn.broker.parts import Parts
from kbn.broker.routing_table import RoutingTable
from kbn.ontology import Ontology


class OntologyChange:
    """Lets one broker reason with another ontology."""

    def __init__(self, parts: Parts, requests: ClientRequests, membership: Membership) -> None:
        self._clients = parts.clients
        self._neighbours = parts.neighbours
        self._interests = parts.interests
        self._contents = parts.router.contents
        self._waves = parts.waves
        self._requests = requests
        self._membership = membership

    def rebuilding(self, ontology: Ontology | None) -> Callable[[], RoutingTable]:
        """A function that makes the table anew; it may run in another thread meanwhile."""
        neighbours = self._neighbours.by_name.values()
        return self._interests.rebuilding(
            ontology, self._requests.subscribing.subscriptions(), neighbours
        )

    def use(self, table: RoutingTable, digest: str) -> None:
        """Reason with the ontology of a table from now on.

        Subscriptions with terms that it does not know are kept, and served again by one that
        does; whose they are is told.
        """
        self._contents.clear()
        self._requests.ontology = digest
        self._clients.tell_ontology(digest)
        unknown = self._interests.use_table(table, self._requests.subscribing.subscriptions())
        for (peer, id), error in unknown:
            self._requests.answers.refuse(peer, Subscribe(id, ""), error)
        self._neighbours.use_ontology(digest)
        for neighbour in self._neighbours.by_name.values():
            self._membership.tell(self._interests.learn_again(neighbour), neighbour)
            if neighbour.is_connected:
                self._neighbours.greetings.greet(neighbour)
        self._waves.begin_anew(self._neighbours.names_in_tree())
