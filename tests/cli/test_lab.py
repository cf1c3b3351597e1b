"""`kbn lab`, with an experiment that is not ours."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from kbn.cli import main
from kbn.errors import InvalidInputError
from kbn.lab import experiment as frame
from kbn.lab.experiment import Experiment, Scale, Table

TOY = Experiment(
    name="toy",
    source="nowhere",
    question="is [bold] two more than one?",
    scales={Scale.SMALL: {"upto": 2}},
    run=lambda parameters, seed, progress: [
        Table("counts", pa.table({"n": [1, 2], "seed": [seed, seed]}), "Counting", ("it is",))
    ],
)


@pytest.fixture(autouse=True)
def one_toy_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> Experiment:
        if name != "toy":
            raise InvalidInputError(f"there is no experiment '{name}'")
        return TOY

    monkeypatch.setattr(frame, "names", lambda: ("toy",))
    monkeypatch.setattr(frame, "find", find)


def test_list_shows_what_each_asks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "list"]) == 0
    told = capsys.readouterr().out
    assert "toy" in told and "is [bold] two more than one?" in told and TOY.source in told


def test_list_as_json_has_the_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    main(["lab", "list", "--json"])
    assert json.loads(capsys.readouterr().out)[0]["scales"] == {"small": {"upto": 2}}


def test_run_prints_tables_and_keeps_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "run", "toy", "--out", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert "Counting" in told.out and "it is" in told.out
    assert str(tmp_path / "toy") in told.err
    assert (tmp_path / "toy" / "counts.parquet").exists()


def test_run_as_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "run", "toy", "--seed", "7", "--out", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["seed"] == 7
    assert result["tables"][0]["rows"] == [{"n": 1, "seed": 7}, {"n": 2, "seed": 7}]


def test_run_of_an_unknown_experiment_is_invalid(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "run", "toi"]) == 2
    assert "there is no experiment 'toi'" in capsys.readouterr().err


def test_run_at_a_scale_it_does_not_have_is_invalid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "run", "toy", "--scale", "paper", "--out", str(tmp_path)]) == 2
    assert "it has small" in capsys.readouterr().err
    assert not (tmp_path / "toy").exists()


def test_report_prints_where_the_page_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["lab", "run", "toy", "--out", str(tmp_path)])
    capsys.readouterr()
    assert main(["lab", "report", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "report.html")
    assert "Counting" in (tmp_path / "report.html").read_text()


def test_report_of_an_empty_folder_says_what_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "report", "--out", str(tmp_path)]) == 2
    assert "kbn lab run NAME" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kbn.lab.experiment.conduct", lambda *_: pytest.fail("the work was done"))
    (tmp_path / "file").write_text("")
    assert main(["lab", "run", "toy", "--out", str(tmp_path / "file" / "results")]) == 1
    assert "error:" in capsys.readouterr().err
