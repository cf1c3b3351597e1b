"""Plans: which cluster lives on which broker, as values and as JSON.

A plan is immutable: `helped` and `relieved` give a changed copy. `planning` makes plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from kbn.errors import InvalidInputError
from kbn.filters import decode_json
from kbn.ontology import Term
from kbn.placement.medoid import Medoid

FORMAT = "kbn-plan"


VERSION = 1


@dataclass(frozen=True)
class PlannedCluster:
    """A cluster and its broker; `rank` counts from 1, the most general.

    `clients` is the number of clients with their medoid in it, None if not counted. `helpers` are
    further brokers that take clients of the cluster, in the order they were added.
    """

    key: str
    rank: int
    broker: str
    members: frozenset[str]
    clients: int | None = None
    helpers: tuple[str, ...] = ()

    @property
    def brokers(self) -> tuple[str, ...]:
        """All its brokers, the main one first."""
        return (self.broker, *self.helpers)

    def to_json(self) -> dict[str, Any]:
        """The cluster as JSON-ready data."""
        made: dict[str, Any] = {
            "key": self.key,
            "rank": self.rank,
            "broker": self.broker,
            "members": sorted(self.members),
        }
        if self.clients is not None:
            made["clients"] = self.clients
        return {**made, "helpers": list(self.helpers)} if self.helpers else made


@dataclass(frozen=True)
class Plan:
    """Which cluster lives on which broker, for the ontology with this digest."""

    ontology: str
    planner: str
    brokers: tuple[str, ...]
    """The top of the hierarchy first."""
    clusters: tuple[PlannedCluster, ...]
    """In order of rank."""

    @cached_property
    def _by_key(self) -> dict[str, PlannedCluster]:
        return {cluster.key: cluster for cluster in self.clusters}

    @cached_property
    def _of_member(self) -> dict[str, PlannedCluster]:
        return {iri: cluster for cluster in self.clusters for iri in cluster.members}

    def broker_of(self, key: str) -> str:
        """The broker of the cluster with that key; the main one if it has helpers."""
        return self._cluster(key).broker

    def brokers_of(self, key: str) -> tuple[str, ...]:
        """All brokers of the cluster with that key, the main one first."""
        return self._cluster(key).brokers

    def _cluster(self, key: str) -> PlannedCluster:
        if key not in self._by_key:
            raise InvalidInputError(f"the plan has no cluster with the key <{key}>")
        return self._by_key[key]

    def cluster_for(self, term: str | Term | Medoid | None) -> str | None:
        """The key of the cluster that holds a term, or a medoid's term; None when none does."""
        if isinstance(term, Medoid):
            term = term.term
        iri = term.iri if isinstance(term, Term) else term
        found = None if iri is None else self._of_member.get(iri)
        return found.key if found else None

    def broker_for(self, term: str | Term | Medoid | None) -> str | None:
        """The broker for a client with that medoid; None when the client stays where it is."""
        key = self.cluster_for(term)
        return None if key is None else self.broker_of(key)

    def brokers_for(self, term: str | Term | Medoid | None) -> tuple[str, ...]:
        """The brokers that a client with that medoid may go to, the main one first.

        None of them when the client stays where it is.
        """
        key = self.cluster_for(term)
        return () if key is None else self.brokers_of(key)

    def helped(self, key: str, broker: str) -> Plan:
        """This plan with one more broker for a cluster.

        >>> from kbn.data import namespace, path
        >>> from kbn.ontology import Ontology
        >>> from kbn.placement import plan
        >>> made = plan(Ontology.load(path("animals")), ["top", "left", "right"])
        >>> cats = namespace("animals") + "Cats"
        >>> made.helped(cats, "top").brokers_for(namespace("animals") + "Dixie")
        ('right', 'top')
        >>> made.helped(cats, "top").relieved(cats, "top") == made
        True
        """
        cluster = self._cluster(key)
        if broker not in self.brokers:
            raise InvalidInputError(f"{broker!r} cannot help <{key}>: it is no broker of the plan")
        if broker in cluster.brokers:
            raise InvalidInputError(f"{broker!r} cannot help <{key}>: it has that cluster already")
        return self._with(replace(cluster, helpers=(*cluster.helpers, broker)))

    def relieved(self, key: str, broker: str) -> Plan:
        """This plan with one helper less for a cluster."""
        cluster = self._cluster(key)
        if broker not in cluster.helpers:
            raise InvalidInputError(f"{broker!r} does not help <{key}>: it cannot be given back")
        left = tuple(helper for helper in cluster.helpers if helper != broker)
        return self._with(replace(cluster, helpers=left))

    def _with(self, cluster: PlannedCluster) -> Plan:
        changed = (cluster if one.key == cluster.key else one for one in self.clusters)
        return replace(self, clusters=tuple(changed))

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON-ready data, the form a policy server reads."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "ontology": self.ontology,
            "planner": self.planner,
            "brokers": list(self.brokers),
            "clusters": [cluster.to_json() for cluster in self.clusters],
        }

    @classmethod
    def from_json(cls, data: object) -> Plan:
        """The plan that JSON data, or JSON text, stands for."""
        given = _checked(decode_json(data), "a plan", _PLAN)
        if (given["format"], given["version"]) != (FORMAT, VERSION):
            raise InvalidInputError(
                f"this is {given['format']!r} version {given['version']}, and this kbn reads "
                f"{FORMAT!r} version {VERSION}"
            )
        rows = [_read_cluster(n, row) for n, row in enumerate(given["clusters"])]
        planned = tuple(sorted(rows, key=lambda cluster: cluster.rank))
        made = cls(given["ontology"], given["planner"], tuple(given["brokers"]), planned)
        _check_sound(made)
        return made


def broker_names(brokers: Iterable[str]) -> tuple[str, ...]:
    """The names as a tuple; InvalidInputError unless they are distinct and not empty."""
    if isinstance(brokers, str):
        raise InvalidInputError(f"brokers are a list of names, not the one string {brokers!r}")
    named = tuple(brokers)
    for broker in named:
        if not isinstance(broker, str) or not broker:
            raise InvalidInputError(
                f"a broker is named by a text that is not empty, not {broker!r}"
            )
    if not named:
        raise InvalidInputError("a plan needs at least one broker")
    twice = next((broker for broker in named if named.count(broker) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"the broker {twice!r} is listed twice")
    return named


# Reading a plan.

_Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_number(value: Any) -> bool:
    return type(value) is int


_PLAN: dict[str, tuple[str, _Check]] = {
    "format": ("a text", _is_text),
    "version": ("a number", _is_number),
    "ontology": ("a text", lambda value: isinstance(value, str)),
    "planner": ("a text", _is_text),
    "brokers": ("a list of names", _are_texts),
    "clusters": ("a list", lambda value: isinstance(value, list)),
}


_CLUSTER: dict[str, tuple[str, _Check]] = {
    "key": ("an IRI", _is_text),
    "rank": ("a number", _is_number),
    "broker": ("a name", _is_text),
    "members": ("a list of IRIs", _are_texts),
}


def _checked(data: object, where: str, parts: dict[str, tuple[str, _Check]]) -> dict[str, Any]:
    """The object, if it has these parts. It may have others, of a later version."""
    if not isinstance(data, dict):
        raise InvalidInputError(f"{where} is an object, not {type(data).__name__}")
    for name, (what, check) in parts.items():
        if name not in data:
            raise InvalidInputError(f"{where} needs {name!r}")
        if not check(data[name]):
            raise InvalidInputError(f"{where}: {name!r} is {what}, not {data[name]!r:.60}")
    return data


def _read_cluster(number: int, data: object) -> PlannedCluster:
    row = _checked(data, f"$.clusters[{number}]", _CLUSTER)
    clients = row.get("clients")
    if clients is not None and not _is_number(clients):
        raise InvalidInputError(f"$.clusters[{number}]: 'clients' is a number, not {clients!r:.60}")
    helpers = row.get("helpers", [])
    if not _are_texts(helpers):
        raise InvalidInputError(
            f"$.clusters[{number}]: 'helpers' is a list of names, not {helpers!r:.60}"
        )
    members = frozenset(row["members"])
    return PlannedCluster(row["key"], row["rank"], row["broker"], members, clients, tuple(helpers))


def _check_sound(made: Plan) -> None:
    """Raise InvalidInputError when the parts of a plan contradict each other."""
    broker_names(made.brokers)
    for cluster in made.clusters:
        for broker in cluster.brokers:
            if broker not in made.brokers:
                raise InvalidInputError(
                    f"the cluster <{cluster.key}> is on {broker!r}, no broker of the plan"
                )
        if len(set(cluster.brokers)) < len(cluster.brokers):
            raise InvalidInputError(f"the cluster <{cluster.key}> has a broker twice")
    if len(made._by_key) < len(made.clusters):
        raise InvalidInputError("two clusters of the plan have the same key")
    if len(made._of_member) < sum(len(cluster.members) for cluster in made.clusters):
        raise InvalidInputError("a term is in two clusters of the plan")
