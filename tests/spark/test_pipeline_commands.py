"""The demo, and `kbn match --spark`, as a user types them; small."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.spark.pipelines import write_pipeline, write_posts

from kbn.cli import main


@pytest.mark.slow
def test_the_demo_goes_from_feeds_to_a_page(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    out = tmp_path / "day"
    arguments = ["demo", "--feeds", "4", "--subscriptions", "500", "--out", str(out), "--json"]
    assert main(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["totals"]["notifications"] > 100 and told["totals"]["matches"] > 100
    assert told["totals"]["subscriptions rejected"] == 1
    # The third feed was cut off, and is one record of the quarantine.
    assert told["totals"]["records in quarantine"] >= 1
    assert all(because for one in told["examples"] for because in one["why"].values())
    assert "<img" in Path(told["report"]).read_text(encoding="utf-8")
    assert main(["pipeline", "run", str(out / "pipeline.yaml")]) == 0
    assert "nothing changed" in capsys.readouterr().out


def test_match_on_spark_pairs_what_match_pairs(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_pipeline(tmp_path / "p").parent
    write_posts(folder / "posts" / "a.jsonl", 1, 20, 3)
    wants, posts = folder / "wants.txt", folder / "posts"
    ontology, mapping = folder / "podcast.ttl", folder / "mapping.yaml"
    arguments = ["match", "-s", wants, "-n", posts, "-o", ontology, "--mapping", mapping]
    arguments += ["--spark", "--out", tmp_path / "out", "--lines", "--json"]
    assert main([str(one) for one in arguments]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["notifications"], told["quarantine"], told["rejected"]) == (20, 1, 1)
    found = pq.read_table(tmp_path / "out" / "tables" / "matches").to_pylist()
    written = [
        json.loads(line)
        for path in (tmp_path / "out" / "matches.jsonl").glob("*.json")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    pairs = {(row["notification"], row["subscriber"]) for row in written}
    assert pairs == {(row["notification"], row["subscriber"]) for row in found}
    records = [json.loads(line) for line in (posts / "a.jsonl").read_text().splitlines()[:-1]]
    short = {(one["id"], "cyd") for one in records if one["duration"] <= 1200}
    assert {pair for pair in pairs if pair[1] == "cyd"} == short


@pytest.mark.slow
def test_what_is_wrong_with_notifications_is_a_table_and_told_at_the_end(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unknown terms, ids twice, an attribute that nobody has; and a day that nobody could read."""
    file = write_pipeline(tmp_path / "p")
    text = file.read_text().replace(", mapping: mapping.yaml", "")
    file.write_text(text + "annotate: {genre: class}\noptions: {expand: true}\n")
    category = {"class": "podcast:Tecnology"}
    rows = [
        {"id": "n1", "attributes": {"category": [category], "duration": 600}},
        {"id": "n2", "attributes": {"category": [{"class": "podcast:Technology"}]}},
        {"id": "n2", "attributes": {"duration": 600}},
    ]
    posts = file.parent / "posts"
    (posts / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main(["pipeline", "run", str(file)]) == 0
    told = capsys.readouterr().err
    assert "annotate: no notification has an attribute 'genre'" in told
    assert "2 problems of notifications, most often: 2 rows have this id" in told
    found = pq.read_table(file.parent / "out" / "tables" / "problems").to_pylist()
    assert sorted((row["notification"], row["attribute"]) for row in found if row["attribute"]) == [
        ("n1", "category")
    ]
    matches = pq.read_table(file.parent / "out" / "tables" / "matches").to_pylist()
    pairs = sorted((row["notification"], row["subscription"]) for row in matches)
    assert pairs == [("n1", "cyd"), ("n2", "ann"), ("n2", "cyd")]
    file.write_text(
        file.read_text().replace("expand: true", "expand: true, unknown_terms: leave_out")
    )
    assert main(["pipeline", "run", str(file)]) == 0
    matches = pq.read_table(file.parent / "out" / "tables" / "matches").to_pylist()
    assert {row["notification"] for row in matches} == {"n2"}
    (posts / "a.jsonl").write_text("oops\n[1, 2]\n")
    capsys.readouterr()
    assert main(["pipeline", "run", str(file)]) == 1
    assert "records are in quarantine, most often: " in capsys.readouterr().err
