"""dynamic-clustering at its small scale: the same is delivered, over fewer brokers, in limits."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kbn.lab.experiment import Result, Scale, conduct, find
from kbn.lab.experiments import dynamic_clustering as experiment
from kbn.lab.report import save, write_report
from kbn.placement import overlay_distances


@cache
def result() -> Result:
    return conduct(find("dynamic-clustering"), Scale.SMALL, seed=1)


def rows(table: str) -> list[dict[str, Any]]:
    found = next(each for each in result().tables if each.name == table)
    return list(found.data.to_pylist())


def by_variant(table: str) -> dict[str, dict[str, Any]]:
    usual = (row for row in rows(table) if row["ties"] == "individual-first")
    return {row["variant"]: row for row in usual}


def test_a_run_is_kept_drawn_and_reported(tmp_path: Path) -> None:
    plots = save(result(), find("dynamic-clustering"), tmp_path)
    assert plots and all(path.stat().st_size > 0 for path in plots)
    assert result().question in write_report(tmp_path).read_text(encoding="utf-8")
    assert result().tables[0].theirs is not None
    assert set(find("dynamic-clustering").scales) == set(Scale)


def test_the_same_is_delivered_over_fewer_brokers() -> None:
    found = by_variant("hops")
    assert len({row["deliveries"] for row in found.values()}) == 1
    for planner in ("unclustered", "taxonomic", "traffic"):
        before, after = found[planner], found[planner + " + re-clustering"]
        assert after["mean hops"] < before["mean hops"]
        assert after["moves"] > 0 and before["moves"] == 0
    assert found["traffic"]["mean hops"] < found["taxonomic"]["mean hops"]
    assert found["traffic + re-clustering"]["mean hops"] < 2 < found["unclustered"]["mean hops"]
    assert found["traffic + re-clustering"]["within 4"] >= 0.97


def test_both_rules_for_ties_are_shown_and_decide_placement_alone() -> None:
    found = {(row["ties"], row["variant"]): row for row in rows("hops")}
    one, other = (found[ties, "taxonomic"] for ties in ("individual-first", "class-first"))
    assert one["mean hops"] != other["mean hops"]
    unclustered = [row for (_, variant), row in found.items() if variant == "unclustered"]
    assert [row["mean hops"] for row in unclustered] == [unclustered[0]["mean hops"]] * 2


def test_traffic_and_re_clustering_keep_every_limit() -> None:
    for row in rows("limits"):
        assert row["largest load / limit"] <= 1, row


def test_shares_by_hops_add_up() -> None:
    for row in rows("histogram"):
        shares = [row[str(k)] for k in range(1, experiment.HOPS_MAX + 1)]
        assert sum(shares) == pytest.approx(1)


def test_fresh_notifications_are_harder_when_nothing_was_learnt_of_them() -> None:
    row = by_variant("fresh")["traffic + re-clustering"]
    assert row["mean hops"] < row["mean hops, on anything"]


def test_the_tree_has_the_longest_way_and_the_mean_it_was_chosen_for() -> None:
    parents = experiment.PARENTS
    apart = overlay_distances(list(parents), [(one, up) for one, up in parents.items() if up])
    hops = apart.links + 1
    assert (len(parents), int(hops.max())) == (11, experiment.HOPS_MAX)
    assert float(hops.mean()) == pytest.approx(3.909, abs=1e-3)
    assert float((hops <= 4).mean()) == pytest.approx(0.603, abs=1e-3)


def test_filters_are_like_the_sources_examples(seed: int) -> None:
    parameters = {"subscribers": 30, "publishers": 30}
    world = experiment.drawn(parameters, (1, 6), Random(seed))
    for subscription in world.subscriptions.values():
        for filter in subscription.filters:
            about = [constraint.attribute for constraint in filter]
            operators = {(each.attribute, each.operator.symbol) for each in filter}
            # Doubles are left out of a filter, so there may be fewer.
            assert 1 <= len(about) <= 6 and about.count("ontClass") <= 3
            assert operators <= {("ontClass", "@<"), ("ontClass", "@>"), ("ontInstance", "@=")}
    for publisher, notification in world.notifications.items():
        again = world.fresh["on the same subjects"][publisher]
        assert again.attributes.keys() == notification.attributes.keys()
        for attribute in ("ontClass", "ontInstance"):
            if attribute in notification.attributes:
                old, new = (each.attributes[attribute].iri for each in (notification, again))  # type: ignore[union-attr]
                assert world.clusters.cluster_of(old) == world.clusters.cluster_of(new)
