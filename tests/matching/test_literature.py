"""The seven kinds of interest in articles: the index agrees with asking each filter."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kbn.filters import Notification, Subscription
from kbn.lab.measuring import rows_as_notifications
from kbn.lab.workloads.literature import Literature
from kbn.matching import Matcher
from kbn.matching import index as index_module
from kbn.matching.matcher import subscriptions_of

COUNT = 4000


@pytest.fixture(scope="module")
def literature() -> Literature:
    return Literature(classes=600, upper=24, journals=20)


@pytest.fixture(scope="module")
def interests(literature: Literature) -> dict[int, Subscription]:
    return {
        key: subscription
        for chunk in literature.subscriptions(COUNT, seed=3)
        for subscription, key in chunk
    }


def test_articles_find_those_interested_while_some_come_and_go(
    literature: Literature,
    interests: dict[int, Subscription],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    random = Random(5)
    matcher = Matcher(literature.ontology)
    first = dict(list(interests.items())[: COUNT * 3 // 4])
    matcher.add_many([(subscription, key) for key, subscription in first.items()])
    wanted = dict(interests)
    for key in range(len(first), COUNT):
        matcher.add(interests[key], key)
    for key in random.sample(range(COUNT), COUNT // 4):
        matcher.remove(key)
        del wanted[key]
    table = literature.notifications(40, seed=7)
    expected = [
        {key for key, asked in wanted.items() if asked.matches(article, literature.ontology)}
        for article in rows_as_notifications(table, 40)
    ]
    assert sum(map(len, expected)) > 40
    assert found_in_batch(matcher, table) == expected
    for hits_per_row in (0, 1 << 20):  # the trie is walked once, and for each article
        monkeypatch.setattr(index_module, "HITS_PER_ROW", hits_per_row)
        assert found_in_batch(matcher, table) == expected
    articles: list[Notification] = list(rows_as_notifications(table, 40))
    assert [set(matcher.match(article)) for article in articles] == expected
    by_group = matcher.match_groups(articles)
    assert [set(matcher.keys_of_groups(groups)) for groups in by_group] == expected


def found_in_batch(matcher: Matcher, table: Any) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(table.num_rows)]
    pairs = matcher.match_batch(table, expand=True).to_pydict()
    for row, key in zip(pairs["notification"], pairs["key"], strict=True):
        found[row].add(key)
    return found


def test_filters_that_ask_for_one_term_are_in_the_trie() -> None:
    # An article hits some of so many terms that a slab's rows would hardly tell filters apart.
    literature = Literature(kinds=("plain", "exact", "above"), classes=600)
    matcher = Matcher(literature.ontology)
    for chunk in literature.subscriptions(3000, seed=3):
        matcher.add_many([(one, key) for one, key in chunk if len(one.filters[0].constraints) == 1])
    assert subscriptions_of(matcher).index.slabs.count == 0
