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
from kbn.placement import Weights

Graph = Mapping[str, Mapping[str, int]]


class Expected(NamedTuple):
    term: str | None
    spread: float
    cost: int
    terms: int
    reached: int


def map_of(ontology: Ontology, weights: Weights) -> dict[str, dict[str, int]]:
    """The edges as the design lists them; the lightest between two nodes counts."""
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
            edge(iri, other, weights.to_equivalent)
    for iri in ontology.individuals:
        for kind in ontology.direct_types(iri):
            edge(kind, iri, weights.to_instance)
        for name in ontology.properties:
            for other in ontology.related(iri, name):
                edge(iri, other, weights.to_related)
                edge(other, iri, weights.to_related)
        for other in ontology.same_as(iri):
            edge(iri, other, weights.to_related)
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
    between: Mapping[str, Mapping[str, int]], query: list[str], classes: Iterable[str]
) -> Expected:
    """The medoid of the nodes of `query`, repeats counted."""
    if not query:
        return Expected(None, 0.0, 0, 0, 0)
    of_kind = set(classes)

    def rank(node: str) -> tuple[object, ...]:
        found = [between[node][q] for q in query if q in between[node]]
        # With number and sum equal, squares order as the spread does, and are exact.
        squares = sum(d**2 for d in found)
        return -len(found), sum(found), squares, node not in query, node not in of_kind, node

    best = min(between, key=rank)
    found = [between[best][q] for q in query if q in between[best]]
    return Expected(best, pstdev(found), sum(found), len(query), len(found))
