"""The matcher, whatever was added, removed, copied and loaded before, answers as `LinearScan` does.

After each step the answers are compared notification by notification, key by key, group by group,
one at a time and in a batch.
"""

from __future__ import annotations

import shutil
from collections.abc import Hashable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.matching import worlds
from tests.matching.agreement import assert_batch_agrees, assert_match_agrees
from tests.matching.worlds import World

from kbn.errors import InvalidInputError
from kbn.filters import Notification, Subscription, resolve_terms
from kbn.matching import LinearScan, Matcher
from kbn.matching.invariants import check_invariants
from kbn.matching.matcher import subscriptions_of


class MatcherAgreesWithLinearScan(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(mkdtemp(prefix="kbn-matching-"))
        self.removed: list[Subscription] = []
        self.frozen: list[tuple[Matcher, LinearScan]] = []
        self.added = self.saved = 0

    @initialize(world=worlds.worlds)
    def begin(self, world: World) -> None:
        note(f"world {world.number}: {world.ontology}")
        self.world = world
        self.matcher = Matcher(world.ontology)
        self.oracle = LinearScan(world.ontology)
        self.live: dict[Hashable, Subscription] = {}

    def teardown(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    @rule(filters=worlds.subscriptions)
    def add(self, filters: list[list[int]]) -> None:
        self._add(self.world.subscription(filters))

    @rule(position=st.integers(0, 50))
    @precondition(lambda self: self.removed)
    def add_again(self, position: int) -> None:
        self._add(self.removed[position % len(self.removed)])

    @rule(position=st.integers(0, 50))
    @precondition(lambda self: self.live)
    def add_what_another_has(self, position: int) -> None:
        self._add(list(self.live.values())[position % len(self.live)])

    @rule(many=st.lists(worlds.subscriptions, max_size=12))
    def add_many(self, many: list[list[list[int]]]) -> None:
        made = [self.world.subscription(filters) for filters in many]
        pairs = [(subscription, self._key()) for subscription in made]
        note(f"add_many {pairs}")
        try:
            for subscription in made:
                resolve_terms(subscription, self.world.ontology)
        except InvalidInputError as error:
            with pytest.raises(type(error)):
                self.matcher.add_many(pairs)
            return
        assert self.matcher.add_many(iter(pairs)) == len(pairs)
        self.oracle.add_many(pairs)
        self.live.update((key, subscription) for subscription, key in pairs)

    @rule(position=st.integers(0, 50))
    @precondition(lambda self: self.live)
    def remove(self, position: int) -> None:
        key = list(self.live)[position % len(self.live)]
        self.matcher.remove(key)
        self.oracle.remove(key)
        self.removed.append(self.live.pop(key))

    @rule(contents=st.lists(worlds.contents, min_size=1, max_size=6))
    def publish(self, contents: list[list[int | None]]) -> None:
        published = [self.world.notification(positions) for positions in contents]
        for notification in published:
            note(f"publish {notification}")
            assert_match_agrees(self.matcher, self.live, notification, self.world.ontology)
            for copy, oracle in self.frozen:
                assert set(copy.match(notification)) == oracle.match(notification)
        assert_batch_agrees(self.matcher, published)

    @rule()
    def build_anew(self) -> None:
        subscriptions_of(self.matcher).index.rebuild()

    @rule()
    @precondition(lambda self: len(self.frozen) < 2)
    def take_snapshot(self) -> None:
        self.frozen.append((self.matcher.snapshot(), self._frozen_oracle()))

    @rule()
    @precondition(lambda self: self.saved < 2)
    def save_and_go_on_with_the_loaded_one(self) -> None:
        self.saved += 1
        target = self.directory / f"saved-{self.saved}"
        self.matcher.save(target)
        self.matcher = Matcher.load(target, self.world.ontology)

    @invariant()
    def sizes_and_structure_are_right(self) -> None:
        if hasattr(self, "matcher"):
            assert len(self.matcher) == len(self.live)
            check_invariants(self.matcher)
            for copy, _ in self.frozen:
                check_invariants(copy)

    def _add(self, subscription: Subscription) -> None:
        key = self._key()
        note(f"add {key} {subscription}")
        try:
            resolve_terms(subscription, self.world.ontology)
        except InvalidInputError as error:
            with pytest.raises(type(error)):
                self.matcher.add(subscription, key)
            assert key not in self.matcher
            return
        self.matcher.add(subscription, key)
        self.oracle.add(subscription, key)
        self.live[key] = subscription

    def _key(self) -> str:
        self.added += 1
        return f"k{self.added}"

    def _frozen_oracle(self) -> LinearScan:
        copy = LinearScan(self.world.ontology)
        copy.add_many((subscription, key) for key, subscription in self.live.items())
        return copy


TestMatcherAgreesWithLinearScan: Any = MatcherAgreesWithLinearScan.TestCase
TestMatcherAgreesWithLinearScan.settings = settings(
    stateful_step_count=25, suppress_health_check=list(HealthCheck)
)


def test_every_operator_occurs_in_the_worlds() -> None:
    """The machine above is only as good as its worlds."""
    from kbn.filters.operators import Operator

    seen: set[str] = set()
    for number in range(12):
        for constraint in worlds.world_of(number).constraints:
            seen.add(constraint.operator.symbol)
    assert {operator.symbol for operator in Operator} <= seen
    assert any(symbol.count("/") == 2 for symbol in seen)
    assert any(symbol.startswith("!") and "/" in symbol for symbol in seen)


def test_hits_are_frequent_in_the_worlds() -> None:
    from random import Random

    hits = tried = 0
    random = Random(1)
    for number in range(8):
        world = worlds.world_of(number)
        for _ in range(20):
            notification: Notification = world.random_notification(random)
            for position in range(0, worlds.CONSTRAINTS_MAX, 4):
                hits += world.filter([position]).matches(notification, world.ontology)
                tried += 1
    assert 0.1 < hits / tried < 0.6
