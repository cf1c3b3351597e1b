"""Clusters from the hierarchy of an ontology: every root, and every class that has subclasses.

The classes are listed breadth first from the roots, siblings in IRI order. A root, or a class with
classes below it, keys a cluster. A class belongs to the cluster it keys, else to that of its first
parent in the list; an individual belongs with its most specific class, the first in the list if
there are several. Equivalent classes are one place in the hierarchy: the first of them keys the
cluster, and the others are in it. So each class, and each individual that has a class, is in
exactly one cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView, Mapping
from types import MappingProxyType

from kbn.errors import InvalidInputError
from kbn.ontology import Ontology


class Clusters:
    """Which terms belong together: clusters by their keys, from the most general on.

    A cluster's key is the IRI of the class it was made for.

    >>> from kbn.data import path
    >>> from kbn.placement import clusters
    >>> found = clusters(Ontology.load(path("animals")))
    >>> len(found) > 1
    True
    """

    __slots__ = ("_cluster_of", "_members", "_ontology")

    def __init__(
        self, ontology: Ontology, cluster_of: Mapping[str, str], keys: Iterable[str]
    ) -> None:
        """Use `clusters`; `cluster_of` has every member, `keys` are in the order of rank."""
        self._ontology = ontology
        self._cluster_of = MappingProxyType(dict(cluster_of))
        held: dict[str, list[str]] = {key: [] for key in keys}
        for iri, key in cluster_of.items():
            held[key].append(iri)
        self._members = {key: frozenset(members) for key, members in held.items()}

    @property
    def ontology(self) -> Ontology:
        """The ontology these are the clusters of."""
        return self._ontology

    def keys(self) -> KeysView[str]:
        """The keys, the most general first."""
        return self._members.keys()

    def members(self, key: str) -> frozenset[str]:
        """The classes and individuals of a cluster."""
        try:
            return self._members[key]
        except KeyError:
            raise InvalidInputError(_no_key(key, self.cluster_of(key))) from None

    def cluster_of(self, iri: str) -> str | None:
        """The key of the cluster a term is in; None for one that is in none.

        A property is a member of no cluster. Asked for one, this answers with the cluster of the
        (first) class of its domain.
        """
        found = self._cluster_of.get(iri)
        if found is None:
            domains = sorted(self._ontology.domains(iri))
            found = self._cluster_of[domains[0]] if domains else None
        return found

    @property
    def placed(self) -> Mapping[str, str]:
        """Member -> the key of its cluster."""
        return self._cluster_of

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __repr__(self) -> str:
        return f"<Clusters: {len(self._members)} of {len(self._cluster_of)} terms>"


def clusters(ontology: Ontology, order: Iterable[str] | None = None) -> Clusters:
    """The clusters of an ontology.

    With `order`, a list of terms, the key listed first wins among the one a class keys and those of
    its direct parents; so a class can be in its parent's cluster although it keys one. What is not
    listed comes after what is.

    >>> from kbn.data import namespace, path
    >>> found = clusters(Ontology.load(path("animals")))
    >>> sorted(iri.partition("#")[2] for iri in found.members(namespace("animals") + "Cats"))
    ['Burmese', 'Cats', 'Dixie']
    """
    listed = _breadth_first(ontology)
    rank = {iri: number for number, iri in enumerate(listed)}
    keyed = _keys_of_places(ontology, listed)
    wins = rank if order is None else _ranked(ontology, order, rank)
    cluster_of: dict[str, str] = {}
    for iri in listed:
        own = keyed[iri]
        above = (keyed[parent] for parent in sorted(ontology.parents(iri), key=rank.__getitem__))
        if order is None:
            key = own if own is not None else next(above)
        else:
            key = min((one for one in (own, *above) if one is not None), key=wins.__getitem__)
        assert key is not None, "what has a class below it keys a cluster"
        cluster_of[iri] = key
    for iri in ontology.individuals:
        kinds = ontology.direct_types(iri)
        if kinds and iri not in cluster_of:
            cluster_of[iri] = cluster_of[min(kinds, key=wins.__getitem__)]
    return Clusters(ontology, cluster_of, dict.fromkeys(key for key in keyed.values() if key))


def _breadth_first(ontology: Ontology) -> list[str]:
    """Every class, from the roots down, siblings in IRI order."""
    listed = dict.fromkeys(ontology.roots)
    wave = list(listed)
    while wave:
        below = (child for iri in wave for child in sorted(ontology.children(iri)))
        wave = [iri for iri in dict.fromkeys(below) if iri not in listed]
        listed.update(dict.fromkeys(wave))
    return list(listed)


def _keys_of_places(ontology: Ontology, listed: list[str]) -> dict[str, str | None]:
    """Class -> the key of the cluster that it, or a class equivalent to it, keys; or None."""
    keyed: dict[str, str | None] = {}
    for iri in listed:
        if iri not in keyed:
            keys = bool(ontology.children(iri)) or not ontology.parents(iri)
            keyed |= dict.fromkeys(ontology.equivalents(iri), iri if keys else None)
    return keyed


def _ranked(ontology: Ontology, order: Iterable[str], rank: Mapping[str, int]) -> dict[str, int]:
    """The places that decide between clusters: as in `order`, then as in `rank`."""
    if isinstance(order, str):
        raise InvalidInputError(f"order is a list of IRIs, not the one string {order!r}")
    given = list(order)
    for iri in given:
        ontology.require(iri)
    place = {iri: number for number, iri in enumerate(dict.fromkeys([*given, *rank]))}
    # What is equivalent stands where the first of them is listed.
    return {iri: min(place[one] for one in ontology.equivalents(iri)) for iri in rank}


def _no_key(key: str, cluster: str | None) -> str:
    hint = f"; it is in the cluster <{cluster}>" if cluster else ""
    return f"no cluster has the key <{key}>{hint}"
