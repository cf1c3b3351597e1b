"""Filters that mix equalities of few values, ranges and negations: the index finds them all."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kbn.filters import Constraint, Filter
from kbn.matching import Matcher, notification_table
from kbn.matching.invariants import check_invariants
from kbn.matching.kernels.slab_one import TOGETHER
from kbn.matching.matcher import subscriptions_of


def _filter(random: Random, values: int) -> Filter:
    constraints = []
    for attribute in random.sample(range(8), random.randint(1, 4)):
        name, kind = f"a{attribute}", random.random()
        low = random.randrange(1000)
        if kind < 0.4:
            constraints.append(Constraint(name, "=", random.randrange(values)))
        elif kind < 0.5:
            constraints.append(Constraint(name, "!=", random.randrange(values)))
        else:
            constraints.append(Constraint(name, ">=", low))
            if kind < 0.8:
                constraints.append(Constraint(name, "<", low + random.randrange(1, 400)))
    return Filter(constraints)


def _notification(random: Random, values: int) -> dict[str, Any]:
    return {
        f"a{attribute}": random.randrange(random.choice((values, 1000)))
        for attribute in random.sample(range(8), random.randint(3, 8))
    }


@pytest.mark.parametrize("values", [3, 200])
def test_mixtures_agree_with_asking_each_filter_while_some_come_and_go(values: int) -> None:
    random = Random(values)
    filters = {key: _filter(random, values) for key in range(2500)}
    matcher = Matcher()
    matcher.add_many([(filters[key], key) for key in range(2000)])
    check_invariants(matcher)
    for key in range(2000, 2500):
        matcher.add(filters[key], key)
    check_invariants(matcher)
    for key in random.sample(range(2500), 400):
        matcher.remove(key)
        del filters[key]
    check_invariants(matcher)
    assert subscriptions_of(matcher).index.slabs.count > 1000
    notifications = [_notification(random, values) for _ in range(40)]
    expected = [
        {key for key, asked in filters.items() if asked.matches(notification)}
        for notification in notifications
    ]
    assert [set(matcher.match(notification)) for notification in notifications] == expected
    found: list[set[Any]] = [set() for _ in notifications]
    pairs = matcher.match_batch(notification_table(notifications)).to_pydict()
    for row, key in zip(pairs["notification"], pairs["key"], strict=True):
        found[row].add(key)
    assert found == expected


def test_one_call_finds_what_a_batch_finds_where_slabs_are_many() -> None:
    random = Random(5)
    matcher = Matcher()
    matcher.add_many([(_filter(random, 5), key) for key in range(24_000)])
    for key in range(0, 24_000, 7):
        matcher.remove(key)
    for key in range(24_000, 24_100):
        matcher.add(_filter(random, 5), key)
    assert subscriptions_of(matcher).index.slabs.slab_count > TOGETHER
    notifications = [_notification(random, 5) for _ in range(20)]
    rows = matcher.match_batch(notification_table(notifications), expand=False).to_pydict()
    found: list[list[int]] = [[] for _ in notifications]
    for row, group in zip(rows["notification"], rows["group"], strict=True):
        found[row].append(group)
    for notification, groups in zip(notifications, found, strict=True):
        assert sorted(matcher.match(notification).group_ids.tolist()) == sorted(groups)
