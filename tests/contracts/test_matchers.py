"""What every matcher does: it finds the subscriptions whose filters accept a notification.

The suite runs for the plain scan, the index, the index copied and saved, and a view of a store.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from pathlib import Path
from random import Random

import pytest
from tests.matching.worlds import World, world_of

from kbn.errors import InvalidInputError
from kbn.filters import (
    Constraint,
    Filter,
    Notification,
    Subscription,
    matches_by_definition,
    resolve_terms,
)
from kbn.matching import LinearScan, Matcher, SubscriptionStore, notification_table
from kbn.ontology import Ontology

Wanted = Mapping[str, Subscription]


class Case(ABC):
    """One kind of matcher: how it comes to hold subscriptions, and how it is asked."""

    def __init__(self, directory: Path, ontology: Ontology | None) -> None:
        self.directory = directory
        self.ontology = ontology

    @abstractmethod
    def hold(self, wanted: Wanted) -> None:
        """Have these subscriptions and no others."""

    @abstractmethod
    def match(self, notification: Notification) -> list[Hashable]:
        """The keys found, as often as they are."""


class Scanned(Case):
    def hold(self, wanted: Wanted) -> None:
        self.matcher: LinearScan | Matcher = self.empty()
        for key, subscription in wanted.items():
            self.matcher.add(subscription, key)

    def empty(self) -> LinearScan | Matcher:
        return LinearScan(self.ontology)

    def match(self, notification: Notification) -> list[Hashable]:
        return list(self.matcher.match(notification))


class Indexed(Scanned):
    def empty(self) -> Matcher:
        return Matcher(self.ontology)


class LoadedInBulk(Scanned):
    def hold(self, wanted: Wanted) -> None:
        self.matcher = Matcher(self.ontology)
        self.matcher.add_many([(subscription, key) for key, subscription in wanted.items()])


class Copied(Indexed):
    def hold(self, wanted: Wanted) -> None:
        super().hold(wanted)
        assert isinstance(self.matcher, Matcher)
        changed, self.matcher = self.matcher, self.matcher.snapshot()
        changed.add(Filter(), "added after the snapshot")


class Saved(Indexed):
    def hold(self, wanted: Wanted) -> None:
        super().hold(wanted)
        assert isinstance(self.matcher, Matcher)
        self.matcher.save(self.directory / "saved")
        self.matcher = Matcher.load(self.directory / "saved", self.ontology)


class Stored(Case):
    def hold(self, wanted: Wanted) -> None:
        self.store = SubscriptionStore.create(self.directory / "store", self.ontology)
        added = [(key, "ann", json.dumps(asked.to_json())) for key, asked in wanted.items()]
        self.version = self.store.change(add=added) if added else 0

    def match(self, notification: Notification) -> list[Hashable]:
        found = self.store.at(self.version).matches(notification_table([notification]))
        keys: list[Hashable] = found["subscription"].to_pylist()
        return keys


CASES = [Scanned, Indexed, LoadedInBulk, Copied, Saved, Stored]


def is_known(constraint: Constraint, ontology: Ontology | None) -> bool:
    try:
        resolve_terms(constraint, ontology)
    except InvalidInputError:
        return False
    return True


def random_wanted(world: World, random: Random, count: int) -> dict[str, Subscription]:
    usable = [each for each in world.constraints if is_known(each, world.ontology)]
    return {
        f"s{number}": Subscription(
            [
                Filter(random.choices(usable, k=random.randrange(1, 4)))
                for _ in range(random.choice((1, 1, 2, 3)))
            ]
        )
        for number in range(count)
    }


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("number", range(6))
def test_it_finds_what_the_definition_says_and_each_once(
    case: type[Case], number: int, tmp_path: Path
) -> None:
    world, random = world_of(number), Random(number)
    wanted = random_wanted(world, random, 60)
    matcher = case(tmp_path, world.ontology)
    matcher.hold(wanted)
    for _ in range(12):
        notification = world.random_notification(random)
        expected = {
            key
            for key, asked in wanted.items()
            if any(matches_by_definition(f, notification, world.ontology) for f in asked.filters)
        }
        found = matcher.match(notification)
        assert set(found) == expected
        assert len(found) == len(expected)


@pytest.mark.parametrize("case", CASES)
def test_with_no_subscriptions_it_finds_nothing(case: type[Case], tmp_path: Path) -> None:
    matcher = case(tmp_path, None)
    matcher.hold({})
    assert matcher.match(Notification({"price": 5})) == []


@pytest.mark.parametrize("case", CASES)
def test_the_empty_filter_accepts_everything(case: type[Case], tmp_path: Path) -> None:
    matcher = case(tmp_path, None)
    matcher.hold({"all": Subscription(Filter()), "dear": Subscription.parse("price > 9")})
    assert matcher.match(Notification({"price": 5})) == ["all"]
    assert sorted(map(str, matcher.match(Notification({"price": 10})))) == ["all", "dear"]


@pytest.mark.parametrize("case", [Scanned, Indexed, LoadedInBulk, Saved])
def test_a_key_is_used_once_and_removed_once(case: type[Scanned], tmp_path: Path) -> None:
    holder = case(tmp_path, None)
    cheap = Subscription.parse("price < 9")
    holder.hold({"ann": cheap, "bob": cheap})
    with pytest.raises(InvalidInputError, match="in use"):
        holder.matcher.add(cheap, "ann")
    holder.matcher.remove("ann")
    assert holder.match(Notification({"price": 5})) == ["bob"]
    with pytest.raises(InvalidInputError, match="no subscription"):
        holder.matcher.remove("ann")
    holder.matcher.add(cheap, "ann")
    assert set(holder.match(Notification({"price": 5}))) == {"ann", "bob"}


def test_a_snapshot_cannot_be_changed(tmp_path: Path) -> None:
    holder = Copied(tmp_path, None)
    holder.hold({"ann": Subscription.parse("price < 9")})
    with pytest.raises(InvalidInputError, match="read-only"):
        holder.matcher.remove("ann")
    assert holder.match(Notification({"price": 5})) == ["ann"]
