"""The poset's roots are the maximal filters by `Filter.covers`, whatever was added and removed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.matching import worlds
from tests.matching.worlds import World, load

from kbn.errors import InvalidInputError, UnknownTermError
from kbn.filters import Bag, Constraint, Filter, Subscription, resolve_terms
from kbn.matching.poset import Poset, PosetChange
from kbn.ontology import Class, Ontology


class Order:
    """`Filter.covers` with a memory: brute force asks about the same pairs again and again."""

    def __init__(self, ontology: Ontology | None = None) -> None:
        self._ontology = ontology
        self._known: dict[tuple[Filter, Filter], bool] = {}

    def covers(self, wider: Filter, narrower: Filter) -> bool:
        pair = (wider, narrower)
        if pair not in self._known:
            self._known[pair] = wider.covers(narrower, self._ontology)
        return self._known[pair]

    def equivalent(self, one: Filter, other: Filter) -> bool:
        return self.covers(one, other) and self.covers(other, one)

    def maximal(self, filters: Iterable[Filter]) -> list[Filter]:
        """One of each class of equivalent filters that nothing else covers, by brute force."""
        distinct: list[Filter] = []
        for part in dict.fromkeys(filters):
            if not any(self.equivalent(part, known) for known in distinct):
                distinct.append(part)
        return [
            part
            for part in distinct
            if not any(self.covers(other, part) for other in distinct if other is not part)
        ]


def assert_roots_are_right(poset: Poset, subscriptions: Iterable[Subscription], by: Order) -> None:
    roots = list(poset.roots)
    stored = list(dict.fromkeys(part for asked in subscriptions for part in asked.filters))
    for root in roots:
        assert sum(by.covers(other, root) for other in roots) == 1, f"{root} is covered"
        assert any(by.equivalent(root, part) for part in stored), f"nobody asked for {root}"
    for part in stored:
        assert any(by.covers(root, part) for root in roots), f"{part} is not covered"
    expected = by.maximal(stored)
    assert len(roots) == len(expected)
    for part in expected:
        assert any(by.equivalent(part, root) for root in roots), f"{part} is no root"


class PosetKeepsTheMaximalFilters(RuleBasedStateMachine):
    @initialize(world=worlds.worlds)
    def begin(self, world: World) -> None:
        note(f"world {world.number}: {world.ontology}")
        self.world = world
        self.poset = Poset(world.ontology)
        self.order = Order(world.ontology)
        self.live: dict[Hashable, Subscription] = {}
        self.upstream: set[Filter] = set()
        self.added = 0

    @rule(filters=worlds.subscriptions)
    def add(self, filters: list[list[int]]) -> None:
        self._add(self.world.subscription(filters))

    @rule(at=st.lists(worlds.positions, max_size=2))
    def add_a_small_filter(self, at: list[int]) -> None:
        self._add(self.world.subscription([at]))

    @rule(position=st.integers(0, 50), more=worlds.positions)
    @precondition(lambda self: self.live)
    def add_a_narrower_one(self, position: int, more: int) -> None:
        known = list(self.live.values())[position % len(self.live)]
        narrower = [
            Filter([*part.constraints, *self.world.filter([more]).constraints])
            for part in known.filters
        ]
        self._add(Subscription(narrower))

    @rule(position=st.integers(0, 50))
    @precondition(lambda self: self.live)
    def add_the_same_again(self, position: int) -> None:
        self._add(list(self.live.values())[position % len(self.live)])

    @rule(position=st.integers(0, 50))
    @precondition(lambda self: self.live)
    def remove(self, position: int) -> None:
        key = list(self.live)[position % len(self.live)]
        note(f"remove {key}")
        self._apply(self.poset.remove(key))
        del self.live[key]

    @invariant()
    def roots_are_right(self) -> None:
        if not hasattr(self, "poset"):
            return
        assert len(self.poset) == len(self.live)
        assert_roots_are_right(self.poset, self.live.values(), self.order)
        assert self.upstream == set(self.poset.roots)
        assert len(self.poset.roots) == len(set(self.poset.roots))

    def _add(self, subscription: Subscription) -> None:
        self.added += 1
        key = f"k{self.added}"
        note(f"add {key} {subscription}")
        try:
            resolve_terms(subscription, self.world.ontology)
        except InvalidInputError as error:
            with pytest.raises(type(error)):
                self.poset.add(subscription, key)
            return
        self.live[key] = subscription
        self._apply(self.poset.add(subscription, key))

    def _apply(self, change: PosetChange) -> None:
        note(f"{change}")
        for part in change.withdraw:
            assert part in self.upstream, f"{part} was never sent"
            self.upstream.remove(part)
        for part in change.send:
            assert part not in self.upstream, f"{part} was sent already"
            self.upstream.add(part)


TestPosetKeepsTheMaximalFilters: Any = PosetKeepsTheMaximalFilters.TestCase
TestPosetKeepsTheMaximalFilters.settings = settings(
    stateful_step_count=15, suppress_health_check=list(HealthCheck)
)


def below(bound: int) -> Filter:
    return Filter([Constraint("x", "<", bound)])


def test_a_wider_filter_withdraws_what_it_covers() -> None:
    poset = Poset()
    assert poset.add(below(5), "five").send == (below(5),)
    quiet = poset.add(below(3), "three")
    assert (quiet.send, quiet.withdraw) == ((), ())
    change = poset.add(below(9), "nine")
    assert (change.send, change.withdraw) == ((below(9),), (below(5),))
    assert poset.roots == (below(9),)


def test_removing_the_wide_one_sends_the_next_widest_again() -> None:
    poset = Poset()
    for bound in (3, 9, 5):
        poset.add(below(bound), bound)
    change = poset.remove(9)
    assert (change.send, change.withdraw) == ((below(5),), (below(9),))
    quiet = poset.remove(3)
    assert (quiet.send, quiet.withdraw) == ((), ())
    assert poset.roots == (below(5),)
    assert poset.remove(5).withdraw == (below(5),)
    assert len(poset.roots) == len(poset) == 0


def test_equal_filters_are_sent_once_and_withdrawn_with_the_last() -> None:
    poset = Poset()
    assert poset.add(below(5), "a").send == (below(5),)
    assert poset.add(below(5), "b").send == ()
    assert poset.remove("a").withdraw == ()
    assert poset.remove("b").withdraw == (below(5),)


def test_equivalent_filters_merge_into_one_entry() -> None:
    ontology = load(":A a owl:Class . :B a owl:Class ; owl:equivalentClass :A .")
    poset = Poset(ontology)
    first = Filter([Constraint("x", "@>", Class("urn:t#A"))])
    second = Filter([Constraint("x", "@>", Class("urn:t#B"))])
    assert poset.add(first, "a").send == (first,)
    assert poset.add(second, "b").send == ()
    assert poset.roots == (first,)
    change = poset.remove("a")
    # Whoever represents the class now, upstream has exactly one equivalent filter.
    assert len(poset.roots) == 1
    assert (first in change.withdraw) == (first not in poset.roots)
    assert poset.remove("b").withdraw
    assert len(poset.roots) == 0


def test_the_empty_filter_covers_everything() -> None:
    poset = Poset()
    poset.add(Subscription([below(3), Filter([Constraint("y", "=", 1)])]), "two")
    change = poset.add(Filter(), "all")
    assert change.send == (Filter(),)
    assert set(change.withdraw) == {below(3), Filter([Constraint("y", "=", 1)])}
    change = poset.remove("all")
    assert set(change.send) == {below(3), Filter([Constraint("y", "=", 1)])}


def test_bags_cover_through_the_ontology() -> None:
    ontology = load(":A a owl:Class . :B a owl:Class ; rdfs:subClassOf :A .")
    wide = Filter([Constraint("x", "#>/@>", Bag(Class("urn:t#A")))])
    narrow = Filter([Constraint("x", "#>/@>", Bag(Class("urn:t#B"), Class("urn:t#A")))])
    poset = Poset(ontology)
    poset.add(narrow, "narrow")
    change = poset.add(wide, "wide")
    assert (change.send, change.withdraw) == ((wide,), (narrow,))


@pytest.mark.parametrize(
    ("operator", "wide", "narrow"),
    [
        ("#>/*", Bag("", ""), Bag("abc", "x")),
        ("#>/any", Bag(1, 2), Bag(5, 6)),
        ("#>/!=", Bag(3, 3), Bag(1, 2, 4)),
        ("#>/#>", Bag(Bag(), Bag(1)), Bag(Bag(1, 2), Bag(3))),
    ],
)
def test_a_composite_covers_a_plain_bag(operator: str, wide: Bag, narrow: Bag) -> None:
    wider, narrower = (
        Filter([Constraint("x", operator, wide)]),
        Filter([Constraint("x", "#>", narrow)]),
    )
    assert wider.covers(narrower)
    for order in ([wider, narrower], [narrower, wider]):
        poset = Poset()
        for key, part in enumerate(order):
            poset.add(part, key)
        assert poset.roots == (wider,)


def test_a_first_range_on_an_attribute_is_asked_about_before_it_is_stored() -> None:
    plain = Constraint("x", "=", "a")
    poset = Poset()
    poset.add(Filter([plain]), "a")
    poset.add(Filter([plain, Constraint("x", "any")]), "the same")  # asks, and adds no entry
    assert not poset.add(Filter([plain, Constraint("y", "<", 3)]), "b")
    assert poset.roots == (Filter([plain]),)


def test_a_filter_that_says_one_thing_twice_can_be_removed() -> None:
    poset = Poset()
    twice = Filter([Constraint("x", "#>", Bag("p")), Constraint("x", "#>", Bag("p", "q"))])
    poset.add(twice, "twice")
    assert poset.remove("twice").withdraw == (twice,)
    assert poset.roots == ()


def test_errors_leave_the_poset_as_it_was() -> None:
    ontology = load(":A a owl:Class .")
    poset = Poset(ontology)
    poset.add(below(3), "a")
    unknown = Filter([Constraint("x", "@>", Class("urn:t#AA"))])
    with pytest.raises(UnknownTermError, match="AA"):
        poset.add(Subscription([below(9), unknown]), "b")
    with pytest.raises(InvalidInputError, match="'a'"):
        poset.add(below(9), "a")
    with pytest.raises(InvalidInputError, match="'c'"):
        poset.remove("c")
    with pytest.raises(InvalidInputError):
        poset.add(3, "d")  # type: ignore[arg-type]
    assert poset.roots == (below(3),)
    assert len(poset) == 1


@given(world=worlds.worlds, attribute=st.sampled_from(worlds.ATTRIBUTES), number=st.integers(0))
def test_crowded_posets_are_right(world: World, attribute: str, number: int) -> None:
    """One attribute and small filters: nearly everything covers something, or is equivalent."""
    random = Random(number)
    mine = [
        c for c in world.constraints if c.attribute == attribute and is_known(c, world.ontology)
    ]
    poset, order = Poset(world.ontology), Order(world.ontology)
    live: dict[int, Subscription] = {}
    upstream: set[Filter] = set()
    for step in range(40):
        if live and random.random() < 0.4:
            key = random.choice(list(live))
            note(f"remove {key}")
            change = poset.remove(key)
            del live[key]
        else:
            parts = [
                Filter(random.choices(mine, k=random.choice((1, 1, 1, 2, 3))))
                for _ in range(random.choice((1, 1, 2)))
            ]
            live[step] = Subscription(parts)
            note(f"add {step} {live[step]}")
            change = poset.add(live[step], step)
        assert not set(change.send) & upstream
        assert set(change.withdraw) <= upstream
        upstream = (upstream - set(change.withdraw)) | set(change.send)
        assert upstream == set(poset.roots)
        assert_roots_are_right(poset, live.values(), order)


def is_known(constraint: Constraint, ontology: Ontology | None) -> bool:
    try:
        resolve_terms(constraint, ontology)
    except InvalidInputError:
        return False
    return True


def test_many_ranges_keep_only_the_widest(seed: int) -> None:
    random = Random(seed)
    poset = Poset()
    live: dict[int, Filter] = {}
    upstream: set[Filter] = set()
    order = Order()
    for number in range(400):
        if live and random.random() < 0.35:
            key = random.choice(list(live))
            change = poset.remove(key)
            del live[key]
        else:
            low, width = random.randrange(60), random.randrange(20)
            constraints = [Constraint("x", ">=", low), Constraint("x", "<=", low + width)]
            if random.random() < 0.5:
                constraints.append(Constraint("k", "=", random.choice("ab")))
            live[number] = Filter(constraints)
            change = poset.add(live[number], number)
        upstream = (upstream - set(change.withdraw)) | set(change.send)
        assert upstream == set(poset.roots)
        if number % 40 == 39:
            assert_roots_are_right(poset, [Subscription(part) for part in live.values()], order)
