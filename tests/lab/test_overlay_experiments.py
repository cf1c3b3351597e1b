"""The experiments on overlays at their small scale: they run, count right, and draw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbn.lab.experiment import Result, Scale, conduct, find, names
from kbn.lab.experiments import mobility, static_hops
from kbn.lab.experiments.one_semantic_filter import indications
from kbn.lab.report import save, write_report
from kbn.placement import overlay_distances

pytestmark = pytest.mark.slow  # the four take a minute together
OURS = ("mobility", "one-semantic-filter", "podcast", "static-hops")


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    """Each experiment run once."""
    return {name: conduct(find(name), Scale.SMALL, seed=1) for name in OURS}


def rows(result: Result, table: str) -> list[dict[str, Any]]:
    found = next(each for each in result.tables if each.name == table)
    return list(found.data.to_pylist())


def test_all_three_scales_are_there() -> None:
    assert set(OURS) <= set(names())
    for name in OURS:
        assert set(find(name).scales) == set(Scale)


@pytest.mark.parametrize("name", OURS)
def test_a_run_is_kept_drawn_and_reported(
    name: str, results: dict[str, Result], tmp_path: Path
) -> None:
    plots = save(results[name], find(name), tmp_path)
    assert plots and all(path.stat().st_size > 0 for path in plots)
    assert results[name].question in write_report(tmp_path).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["mobility", "one-semantic-filter", "static-hops", "podcast"])
def test_the_source_stands_beside(name: str, results: dict[str, Result]) -> None:
    assert results[name].tables[0].theirs is not None


# podcast


def test_clusters_deliver_the_same_from_smaller_tables(results: dict[str, Result]) -> None:
    found = rows(results["podcast"], "notifications")
    delivered = {c: [r["deliveries each"] for r in found if r["clusters"] == c] for c in (1, 2, 3)}
    assert delivered[1] == delivered[2] == delivered[3]
    last = [row for row in rows(results["podcast"], "levels") if row["hour"] == 48]
    for level in (2, 3, 4, 5):
        sizes = [(row["filters"], row["roots"]) for row in last if row["level"] == level]
        assert sizes == sorted(sizes, reverse=True), f"level {level}"
        assert len({roots for _, roots in sizes}) == 3


def test_the_parent_ends_with_the_uppermost_categories(results: dict[str, Result]) -> None:
    found = [row for row in rows(results["podcast"], "convergence") if row["level"] == 1]
    assert [row["roots at the end"] for row in found] == [16, 16, 16]
    assert all(row["most roots"] > 16 for row in found)


# static-hops


def test_hops_fall_as_clusters_grow(results: dict[str, Result]) -> None:
    found = rows(results["static-hops"], "shares")
    assert {row["deliveries"] for row in found} == {120}
    for kind in ("semantic", "not semantic"):
        ours = [row for row in found if row["reading"] == static_hops.OURS]
        means = [row["mean hops"] for row in ours if row["filters"] == kind]
        assert means == sorted(means, reverse=True)
    six = [row for row in ours if row["clusters"] == 6]
    assert all(row["within 2"] == 1 for row in six)


def test_the_second_reading_has_eleven_brokers_and_the_shares_of_the_source() -> None:
    places = [place for home in static_hops.SECOND_CLUSTERS[1] for place in home]
    assert len(static_hops.SECOND_PARENTS) == 11 and len(places) == 5
    apart = overlay_distances(
        list(static_hops.SECOND_PARENTS),
        [(name, up) for name, up in static_hops.SECOND_PARENTS.items() if up],
    )

    def within_3(homes: tuple[tuple[str, ...], ...]) -> float:
        near = [[apart.hops(a, b) <= 3 for a in home for b in home] for home in homes]
        return sum(sum(each) / len(each) for each in near) / len(near)

    anywhere = within_3((tuple(places),))
    wrong = static_hops.MISJUDGED
    expected = [
        (1 - wrong) * within_3(homes) + wrong * anywhere
        for homes in static_hops.SECOND_CLUSTERS.values()
    ]
    assert expected == pytest.approx([0.28, 0.80, 0.95], abs=0.01)


def test_a_delay_is_one_link_more_than_the_hops(results: dict[str, Result]) -> None:
    for row in rows(results["static-hops"], "hops"):
        assert row["delay ms"] == pytest.approx(row["hops"] + 1)


def test_there_are_eleven_brokers_and_clusters_do_not_overlap() -> None:
    assert len(static_hops.parents()) == 11
    for count, clusters in static_hops.CLUSTERS.items():
        members = [name for cluster in clusters for name in cluster]
        assert len(clusters) == count and len(set(members)) == len(members)


# mobility


def test_moving_loses_doubles_and_disorders_nothing(results: dict[str, Result]) -> None:
    found = rows(results["mobility"], "moves")
    assert {row["way"] for row in found} == set(mobility.WAYS)
    for row in found:
        assert row["expected"] > 0
        if row["way"] != "leaving first":
            assert (row["lost"], row["doubled"], row["out of order"]) == (0, 0, 0)


def test_leaving_first_loses_so_the_count_can_tell(results: dict[str, Result]) -> None:
    found = rows(results["mobility"], "moves")
    assert sum(row["lost"] for row in found if row["way"] == "leaving first") > 0


def test_with_the_broker_takes_fewer_messages_and_less_time(results: dict[str, Result]) -> None:
    found = {(r["subscribers"], r["way"]): r for r in rows(results["mobility"], "moves")}
    for size in (20, 40):
        at_once, in_turn = found[size, "with the broker"], found[size, "one by one"]
        assert at_once["messages"] < in_turn["messages"]
        assert at_once["simulated s"] < in_turn["simulated s"]


# one-semantic-filter


def test_one_filter_takes_the_place_of_seventeen_at_every_hop(results: dict[str, Result]) -> None:
    for row in rows(results["one-semantic-filter"], "hops"):
        each = 1 if row["filters"] == "one semantic" else 17
        assert row["table entries"] == each * row["hops"]
        assert row["announced"] == each * (row["hops"] - 1)
        assert row["delivered"] == 17 * 4


def test_there_are_sixteen_kinds_of_indication() -> None:
    from kbn import data
    from kbn.ontology import Ontology

    assert len(indications(Ontology.load(data.path("events")))) == 17
