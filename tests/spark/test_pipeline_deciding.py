"""What a run would do follows from what changed; a file that says something wrong is refused."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.pipelines import write_pipeline, write_posts

from kbn.errors import InvalidInputError, KbnError, OntologyError
from kbn.spark.pipeline import plan, run
from kbn.spark.pipeline.config import load_config
from kbn.spark.pipeline.deciding import Decision, Found, Past, decide
from kbn.spark.pipeline.state import StageState, State


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = write_pipeline(tmp_path / "p")
    write_posts(made.parent / "posts" / "a.jsonl", 1, 3, 0)
    return made


def decided(file: Path, known: dict[str, StageState]) -> list[Decision]:
    config = load_config(file)
    return decide(config, config.ontology.load(), Found.of(config), Past(known))


def after(decisions: list[Decision]) -> dict[str, StageState]:
    """What the state says when all that was decided is done."""
    return {d.stage: StageState(d.inputs, d.runs) for d in decisions}


def edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    return change


def touch(folder: Path) -> None:
    os.utime(folder / "posts" / "a.jsonl", ns=(1, 1))


ALL = {"ingest", "annotate", "compile", "match", "medoids", "plan", "hops", "report"}
MATCHED = {"match", "medoids", "plan", "report"}
CHANGES = [
    (lambda folder: None, set()),
    (edit("wants.txt", "1200", "1300"), {"compile", *MATCHED}),
    (edit("podcast.ttl", '"Arts"@en', '"Art"@en'), {"annotate", "compile", *MATCHED}),
    (edit("mapping.yaml", "time: at\n", ""), {"ingest", "annotate", *MATCHED}),
    (edit("pipeline.yaml", "[top, left", "[left, top"), {"plan", "report"}),
    (edit("pipeline.yaml", "name: test", "name: other"), {"report"}),
    (edit("log.csv", "n1,ann,left,1", "n1,ann,left,2,"), {"hops", "report"}),
    (edit("pipeline.yaml", "output", "options: {expand: true}\noutput"), {"match", "report"}),
    (touch, ALL - {"compile", "hops"}),
]


@pytest.mark.parametrize(("change", "again"), CHANGES)
def test_only_what_depends_on_a_change_is_done_again(
    file: Path, change: Callable[[Path], None], again: set[str]
) -> None:
    known = after(decided(file, {}))
    change(file.parent)
    decisions = decided(file, known)
    assert {d.stage for d in decisions if d.action != "skip"} == again
    assert all(d.action == "run" and d.why for d in decisions if d.stage in again)
    assert all(d.action == "skip" for d in decided(file, after(decisions)))


def test_new_files_are_a_run_of_their_own_each_time(file: Path) -> None:
    known = after(decided(file, {}))
    for number, name in ((2, "b"), (3, "c")):
        write_posts(file.parent / "posts" / f"{name}.jsonl", 10 * number, 2, 0)
        decisions = {d.stage: d for d in decided(file, known)}
        for stage in ("ingest", "annotate", "match"):
            assert (decisions[stage].action, decisions[stage].todo) == ("append", (number,))
        assert decisions["compile"].action == "skip"
        known = after(list(decisions.values()))
    (file.parent / "posts" / "b.jsonl").unlink()
    gone = {d.stage: d for d in decided(file, known)}
    assert gone["ingest"].action == "run" and gone["ingest"].todo == (4,)


REASONS = [
    (edit("podcast.ttl", '"Arts"@en', '"Art"@en'), "annotate", "the ontology changed"),
    (
        edit("pipeline.yaml", "podcast.ttl", "{files: podcast.ttl, reasoning: none}"),
        "annotate",
        "the reasoning changed",
    ),
    (edit("podcast.ttl", '"Arts"@en', '"Art"@en'), "match", "new results of compile"),
    (edit("wants.txt", "1200", "1300"), "compile", "the subscriptions changed"),
    (edit("wants.txt", "1200", "1300"), "medoids", "new results of compile"),
    (edit("pipeline.yaml", "[top, left", "[left, top"), "report", "new results of plan"),
    (edit("pipeline.yaml", "name: test", "name: other"), "report", "the name changed"),
    (touch, "ingest", "files changed or were removed"),
    (touch, "annotate", "the notifications changed"),
]


@pytest.mark.parametrize(("change", "stage", "why"), REASONS)
def test_the_reason_names_what_changed_and_nothing_else(
    file: Path, change: Callable[[Path], None], stage: str, why: str
) -> None:
    known = after(decided(file, {}))
    change(file.parent)
    assert {d.stage: d.why for d in decided(file, known)}[stage] == why


def test_the_reason_to_do_everything_again_is_told_by_every_stage(file: Path) -> None:
    assert {d.why for d in plan(file)} == {"it has not run yet"}
    assert {d.why for d in plan(file, full=True)} == {"--full: everything is done again"}
    out = file.parent / "out"
    out.mkdir()
    State("test", after(decided(file, {}))).write(out)
    (state := out / "state.json").write_text(
        state.read_text(encoding="utf-8").replace('"format": 3', '"format": 1'), encoding="utf-8"
    )
    assert {d.why for d in plan(file)} == {"another version of kbn made what is there"}


def test_a_stage_whose_tables_were_removed_says_so(file: Path) -> None:
    out = file.parent / "out"
    out.mkdir()
    known = {
        name: StageState(each.inputs, each.runs, {"plan": 1} if name == "plan" else {})
        for name, each in after(decided(file, {})).items()
    }
    State("test", known).write(out)
    told = {d.stage: d for d in plan(file)}
    assert told["plan"].why == "its tables were removed"
    assert told["medoids"].action == "skip"


WRONG = [
    ("subscriptions: wants.txt", "subscriptoins: wants.txt", "did you mean 'subscriptions'"),
    ("subscriptions: wants.txt\n", "", "subscriptions: is missing"),
    ("wants.txt", "want.txt", "subscriptions: no file"),
    ("posts/*.jsonl", "post/*.jsonl", "notifications[0].path"),
    ("format: json", "format: jsno", "did you mean 'json'"),
    ("mapping: mapping.yaml", "mapping: no.yaml", "notifications[0].mapping"),
    ("mapping: mapping.yaml", "mapping: {attributes: {a: {as: klass}}}", "did you mean 'class'"),
    ("ontology: podcast.ttl", "ontology: podcasts.ttl", ":2: ontology: there is no file"),
    ("ontology: podcast.ttl", "ontology: {files: podcast.ttl, reasoning: rdf}", "did you mean"),
    ("[top, left, right]", "[top, top]", "occurs twice"),
    ("name: test", "name: test\nname: twice", "occurs twice"),
    ("name: test", "name: [", "not YAML"),
    ("output: out", "output: log.csv", "should be a folder"),
    ("output: out", "output: out\noptions: {shards: 0}", "options.shards"),
    ("output: out", "output: out\nannotate: {category: clas}", "annotate.category"),
    ("output: out", "output: out\nannotate: {categry: class}", "did you mean 'category'"),
    ("output: out", "output: out\noptions: {unknown_terms: drop}", "options.unknown_terms"),
    ("log.csv", "mapping.yaml", "deliveries"),
]


@pytest.mark.parametrize(("old", "new", "told"), WRONG)
def test_a_file_that_says_something_wrong_is_refused_by_key(
    file: Path, old: str, new: str, told: str
) -> None:
    edit("pipeline.yaml", old, new)(file.parent)
    with pytest.raises(InvalidInputError) as refused:
        load_config(file)
    assert told in str(refused.value) and "pipeline.yaml" in str(refused.value)


def test_subscriptions_without_their_columns_are_refused(file: Path) -> None:
    (file.parent / "wants.csv").write_text("subscription,filters\n1,a = 1\n", encoding="utf-8")
    edit("pipeline.yaml", "wants.txt", "wants.csv")(file.parent)
    with pytest.raises(InvalidInputError, match="no column 'filter'; did you mean 'filters'"):
        load_config(file)


@pytest.mark.parametrize("format", ["csv", "csv.gz", "parquet"])
def test_a_mapping_to_a_column_that_no_file_has_is_refused(file: Path, format: str) -> None:
    """One file that lacks it beside others that have it is the file's fault: it is quarantined."""
    write = {"csv": _csv, "csv.gz": _packed, "parquet": _parquet}[format]
    (file.parent / "posts" / "a.jsonl").unlink(missing_ok=True)
    kind = format.removesuffix(".gz")
    edit("pipeline.yaml", '*.jsonl", format: json', f'*.{format}", format: {kind}')(file.parent)
    write(file.parent / "posts" / f"a.{format}", ["id", "at", "categry", "keywords", "duration"])
    with pytest.raises(
        InvalidInputError, match=r"mapping: it reads the column 'category', and no file has it; did"
    ):
        load_config(file)
    write(file.parent / "posts" / f"b.{format}", ["id", "at", "category", "keywords", "duration"])
    assert load_config(file).sources[0].attributes == {"category", "keywords", "duration"}


def _csv(path: Path, names: list[str]) -> None:
    path.write_text(",".join(names) + "\n" + ",".join(names) + "\n", encoding="utf-8")


def _packed(path: Path, names: list[str]) -> None:
    path.write_bytes(gzip.compress((",".join(names) + "\n").encode()))


def _parquet(path: Path, names: list[str]) -> None:
    pq.write_table(pa.table({name: ["x"] for name in names}), path)


def test_an_ontology_that_does_not_load_is_refused_before_spark(file: Path) -> None:
    (file.parent / "podcast.ttl").write_text("this is no Turtle", encoding="utf-8")

    def no_spark() -> None:
        raise AssertionError("too early")

    with pytest.raises(OntologyError, match=r"podcast\.ttl"):
        run(file, no_spark)  # type: ignore[arg-type]


def test_annotate_adds_to_the_mapping_and_takes_from_it(file: Path) -> None:
    assert load_config(file).annotate == {"category": "class"}
    edit("pipeline.yaml", "output: out", "annotate: {category: no, keywords: term}\noutput: out")(
        file.parent
    )
    assert load_config(file).annotate == {"keywords": "term"}


def test_two_runs_do_not_work_in_one_folder(file: Path) -> None:
    def meanwhile() -> None:
        run(file, meanwhile)  # type: ignore[arg-type]

    with pytest.raises(KbnError, match="another run is at work"):
        run(file, meanwhile)  # type: ignore[arg-type]


def test_a_damaged_state_says_what_to_do(file: Path) -> None:
    (file.parent / "out").mkdir()
    (file.parent / "out" / "state.json").write_text("{", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="--full"):
        plan(file)
    assert all(one.action == "run" for one in plan(file, full=True))
