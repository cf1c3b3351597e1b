"""Thousands of filters: rebuilds at doubling, several slabs, many bounds, late axes, compaction.

The oracle is the plain evaluator, asked about each distinct constraint once per notification.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable
from random import Random

import pytest
from tests.matching.agreement import assert_batch_agrees
from tests.matching.worlds import random_ontology, world_of

from kbn.filters import Bag, Constraint, Filter, Notification, Subscription
from kbn.filters.semantics import accepts_by_definition
from kbn.matching import Matcher
from kbn.matching.indexed_subscriptions import COMPACT_MIN
from kbn.matching.invariants import check_invariants
from kbn.matching.matcher import subscriptions_of
from kbn.ontology import Class, Ontology

SLAB = 4096


class Scan:
    """`LinearScan` for thousands: each distinct constraint is asked once per notification."""

    def __init__(self, ontology: Ontology | None) -> None:
        self.ontology = ontology
        self.subscriptions: dict[Hashable, Subscription] = {}

    def match(self, notification: Notification) -> set[Hashable]:
        known: dict[Constraint, bool] = {}

        def holds(constraint: Constraint) -> bool:
            answer = known.get(constraint)
            if answer is None:
                value = notification.attributes.get(constraint.attribute)
                answer = value is not None and accepts_by_definition(
                    constraint, value, self.ontology
                )
                known[constraint] = answer
            return answer

        return {
            key
            for key, subscription in self.subscriptions.items()
            if any(all(map(holds, part.constraints)) for part in subscription.filters)
        }


class Pair:
    """A matcher and its oracle, changed together."""

    def __init__(self, ontology: Ontology | None, random: Random) -> None:
        self.matcher = Matcher(ontology)
        self.oracle = Scan(ontology)
        self.random = random
        self.added = 0

    def add_many(self, subscriptions: list[Subscription]) -> None:
        pairs = [(asked, self._key()) for asked in subscriptions]
        self.matcher.add_many(pairs)
        self.oracle.subscriptions.update((key, asked) for asked, key in pairs)

    def add(self, asked: Subscription) -> None:
        key = self._key()
        self.matcher.add(asked, key)
        self.oracle.subscriptions[key] = asked

    def remove(self, count: int) -> None:
        for key in self.random.sample(list(self.oracle.subscriptions), count):
            self.matcher.remove(key)
            del self.oracle.subscriptions[key]

    def assert_agree(self, notifications: list[Notification]) -> int:
        total = 0
        for notification in notifications:
            expected = self.oracle.match(notification)
            matches = self.matcher.match(notification)
            assert set(matches) == expected, notification
            assert len(matches) == len(expected)
            total += len(expected)
        assert_batch_agrees(self.matcher, notifications)
        assert len(self.matcher) == len(self.oracle.subscriptions)
        return total

    def _key(self) -> str:
        self.added += 1
        return f"k{self.added}"


AXES = [f"x{n}" for n in range(7)]
GRID = [round(step / 40, 3) for step in range(-40, 161)]


def ranges(random: Random, axes: list[str], most: int = 3) -> Filter:
    """One to three ranges, closed or open, one-sided or two-sided, now and then with a token."""
    constraints = []
    for axis in random.sample(axes, random.randint(1, min(most, len(axes)))):
        low = random.choice(GRID)
        # A range has at least one side: a filter without any would match everything.
        sides = random.choice(("low", "high", "both", "both"))
        if sides != "high":
            constraints.append(Constraint(axis, random.choice((">", ">=")), low))
        if sides != "low":
            high = low + random.choice((0, 0.025, 0.5, 2.0))
            constraints.append(Constraint(axis, random.choice(("<", "<=")), high))
    if random.random() < 0.2:
        constraints.append(Constraint("kind", random.choice(("=", "!=")), random.choice("abcd")))
    if random.random() < 0.05:
        constraints.append(Constraint("tags", "#>/>=", Bag(*random.choices(range(4), k=2))))
    return Filter(constraints)


def point(random: Random, axes: list[str]) -> Notification:
    chosen = random.sample(axes, random.randint((len(axes) + 1) // 2, len(axes)))
    values: dict[str, object] = {axis: random.choice(GRID) for axis in chosen}
    if random.random() < 0.8:
        values["kind"] = random.choice("abcd")
    if random.random() < 0.8:
        values["tags"] = Bag(*random.choices(range(5), k=random.randrange(4)))
    if random.random() < 0.2:
        values[random.choice(axes)] = random.choice(("text", True, math.inf, -math.inf))
    return Notification(values)


def points(random: Random, axes: list[str], count: int) -> list[Notification]:
    return [point(random, axes) for _ in range(count)]


def test_ranges_in_several_slabs_agree_at_every_size(seed: int) -> None:
    random = Random(seed)
    pair = Pair(None, random)
    for step in (200, 1100, SLAB, 3000):
        pair.add_many([Subscription(ranges(random, AXES[:5])) for _ in range(step)])
        assert pair.assert_agree(points(random, AXES[:5], 6)) > 0
    assert subscriptions_of(pair.matcher).index.slabs.slab_count > 1
    for _ in range(300):
        pair.add(Subscription([ranges(random, AXES[:5]), ranges(random, AXES[:5])]))
    assert pair.assert_agree(points(random, AXES[:5], 6)) > 0
    check_invariants(pair.matcher)


def test_axes_that_appear_later_are_found(seed: int) -> None:
    random = Random(seed)
    pair = Pair(None, random)
    axes: list[str] = []
    for number in range(14):
        axes.append(f"late{number}")
        for _ in range(25):
            pair.add(Subscription(ranges(random, axes[-2:])))
        if number == 6:
            pair.add_many([Subscription(ranges(random, axes[-3:])) for _ in range(1500)])
        pair.assert_agree(points(random, axes, 2))


def test_removals_down_to_compaction_and_on(seed: int) -> None:
    random = Random(seed)
    pair = Pair(None, random)
    made = [Subscription(ranges(random, AXES[:3])) for _ in range(1500)]
    pair.add_many([*made, *made, *made])
    groups = subscriptions_of(pair.matcher).index.groups
    pair.remove(2000)
    pair.assert_agree(points(random, AXES[:3], 4))
    pair.remove(1200)
    assert subscriptions_of(pair.matcher).index.groups is not groups, "nothing was compacted"
    pair.assert_agree(points(random, AXES[:3], 4))
    check_invariants(pair.matcher)
    pair.add_many(made[:400])
    pair.assert_agree(points(random, AXES[:3], 4))
    pair.remove(len(pair.matcher))
    assert len(pair.matcher) == pair.matcher.group_count == 0
    pair.assert_agree(points(random, AXES[:3], 2))
    pair.add_many(made[:50])
    pair.assert_agree(points(random, AXES[:3], 4))


def test_compaction_keeps_subscriptions_of_several_filters(seed: int) -> None:
    random = Random(seed)
    matcher = Matcher()
    in_a_slab = Filter([Constraint("x0", ">", random.choice(GRID))])
    keep = Subscription([in_a_slab, Filter([Constraint("kind", "=", "a")])])
    filler = Subscription(Filter([Constraint("kind", "=", "filler")]))
    for number in range(COMPACT_MIN + 200):
        matcher.add(filler, number)
        if number % 300 == 0:
            matcher.add(keep, f"keep{number}")
    for number in range(COMPACT_MIN + 200):
        matcher.remove(number)
    matches = matcher.match({"kind": "a"})
    kept = range(0, COMPACT_MIN + 200, 300)
    assert set(matches) == {f"keep{number}" for number in kept}
    assert matcher.subscription("keep0").matches({"kind": "a"})
    assert not matcher.match({"kind": "filler"})


@pytest.mark.parametrize("number", [0, 3, 5])
def test_thousands_of_filters_of_a_world_agree(number: int, seed: int) -> None:
    world = world_of(number)
    random = Random(seed + number)
    pair = Pair(world.ontology, random)
    usable = [c for c in world.constraints if _is_accepted(c, world.ontology)]

    def subscription() -> Subscription:
        return Subscription(
            [
                Filter(random.choices(usable, k=random.randrange(1, 5)))
                for _ in range(random.choice((1, 1, 1, 2, 3)))
            ]
        )

    published = [world.random_notification(random) for _ in range(5)]
    for step in (700, 900, 2500):
        pair.add_many([subscription() for _ in range(step)])
        pair.assert_agree(published)
    pair.remove(1000)
    for _ in range(150):
        pair.add(subscription())
    pair.remove(2200)
    pair.assert_agree(published)
    check_invariants(pair.matcher)


def _is_accepted(constraint: Constraint, ontology: Ontology | None) -> bool:
    from kbn.errors import UnknownTermError
    from kbn.filters import resolve_terms

    try:
        resolve_terms(constraint, ontology)
    except UnknownTermError:
        return False
    return True


def test_deep_tries_of_shared_tokens_agree(seed: int) -> None:
    random = Random(seed)
    ontology = random_ontology(1)
    pair = Pair(ontology, random)

    def asked() -> Filter:
        words = random.sample([f"w{n}" for n in range(14)], random.randrange(6))
        category = Class(random.choice(ontology.classes))
        return Filter(
            [
                Constraint("keywords", "#>", Bag(*words)),
                Constraint("category", "#>/@>", Bag(category)),
            ]
        )

    pair.add_many([Subscription(asked()) for _ in range(5000)])
    published = [
        Notification(
            {
                "keywords": random.choices([f"w{n}" for n in range(14)], k=8),
                "category": [Class(random.choice(ontology.classes)) for _ in range(2)],
            }
        )
        for _ in range(6)
    ]
    assert pair.assert_agree(published) > 0
    pair.remove(2500)
    assert pair.assert_agree(published) > 0


def test_extreme_bounds_lay_a_sound_grid() -> None:
    largest = sys.float_info.max
    bounds = [-math.inf, -largest, -1.0, -5e-324, 0, 5e-324, 1, largest, math.inf, 2**63 - 1]
    filters = [
        Filter([Constraint("x", ">=", low), Constraint("x", "<", high), Constraint("y", "<", n)])
        for low in bounds
        for high in bounds
        for n in range(12)
    ]
    pair = Pair(None, Random(0))
    pair.add_many([Subscription(part) for part in filters])
    pair.assert_agree([Notification({"x": value, "y": 5}) for value in [*bounds, 0.5, -0.0]])


def test_a_filter_of_many_constraints_is_matched() -> None:
    constraints = [Constraint(f"a{n}", "=", n) for n in range(200)]
    matcher = Matcher()
    matcher.add(Filter(constraints), "all")
    matcher.add(Filter(constraints[:150]), "most")
    everything: dict[str, object] = {f"a{n}": n for n in range(200)}
    assert set(matcher.match(everything)) == {"all", "most"}
    assert set(matcher.match({**everything, "a199": 0})) == {"most"}
    assert set(matcher.match({**everything, "a0": 1})) == set()


def test_large_bags_are_matched() -> None:
    matcher = Matcher()
    matcher.add(Filter([Constraint("x", "#>/<", Bag(*range(100, 300)))]), "many partners")
    matcher.add(Filter([Constraint("x", "#>", Bag(*range(300)))]), "all of them")
    matcher.add(Filter([Constraint("x", "#<", Bag(*range(500)))]), "none else")
    assert set(matcher.match({"x": list(range(300))})) == {
        "many partners",
        "all of them",
        "none else",
    }
    assert set(matcher.match({"x": [299] * 200})) == set()
