"""`kbn bench match` at sizes that take no time: what it prints, what it checks, what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kbn.cli import main
from kbn.lab import siena
from kbn.lab.workloads import NAMES

TINY = ["--subscriptions", "300", "--events", "40", "--slow-subscriptions", "60"]
TINY += ["--slow-events", "6", "--time-cap", "20"]
KEYS = {
    *("engine", "subscriptions", "events", "events_per_second", "microseconds_per_event"),
    *("matches_per_event", "build_seconds", "memory_bytes", "rss_bytes", "checksum"),
}
WANTS = """\
prefix pod: <https://kbn.example/ontology/podcast#>
# who likes what
ann: category #>/@> {pod:Technology} and duration < 1800
category #> {pod:Arts} or explicit = true
"""
POSTS = """\
{"category": [{"class": "https://kbn.example/ontology/podcast#Gadgets"}], "duration": 900}
{"category": [{"class": "https://kbn.example/ontology/podcast#Arts"}], "explicit": true}
{"duration": 3600}
"""


def bench(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["bench", "match", *arguments, "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "wants.txt").write_text(WANTS, encoding="utf-8")
    (tmp_path / "posts.jsonl").write_text(POSTS, encoding="utf-8")
    return tmp_path


def from_files(folder: Path, wants: str = "wants.txt", posts: str = "posts.jsonl") -> list[str]:
    from kbn import data

    given = ["--subscriptions-file", str(folder / wants), "--events-file", str(folder / posts)]
    return [*given, "--ontology", str(data.path("podcast"))]


# One of each kind runs every time; those that differ from it in a number only, and those with a
# large ontology, run with the slow tests.
IN_SECONDS = frozenset({"mixed", "operators", "podcast", "ranges"})


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in IN_SECONDS else [pytest.mark.slow]) for name in NAMES],
)
def test_every_workload_runs_on_every_engine_and_they_agree(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = bench(capsys, "--workload", name, *TINY, "--seed", "3")
    assert (result["workload"], result["seed"]) == (name, 3)
    assert [engine["engine"] for engine in result["engines"]] == ["index", "scan", "poset"]
    assert all(engine.keys() >= KEYS for engine in result["engines"])
    assert len({engine["checksum"] for engine in result["engines"]}) == 1


def test_the_pivot_scan_has_the_whole_input_and_counts_as_the_index_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mixture = ["--workload", "mixed", "--attributes", "12", "--constraints", "2-4", "--values", "3"]
    mixture += ["--equalities", "0.5", "--skew", "1", "--present", "0.5", "--selectivity", "0.01"]
    result = bench(capsys, *mixture, *TINY, "--baseline", "pivot")
    index, pivot = result["engines"]
    assert (pivot["engine"], pivot["subscriptions"], pivot["events"]) == ("pivot", 300, 40)
    assert pivot["matches_per_event"] == index["matches_per_event"] > 0
    assert pivot["checksum"] == index["checksum"]
    assert main(["bench", "match", *mixture, *TINY, "--baseline", "pivot"]) == 0
    assert "pivot against index" in capsys.readouterr().out


def test_the_grid_measures_each_mixture_with_what_is_given_held_fixed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    small = ["--grid", "--skew", "1", "--present", "1", "--subscriptions", "200", "--events", "20"]
    result = bench(capsys, *small, "--values", "3")
    assert [cell["equalities"] for cell in result["cells"]] == [0.0, 0.3, 0.7, 1.0]
    assert all(cell["skew"] == 1.0 and cell["values"] == 3 for cell in result["cells"])
    assert all(cell["index_us"] > 0 and cell["pivot_us"] > 0 for cell in result["cells"])
    assert result["holds"] == all(cell["holds"] for cell in result["cells"])
    assert main(["bench", "match", *small, "--values", "3", "--equalities", "1"]) == 0
    assert "of 1 mixture" in capsys.readouterr().out
    assert main(["bench", "match", "--grid", "--workload", "u20"]) != 0
    assert "--grid makes its own input" in capsys.readouterr().err


def test_the_report_says_how_large_each_engine_was_and_what_was_not_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = bench(capsys, "--workload", "equalities", *TINY)
    index, scan, poset = result["engines"]
    assert (index["subscriptions"], index["events"]) == (300, 40)
    assert (scan["subscriptions"], scan["events"]) == (60, 6)
    assert poset["capped"] == "subscriptions by size, events by size"
    assert "not measured" in scan["extrapolated"]["how"]
    assert scan["extrapolated"]["subscriptions"] == 300
    ratio = scan["microseconds_per_event"] / scan["times_index_same_subscriptions"]
    assert ratio == pytest.approx(scan["index_microseconds_per_event_same_subscriptions"])
    assert result["cpu_count"] >= 1 and result["machine"]["numpy"]
    assert index["match_p50_microseconds"] <= index["match_p99_microseconds"]
    assert index["expanded_pairs_per_second"] > 0 and index["bulk_subscriptions_per_second"] > 0


def test_the_same_seed_gives_the_same_answers_and_another_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = [
        bench(capsys, "--workload", "podcast", *TINY, "--engines", "index", "--seed", seed)
        for seed in ("1", "1", "2")
    ]
    first, again, other = (run["engines"][0]["checksum"] for run in runs)
    assert first == again != other


def test_files_of_subscriptions_and_events(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = bench(capsys, *from_files(files))
    assert (result["workload"], result["subscriptions"], result["events"]) == ("files", 2, 3)
    assert [engine["matches_per_event"] for engine in result["engines"]] == [
        pytest.approx(2 / 3)
    ] * 3
    assert len({engine["checksum"] for engine in result["engines"]}) == 1


def test_subscriptions_as_json_lines_without_the_index(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = {"any": [{"all": [{"attribute": "duration", "op": "<", "value": 1800}]}]}
    lines = [json.dumps(few), json.dumps({"key": "ann", "subscription": few})]
    (files / "wants.jsonl").write_text("\n".join(lines), encoding="utf-8")
    result = bench(capsys, *from_files(files, wants="wants.jsonl"), "--engines", "scan")
    (scan,) = result["engines"]
    assert (scan["engine"], scan["subscriptions"]) == ("scan", 2)
    assert scan["matches_per_event"] == pytest.approx(2 / 3)


def test_a_number_takes_the_first_of_a_file(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = bench(capsys, *from_files(files), "--subscriptions", "1", "--engines", "scan,index")
    assert [engine["subscriptions"] for engine in result["engines"]] == [1, 1]


def test_a_table_for_people_and_json_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "figures.json"
    assert main(["bench", "match", "-w", "ranges", *TINY, "--out", str(out)]) == 0
    told = capsys.readouterr().out
    assert "poset against index" in told and "one match call" in told and "answers agree" in told
    assert "not measured" in told
    assert json.loads(out.read_text(encoding="utf-8"))["workload"] == "ranges"


def test_engines_that_disagree_end_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(self: object, notification: object) -> Iterable[int]:
        return set()

    monkeypatch.setattr(siena.SienaPoset, "match", nothing)
    assert main(["bench", "match", *TINY, "--engines", "index,poset"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "index and poset disagree" in told.err and "only index says" in told.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workload", "podcats"], "did you mean podcast"),
        (
            ["--workload", "nonsense"],
            "podcast, operators, equalities, ranges, wide, service, mixed, u20",
        ),
        (["--skew", "1"], "--skew goes with --workload mixed"),
        (["-w", "mixed", "--constraints", "few"], "as in 1-6"),
        (["-w", "mixed", "--constraints", "1-30"], "cannot be drawn"),
        (["-w", "podcast", "--baseline", "pivot"], "equalities and ranges of numbers"),
        (["--engines", "index,drools"], "there is no engine 'drools'"),
        (["--engines", ","], "no engine was named"),
        (["--subscriptions", "0"], "subscriptions must be at least 1"),
        (["--events", "-5"], "events must be at least 1"),
        (["--seed", "-1"], "seed must not be negative"),
        (["--time-cap", "0"], "time cap must be positive"),
        (["--ontology", "{wants}"], "a named workload has its own"),
        (["--subscriptions-file", "{wants}"], "give both"),
        (["--events-file", "{posts}"], "give both"),
        (
            ["--subscriptions-file", "{wants}", "--events-file", "{posts}", "-w", "wide"],
            "not both",
        ),
        (["--subscriptions-file", "no-such-file", "--events-file", "{posts}"], "no-such-file"),
    ],
)
def test_what_cannot_be_run_is_refused(
    files: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"wants": files / "wants.txt", "posts": files / "posts.jsonl"}
    given = [argument.format(**places) for argument in arguments]
    assert main(["bench", "match", *given]) == 2
    told = capsys.readouterr()
    assert told.out == "" and message in " ".join(told.err.split())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("wants.txt", "ann: duration <\n", "wants.txt:1:"),
        ("wants.txt", "\nann: category @> pod:Arts\n", "wants.txt:2:"),
        ("wants.txt", "x @> <https://kbn.example/ontology/podcast#Art>\n", "did you mean"),
        ("wants.txt", "# nothing\n", "holds no subscription"),
        ("posts.jsonl", '{"a": 1}\n{"a": \n', "posts.jsonl:2: not JSON"),
        ("posts.jsonl", '{"a": {"class": 3}}\n', "posts.jsonl:1:"),
        ("posts.jsonl", "\n", "holds no notification"),
    ],
)
def test_a_bad_file_is_refused_with_the_place(
    files: Path, name: str, content: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / name).write_text(content, encoding="utf-8")
    assert main(["bench", "match", *from_files(files)]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kbn.lab.match_bench.run", lambda *_: pytest.fail("the work was done"))
    assert main(["bench", "match", *TINY, "--out", str(tmp_path / "no" / "b.json")]) == 2
    assert "there is no such folder" in capsys.readouterr().err


LOAD = ["bench", "load", "--json", "--subscriptions"]


def test_bench_cover_gives_figures_of_each_workload(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--workloads", "u20,chain,below-one,incomparable", "-s", "300", "--changes", "40"]
    assert main(["bench", "cover", *given, "--json"]) == 0
    rows = {row["workload"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert list(rows) == ["u20", "chain", "below-one", "incomparable"]
    assert rows["chain"]["roots"] == rows["below-one"]["roots"] == 1
    assert 200 < rows["incomparable"]["roots"] < rows["incomparable"]["filters"] == 300
    for row in rows.values():
        assert row["changes"] == 40
        assert row["bulk_filters_per_second"] == pytest.approx(row["filters"] / row["bulk_s"])


def test_bench_cover_refuses_what_it_has_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "cover", "--workloads", "u20,nothing"]) == 2
    assert "there is no workload 'nothing'" in capsys.readouterr().err


def test_bench_load_gives_figures_of_each_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*LOAD, "500", "--seed", "3", "--forms", "arrow,json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [row["form"] for row in report["rows"]] == ["arrow", "json"]
    for row in report["rows"]:
        assert row["subscriptions"] == 500 and row["groups"] > 400
        assert row["constraints"] == pytest.approx(500 * 5, rel=0.2)
        assert row["subscriptions_per_second"] == pytest.approx(500 / row["cpu_s"])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--forms", "csv"], "no form 'csv'"),
        (["--skew", "1"], "--workload mixed only"),
        (["--workload", "nothing"], "nothing"),
    ],
)
def test_bench_load_refuses_what_it_has_not(
    more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*LOAD, "10", *more]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the system tells no peak")
def test_a_load_takes_at_most_twice_the_memory_of_its_index(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mixed = ["--workload", "mixed", "--constraints", "20", "--equalities", "0.5"]
    assert main([*LOAD, "20000", *mixed, "--forms", "arrow,objects,text"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert all(row["peak_ratio"] <= 2 for row in report["rows"]), report["rows"]
