"""Medoids on random graphs, however the distances are found, against Dijkstra from every node."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.placement import medoid_oracle as oracle

from kbn.errors import LimitError
from kbn.placement.finding import COLUMNS, MedoidFinder
from kbn.placement.graph import NO_WAY, Graph
from kbn.placement.kernels.searching import WIDTH

Edge = tuple[int, int, int]


def finder(count: int, edges: list[Edge], room_bytes: int = 2**20) -> MedoidFinder:
    table = np.array(edges, dtype=np.int64).reshape(-1, 3)
    ends = table[:, :2].astype(np.int32)
    return MedoidFinder(Graph.of(count, ends[:, 0], ends[:, 1], table[:, 2]), room_bytes)


def name(node: int) -> str:
    return f"{node:05d}"


def as_names(count: int, edges: list[Edge]) -> dict[str, dict[str, int]]:
    graph: dict[str, dict[str, int]] = {name(node): {} for node in range(count)}
    for one, other, weight in edges:
        if one != other:
            known = graph[name(one)].get(name(other), weight)
            graph[name(one)][name(other)] = min(weight, known)
    return graph


def a_graph(rng: random.Random, count: int) -> list[Edge]:
    """Like an ontology: a forest both ways, shortcuts, one-way leaves, and odd edges."""
    up, down = rng.choice([(1, 1), (100, 100), (7, 30), (100, 3)])
    edges: list[Edge] = []
    for node in range(1, count):
        for _ in range(rng.choice([0, 1, 1, 1, 1, 2])):
            parent = rng.randrange(max(0, node - rng.choice([3, 50])), node)
            edges.append((node, parent, up))
            edges.append((parent, node, down))
    for _ in range(count // 5):
        one, other = rng.randrange(count), rng.randrange(count)
        edges.append((one, other, rng.randint(1, 3)))
        if rng.random() < 0.5:
            edges.append((other, one, rng.randint(1, 3)))
    return edges


def assert_agree(count: int, edges: list[Edge], found: MedoidFinder, sets: list[list[int]]) -> None:
    between = oracle.all_distances(as_names(count, edges))
    of_set = [number for number, nodes in enumerate(sets) for _ in nodes]
    nodes = [node for query in sets for node in query]
    arrays = (np.array(numbers, dtype=np.int64) for numbers in (of_set, nodes, [1] * len(nodes)))
    answers = found.find(len(sets), *arrays)
    for number, query in enumerate(sets):
        expected = oracle.medoid(between, [name(node) for node in query], between)
        got = int(answers.node[number])
        assert (name(got) if got >= 0 else None) == expected.term, (query, expected)
        assert answers.cost[number] == expected.cost
        assert answers.reached[number] == expected.reached
        assert answers.terms[number] == expected.terms
        assert answers.spread(number) == pytest.approx(expected.spread, abs=1e-9)


def query_sets(rng: random.Random, count: int, sets: int) -> list[list[int]]:
    most = [0, 1, 2, 3, 5, 12]
    return [[rng.randrange(count) for _ in range(rng.choice(most))] for _ in range(sets)]


@pytest.mark.parametrize("nodes", [1, 2, 3, 10, 60, 200])
@pytest.mark.parametrize("round_", range(4))
def test_the_medoids_of_a_random_graph_are_those_of_the_oracle(
    nodes: int, round_: int, seed: int
) -> None:
    rng = random.Random(f"{seed} {nodes} {round_}")
    edges = a_graph(rng, nodes)
    found = finder(nodes, edges)
    for _ in range(2):  # what was remembered for the first serves the second
        assert_agree(nodes, edges, found, query_sets(rng, nodes, 25))


def test_a_finder_with_little_room_forgets_and_still_agrees(seed: int) -> None:
    rng = random.Random(seed)
    edges = a_graph(rng, 80)
    found = finder(80, edges, room_bytes=80 * 2 * 20)
    for _ in range(8):
        assert_agree(80, edges, found, [[rng.randrange(80) for _ in range(6)] for _ in range(2)])


def test_a_finder_with_no_room_searches_from_the_candidates(seed: int) -> None:
    rng = random.Random(seed)
    count = COLUMNS // 8
    edges = a_graph(rng, count)
    assert_agree(count, edges, finder(count, edges, room_bytes=0), query_sets(rng, count, 30))


def test_more_candidates_than_fit_in_one_go_are_all_looked_at() -> None:
    # A ring, so that nothing is a pendant; the two best lie at its far ends.
    count = COLUMNS + 300
    edges = [(one, (one + 1) % count, 1) for one in range(count)]
    edges += [((one + 1) % count, one, 1) for one in range(count)]
    found = finder(count, edges, room_bytes=0)
    for middle in (5, count // 2, count - 5):
        nodes = np.array([middle - 3, middle + 3, middle, middle], dtype=np.int64)
        answers = found.find(1, np.zeros(4, dtype=np.int64), nodes, np.ones(4, dtype=np.int64))
        assert answers.node[0] == middle
        assert answers.cost[0] == 6


@pytest.mark.slow
def test_distances_that_pass_sixteen_bits_are_found() -> None:
    count = 900
    chain = [(one, one + 1, 100) for one in range(count - 1)]
    chain += [(other, one, 100) for one, other, _ in chain]
    chain.append((0, 1, 1))  # so that 100 is not the unit
    assert_agree(count, chain, finder(count, chain), [[0, count - 1], [3, 3, 700], [5, 890, 899]])


@pytest.mark.parametrize("room_bytes", [0, 400, 2**20])
def test_distances_between_nodes_are_those_of_the_oracle(room_bytes: int, seed: int) -> None:
    rng = random.Random(f"{seed} {room_bytes}")
    for count in (1, 2, 30, 90):
        edges = a_graph(rng, count)
        between = oracle.all_distances(as_names(count, edges))
        starts = np.array([rng.randrange(count) for _ in range(20)])
        ends = np.array([rng.randrange(count) for _ in range(WIDTH + 9)])
        found = finder(count, edges, room_bytes).between(starts, ends)
        assert found.tolist() == [
            [between[name(one)].get(name(other), NO_WAY) for other in ends] for one in starts
        ]


def test_distances_between_nodes_may_pass_sixteen_bits() -> None:
    chain = [(one, one + 1, 100) for one in range(899)] + [(0, 1, 1)]
    found = finder(900, chain).between(np.array([0, 899]), np.array([899, 0, 2]))
    assert found.tolist() == [[89801, 0, 101], [0, NO_WAY, NO_WAY]]


def test_how_often_a_term_is_named_counts_as_naming_it_so_often(seed: int) -> None:
    rng = random.Random(seed)
    edges = a_graph(rng, 50)
    sets = query_sets(rng, 50, 20)
    found = finder(50, edges)
    pairs = [(number, node) for number, query in enumerate(sets) for node in query]
    distinct = sorted(set(pairs))
    counts = [pairs.count(pair) for pair in distinct]
    one_by_one = found.find(len(sets), *columns(pairs), np.ones(len(pairs), dtype=np.int64))
    at_once = found.find(len(sets), *columns(distinct), np.array(counts, dtype=np.int64))
    for answer in ("node", "cost", "squares", "terms", "reached"):
        assert getattr(one_by_one, answer).tolist() == getattr(at_once, answer).tolist()


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return table[:, 0].copy(), table[:, 1].copy()


@pytest.mark.slow
def test_a_set_so_large_that_its_cost_does_not_fit_is_refused() -> None:
    found = finder(2, [(0, 1, 100), (1, 0, 100), (1, 0, 3)])
    zero, many = np.zeros(1, dtype=np.int64), np.array([10**10], dtype=np.int64)
    with pytest.raises(LimitError, match="10,000,000,000 terms"):
        found.find(1, zero, zero, many)
    millions = np.array([10**6], dtype=np.int64)
    assert found.find(1, zero, zero, millions).terms[0] == 10**6
