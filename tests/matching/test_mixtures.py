"""Filters that mix equalities of few values, ranges and negations: the index finds them all."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from kbn.filters import Bag, Constraint, Filter
from kbn.matching import Matcher, notification_table
from kbn.matching import index as index_module
from kbn.matching.invariants import check_invariants
from kbn.matching.kernels.slab import LANES_FIRST
from kbn.matching.kernels.slab_one import TOGETHER
from kbn.matching.matcher import subscriptions_of

WIDE = 60
"""Attributes of which a slab has so many lanes that few are looked at for most notifications."""


def _filter(random: Random, values: int, attributes: int = 8) -> Filter:
    constraints = []
    if attributes == WIDE and random.random() < 0.5:
        constraints.append(Constraint(f"b{random.randrange(3)}", "#>", Bag(random.randrange(4))))
    for attribute in random.sample(range(attributes), random.randint(1, 4)):
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


def _notification(random: Random, values: int, attributes: int = 8) -> dict[str, Any]:
    bags = {f"b{n}": Bag(random.randrange(4), random.randrange(4)) for n in range(3)}
    numbers = {
        f"a{attribute}": random.randrange(random.choice((values, 1000)))
        for attribute in random.sample(range(attributes), random.randint(3, attributes))
    }
    return numbers | bags if attributes == WIDE else numbers


@pytest.mark.parametrize(("values", "attributes"), [(3, 8), (200, 8), (3, WIDE)])
def test_mixtures_agree_with_asking_each_filter_while_some_come_and_go(
    values: int, attributes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(values)
    filters = {key: _filter(random, values, attributes) for key in range(2500)}
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
    slabs = subscriptions_of(matcher).index.slabs
    assert slabs.count > 1000
    lanes = np.diff(slabs.lane_start[: slabs.slab_count + 1])
    assert bool(lanes.max() > 2 * LANES_FIRST) is (attributes == WIDE)
    notifications = [_notification(random, values, attributes) for _ in range(40)]
    expected = [
        {key for key, asked in filters.items() if asked.matches(notification)}
        for notification in notifications
    ]
    assert [set(matcher.match(notification)) for notification in notifications] == expected
    for hits_per_row in (0, 1 << 20):  # the trie is walked once, and for each notification
        monkeypatch.setattr(index_module, "HITS_PER_ROW", hits_per_row)
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
