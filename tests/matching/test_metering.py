"""Matching in parts answers as matching at once, whatever comes and goes between the parts."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.matching import worlds
from tests.matching.agreement import assert_match_agrees
from tests.matching.worlds import World, iri, load

from kbn.errors import InvalidInputError
from kbn.filters import (
    Bag,
    Composite,
    Constraint,
    Filter,
    Notification,
    Operator,
    Subscription,
    matches_by_definition,
)
from kbn.matching import Matcher, Meter, OutOfWork, indexed_subscriptions, metered
from kbn.ontology import Class, Term

PARTS_MAX = 20_000


class Changing:
    """A matcher whose subscriptions come and go, and what the oracle says of them."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = Random(seed)
        self.matcher = Matcher(world.ontology)
        self.live: dict[Any, Subscription] = {}
        self.added = 0

    def add(self, count: int) -> None:
        for _ in range(count):
            sizes = [1 + self.random.randrange(2) for _ in range(1 + self.random.randrange(2))]
            drawn = [[self.random.randrange(10_000) for _ in range(size)] for size in sizes]
            made = self.world.subscription(drawn)
            self.added += 1
            try:
                self.matcher.add(made, self.added)
            except InvalidInputError:
                continue
            self.live[self.added] = made

    def remove(self, count: int) -> None:
        for _ in range(min(count, len(self.live))):
            key = self.random.choice(list(self.live))
            self.matcher.remove(key)
            del self.live[key]

    def change(self) -> None:
        change = self.random.choice([self.add, self.remove, self.churn])
        change(1 + self.random.randrange(3))

    def churn(self, count: int) -> None:
        """So much comes and goes that the matcher is compacted now and then."""
        self.add(10 * count)
        self.remove(10 * count)

    def expected(self, notification: Notification) -> set[Any]:
        return {
            key
            for key, asked in self.live.items()
            if any(
                matches_by_definition(part, notification, self.world.ontology)
                for part in asked.filters
            )
        }

    def match_in_parts(self, notification: Notification, units: int) -> tuple[list[Any], int]:
        """The keys, and how many parts it took; now and then something changes in between."""
        match = self.matcher.match_in_parts(notification)
        for parts in range(1, PARTS_MAX):
            if match.go_on(units):
                return match.keys(), parts
            assert match.spent > 0, "each part must come further"
            if parts < 30 and self.random.random() < 0.3:
                self.change()
        raise AssertionError("it does not end")


def large(world: World, random: Random) -> Notification:
    """A notification with more in its bags than the kernels look at."""
    found = dict(world.random_notification(random).attributes)
    for name in ("m", "s"):
        pool = [item for value in world.values[name] for item in _items(value)]
        found[name] = Bag(*(random.choice(pool) for _ in range(80)))
    return Notification(found)


def _items(value: Any) -> tuple[Any, ...]:
    return tuple(value.items) if isinstance(value, Bag) else (value,)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("make", [worlds.world_of, worlds.bag_world_of])
def test_a_match_in_parts_agrees_with_the_oracle_while_subscriptions_change(
    make: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexed_subscriptions, "COMPACT_MIN", 8)
    changing = Changing(make(seed), seed)
    changing.add(60)
    took = 0
    for n in range(6):
        drawn = changing.world.random_notification(changing.random)
        notification = large(changing.world, changing.random) if n % 2 else drawn
        keys, parts = changing.match_in_parts(notification, changing.random.choice([10, 25, 400]))
        took = max(took, parts)
        assert len(keys) == len(set(keys))
        assert set(keys) == changing.expected(notification)
        assert_match_agrees(changing.matcher, changing.live, notification, changing.world.ontology)
    assert took > 10, "nothing was divided"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("make", [worlds.world_of, worlds.bag_world_of])
def test_a_metered_batch_agrees_with_one_by_one(make: Any, seed: int) -> None:
    changing = Changing(make(seed), seed)
    changing.add(60)
    batch = [large(changing.world, changing.random) for _ in range(3)]
    meter = Meter(0)
    for _ in range(PARTS_MAX):
        meter.begin_part(50, overdraws=True)
        try:
            with metered(meter):
                found = changing.matcher.match_groups(batch)
            break
        except OutOfWork:
            assert meter.spent > 0
    for notification, groups in zip(batch, found, strict=True):
        assert set(changing.matcher.keys_of_groups(groups)) == changing.expected(notification)


def test_elements_that_are_made_on_the_way_are_not_taken_for_one_another() -> None:
    """Bare terms are given their kind for a moment: each such value had the address of the one
    before it, and got that one's answers.
    """
    ontology = load("\n".join(f":C{n} a owl:Class ." for n in range(8)))
    asked = Matcher(ontology)
    differs = Composite(Operator.SUPER_BAG, Operator.NE)
    for n in range(8):
        operand = Bag(Class(iri(f"C{n}")))
        asked.add(Filter([Constraint("a", differs, operand)]), n)
    with metered(Meter(1e9)):
        found = asked.match({"a": Bag(Term(iri("C4")), Term(iri("C5")))})
    assert set(found) == set(range(8)), "each class differs from one of the two"


def test_a_match_ends_though_every_turn_brings_another_constraint() -> None:
    asked = Matcher()
    asked.add("a #> {'w7'}", "old")
    match = asked.match_in_parts(Notification({"a": Bag(*(f"w{n}" for n in range(2_000)))}))
    for n in range(50):
        asked.add(f"a #> {{'x{n}'}}", n)
        if match.go_on(500):
            break
    assert match.keys() == ["old"]


def test_a_question_larger_than_a_part_is_asked_alone_or_not_at_all() -> None:
    asked = Matcher()
    asked.add("a * 'b'", "one")
    text = "a" * 100_000
    match = asked.match_in_parts(Notification({"a": text}))
    assert not match.go_on(50, overdraws=False) and match.spent <= 50
    assert match.go_on(50) and match.spent > 50
    assert match.keys() == []
