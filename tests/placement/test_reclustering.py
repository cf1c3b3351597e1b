"""Re-clustering: moves save hops, keep the limits and end; small cases against all assignments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbn.errors import InvalidInputError
from kbn.placement import Assignment, Distances, Move, mean_hops, overlay_distances, propose_moves
from kbn.placement.balancing import load_limit

BROKERS = ["b1", "b2", "b3", "b4"]
CHAIN = overlay_distances(BROKERS, pairwise(BROKERS))


def hops(assignments: Sequence[Assignment], apart: Distances) -> float:
    return sum(n * apart.hops(s.broker, other) for s in assignments for other, n in s.heard.items())


def after(assignments: Sequence[Assignment], found: Sequence[Move]) -> list[Assignment]:
    new = {move.client: move.new for move in found}
    return [
        replace(assignment, broker=new.get(assignment.client, assignment.broker))
        for assignment in assignments
    ]


def loads(assignments: Sequence[Assignment]) -> Counter[str]:
    found: Counter[str] = Counter()
    for assignment in assignments:
        found[assignment.broker] += assignment.load  # type: ignore[assignment]
    return found


def drawn(
    rng: Random, count: int, brokers: int, *, equal: bool
) -> tuple[list[Assignment], Distances]:
    names = [f"b{n}" for n in range(brokers)]
    apart = overlay_distances(
        names, [(names[n], names[rng.randrange(n)]) for n in range(1, brokers)]
    )
    assignments = [
        Assignment(
            f"c{n}",
            rng.choice(names),
            {rng.choice(names): rng.randrange(6) for _ in range(rng.randrange(4))},
            1.0 if equal else rng.choice([0.0, 0.5, 1.0, 3.0]),
        )
        for n in range(count)
    ]
    return assignments, apart


@given(
    number=st.integers(0, 2**32),
    equal=st.booleans(),
    load_max=st.sampled_from([1.0, 1.5, 3.0]),
    gain_min=st.sampled_from([0.0, 1.0, 4.0]),
)
def test_moves_save_hops_keep_limits_and_end(
    number: int, equal: bool, load_max: float, gain_min: float
) -> None:
    rng = Random(number)
    assignments, apart = drawn(rng, rng.randrange(30), rng.randint(1, 6), equal=equal)
    others = {broker: float(rng.randrange(3)) for broker in apart.brokers}
    found = propose_moves(assignments, apart, load_max, gain_min=gain_min, others=others)
    moved = after(assignments, found)
    gained = hops(assignments, apart) - hops(moved, apart)
    assert gained == pytest.approx(sum(move.gain for move in found))
    assert gained >= gain_min * len(found) - 1e-6
    before, now = loads(assignments), loads(moved)
    total = sum(before.values()) + sum(others.values())
    limit = load_limit(load_max, total, len(apart.brokers))
    for broker in apart.brokers:
        had, has = before[broker] + others[broker], now[broker] + others[broker]
        assert has <= max(limit, had) + 1e-6, broker
    again = propose_moves(moved, apart, load_max, gain_min=gain_min, others=others)
    assert again == ()


def test_without_thresholds_few_clients_nearly_always_find_the_best_assignment(seed: int) -> None:
    """Exchanges are of two at a time: what takes a ring of three is missed."""
    rng, missed, tried = Random(seed), 0, 0
    while tried < 40:
        assignments, apart = drawn(rng, 5, 3, equal=True)
        limit = load_limit(1.2, 5.0, 3)
        if max(loads(assignments).values()) > limit:
            continue
        tried += 1
        found = after(
            assignments, propose_moves(assignments, apart, 1.2, mean_hops_max=1.0, gain_min=0.0)
        )
        assert max(loads(found).values()) <= limit
        missed += hops(found, apart) > best(assignments, apart, limit)
        assert hops(found, apart) >= best(assignments, apart, limit)
    assert missed <= 6, f"seed {seed}"


def best(assignments: Sequence[Assignment], apart: Distances, limit: float) -> float:
    """The fewest hops of all assignments that keep the limit."""
    found = []
    for way in product(apart.brokers, repeat=len(assignments)):
        if max(Counter(way).values()) <= limit:
            tried = [
                replace(assignment, broker=at)
                for assignment, at in zip(assignments, way, strict=True)
            ]
            found.append(hops(tried, apart))
    return min(found)


def test_a_misplaced_subscriber_goes_to_where_its_notifications_come_from() -> None:
    far = Assignment("ann", "b1", {"b4": 10, "b3": 1})
    assert mean_hops(far, CHAIN) == pytest.approx(43 / 11)
    others = dict.fromkeys(BROKERS, 5.0)
    assert propose_moves([far], CHAIN, others=others) == (Move("ann", "b1", "b4", 31.0),)


def test_who_is_not_misplaced_or_hears_nothing_stays() -> None:
    near = Assignment("ann", "b1", {"b1": 6, "b2": 6})
    assert mean_hops(near, CHAIN) == 1.5
    silent = Assignment("bob", "b1")
    assert mean_hops(silent, CHAIN) is None
    assert propose_moves([near, silent], CHAIN, 4.0, gain_min=0.0) == ()
    assert propose_moves([replace(near, heard={"b1": 6, "b2": 7})], CHAIN, 4.0, gain_min=0.0)


def test_a_small_gain_is_not_worth_a_move() -> None:
    assignment = Assignment("ann", "b1", {"b2": 3})
    assert propose_moves([assignment], CHAIN, 4.0, gain_min=3.1) == ()
    assert propose_moves([assignment], CHAIN, 4.0, gain_min=3.0) == (Move("ann", "b1", "b2", 3.0),)


def test_two_change_places_when_both_brokers_are_full() -> None:
    two = overlay_distances(["x", "y"], [("x", "y")])
    assignments = [Assignment("ann", "x", {"y": 4}), Assignment("bob", "y", {"x": 3})]
    assert propose_moves(assignments, two, 1.0) == (
        Move("ann", "x", "y", 4.0),
        Move("bob", "y", "x", 3.0),
    )
    # One that makes room may lose, if the other gains more.
    assignments = [Assignment("ann", "x", {"y": 9}), Assignment("bob", "y", {"y": 2})]
    assert propose_moves(assignments, two, 1.0) == (
        Move("ann", "x", "y", 9.0),
        Move("bob", "y", "x", -2.0),
    )
    assert propose_moves(assignments, two, 1.0, gain_min=4.0) == ()


def test_a_client_without_deliveries_makes_room_by_going_to_a_third_broker() -> None:
    assignments = [
        *(Assignment(f"p{n}", "b2") for n in range(2)),
        Assignment("ann", "b1", {"b2": 5}),
        Assignment("bob", "b1", {"b1": 5}),
    ]
    found = propose_moves(assignments, CHAIN, 2.0)
    assert {move.client: move.new for move in found}["ann"] == "b2"
    assert max(loads(after(assignments, found)).values()) <= 2


def test_publishers_and_subscribers_in_turn_meet() -> None:
    """The same function serves both sides: each by where the others are now."""
    subscribers = [Assignment("s1", "b1", {"b4": 3}), Assignment("s2", "b4", {"b1": 3})]
    publishers = [Assignment("p1", "b4", {"b1": 3}), Assignment("p2", "b1", {"b4": 3})]
    moved = propose_moves(publishers, CHAIN, 2.0, others={"b1": 1.0, "b4": 1.0})
    assert {move.client: move.new for move in moved} == {"p1": "b1", "p2": "b4"}
    now = [replace(s, heard={s.broker: 3}) for s in subscribers]
    assert propose_moves(now, CHAIN, 2.0, others={"b1": 1.0, "b4": 1.0}) == ()


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        ([Assignment("a", "nowhere")], "'nowhere'"),
        ([Assignment("a", "b1", {"nowhere": 1})], "'nowhere'"),
        ([Assignment("a", "b1"), Assignment("a", "b2")], "two assignments"),
        ([Assignment("a", "b1", {"b1": -1})], "from 0 up"),
        ([Assignment("a", "b1", {}, -1.0)], "from 0 up"),
    ],
)
def test_assignments_that_make_no_sense_are_refused(
    assignments: list[Assignment], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        propose_moves(assignments, CHAIN)


def test_a_negative_gain_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="not -1"):
        propose_moves([], CHAIN, gain_min=-1)
