"""Inverted lists by hand find what the index finds on the literature workload."""

from __future__ import annotations

from kbn.lab.baselines.inverted import InvertedLists
from kbn.lab.workloads.literature import Literature
from kbn.matching import Matcher


def test_inverted_lists_agree_with_the_index() -> None:
    literature = Literature(classes=600, upper=24, journals=20)
    assert literature.ontology is not None
    lists, matcher = InvertedLists(literature.ontology), Matcher(literature.ontology)
    for chunk in literature.subscriptions(3000, seed=3):
        matcher.add_many(chunk)
        for subscription, key in chunk:
            lists.add(subscription, key)
    table = literature.notifications(60, seed=7)
    pairs = matcher.match_batch(table).to_pydict()
    expected = sorted(zip(pairs["notification"], pairs["key"], strict=True))
    found = sorted(
        (row, key)
        for row, article in enumerate(table.to_pylist())
        for key in lists.match(article["terms"], article["year"], article["journal"])
    )
    assert len(found) > 1000
    assert found == expected
