"""The frame experiments stand in: found, run, kept, reported."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from kbn.errors import InvalidInputError
from kbn.lab.experiment import (
    Experiment,
    Parameters,
    Progress,
    Scale,
    Table,
    conduct,
    find,
    names,
    silent,
)
from kbn.lab.report import load_all, save, write_report
from kbn.pages import plots
from kbn.pages.html import shown

MODULE = """
from pathlib import Path
import pyarrow as pa
from kbn.lab.experiment import Experiment, Scale, Table

EXPERIMENT = Experiment(
    name="coin-toss",
    source="nobody",
    question="heads?",
    scales={Scale.SMALL: {"tosses": 3}},
    run=lambda parameters, seed, progress: [Table("tosses", pa.table({"heads": [seed]}))],
)
"""


def toss(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    from random import Random

    random = Random(seed)
    counts = []
    for done in range(parameters["tosses"]):
        counts.append(random.randrange(2))
        progress("tossing", done + 1, parameters["tosses"])
    ours = pa.table({"toss": list(range(len(counts))), "heads": counts})
    theirs = pa.table({"heads": ["about <half>"]})
    return [Table("tosses", ours, "Tosses & heads", ("a fair coin",), theirs)]


def draw(tables: Sequence[Table], folder: Path) -> list[Path]:
    rows = tables[0].data.to_pylist()
    points = {"heads": [(row["toss"], row["heads"]) for row in rows]}
    return [
        plots.lines(folder / "tosses.svg", points, title="tosses", x="toss", y="heads"),
        plots.bars(folder / "bars.png", {"ours": {"a": 1, "b": 2}}, title="bars", x="which", y="n"),
    ]


COIN = Experiment(
    name="coin",
    source="a textbook, chapter 1",
    question="does a coin fall on its head half the time?",
    scales={Scale.SMALL: {"tosses": 3}, Scale.PAPER: {"tosses": 300}},
    run=toss,
    plot=draw,
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package of experiments that is not ours: `coin-toss`, and one whose name is wrong."""
    folder = tmp_path / "toy_experiments"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "coin_toss.py").write_text(MODULE)
    (folder / "_helper.py").write_text("")
    (folder / "misnamed.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder.name
    for name in [name for name in sys.modules if name.split(".")[0] == folder.name]:
        del sys.modules[name]


def test_experiments_are_found_by_name_without_importing_the_others(package: str) -> None:
    assert names(package) == ("coin-toss", "misnamed")
    assert find("coin-toss", package).question == "heads?"
    assert f"{package}.misnamed" not in sys.modules


def test_an_unknown_name_suggests_the_nearest(package: str) -> None:
    with pytest.raises(InvalidInputError, match="did you mean coin-toss"):
        find("coin-tos", package)


def test_a_module_that_calls_itself_otherwise_is_our_bug(package: str) -> None:
    with pytest.raises(AssertionError, match="calls itself coin-toss"):
        find("misnamed", package)


def test_our_own_experiments_all_load_and_have_a_small_scale() -> None:
    for name in names():
        assert Scale.SMALL in find(name).scales, name


def test_the_same_seed_gives_the_same_counts() -> None:
    first, again, other = (conduct(COIN, Scale.PAPER, seed=seed) for seed in (1, 1, 2))
    assert first.tables[0].data == again.tables[0].data
    assert first.tables[0].data != other.tables[0].data


def test_progress_is_told_how_far_the_run_is() -> None:
    heard: list[tuple[str, int, int]] = []
    conduct(COIN, Scale.SMALL, progress=lambda *step: heard.append(step))
    assert heard[-1] == ("tossing", 3, 3)


def test_a_scale_the_experiment_does_not_have_names_those_it_has() -> None:
    with pytest.raises(InvalidInputError, match="no scale 'beyond'; it has small, paper"):
        conduct(COIN, Scale.BEYOND)


def test_a_result_is_kept_and_read_back(tmp_path: Path) -> None:
    result = conduct(COIN, Scale.SMALL, seed=5)
    save(result, COIN, tmp_path)
    (saved,) = load_all(tmp_path)
    assert saved.result.tables == result.tables
    assert saved.result.seed == 5 and saved.result.parameters == {"tosses": 3}
    assert [plot.name for plot in saved.plots] == ["bars.png", "tosses.svg"]


def test_running_again_replaces_the_earlier_result(tmp_path: Path) -> None:
    for seed in (1, 2):
        save(conduct(COIN, Scale.SMALL, seed=seed), COIN, tmp_path)
        (tmp_path / "coin" / f"left-by-{seed}.svg").write_text("<svg/>")
    (saved,) = load_all(tmp_path)
    assert saved.result.seed == 2
    assert "left-by-1.svg" not in [plot.name for plot in saved.plots]


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "coin").mkdir()
    (tmp_path / "coin" / "thesis.txt").write_text("ten years of work")
    save(conduct(COIN, Scale.SMALL), COIN, tmp_path)
    assert (tmp_path / "coin" / "thesis.txt").exists()


def test_the_report_is_one_page_that_needs_nothing_else(tmp_path: Path) -> None:
    save(conduct(COIN, Scale.SMALL), COIN, tmp_path)
    html = write_report(tmp_path).read_text(encoding="utf-8")
    assert "does a coin fall on its head half the time?" in html
    assert "Tosses &amp; heads" in html and "about &lt;half&gt;" in html and "a fair coin" in html
    assert "data:image/svg+xml;base64," in html and "data:image/png;base64," in html
    assert 'src="http' not in html and 'href="http' not in html


def test_a_report_of_nothing_says_what_to_run_first(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="kbn lab run NAME"):
        write_report(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"tables": [{"name": "gone"}]}'])
def test_a_damaged_result_is_a_clear_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "coin").mkdir()
    (tmp_path / "coin" / "result.json").write_text(content)
    with pytest.raises(InvalidInputError, match="run the experiment again"):
        load_all(tmp_path)


def test_plots_of_the_same_figures_are_the_same_file(tmp_path: Path) -> None:
    tables = toss({"tosses": 4}, 0, silent)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        draw(tables, tmp_path / name)
    assert (tmp_path / "a/tosses.svg").read_bytes() == (tmp_path / "b/tosses.svg").read_bytes()


def test_the_record_of_a_run_names_no_user_host_or_path(tmp_path: Path) -> None:
    save(conduct(COIN, Scale.SMALL), COIN, tmp_path)
    kept = json.loads((tmp_path / "coin/result.json").read_text())
    assert set(kept["machine"]) == {"kbn", "python", "system", "cores"}


def test_numbers_are_shown_as_people_read_them() -> None:
    assert shown(0.00001234) == "1.234e-05"
    assert shown(True) == "True"
    assert shown(-12) == "-12"
