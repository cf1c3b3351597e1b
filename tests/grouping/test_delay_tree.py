"""Dissemination trees: bounds and slots are kept, as peers come and go."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.grouping.fixed_links import all_alike, constant, grown, most_kept, skewed

from kbn import InvalidInputError
from kbn.grouping import Bound, DelayTree, Distribution, MeasuredLinks
from kbn.grouping.placing import EFFORT


def test_who_is_in_a_hurry_is_fed_first_and_feeds_the_patient() -> None:
    line = constant({(a, b): float(abs(a - b)) for a, b in itertools.combinations(range(4), 2)})
    tree = grown(line, [None, Bound(1), Bound(2), Bound(3)], [1, 1, 1, 0])
    assert [tree.path(peer) for peer in (1, 2, 3)] == [[0, 1], [0, 1, 2], [0, 1, 2, 3]]
    assert tree.satisfaction().fraction == 1 and tree.depth_of(3) == 3


def test_a_newcomer_in_a_hurry_takes_the_place_of_a_patient_one() -> None:
    tree = DelayTree(all_alike(3), 0, slots=1)
    tree.join(2, Bound(9), 1)
    placed = tree.join(1, Bound(1), 1)
    assert placed.is_admitted and placed.moves == {1: 0, 2: 1}
    assert tree.path(2) == [0, 1, 2]


def test_who_is_admitted_is_told_how_sure_it_is() -> None:
    links = MeasuredLinks()
    links.report("root", "ann", [0.01] * 97 + [0.05] * 2)
    placed = DelayTree(links, "root", 1).join("ann", Bound(0.02, 0.95), 0)
    assert placed.is_admitted and placed.reason == ""
    assert placed.probability == pytest.approx(0.97) and placed.best_within == 0.01


def test_a_bound_nobody_can_keep_is_best_effort_with_a_reason_and_the_best_bound() -> None:
    tree = DelayTree(all_alike(2, 5.0), 0, slots=1)
    placed = tree.join(1, Bound(3), 0)
    assert (placed.is_admitted, placed.parent, placed.best_within) == (False, 0, 5.0)
    assert "nobody could reach it within 3" in placed.reason and placed.probability == 0


def test_a_place_that_others_need_is_not_taken_from_them() -> None:
    tree = DelayTree(all_alike(3), 0, slots=1)
    tree.join(1, Bound(1), 1)
    placed = tree.join(2, Bound(1), 1)
    assert not placed.is_admitted and "are taken by peers who need them" in placed.reason
    assert (placed.best_within, tree.is_satisfied(1)) == (2.0, True)


def test_a_full_tree_has_newcomers_wait_until_there_is_a_slot() -> None:
    tree = DelayTree(all_alike(4), 0, slots=1)
    tree.join(1, Bound(9), 0)
    placed = tree.join(2, Bound(9), 0)
    assert (placed.parent, placed.best_within, tree.waiting) == (None, math.inf, (2,))
    assert "waits" in placed.reason
    assert tree.join(3, Bound(9), 2).moves.keys() == {1, 2, 3} and not tree.waiting
    tree.check_invariants()


def test_a_peer_whose_links_nobody_measured_waits() -> None:
    tree = DelayTree(MeasuredLinks(), "root", 1)
    placed = tree.join("ann", Bound(1), 1)
    assert placed.parent is None and "measured" in placed.reason


def test_a_peer_on_whom_others_depend_can_leave_a_full_tree() -> None:
    tree = grown(all_alike(4), [None, Bound(1), Bound(9), Bound(9)], [1, 2, 0, 0])
    assert set(tree.edges()) == {(0, 1), (1, 2), (1, 3)}
    moves = tree.leave(1)
    assert sorted(moves.values(), key=str) == [0, None] and len(tree.waiting) == 1
    tree.check_invariants()
    tree.leave(next(iter(tree.waiting)))
    assert len(tree) == 1 and not tree.waiting


def test_slots_that_suffice_do_so_in_any_order() -> None:
    """A chain: one slot each, and the last has none; who feeds nobody is in the greatest hurry."""
    bounds = [None, Bound(1), *[Bound(2)] * 4]
    tree = grown(all_alike(6), bounds, [1, 0, 1, 1, 1, 1])
    tree.check_invariants()
    assert len(tree.edges()) == 5 and tree.children_of(1) == frozenset()


def test_without_a_bound_a_peer_takes_what_is_left() -> None:
    tree = grown(all_alike(4), [None, None, Bound(1), Bound(2)], [1, 1, 1, 1])
    assert tree.path(1) == [0, 2, 3, 1] and tree.satisfaction().satisfied == 3


def test_an_entry_delays_everybody_and_a_later_one_is_noticed() -> None:
    tree = DelayTree(all_alike(2), 0, 1, entry=Distribution.exactly(2.0))
    assert tree.join(1, Bound(3), 0).is_admitted
    tree.set_entry(Distribution.exactly(3.0))
    assert not tree.is_satisfied(1) and tree.promised(1) == 4.0


def test_links_measured_again_change_what_is_promised_below_them() -> None:
    links = MeasuredLinks(value_max=100)
    for pair in itertools.combinations("rab", 2):
        links.report(*pair, [1.0] * 99)
    tree = DelayTree(links, "r", 1)
    tree.join("a", Bound(1), 1)
    tree.join("b", Bound(2), 1)
    links.report("r", "a", [5.0] * 99)
    tree.measured_again(["a"])
    tree.check_invariants()
    assert not tree.is_satisfied("a") and not tree.is_satisfied("b")
    assert tree.promised("b") >= 6


def test_a_restored_tree_is_the_same_and_moves_nobody() -> None:
    links = skewed(1, 30)
    rng = np.random.default_rng(1)
    bounds = [None, *(Bound(float(each)) for each in rng.uniform(40, 150, 29))]
    tree = grown(links, bounds, [3, *rng.integers(0, 4, 29).tolist()])
    again = DelayTree(links, 0, 3)
    again.restore(
        (peer, tree.parent_of(peer), tree.bound_of(peer), tree.slots_of(peer))
        for peer in range(29, 0, -1)
    )
    again.check_invariants()
    assert set(again.edges()) == set(tree.edges()) and again.waiting == tree.waiting
    assert again.satisfaction() == tree.satisfaction()


def test_what_contradicts_itself_waits_and_then_gets_a_place() -> None:
    tree = DelayTree(all_alike(6), 0, slots=1)
    told = [(1, 2, None, 2), (2, 1, None, 2), (3, 0, None, 2), (4, 0, None, 2), (5, 99, None, 2)]
    tree.restore(told)
    assert tree.edges() == [(0, 3)] and set(tree.waiting) == {1, 2, 4, 5}
    assert set(tree.attach_waiting()) == {1, 2, 4, 5}
    tree.check_invariants()
    assert not tree.waiting


def test_candidates_are_connected_peers_the_source_first_and_no_more_than_asked_for() -> None:
    tree = grown(skewed(2, 40), [None, *[Bound(200)] * 39], [4] * 40)
    found = tree.candidates(10)
    assert len(found) == len(set(found)) == 10 and found[0] == 0
    assert all(peer in tree for peer in found[1:])
    assert len(tree.candidates(100)) == 40 and tree.candidates(1) == [0]


@pytest.mark.parametrize(
    ("within", "probability"), [(0, 0.9), (-1, 0.9), (math.inf, 0.9), (1, 1.0), (1, 0.2)]
)
def test_what_is_no_bound_is_refused(within: float, probability: float) -> None:
    with pytest.raises(InvalidInputError):
        Bound(within, probability)


def test_a_peer_joins_once_with_slots_that_are_a_number() -> None:
    tree = DelayTree(all_alike(3), 0, 2)
    tree.join(1, None, 0)
    for peer, slots, said in ((1, 0, "there already"), (0, 0, "there already"), (2, -1, "slots")):
        with pytest.raises(InvalidInputError, match=said):
            tree.join(peer, None, slots)
    with pytest.raises(InvalidInputError, match="there already"):
        tree.join_all([(2, None, 0), (2, None, 0)])
    for act in (tree.leave, tree.crash, tree.path, tree.promised, tree.parent_of):
        with pytest.raises(InvalidInputError, match="not in the tree"):
            act(2)
    assert len(tree) == 1


# Against all trees there are.


@pytest.mark.parametrize("kind", ["as grown", "one by one"])
def test_small_trees_keep_nearly_all_that_the_best_tree_keeps(kind: str) -> None:
    kept = most = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        bounds = [None, *(Bound(float(each), 0.9) for each in rng.uniform(20, 90, 4))]
        slots = [int(rng.integers(1, 3)), *rng.integers(0, 3, 4).tolist()]
        links = skewed(seed, 5)
        tree = grown(links, bounds, slots) if kind == "as grown" else DelayTree(links, 0, slots[0])
        for peer in range(1, 5):
            if kind == "one by one":
                tree.join(peer, bounds[peer], slots[peer])
        tree.repair()
        tree.rebalance()
        if not tree.waiting:
            best = most_kept(links, bounds, slots)
            assert tree.satisfaction().satisfied <= best, seed
            kept += tree.satisfaction().satisfied
            most += best
    assert kept >= 0.9 * most > 0, (kept, most)


# As peers come and go.

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["join", "leave", "crash", "repair", "rebalance"]), st.integers(1, 24)
    ),
    max_size=40,
)


@given(steps=STEPS, seed=st.integers(0, 3), tight=st.booleans(), full=st.booleans())
def test_whatever_happens_the_tree_holds(
    steps: list[tuple[str, int]], seed: int, tight: bool, full: bool
) -> None:
    """Leaving always works, repairing loses nothing, slots are kept, moves say what changed."""
    rng = np.random.default_rng(seed)
    bounds = rng.uniform(20, 60 if tight else 150, 25)
    slots = rng.integers(0, 2 if full else 4, 25).tolist()
    tree = DelayTree(WORLDS[seed], 0, 2)
    parents: dict[object, object] = {}
    for what, peer in steps:
        before = tree.satisfaction().satisfied
        if what in ("repair", "rebalance"):
            moves = tree.repair() if what == "repair" else tree.rebalance()
            assert tree.satisfaction().satisfied >= before
        elif peer in tree:
            moves = tree.leave(peer) if what == "leave" else tree.crash(peer)
            parents.pop(peer)
        else:
            parents[peer] = None
            placed = tree.join(peer, Bound(float(bounds[peer]), 0.9), slots[peer])
            moves = placed.moves
            assert placed.is_admitted == tree.is_satisfied(peer) == (placed.reason == "")
            assert not placed.is_admitted or placed.probability >= 0.9
        parents.update(moves)
        tree.check_invariants()
        assert parents == {each: tree.parent_of(each) for each in parents}
        assert set(tree.waiting) == {each for each, parent in parents.items() if parent is None}


WORLDS = [skewed(seed, 25) for seed in range(4)]


class CountingLinks(MeasuredLinks):
    """Counts the sums that a tree computes: each asks for one link."""

    sums = 0

    def between(self, parent: object, child: object) -> Distribution | None:
        self.sums += 1
        return super().between(parent, child)


@pytest.mark.parametrize("slots", [0, 1, 2])
def test_a_join_costs_a_bounded_number_of_sums_however_large_the_tree(slots: int) -> None:
    """Bounds that cannot all be kept, and one slot each: places are sought among long chains."""
    links = CountingLinks(value_max=1000)
    rng = np.random.default_rng(1)
    tree = DelayTree(links, 0, 2)
    most = 0
    for peer in range(1, 250):
        for other in tree.candidates(12, Bound(40)):
            links.report(peer, other, rng.lognormal(1, 0.3, 24).tolist())
        links.sums = 0
        tree.join(peer, Bound(float(rng.uniform(10, 60))), slots if peer % 3 else 1)
        most = max(most, links.sums)
    tree.check_invariants()
    assert most <= 2 * (EFFORT + 40), most
