"""Our experiments at their small scale: they run, count right, and draw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbn.lab.experiment import Result, Scale, conduct, find, names
from kbn.lab.experiments import bags
from kbn.lab.experiments.operator_cost import THEIRS
from kbn.lab.report import save, write_report

OURS = ("bags", "operator-cost", "reasoning", "tree-search")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Each experiment run once; `reasoning` only where Java is, by the tests that need it."""
    return {name: conduct(find(name), Scale.SMALL, seed=1) for name in OURS if name != "reasoning"}


def rows(result: Result, table: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.tables[table].data.to_pylist()
    return found


def test_the_experiments_there_are() -> None:
    assert set(OURS) <= set(names())
    for name in OURS:
        assert set(find(name).scales) == set(Scale)


@pytest.mark.parametrize("name", [name for name in OURS if name != "reasoning"])
def test_a_run_is_kept_drawn_and_reported(
    name: str, results: dict[str, Result], tmp_path: Path
) -> None:
    plots = save(results[name], find(name), tmp_path)
    assert plots and all(path.stat().st_size > 0 for path in plots)
    assert results[name].question in write_report(tmp_path).read_text(encoding="utf-8")


def test_every_operator_delivers_to_just_those_with_its_id(results: dict[str, Result]) -> None:
    found = rows(results["operator-cost"])
    assert {row["delivered"] for row in found} == {30}
    symbols = {row["operator"] for row in found}
    assert set(THEIRS) <= symbols and {"=", ">*", "<", "#=/<"} <= symbols
    assert all(row["× ="] == 1 for row in found if row["operator"] == "=")


def test_the_source_had_no_figure_where_it_ran_out_of_memory(results: dict[str, Result]) -> None:
    theirs = results["operator-cost"].tables[0].theirs
    assert theirs is not None
    by_name = {row["name"]: row for row in theirs.to_pylist()}
    assert by_name["ont prop"]["ms at 3000"] is None
    assert by_name["more spec"]["ms at 3000"] == 16.96


def test_unique_filters_make_a_tree_of_nothing_but_roots(results: dict[str, Result]) -> None:
    found = rows(results["tree-search"])
    assert all(row["roots"] == row["subscribers"] and row["delivered"] == 300 for row in found)
    assert {row["filters"] for row in found} == {"semantic", "not semantic"}


def test_the_brute_force_tries_every_arrangement(results: dict[str, Result]) -> None:
    found = rows(results["bags"])
    assert [row["arrangements"] for row in found] == [12, 24, 120, 720]
    assert all(row["λ asked"] >= row["arrangements"] for row in found)


def test_counts_are_the_same_for_the_same_seed() -> None:
    runs = [rows(conduct(find("bags"), Scale.SMALL, seed=3)) for _ in range(2)]
    first, again = ([row["λ asked"] for row in run] for run in runs)
    assert first == again


def test_growing_bags_have_both_answers_for_every_operator(results: dict[str, Result]) -> None:
    found = rows(results["bags"], 1)
    answers = {(row["operator"], row["answer"]) for row in found}
    assert len(answers) == 2 * 3 * len(bags.KINDS)


@pytest.mark.java
def test_only_dl_finds_that_dry_wine_is_table_wine(tmp_path: Path) -> None:
    experiment = find("reasoning")
    result = conduct(experiment, Scale.SMALL)
    found = {(row["ontology"], row["level"]): row for row in rows(result)}
    wine = {level: found["wine", level]["DryWine ≡ TableWine"] for level in ("none", "rdfs", "dl")}
    assert wine == {"none": "not found", "rdfs": "not found", "dl": "found"}
    assert found["service", "none"]["classes"] == 4 and found["service", "none"]["individuals"] == 0
    assert found["events", "rdfs"]["subclass pairs"] == found["events", "dl"]["subclass pairs"]
    assert save(result, experiment, tmp_path)


def test_a_level_that_cannot_run_here_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    from kbn.errors import OntologyError
    from kbn.ontology import Ontology

    load = Ontology.load

    def without_java(path: Path, *, reasoning: str, cache: bool) -> Ontology:
        if reasoning == "dl":
            raise OntologyError("reasoning='dl' needs a Java runtime; install one")
        return load(path, reasoning=reasoning, cache=cache)  # type: ignore[arg-type]

    monkeypatch.setattr(Ontology, "load", without_java)
    found = rows(conduct(find("reasoning"), Scale.SMALL))
    assert [row["remark"] for row in found if row["level"] == "dl"] == [
        "reasoning='dl' needs a Java runtime"
    ] * 3
