"""A pipeline's tables are right, and the same whether they came in one run or in several."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.pipelines import GOOD, SUBSCRIPTIONS, write_pipeline, write_posts

from kbn.cli import main
from kbn.filters import Bag, Notification, Subscription
from kbn.ontology import Class, Ontology
from kbn.placement import Plan
from kbn.spark.pipeline import load_config, plan, run, status, table
from kbn.spark.pipeline.stages import tables_of
from kbn.spark.pipeline.tables import Tables

STAGES = ["ingest", "annotate", "compile", "match", "medoids", "plan", "hops", "report"]


@pytest.fixture(scope="module")
def folder(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Path]:
    """A pipeline that ran once, with two files."""
    made = tmp_path_factory.mktemp("pipeline") / "p"
    file = write_pipeline(made)
    write_posts(made / "posts" / "a.jsonl", 1, 30, 1)
    write_posts(made / "posts" / "b.jsonl", 100, 20, 1)
    did = run(file, spark)
    assert [one.stage for one in did] == STAGES
    assert {one.action for one in did} == {"run"}
    yield made


def rows(found: DataFrame) -> list[str]:
    return sorted(json.dumps(row.asDict(recursive=True), default=str) for row in found.collect())


def expected_pairs(folder: Path) -> set[tuple[str, str]]:
    """Who gets what, by the plain evaluator."""
    ontology = Ontology.load(folder / "podcast.ttl")
    labels = {ontology.label(iri): iri for iri in ontology.classes}
    prefixes = {**ontology.prefixes, "p": "https://kbn.example/ontology/podcast#"}
    wants = dict(line.split(": ", 1) for line in SUBSCRIPTIONS.splitlines()[1:])
    wanted = {key: Subscription.parse(wants[key], prefixes, ontology) for key in GOOD}
    pairs = set()
    for path in (folder / "posts").iterdir():
        for line in path.read_text(encoding="utf-8").splitlines()[:-1]:
            record = json.loads(line)
            terms = [Class(labels[c]) if c in labels else c for c in record["category"]]
            notification = Notification(
                {
                    "category": Bag(*terms),
                    "keywords": Bag(*record["keywords"]),
                    "duration": record["duration"],
                }
            )
            for key, subscription in wanted.items():
                if subscription.matches(notification, ontology):
                    pairs.add((record["id"], key))
    return pairs


def test_the_counts_are_those_of_the_plain_evaluator(folder: Path, spark: SparkSession) -> None:
    config = load_config(folder / "pipeline.yaml")
    totals = {row.subscriber: row.matches for row in table(spark, config, "totals").collect()}
    pairs = expected_pairs(folder)
    for key in ("ann", "bob", "cyd"):  # eve has alternatives, which are counted one by one
        assert totals.get(key, 0) == sum(1 for _, who in pairs if who == key)
    assert table(spark, config, "counts").count() == 50


def test_what_is_bad_is_kept_apart_with_its_reason(folder: Path, spark: SparkSession) -> None:
    config = load_config(folder / "pipeline.yaml")
    quarantined = table(spark, config, "quarantine").collect()
    assert len(quarantined) == 2 and all("duration" in row.reason for row in quarantined)
    (rejected,) = table(spark, config, "rejected").collect()
    assert rejected.subscriber == "dee" and "Nonsense" in rejected.reason
    (unknown,) = table(spark, config, "unrecognised").collect()
    assert unknown.text == "Tecnology"


def test_tables_and_subscriptions_are_shown_without_spark(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    file = str(folder / "pipeline.yaml")
    assert main(["pipeline", "show", file, "quarantine", "--json"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["position"] for row in shown] == [31, 21]
    assert all("duration" in row["reason"] for row in shown)
    assert main(["pipeline", "show", file, "notifications", "--limit", "3"]) == 0
    told = capsys.readouterr()
    assert "3 of 50 rows of notifications" in told.err and "attributes" in told.out
    assert main(["pipeline", "show", file, "quarantin"]) == 2
    assert "did you mean 'quarantine'" in capsys.readouterr().err
    assert main(["pipeline", "show", file, "subscriptions"]) == 0
    by_pipeline = capsys.readouterr().out
    assert "{:Technology}" in by_pipeline and "dee" not in by_pipeline
    for place in (folder / "out", folder / "out" / "store"):
        assert main(["store", "subscriptions", str(place)]) == 0
        assert capsys.readouterr().out == by_pipeline
    assert main(["store", "subscriptions", str(folder / "out"), "--subscriber", "cyd"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == [
        "cyd",
        "cyd",
        "duration",
        "<=",
        "1200",
    ]
    assert main(["store", "subscriptions", str(folder / "wants.txt")]) == 2
    assert "is a file" in capsys.readouterr().err
    assert main(["store", "subscriptions", str(folder)]) == 2
    assert "is not a store of subscriptions" in capsys.readouterr().err


def test_the_plan_is_what_a_policy_server_reads(folder: Path) -> None:
    made = Plan.from_json((folder / "out" / "plan.json").read_text(encoding="utf-8"))
    assert made.brokers == ("top", "left", "right")


def test_the_page_stands_alone(folder: Path) -> None:
    page = (folder / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count("<img") >= 5 and 'src="http' not in page
    assert "Tecnology" in page and "Nonsense" in page


def test_the_status_says_what_is_there(folder: Path) -> None:
    found = status(folder / "out")
    assert found.stages["ingest"].rows == {"notifications": 50, "quarantine": 2}
    assert all(stage.finished and stage.seconds > 0 for stage in found.stages.values())


def test_a_second_run_has_nothing_to_do_and_needs_no_spark(folder: Path) -> None:
    def no_spark() -> SparkSession:
        raise AssertionError("nothing changed: why start Spark?")

    assert {one.action for one in run(folder / "pipeline.yaml", no_spark)} == {"skip"}


class Killed(BaseException):
    """Nobody catches it, as nobody catches a kill."""


@pytest.mark.slow
def test_a_run_that_was_killed_is_completed_and_new_files_give_what_a_run_from_scratch_gives(
    folder: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "p"
    shutil.copytree(folder, mine, symlinks=True)
    file = mine / "pipeline.yaml"
    write_posts(mine / "posts" / "c.jsonl", 200, 10, 2)
    actions = {one.stage: one.action for one in plan(file)}
    assert actions["ingest"] == actions["annotate"] == actions["match"] == "append"
    assert actions["compile"] == actions["hops"] == "skip"

    write = Tables.write

    def write_until_killed(
        self: Tables, frame: DataFrame, name: str, run: int | None = None
    ) -> None:
        if name == "wanted":  # the new part of `counts` is in its place, what follows is not
            raise Killed
        write(self, frame, name, run)

    with monkeypatch.context() as patch:
        patch.setattr(Tables, "write", write_until_killed)
        with pytest.raises(Killed):
            run(file, spark)
    actions = {one.stage: one.action for one in plan(file)}
    assert (actions["ingest"], actions["annotate"], actions["match"]) == ("skip", "skip", "append")
    run(file, spark)
    assert {one.action for one in plan(file)} == {"skip"}

    scratch = tmp_path / "scratch"
    shutil.copytree(mine, scratch, ignore=shutil.ignore_patterns("out"))
    run(scratch / "pipeline.yaml", spark)
    one, other = load_config(file), load_config(scratch / "pipeline.yaml")
    for name in (name for stage in STAGES for name in tables_of(stage, one)):
        if name == "quarantine":  # says in which folder the record stood
            assert table(spark, one, name).count() == table(spark, other, name).count() == 3
        else:
            assert rows(table(spark, one, name)) == rows(table(spark, other, name)), name


def test_pairs_from_shards_are_those_of_the_plain_evaluator(
    folder: Path, spark: SparkSession, tmp_path: Path
) -> None:
    mine = tmp_path / "p"
    shutil.copytree(folder, mine, ignore=shutil.ignore_patterns("out"))
    file = mine / "pipeline.yaml"
    text = file.read_text(encoding="utf-8").replace("deliveries: log.csv\n", "")
    more = "options: {expand: true, shards: 2, by_shard: true, unrecognised: drop}\n"
    file.write_text(text + more, encoding="utf-8")
    did = [one.stage for one in run(file, spark)]
    assert "hops" not in did
    found = table(spark, load_config(file), "matches").collect()
    pairs = [(row.notification, row.subscriber) for row in found]
    assert len(pairs) == len(set(pairs)) and set(pairs) == expected_pairs(mine)
