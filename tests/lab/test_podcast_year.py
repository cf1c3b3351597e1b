"""The podcast year: its overlay and workload are the source's, and its tables are the brokers'."""

from __future__ import annotations

import numpy as np
import pytest

from kbn import data
from kbn.lab.podcast_brokers import (
    ROOT,
    clusters_of_brokers,
    clusters_of_categories,
    level_of,
    parents,
)
from kbn.lab.podcast_year import (
    HOUR_S,
    Arrivals,
    Overlay,
    drawn_notification,
    publications_before,
    run_year,
)
from kbn.ontology import Ontology
from kbn.simulation import Network


@pytest.fixture(scope="module")
def ontology() -> Ontology:
    return Ontology.load(data.path("podcast"))


def test_there_are_37_brokers_in_five_levels() -> None:
    levels = [level_of(name) for name in parents()]
    assert [levels.count(level) for level in range(1, 6)] == [1, 4, 7, 10, 15]
    assert all(
        level_of(name) == level_of(parent) + 1
        for name, parent in parents().items()
        if parent is not None
    )


@pytest.mark.parametrize(("count", "sizes"), [(1, [36]), (2, [19, 17]), (3, [12, 12, 12])])
def test_clusters_are_whole_subtrees_of_about_equal_size(count: int, sizes: list[int]) -> None:
    clusters = clusters_of_brokers(count)
    assert [len(members) for members in clusters] == sizes
    assert sorted(name for members in clusters for name in members) == sorted(
        set(parents()) - {ROOT}
    )
    for members in clusters:
        assert all(parents()[name] in (ROOT, *members) for name in members)


def test_every_category_belongs_to_one_cluster(ontology: Ontology) -> None:
    for count in (1, 2, 3):
        assert set(clusters_of_categories(ontology, count)) == set(range(count))
    below = clusters_of_categories(ontology, 3)
    for number, category in enumerate(ontology.classes):
        above = [list(ontology.classes).index(iri) for iri in ontology.ancestors(category)]
        assert {below[other] for other in above} == {below[number]}


def test_subscriptions_come_at_the_rates_of_the_source(seed: int) -> None:
    hours = 24 * 28
    arrivals = Arrivals.drawn(np.random.default_rng(seed), hours * HOUR_S, 67)
    last_week = arrivals.seconds > (hours - 168) * HOUR_S
    # From the second week on 6.6 a subscriber, one of whom comes every 37.73 s.
    assert last_week.sum() == pytest.approx(168 * HOUR_S / 37.73 * 6.6, rel=0.05)
    assert (np.diff(arrivals.seconds) >= 0).all()
    sizes = np.bincount(arrivals.word_counts, minlength=4)
    assert sizes.shape[0] == 4 and sizes == pytest.approx(np.full(4, sizes.mean()), rel=0.05)
    assert (np.sort(arrivals.words)[:, 1:] != np.sort(arrivals.words)[:, :-1]).all()


def test_each_publisher_has_one_notification_a_week(seed: int) -> None:
    weeks = 30
    found = publications_before(np.random.default_rng(seed), weeks * 168 * HOUR_S)
    # A publisher every 600 s, whose first notification is half a week after it comes.
    assert found == pytest.approx(1008 * weeks * weeks / 2, rel=0.05)


def test_the_tables_and_the_passages_are_those_of_real_brokers(
    ontology: Ontology, seed: int
) -> None:
    clusters = 2
    rng = np.random.default_rng(seed)
    arrivals = Arrivals.drawn(rng, 10 * HOUR_S, len(ontology.classes))
    overlay = Overlay(ontology, clusters)
    overlay.subscribe_until(arrivals, 0, 10 * HOUR_S)
    network = Network(parents(), ontology, keeps_roots=True)
    clients = {name: network.client(f"at {name}", name) for name in parents()}
    for _, node, filter in overlay.placed(arrivals, 0, len(arrivals.seconds)):
        clients[node.name].subscribe(filter.to_text())
        network.run()
    for name, node in overlay.nodes.items():
        broker = network.broker(name)
        assert broker.table.filter_count == node.table_size
        assert set(broker.table.roots or ()) == set(node.order.roots)
    for _ in range(5):
        notification, categories = drawn_notification(rng, ontology)
        entry = overlay.entry_of(categories, rng)
        passage = overlay.publish(notification, entry)
        before = {name: len(client.received) for name, client in clients.items()}
        clients[entry].publish(notification)
        network.run()
        new = [r for name, c in clients.items() for r in c.received[before[name] :]]
        assert sum(len(each.subscriptions) for each in new) == passage.deliveries
        assert sum(each.hops * len(each.subscriptions) for each in new) == passage.hops


def test_the_same_seed_gives_the_same_year() -> None:
    first, again = (run_year(3, 5, [4.0, 8.0], 2) for _ in range(2))
    assert first["tables"] == again["tables"]
    assert first["passages"] == again["passages"]
