"""The meaning of a medoid, written as plainly as possible: Dijkstra from every node.

Slow and obviously right; `MedoidFinder` and `SemanticMap` must agree with it on random graphs and
ontologies.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from statistics import pstdev
from typing import NamedTuple

from kbn.ontology import Ontology
from kbn.placement import Ties, Weights

Graph = Mapping[str, Mapping[str, int]]


class Expected(NamedTuple):
    term: str | None
    spread: float
    cost: int
    terms: int
    reached: int


def map_of(ontology: Ontology, weights: Weights) -> dict[str, dict[str, int]]:
    """The edges as the design lists them; the lightest between two names counts.

    What is the same is 0 apart: names that are 0 apart both ways are those of one node.
    """
    graph: dict[str, dict[str, int]] = {
        iri: {} for iri in (*ontology.classes, *ontology.individuals)
    }

    def edge(one: str, other: str, weight: int) -> None:
        if one != other:
            graph[one][other] = min(weight, graph[one].get(other, weight))

    for iri in ontology.classes:
        for child in ontology.children(iri):
            edge(child, iri, weights.to_superclass)
            edge(iri, child, weights.to_subclass)
        for other in ontology.equivalents(iri):
            edge(iri, other, 0)
    for iri in ontology.individuals:
        for kind in ontology.direct_types(iri):
            edge(kind, iri, weights.to_instance)
        for name in ontology.properties:
            for other in ontology.related(iri, name):
                edge(iri, other, weights.to_related)
                edge(other, iri, weights.to_related)
        for other in ontology.same_as(iri):
            edge(iri, other, 0)
    return graph


def distances(graph: Graph, start: str) -> dict[str, int]:
    found: dict[str, int] = {}
    left = [(0, start)]
    while left:
        distance, node = heapq.heappop(left)
        if node not in found:
            found[node] = distance
            for other, weight in graph[node].items():
                heapq.heappush(left, (distance + weight, other))
    return found


def all_distances(graph: Graph) -> dict[str, dict[str, int]]:
    return {node: distances(graph, node) for node in graph}


def medoid(
    between: Mapping[str, Mapping[str, int]],
    query: list[str],
    classes: Iterable[str],
    ties: Ties = Ties.INDIVIDUAL_FIRST,
) -> Expected:
    """The medoid of the names in `query`, repeats counted; it has the least of its own names."""
    if not query:
        return Expected(None, 0.0, 0, 0, 0)
    of_kind = set(classes)

    def rank(one: str) -> tuple[object, ...]:
        names = {other for other, way in between[one].items() if way == 0}
        found = [between[one][q] for q in query if q in between[one]]
        # With number and sum equal, squares order as the spread does, and are exact.
        squares = sum(d**2 for d in found)
        is_second = bool(names & of_kind) is (ties is Ties.INDIVIDUAL_FIRST)
        return -len(found), sum(found), squares, not names & {*query}, is_second, one

    best = min(between, key=rank)
    found = [between[best][q] for q in query if q in between[best]]
    return Expected(best, pstdev(found), sum(found), len(query), len(found))
