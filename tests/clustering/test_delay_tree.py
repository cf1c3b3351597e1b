"""Dissemination trees: bounds and slots are kept, as peers come and go."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest

from kbn import InvalidInputError
from kbn.clustering.delay_tree import Delays, DelayTree


def measured(seed: int, size: int, jitter: float = 0.2) -> Delays:
    """Peers on a map: a link's delay is distance and a constant, its deviation a share of it."""
    dice = np.random.default_rng(seed)
    places = dice.random((size, 2)) * 50
    mean = np.linalg.norm(places[:, None] - places[None], axis=2) + 2
    np.fill_diagonal(mean, 0)
    return Delays(mean, (jitter * mean) ** 2)


def grown(seed: int, size: int = 200, slots: int = 3) -> DelayTree:
    dice = np.random.default_rng(seed + 1)
    bounds = dice.uniform(60, 200, size)
    tree = DelayTree(
        measured(seed, size),
        bounds,
        dice.integers(0, 2 * slots, size) + (np.arange(size) == 0) * slots,
    )
    tree.join_all(range(1, size))
    return tree


def test_who_is_in_a_hurry_is_fed_first_and_feeds_the_patient() -> None:
    line = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    tree = DelayTree(Delays(line, np.zeros((4, 4))), [0, 1, 2, 3], [1, 1, 1, 0])
    tree.join_all([3, 2, 1])
    assert [tree.path(peer) for peer in (1, 2, 3)] == [[0, 1], [0, 1, 2], [0, 1, 2, 3]]
    assert tree.satisfaction().fraction == 1


def test_a_newcomer_in_a_hurry_takes_the_place_of_a_patient_leaf() -> None:
    near = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]], float)
    tree = DelayTree(Delays(near, np.zeros((3, 3))), [0, 1, 9], [1, 1, 1])
    tree.join(2)
    tree.join(1)
    assert tree.path(2) == [0, 1, 2]


@pytest.mark.parametrize("number", range(4))
def test_slots_and_paths_hold_while_peers_come_and_go(number: int, seed: int) -> None:
    tree = grown(seed % 10_000 + number)
    random = Random(seed + number)
    away: list[int] = []
    for _ in range(120):
        if away and random.random() < 0.5:
            tree.join(away.pop(random.randrange(len(away))))
        else:
            peer = random.choice([p for p in range(1, 200) if p in tree])
            tree.leave(peer)
            away.append(peer)
        tree.check_invariants()
    assert len(tree) == 199 - len(away)


def test_no_more_bounds_hold_than_could() -> None:
    for seed in range(5):
        found = grown(seed).satisfaction()
        assert 0 < found.satisfied <= found.upper_bound <= found.subscribers


def test_the_promise_is_kept_as_often_as_it_says() -> None:
    tree = grown(7)
    dice = np.random.default_rng(0)
    kept = asked = 0
    for peer in range(1, 200):
        path = tree.path(peer)
        delays = next(tree._delays for _ in path)
        total = np.zeros(400)
        for a, b in itertools.pairwise(path):
            # Gamma: positive and skewed, as delays are, with the measured mean and variance.
            mean, variance = delays.mean[a, b], delays.variance[a, b]
            total += dice.gamma(mean**2 / variance, variance / mean, 400)
        kept += int(np.count_nonzero(total <= tree.promised(peer)))
        asked += 400
    assert 0.93 <= kept / asked <= 0.97


@pytest.mark.parametrize(
    ("bounds", "slots", "probability"),
    [([1, 2], [1, 1, 1], 0.95), ([1, 2, 3], [1, 1, 1], 1.0), ([1, 2, 3], [1, 1, 1], 0.2)],
)
def test_what_makes_no_tree_is_refused(
    bounds: list[float], slots: list[int], probability: float
) -> None:
    with pytest.raises(InvalidInputError):
        DelayTree(Delays(np.ones((3, 3)), np.zeros((3, 3))), bounds, slots, probability)


def test_a_peer_joins_once_and_a_full_tree_says_so() -> None:
    tree = DelayTree(Delays(np.ones((3, 3)), np.zeros((3, 3))), [0, 9, 9], [1, 0, 0])
    tree.join(1)
    with pytest.raises(InvalidInputError, match="cannot join"):
        tree.join(1)
    with pytest.raises(InvalidInputError, match="full"):
        tree.join(2)
    assert 2 not in tree
