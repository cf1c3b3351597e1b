"""The experiment on dissemination trees at its small scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbn.lab.delay_world import BOUNDS_MS, SHAPES, arrivals, at_most_kept, draw, drawn, straight
from kbn.lab.experiment import Result, Scale, conduct, find
from kbn.lab.experiments.delay_trees import churn
from kbn.lab.report import save, write_report


@pytest.fixture(scope="module")
def result() -> Result:
    return conduct(find("delay-trees"), Scale.SMALL, seed=1)


def rows(result: Result, table: str) -> list[dict[str, Any]]:
    found = next(each for each in result.tables if each.name == table)
    return list(found.data.to_pylist())


def test_a_run_is_kept_drawn_and_reported(result: Result, tmp_path: Path) -> None:
    plots = save(result, find("delay-trees"), tmp_path)
    assert {path.stem for path in plots} == {"bounds"}
    assert result.question in write_report(tmp_path).read_text(encoding="utf-8")


def test_bounds_kept_stay_under_the_upper_bound_and_loose_ones_are_easier(result: Result) -> None:
    found = rows(result, "bounds")
    assert len(found) == 8
    assert all(0 < row["kept"] <= row["upper bound"] <= 1 for row in found)
    kept = {(row["delays"], row["tree"], row["bounds"]): row["kept"] for row in found}
    for shape in SHAPES:
        for tree in ("fresh", "churned"):
            assert kept[shape, tree, "loose"] > kept[shape, tree, "tight"] > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("name", "points"), [("tight", 10), ("loose", 5)])
def test_a_thousand_peers_keep_nearly_what_could_be_kept(
    shape: str, name: str, points: int
) -> None:
    world = drawn(1_000, shape, BOUNDS_MS[name], 0.1, 3)
    tree = world.grown()
    rng = np.random.default_rng(0)
    for step in range(3):
        if step:
            churn(tree, world, rng)
            tree.repair()
            tree.rebalance(gain_min=20)
        missing = at_most_kept(tree, world) - tree.satisfaction().satisfied
        assert 0 <= missing <= 10 * points, (step, missing)


def test_promises_are_kept_at_least_as_often_as_they_say(result: Result) -> None:
    for row in rows(result, "reliability"):
        assert row["asked for"] == 0.95 <= row["worst seed"] <= row["in time"], row


@pytest.mark.parametrize("shape", SHAPES)
def test_drawn_factors_have_mean_1_and_are_skewed(shape: str) -> None:
    found = draw(shape, 200_000, np.random.default_rng(5))
    assert found.mean() == pytest.approx(1, abs=0.005) and found.min() > 0
    assert ((found - found.mean()) ** 3).mean() / found.std() ** 3 > 0.8


@pytest.mark.parametrize("shape", SHAPES)
def test_no_way_of_unequal_links_beats_the_straight_one_of_the_upper_bound(shape: str) -> None:
    """The upper bound supposes that of h links of one mean in all, equal ones are most reliable."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        hops = int(rng.integers(1, 9))
        shares = rng.dirichlet(np.full(hops, rng.choice([0.5, 2.0, 10.0])))
        total = sum(share * draw(shape, 40_000, rng) for share in shares)
        best = min(straight(shape)[:hops])
        assert np.quantile(total, 0.95) >= best - 0.01, (hops, shares)


def test_delays_add_up_along_the_tree() -> None:
    world = drawn(60, "lognormal", BOUNDS_MS["loose"], 0.1, 4)
    tree = world.grown()
    found = dict(arrivals(tree, world, 20_000, np.random.default_rng(5)))
    for parent, child in tree.edges():
        gap = found[child].mean() - (found[parent].mean() if parent else 0)
        assert gap == pytest.approx(world.links.means(parent, child), rel=0.03)


def test_churn_takes_a_tenth_away_and_brings_as_many_others() -> None:
    world = drawn(200, "bimodal", BOUNDS_MS["loose"], 0.1, 1)
    tree = world.grown()
    before = {child for _, child in tree.edges()}
    churn(tree, world, np.random.default_rng(0))
    tree.check_invariants()
    after = {child for _, child in tree.edges()}
    assert len(after) == 200 and len(before - after) == 20
    assert tree.satisfaction().satisfied <= at_most_kept(tree, world)


def test_joins_are_timed_in_each_situation(tmp_path: Path) -> None:
    result = conduct(find("tree-joins"), Scale.SMALL, seed=1)
    found = {row["newcomers"]: row for row in rows(result, "joins")}
    assert found.keys() == {"usual", "tight", "full"}
    assert all(0 < row["ms"] <= row["worst"] for row in found.values())
    assert found["full"]["waiting"] > 0 == found["usual"]["waiting"]
    assert [path.stem for path in save(result, find("tree-joins"), tmp_path)] == ["joins"]
