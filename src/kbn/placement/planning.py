"""Plans: which cluster lives on which broker.

A planner is a function from clusters and brokers to the broker of each cluster. `taxonomic` lays
the hierarchy of clusters over that of the brokers, top to bottom; `traffic` puts clusters near to
those they exchange notifications with; others are added to `PLANNERS`.

A cluster that draws more load than one broker may have lives on several: its main broker and its
helpers. `balancing` decides who helps whom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from inspect import signature
from typing import Any

from kbn.config import or_one_of
from kbn.errors import InvalidInputError
from kbn.filters import decode_json
from kbn.ontology import Ontology, Term
from kbn.placement.medoid import Medoid
from kbn.placement.taxonomic import Clusters, clusters
from kbn.placement.traffic import traffic

FORMAT = "kbn-plan"
VERSION = 1


Planner = Callable[..., Mapping[str, str] | Mapping[str, tuple[str, ...]]]
"""Clusters and brokers (distinct, the top of the hierarchy first) to each cluster's broker.

Instead of one broker it may name several: the main one, then the helpers.
"""


@dataclass(frozen=True)
class PlannedCluster:
    """A cluster and its broker; `rank` counts from 1, the most general.

    `clients` is how many have their medoid in it, where somebody counted. `helpers` are further
    brokers that take clients of it, in the order they were added.
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
        """The broker for a client with that medoid; None: it stays where it is."""
        key = self.cluster_for(term)
        return None if key is None else self.broker_of(key)

    def brokers_for(self, term: str | Term | Medoid | None) -> tuple[str, ...]:
        """The brokers a client with that medoid may go to, the main one first; none: it stays."""
        key = self.cluster_for(term)
        return () if key is None else self.brokers_of(key)

    def helped(self, key: str, broker: str) -> Plan:
        """This plan with one more broker for a cluster.

        >>> from kbn.data import namespace, path
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
        """This plan with one broker less for a cluster: a helper of it goes."""
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
        """The plan such data, or such JSON text, stands for."""
        given = _checked(decode_json(data), "a plan", _PLAN)
        if (given["format"], given["version"]) != (FORMAT, VERSION):
            raise InvalidInputError(
                f"this is {given['format']!r} version {given['version']}, and this kbn reads "
                f"{FORMAT!r} version {VERSION}"
            )
        rows = [_cluster(n, row) for n, row in enumerate(given["clusters"])]
        planned = tuple(sorted(rows, key=lambda cluster: cluster.rank))
        made = cls(given["ontology"], given["planner"], tuple(given["brokers"]), planned)
        _check_sound(made)
        return made


def plan(
    ontology: Ontology,
    brokers: Iterable[str],
    planner: str | Planner = "taxonomic",
    *,
    order: Iterable[str] | None = None,
    **options: Any,
) -> Plan:
    """Which cluster of `ontology` lives on which of `brokers`, named from the top down.

    `planner` is the name of one of `PLANNERS`, or a function like them; it is given `options`.
    `order` is that of `clusters`.

    >>> from kbn.data import namespace, path
    >>> made = plan(Ontology.load(path("animals")), ["top", "left", "right"])
    >>> made.broker_for(namespace("animals") + "Dixie")
    'right'
    """
    named = _brokers(brokers)
    choose, name = _planner(planner)
    parts = clusters(ontology, order)
    _check_options(name, choose, options)
    assignments = {key: _assignments(on) for key, on in choose(parts, named, **options).items()}
    _check_chosen(name, parts, named, assignments)
    planned = tuple(
        PlannedCluster(
            key, rank, assignments[key][0], parts.members(key), helpers=assignments[key][1:]
        )
        for rank, key in enumerate(parts.keys(), start=1)
    )
    return Plan(ontology.digest, name, named, planned)


def taxonomic(parts: Clusters, brokers: Sequence[str], /) -> dict[str, str]:
    """As many clusters for each broker as the quotient says, in order; what remains to the top.

    The remaining clusters, the most specific ones, go to the first brokers, one each.
    """
    keys = list(parts.keys())
    each, _ = divmod(len(keys), len(brokers))
    evenly = each * len(brokers)
    placed = {key: brokers[place // each] for place, key in enumerate(keys[:evenly])}
    return placed | dict(zip(keys[evenly:], brokers, strict=False))


UNNAMED = "unnamed"
"""What a plan says of a planner that is a function without a name."""

PLANNERS: dict[str, Planner] = {"taxonomic": taxonomic, "traffic": traffic}
"""The planners `plan` knows by name; add yours here."""


def _assignments(chosen: str | Iterable[str]) -> tuple[str, ...]:
    return (chosen,) if isinstance(chosen, str) else tuple(chosen)


def _brokers(brokers: Iterable[str]) -> tuple[str, ...]:
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


def _planner(planner: str | Planner) -> tuple[Planner, str]:
    if not isinstance(planner, str):
        return planner, _name_of(planner)
    if planner in PLANNERS:
        return PLANNERS[planner], planner
    raise InvalidInputError(f"there is no planner {planner!r}{or_one_of(planner, PLANNERS)}")


def _name_of(planner: Planner) -> str:
    """What messages and plans call a planner that was passed: the function's name, if it has one.

    >>> from functools import partial
    >>> _name_of(taxonomic), _name_of(partial(taxonomic)), _name_of(lambda parts, brokers: {})
    ('taxonomic', 'taxonomic', 'unnamed')
    """
    function = planner.func if isinstance(planner, partial) else planner
    name = str(getattr(function, "__name__", type(function).__name__))
    return name if name.isidentifier() else UNNAMED


def _called(name: str) -> str:
    return "the planner you passed" if name == UNNAMED else f"the planner {name!r}"


def _check_options(name: str, choose: Planner, options: Mapping[str, Any]) -> None:
    try:
        signature(choose).bind(None, None, **options)
    except TypeError as error:
        raise InvalidInputError(f"{_called(name)}: {error}") from None


def _check_chosen(
    name: str, parts: Clusters, brokers: tuple[str, ...], assignments: Mapping[str, tuple[str, ...]]
) -> None:
    if assignments.keys() != parts.keys() or not all(assignments.values()):
        raise InvalidInputError(f"{_called(name)} must choose a broker for each cluster")
    for key, on in assignments.items():
        for broker in on:
            if broker not in brokers:
                raise InvalidInputError(f"{_called(name)} chose {broker!r}, which is no broker")
        if len(set(on)) < len(on):
            raise InvalidInputError(f"{_called(name)} chose a broker twice for <{key}>")


# Reading.

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
    """The object, when it has these parts; others are for later versions to know."""
    if not isinstance(data, dict):
        raise InvalidInputError(f"{where} is an object, not {type(data).__name__}")
    for name, (what, check) in parts.items():
        if name not in data:
            raise InvalidInputError(f"{where} needs {name!r}")
        if not check(data[name]):
            raise InvalidInputError(f"{where}: {name!r} is {what}, not {data[name]!r:.60}")
    return data


def _cluster(number: int, data: object) -> PlannedCluster:
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
    _brokers(made.brokers)
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
