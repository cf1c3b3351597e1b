"""The poset agrees with `Filter.covers` on equalities and ranges, as filters come and go.

Kernels decide most of these, so the mixtures have what they must not confuse: bounds that are equal
but for being open, integers that float64 cannot tell apart, equalities on attributes that have
ranges, contradictions, and among them constraints that only the oracle knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from tests.matching.test_poset import Order, assert_roots_are_right

from kbn.errors import InvalidInputError
from kbn.filters import Constraint, Filter, Subscription
from kbn.lab.workloads import workload
from kbn.matching import bulk_covering, root_lists
from kbn.matching.poset import Poset, PosetChange

BOUNDS = (
    *(-1, 0, -0.0, 0.5, 1, 1.0, 2, 3, 2**53, 2**53 + 1, 2.0**53, 2**63 - 1),
    *(1e308, float("inf"), float("-inf"), 5e-324),
)
MOMENTS = tuple(datetime(2026, 11, 17, tzinfo=UTC) + timedelta(microseconds=n) for n in range(4))
ODD = (
    *(("!=", 1), ("!=", "a"), ("any", None), (">*", ""), (">*", "a"), ("=", ""), ("=", True)),
    *(("<", "b"), ("=", b"a"), ("in", "ab"), ("=", "ab")),
)


def _constraint(random: Random, odd: float) -> Constraint:
    name = random.choice("abc")
    if random.random() < odd:
        return Constraint(name, *random.choice(ODD))
    operand = random.choice(random.choice((BOUNDS, BOUNDS, MOMENTS, ("a", "b"))))
    if isinstance(operand, str):
        return Constraint(name, "=", operand)
    return Constraint(name, random.choice(("=", "<", "<=", ">", ">=")), operand)


def _awkward(random: Random, odd: float = 0.0) -> Filter:
    return Filter([_constraint(random, odd) for _ in range(random.choice((1, 1, 2, 2, 3, 4)))])


def _mixed(random: Random) -> Filter:
    return _awkward(random, 0.3)


def _coarse(random: Random) -> Filter:
    """As `u20`, with so few attributes, values and places that filters cover one another."""
    constraints = []
    for number in random.sample(range(4), random.randint(1, 3)):
        if number < 2:
            constraints.append(Constraint(f"e{number}", "=", random.randrange(3)))
            continue
        low = random.randrange(8)
        if random.random() < 0.7:
            constraints.append(Constraint(f"r{number}", ">=", low / 8))
        if random.random() < 0.7 or not constraints:
            constraints.append(Constraint(f"r{number}", "<", (low + random.randint(1, 8)) / 8))
    return Filter(constraints)


def _chain(random: Random) -> Filter:
    return Filter([Constraint("x", "<", random.randrange(300))])


def _below_one(random: Random) -> Filter:
    if random.random() < 0.05:
        return Filter([Constraint("kind", "=", "book")])
    place = random.randrange(100)
    spot = [Constraint("x", ">", place), Constraint("x", "<", place + 1)]
    return Filter([Constraint("kind", "=", "book"), *spot])


def _incomparable(random: Random) -> Filter:
    """None of these covers another, and one in ten is covered by all of them."""
    if random.random() < 0.1:
        return Filter([Constraint("x", "<", -1), Constraint("y", "<", -1 - random.randrange(9))])
    place = random.randrange(200)
    return Filter([Constraint("x", "<", place), Constraint("y", "<", 200 - place)])


def _same_in_other_words(random: Random) -> Filter:
    bounds = [Constraint("x", "<", 5 + n) for n in range(random.randint(1, 4))]
    random.shuffle(bounds)
    return Filter([*bounds, Constraint("x", "<", 5.0)])


MIXTURES = (_awkward, _mixed, _coarse, _chain, _below_one, _incomparable, _same_in_other_words)


def _changes(
    make: Callable[[Random], Filter], random: Random, steps: int
) -> Iterator[tuple[str, int, Any]]:
    live: list[int] = []
    for step in range(steps):
        if live and random.random() < 0.4:
            yield "remove", live.pop(random.randrange(len(live))), None
        else:
            live.append(step)
            yield "add", step, make(random)


@pytest.mark.parametrize("make", MIXTURES)
@pytest.mark.parametrize("few", [1, 64])
def test_the_roots_are_right_as_filters_come_and_go(
    make: Callable[[Random], Filter], few: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root_lists, "FEW", few)
    poset, order = Poset(), Order()
    live: dict[int, Filter] = {}
    upstream: set[Filter] = set()
    for what, key, filter in _changes(make, Random(seed), 240):
        if what == "add":
            live[key] = filter
            change = poset.add(filter, key)
        else:
            del live[key]
            change = poset.remove(key)
        assert not set(change.send) & upstream and set(change.withdraw) <= upstream
        upstream = (upstream - set(change.withdraw)) | set(change.send)
        assert upstream == set(poset.roots)
        if key % 20 == 19:
            assert_roots_are_right(poset, [Subscription(part) for part in live.values()], order)
    poset.check_invariants()


@pytest.mark.parametrize("name", ["u20", "ranges", "podcast", "service"])
def test_the_roots_of_a_workload_are_right(name: str, seed: int) -> None:
    source = workload(name, 150)
    pairs = [pair for chunk in source.subscriptions(150, seed) for pair in chunk]
    poset, order = Poset(source.ontology), Order(source.ontology)
    live = dict.fromkeys(range(len(pairs)))
    for number, (subscription, _) in enumerate(pairs):
        poset.add(subscription, number)
    for number in range(0, len(pairs), 3):
        poset.remove(number)
        del live[number]
    assert_roots_are_right(poset, [pairs[number][0] for number in live], order)
    poset.check_invariants()


def _told(poset: Poset, upstream: set[Filter], change: PosetChange) -> set[Filter]:
    assert not set(change.send) & upstream and set(change.withdraw) <= upstream
    upstream = (upstream - set(change.withdraw)) | set(change.send)
    assert upstream == set(poset.roots)
    return upstream


@pytest.mark.parametrize("make", MIXTURES)
@pytest.mark.parametrize("run", [16, 4096])
def test_filters_that_come_in_bulk_are_settled_as_if_one_by_one(
    make: Callable[[Random], Filter], run: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_covering, "RUN", run)
    random, poset, order = Random(seed), Poset(), Order()
    live: dict[int, Filter] = {}
    upstream: set[Filter] = set()
    for bulk in range(3):
        pairs = [(make(random), 1000 * bulk + n) for n in range(60)]
        live.update((key, filter) for filter, key in pairs)
        upstream = _told(poset, upstream, poset.add_many(pairs))
        assert_roots_are_right(poset, [Subscription(part) for part in live.values()], order)
        for key in random.sample(sorted(live), 30):
            del live[key]
            upstream = _told(poset, upstream, poset.remove(key))
        assert_roots_are_right(poset, [Subscription(part) for part in live.values()], order)
        poset.check_invariants()


def test_a_bulk_with_an_error_changes_nothing() -> None:
    poset = Poset()
    poset.add("x < 5", "a")
    with pytest.raises(InvalidInputError, match="'a'"):
        poset.add_many([("x < 9", "b"), ("x < 7", "a")])
    with pytest.raises(InvalidInputError, match="'b'"):
        poset.add_many([("x < 9", "b"), ("x < 7", "b")])
    assert [str(root) for root in poset.roots] == ["x < 5"] and len(poset) == 1
    assert poset.add_many([]) == PosetChange()
