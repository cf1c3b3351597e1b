"""`kbn pipeline` before Spark: what a run would do, what is there, what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.pipelines import write_pipeline, write_posts

from kbn.cli import main


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = write_pipeline(tmp_path / "p")
    write_posts(made.parent / "posts" / "a.jsonl", 1, 3, 0)
    return made


def test_the_plan_names_every_stage_and_why(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "plan", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["stage"] for one in told][:2] == ["ingest", "annotate"]
    assert {one["action"] for one in told} == {"run"}
    assert not (file.parent / "out").exists()


def test_the_status_of_what_never_ran_says_how_to_run_it(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "status", str(file)]) == 0
    assert "kbn pipeline run" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "plan", "status"])
def test_a_file_that_is_wrong_is_invalid_and_starts_nothing(
    command: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("notification: []\n", encoding="utf-8")
    assert main(["pipeline", command, str(file)]) == 2
    assert "did you mean 'notifications'" in capsys.readouterr().err


def test_an_ontology_that_does_not_load_is_invalid(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file.parent / "podcast.ttl").write_text("no Turtle", encoding="utf-8")
    assert main(["pipeline", "run", str(file)]) == 2
    assert "podcast.ttl" in capsys.readouterr().err


def test_what_only_spark_can_do_is_refused_without_it(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wants = str(file.parent / "wants.txt")
    assert main(["match", "-s", wants, "-n", str(file.parent / "posts")]) == 2
    assert "--spark" in capsys.readouterr().err
    assert main(["match", "-s", wants, "-n", str(file), "--out", "x"]) == 2
    assert "--spark" in capsys.readouterr().err
    assert main(["match", "-s", wants, "-n", "none*.json", "--spark", "--out", "x"]) == 2
    assert "notifications.path" in capsys.readouterr().err


WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
from kbn.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "command",
    ["demo", "bench spark", "bench stream", "pipeline run p.yaml", "match -s s -n n --spark"],
)
def test_without_pyspark_the_first_and_only_word_is_how_to_install_it(
    command: str, file: Path, tmp_path: Path
) -> None:
    (file.parent / "p.yaml").symlink_to(file)
    for name in ("s", "n"):
        (file.parent / name).touch()
    before = sorted(file.parent.rglob("*"))
    told = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, *command.split()],
        cwd=file.parent, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert told.returncode != 0 and told.stdout == ""
    (line,) = told.stderr.splitlines()
    assert line.startswith("error: ") and "kbn[spark]" in line
    assert sorted(file.parent.rglob("*")) == before
