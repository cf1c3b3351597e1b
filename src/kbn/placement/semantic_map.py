"""The semantic map: an ontology as a directed graph whose weights say how far terms are apart.

Its nodes are the classes and the individuals. What is the same is one node: equivalent classes, and
individuals that are the same; it bears the least of their names. Edges, with default weights:

    class → the classes directly above it, and back                     100 each way
    class → the individuals it is the most specific class of            1, and no way back
    individual → those it has a property towards                        1 each way

`owl:Thing` is no node, so what lies under different roots is not connected by the classes alone.
Between two nodes the lightest edge counts. The hierarchy, the types and the relations are those the
ontology entails at the level it was loaded with.

Where several nodes are as near as each other, a `Ties` says which of them is the medoid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

import numpy as np

from kbn.errors import InvalidInputError
from kbn.ontology import Ontology, Term
from kbn.placement.graph import Graph, Numbers
from kbn.placement.medoid import Medoid

WEIGHT_MIN, WEIGHT_MAX = 1, 100

Terms = Iterable[str | Term] | Mapping[str, int]
Edge = tuple[int, int, int]


@dataclass(frozen=True)
class Weights:
    """What a step on the map costs, by its kind: whole numbers from 1 to 100."""

    to_superclass: int = 100
    to_subclass: int = 100
    to_instance: int = 1
    to_related: int = 1

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if type(value) is not int or not WEIGHT_MIN <= value <= WEIGHT_MAX:
                raise InvalidInputError(
                    f"the weight {item.name} is a whole number from {WEIGHT_MIN} to {WEIGHT_MAX}, "
                    f"not {value!r}"
                )


class Ties(StrEnum):
    """Which of two nodes is the medoid that are as near, with the same spread, both named or not.

    The source gives no rule. `INDIVIDUAL_FIRST` is what gives fewer hops where clients are placed
    by it: `docs/decisions/20261118-ties-and-weights.md` has the figures.
    """

    INDIVIDUAL_FIRST = "individual-first"
    CLASS_FIRST = "class-first"


class SemanticMap:
    """The map of an ontology, on which medoids are found.

    It is built once and then answers for any number of clients; distances it had to work out are
    remembered, within a bound on memory.

    >>> from kbn.data import namespace, path
    >>> animals = SemanticMap(Ontology.load(path("animals")))
    >>> animals.medoid([namespace("animals") + name for name in ("Cats", "JackRussell", "Gus")])
    Medoid(term='https://kbn.example/ontology/animals#JackRussell', spread=141..., cost=301, ...)
    """

    def __init__(
        self,
        ontology: Ontology,
        weights: Weights | None = None,
        ties: Ties = Ties.INDIVIDUAL_FIRST,
    ) -> None:
        self.ontology = ontology
        self.weights = weights or Weights()
        self.ties = Ties(ties)
        alike = _alike(ontology)
        # The smaller number wins a tie.
        self._names = tuple(sorted(set(alike.values()), key=self._rank(alike)))
        number = {name: n for n, name in enumerate(self._names)}
        self._numbers = {iri: number[name] for iri, name in alike.items()}
        self._stands_for: dict[str, tuple[int, ...]] = {}
        # Imported here, because it brings a compiler along: clusters and plans need none.
        from kbn.placement.finding import MedoidFinder

        self.finder = MedoidFinder(self._graph())

    def __len__(self) -> int:
        return len(self._names)

    def medoid(self, terms: Terms) -> Medoid:
        """The term with the least sum of distances to `terms`: IRIs or terms, repeats count.

        A mapping says how often each is named. A property stands for the classes of its domain.
        Terms that have no place on the map are skipped, and when no node reaches all, the one that
        reaches most is taken; the result tells. Ties go to the smaller spread, then to a member of
        `terms`, then as the map's `ties` say, then to the first in IRI order.
        """
        return self.medoids([terms])[0]

    def medoids(self, query_sets: Iterable[Terms]) -> list[Medoid]:
        """The medoid of each query set; for many at once much quicker than one by one."""
        of_set: list[int] = []
        nodes: list[int] = []
        times: list[int] = []
        skipped: list[tuple[str, ...]] = []
        for number, terms in enumerate(query_sets):
            left_out = []
            for iri, count in counted(terms):
                places = self.places(iri)
                if not places:
                    left_out.append(iri)
                of_set += [number] * len(places)
                nodes += places
                times += [count] * len(places)
            skipped.append(tuple(dict.fromkeys(left_out)))
        return self._found(skipped, of_set, nodes, times)

    def distances(self, starts: Sequence[str], ends: Sequence[str]) -> Numbers:
        """How far it is from each of `starts`, a row each, to each of `ends`; NO_WAY: no way.

        Both are IRIs of classes and individuals; InvalidInputError for any other.
        """
        nodes = (
            np.array([self.node(iri) for iri in some], dtype=np.int64) for some in (starts, ends)
        )
        return self.finder.between(*nodes)

    def node(self, iri: str) -> int:
        """The number of the node with that IRI: a class or an individual."""
        number = self._numbers.get(iri)
        if number is None:
            raise InvalidInputError(f"<{iri}> is no class or individual of the ontology")
        return number

    def _found(
        self,
        skipped: Sequence[tuple[str, ...]],
        of_set: list[int],
        nodes: list[int],
        times: list[int],
    ) -> list[Medoid]:
        arrays = (np.array(numbers, dtype=np.int64) for numbers in (of_set, nodes, times))
        found = self.finder.find(len(skipped), *arrays)
        columns = (found.node, found.cost, found.terms, found.reached)
        rows = zip(*(column.tolist() for column in columns), skipped, strict=True)
        return [
            Medoid(
                self._names[node] if node >= 0 else None,
                found.spread(number),
                cost,
                terms,
                reached,
                left_out,
            )
            for number, (node, cost, terms, reached, left_out) in enumerate(rows)
        ]

    def places(self, iri: str) -> tuple[int, ...]:
        """The numbers of the nodes a name stands for: its own, or the classes of its domain."""
        places = self._stands_for.get(iri)
        if places is None:
            number = self._numbers.get(iri)
            if number is not None:
                return (number,)
            domains = sorted(self.ontology.domains(iri))
            places = tuple(dict.fromkeys(self._numbers[one] for one in domains))
            if domains:
                self._stands_for[iri] = places
        return places

    def name(self, node: int) -> str:
        """The IRI of the node with that number: the least, where it has several."""
        return self._names[node]

    # The graph.

    def _rank(self, alike: Mapping[str, str]) -> Callable[[str], tuple[bool, str]]:
        """What puts the nodes in the order that decides ties, by their names."""
        classes = {alike[iri] for iri in self.ontology.classes}
        classes_last = self.ties is Ties.INDIVIDUAL_FIRST
        return lambda name: ((name in classes) is classes_last, name)

    def _graph(self) -> Graph:
        edges = np.array(list(self._edges()), dtype=np.int64).reshape(-1, 3)
        ends = edges[:, :2].astype(np.int32)
        return Graph.of(len(self._names), ends[:, 0], ends[:, 1], edges[:, 2])

    def _edges(self) -> Iterator[Edge]:
        ontology, weights, number = self.ontology, self.weights, self._numbers
        for iri in ontology.classes:
            one = number[iri]
            for wider in ontology.parents(iri):
                yield one, number[wider], weights.to_superclass
                yield number[wider], one, weights.to_subclass
        for iri in ontology.individuals:
            one = number[iri]
            for kind in ontology.direct_types(iri):
                yield number[kind], one, weights.to_instance
            for other in {node for _, node in ontology.relations(iri)}:
                yield one, number[other], weights.to_related
                yield number[other], one, weights.to_related


def _alike(ontology: Ontology) -> dict[str, str]:
    """Each class and individual, and the least name of what is the same as it.

    A name that is both a class and an individual joins what is the same as either.
    """
    found: dict[str, str] = {}
    punned = set(ontology.classes).intersection(ontology.individuals)
    for iris, same in (
        (ontology.classes, ontology.equivalents),
        (ontology.individuals, ontology.same_as),
    ):
        found.update((iri, min(same(iri))) for iri in iris if iri not in punned)
    for iri in sorted(punned):
        names = _closure(iri, ontology)
        found.update(dict.fromkeys(names, min(names)))
    return found


def _closure(iri: str, ontology: Ontology) -> set[str]:
    """All names that lead to one another by equivalence and sameness."""
    names, waiting = {iri}, [iri]
    while waiting:
        one = waiting.pop()
        new = (ontology.equivalents(one) | ontology.same_as(one)) - names
        names |= new
        waiting += new
    return names


def counted(terms: Terms) -> Iterator[tuple[str, int]]:
    """The IRIs of a query set and how often each is named; an IRI may come more than once."""
    if isinstance(terms, str):
        raise InvalidInputError(f"a query set is a list of terms, not the one string {terms!r}")
    if isinstance(terms, Mapping):
        for iri, count in terms.items():
            if count < 1:
                raise InvalidInputError(f"<{_iri(iri)}> is named {count} times: that is not once")
            yield _iri(iri), count
        return
    for term in terms:
        yield _iri(term), 1


def _iri(term: str | Term) -> str:
    if isinstance(term, str):
        return term
    if isinstance(term, Term):
        return term.iri
    raise InvalidInputError(f"a query set is made of IRIs or terms, not of {term!r}")
