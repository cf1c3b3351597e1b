"""An index that is made anew in steps answers as one that never was."""

from __future__ import annotations

import gc
import pickle
from random import Random
from weakref import ref

import pytest

from kbn.filters import Notification, Subscription
from kbn.matching import Matcher, Poset, indexed_subscriptions, renewal
from kbn.matching.invariants import check_invariants
from kbn.matching.linear_scan import LinearScan
from kbn.matching.matcher import subscriptions_of


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexed_subscriptions, "AT_ONCE_MAX", 100)
    monkeypatch.setattr(indexed_subscriptions, "COMPACT_MIN", 50)
    monkeypatch.setattr("kbn.matching.placement.REBUILD_MIN", 200)
    monkeypatch.setattr(renewal, "TAKEN_OVER", 40)
    monkeypatch.setattr(renewal, "ENTERED", 5)
    monkeypatch.setattr(renewal, "ARRANGED", 60)


def some_text(random: Random) -> str:
    n = random.randrange(40)
    kinds = [
        f"a = {n}",
        f"a > {n} and a < {n + 9}",
        f"a > {n} and b < {random.randrange(40)}",
        f"c = 't{n}' and b != {n}",
        f"c *> 't{n % 7}' or a = {n} and b > {random.randrange(40)}",
        f"d * 'x{n}'",
    ]
    return random.choice(kinds)


def some_notification(random: Random) -> Notification:
    return Notification(
        {
            "a": random.randrange(50),
            "b": random.randrange(40),
            "c": f"t{random.randrange(40)}",
            "d": f"...x{random.randrange(40)}...",
        }
    )


@pytest.mark.parametrize("number", range(6))
def test_whatever_comes_and_goes_between_the_steps_it_answers_as_the_linear_scan(
    seed: int, number: int
) -> None:
    random = Random(f"{seed}/{number}")
    matcher, plain = Matcher(in_parts=True), LinearScan()
    keys: list[int] = []
    renewed = steps = 0
    grows = True
    for step in range(2_500):
        if len(keys) > 800 or (not grows and len(keys) < 100):
            grows = not grows
        if not keys or random.random() < (0.85 if grows else 0.15):
            subscription = Subscription.parse(some_text(random))
            matcher.add(subscription, step)
            plain.add(subscription, step)
            keys.append(step)
        else:
            key = keys.pop(random.randrange(len(keys)))
            matcher.remove(key)
            plain.remove(key)
        if matcher.is_renewing and random.random() < 0.4:
            matcher.renew()
            steps += 1
            renewed += not matcher.is_renewing
        if step % 20 == 0:
            asked = some_notification(random)
            assert sorted(matcher.match(asked)) == sorted(plain.match(asked))
    assert renewed >= 3 and steps > 10 * renewed
    check_invariants(matcher)
    held = subscriptions_of(matcher)
    assert held.index.groups.subscription_count <= 2 * len(keys) + 300


def test_a_match_in_parts_goes_on_over_a_renewal() -> None:
    matcher = Matcher(in_parts=True)
    for n in range(300):
        matcher.add(f"title * 'tea {n}.'", n)
    match = matcher.match_in_parts(Notification({"title": 20 * "a pot of tea 7. tea 8. "}))
    assert not match.go_on(20)
    assert matcher.is_renewing
    matcher.remove(7)
    matcher.add("title * 'pot'", "new")
    for n in range(200, 300):
        matcher.remove(n)
    while matcher.is_renewing:
        matcher.renew()
    assert match.go_on(10_000)
    assert match.keys() == [8, "new"]


def test_a_match_in_parts_lists_what_it_found_before_a_renewal() -> None:
    matcher = Matcher(in_parts=True)
    for n in range(300):
        matcher.add(f"price > {n}", n)
    match = matcher.match_in_parts(Notification({"price": 1_000}))
    assert match.go_on(1_000)
    assert match.take_keys(100) == list(range(100))
    matcher.remove(150)
    while matcher.is_renewing:
        matcher.renew()
    assert match.take_keys(1_000) == [*range(100, 150), *range(151, 300)]


def test_a_snapshot_stays_as_it_was_when_a_renewal_ends() -> None:
    matcher = Matcher(in_parts=True)
    for n in range(300):
        matcher.add(f"price > {n}", n)
    snapshot = matcher.snapshot()
    matcher.remove(3)
    assert matcher.is_renewing
    while matcher.is_renewing:
        matcher.renew()
    matcher.add("price > 5", "new")
    assert sorted(snapshot.match({"price": 5})) == [0, 1, 2, 3, 4]
    assert sorted(matcher.match({"price": 5})) == [0, 1, 2, 4]
    assert len(pickle.loads(pickle.dumps(snapshot)).match({"price": 5})) == 5


def test_no_step_of_a_renewal_grows_with_the_index() -> None:
    """But for laying out the trie, which is counted by its nodes."""

    def largest(size: int) -> int:
        matcher = Matcher(in_parts=True)
        most = 0
        for n in range(size):
            matcher.add(f"a > {n % 97} and b < {n % 101} and c > {n} and c < {n + 5}", n)
            while matcher.is_renewing:
                most = max(most, matcher.renew())
        return most

    assert largest(250) <= 5_000
    assert largest(3_000) <= 5_000


def test_a_covering_order_in_parts_is_the_same_over_a_renewal() -> None:
    in_parts, at_once = Poset(in_parts=True), Poset()
    renewed = 0
    for n in range(600):
        for poset in (in_parts, at_once):
            poset.add(f"a = {n % 331} and b = {n}", n)
        if in_parts.is_renewing:
            in_parts.renew()
            renewed += not in_parts.is_renewing
        if n % 7 == 0:
            for poset in (in_parts, at_once):
                poset.remove(n)
    for poset in (in_parts, at_once):
        poset.add("a < 100", "wide")
    while in_parts.has_more:
        in_parts.go_on()
    assert renewed
    assert set(in_parts.roots) == set(at_once.roots)
    in_parts.check_invariants()


def test_few_subscriptions_of_many_filters_are_taken_over_some_filters_at_a_time() -> None:
    matcher = Matcher(in_parts=True)
    for n in range(40):
        matcher.add(" or ".join(f"a = {n} and b{m} < {n}" for m in range(30)), n)
    held = subscriptions_of(matcher)
    assert matcher.is_renewing and held._renewal is not None
    fresh, steps = held._renewal.index.groups, 0
    while matcher.is_renewing:
        before = fresh.entry_count
        matcher.renew()
        assert fresh.entry_count - before <= 40
        steps += 1
    assert steps > 40
    assert sorted(matcher.match({"a": 7, "b3": 1})) == [7]
    check_invariants(matcher)


def test_filters_of_many_constraints_are_taken_over_fewer_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(renewal, "WORDS", 200)
    monkeypatch.setattr("kbn.matching.placement.REBUILD_MIN", 10)
    matcher = Matcher(in_parts=True)
    for n in range(20):
        matcher.add(" and ".join(f"a{m} = {n}" for m in range(90)), n)
    held = subscriptions_of(matcher)
    assert matcher.is_renewing and held._renewal is not None
    fresh = held._renewal.index.groups
    while matcher.is_renewing:
        before = fresh.entry_count
        matcher.renew()
        assert fresh.entry_count - before <= 2
    assert sorted(matcher.match({f"a{m}": 7 for m in range(90)})) == [7]


def test_nothing_of_a_renewal_stays_for_the_garbage_search() -> None:
    gc.collect()
    gc.disable()
    try:
        matcher = Matcher(in_parts=True)
        for n in range(300):
            matcher.add(f"a = {n} and b < {n}", n)
        held = subscriptions_of(matcher)
        renewal = ref(held._renewal)
        assert renewal() is not None
        while matcher.is_renewing:
            matcher.renew()
        assert renewal() is None
        for n in range(300, 900):
            matcher.add(f"a = {n} and b < {n}", n)
        assert matcher.is_renewing
        index = ref(held.index)
        del matcher, held
        assert index() is None
    finally:
        gc.enable()
