"""`kbn policy` checks and lists, `kbn mib` looks into a file."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbn.cli import main
from kbn.cli.mib import SHOWN
from kbn.management.mib import Mib
from kbn.management.reports import BrokerInfo, NotificationReport, SubscriberInfo
from kbn.management.schema import FIELDS, KINDS

GOOD = """\
policies:
  - {name: ask, every: 30 s, do: {action: request-notification-reports, interval: 30 s}}
  - {name: off, on: SubscriberInfo, when: size(subscriber.marks) == 0, do: recluster, enabled: no}
"""
BAD = (
    "policies:\n  - {name: a, on: SubscriberInfo, when: subscriber.mean_hop > 1.5, do: recluster}\n"
)

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables fold their cells in narrow terminals."""
    monkeypatch.setenv("COLUMNS", "200")


def told(capsys: Output, *arguments: str, code: int = 0) -> Any:
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


# Policies.


def test_good_policies_are_told_and_counted(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    assert main(["policy", "check", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "valid: 2 policies, 1 of them not enabled" in shown
    assert "every 30 s" in shown and "off (off)" in shown and "interval=30.0" in shown
    found = told(capsys, "policy", "check", str(path))
    assert found["valid"] and found["policies"][0]["do"][0]["interval"] == 30.0
    assert [each["one_by_one"] for each in found["policies"]] == [False, True]


def test_bad_policies_are_refused_with_file_line_and_column(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    assert main(["policy", "check", str(path)]) == 2
    assert f"{path}:2:52: policies[0].when: a subscriber has no field" in capsys.readouterr().err
    found = told(capsys, "policy", "check", str(tmp_path), code=2)
    assert not found["valid"]
    assert (found["problems"][0]["line"], found["problems"][0]["column"]) == (2, 52)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path, capsys: Output) -> None:
    assert main(["policy", "check", str(tmp_path / "nowhere.yaml")]) == 2
    assert "nowhere.yaml" in capsys.readouterr().err


def test_the_shipped_policies_are_listed_and_can_be_checked(capsys: Output) -> None:
    found = {each["name"]: each for each in told(capsys, "policy", "list")}
    assert found["place-new-subscribers"]["on"] == "SubscriberInfo"
    assert main(["policy", "list"]) == 0
    assert "misplaced-subscribers" in capsys.readouterr().out
    assert main(["policy", "list", "--paths"]) == 0
    paths = capsys.readouterr().out.split()
    assert main(["policy", "check", *paths]) == 0
    capsys.readouterr()


# The MIB.


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """A MIB's file, while its policy server still has it."""
    path = tmp_path / "mib.db"
    with Mib(path) as mib:
        mib.apply(BrokerInfo("east", "kbn://east:7431"), 1.0)
        for number in range(5):
            mib.apply(SubscriberInfo(f"s{number}", "east", "ex:Tea", number / 2, 1), 2.0)
        mib.apply(NotificationReport.of("s3", "east", {2: 4}, {}), 3.0)
        mib.mark("subscriber", "s3", "far")
        mib.commit()
        mib.apply(SubscriberInfo("later", "east", None, 0.0, 1), 4.0)
        yield path


def test_objects_are_counted(file: Path, capsys: Output) -> None:
    assert told(capsys, "mib", str(file)) == {"brokers": 1, "subscribers": 5, "publishers": 0}
    assert main(["mib", str(file)]) == 0
    assert "subscribers  5" in capsys.readouterr().out


def test_objects_are_chosen_by_a_condition(file: Path, capsys: Output) -> None:
    asked = ["mib", str(file), "--kind", "subscriber", "--where", "subscriber.spread >= 1.0"]
    found = told(capsys, *asked)
    assert [each["name"] for each in found] == ["s2", "s3", "s4"]
    assert found[1]["histogram"] == {"2": 4} and found[1]["marks"] == ["far"]
    assert main(asked) == 0
    shown = capsys.readouterr().out
    assert '["far"]' in shown and "mean_hops" in shown and "s1" not in shown


def test_columns_and_a_limit(file: Path, capsys: Output) -> None:
    asked = ["mib", str(file), "-k", "subscriber", "--columns", "name, spread", "--limit", "2"]
    assert main([*asked, "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out) == [
        {"name": "s0", "spread": 0.0},
        {"name": "s1", "spread": 0.5},
    ]
    assert "2 of 5" in output.err
    assert len(told(capsys, *asked[:-1], "0")) == 5


def test_terms_are_named_as_an_ontology_names_them(
    file: Path, tmp_path: Path, capsys: Output
) -> None:
    known = tmp_path / "drinks.ttl"
    known.write_text(
        "@prefix ex: <ex:> . ex:Tea a <http://www.w3.org/2002/07/owl#Class> ; "
        '<http://www.w3.org/2000/01/rdf-schema#label> "black tea" .'
    )
    asked = ["mib", str(file), "-k", "subscriber", "--columns", "name,medoid"]
    assert main([*asked, "-o", str(known)]) == 0
    assert "ex:Tea (black tea)" in capsys.readouterr().out
    assert main(asked) == 0
    assert "black" not in capsys.readouterr().out


def test_people_read_local_times_and_programs_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setenv("TZ", "Europe/Dublin")
    time.tzset()
    try:
        with Mib(tmp_path / "mib.db") as mib:
            mib.apply(SubscriberInfo("ann", "east", None, 0.0, 1), 1_750_000_000.0)
            mib.commit()
        asked = ["mib", str(tmp_path / "mib.db"), "-k", "subscriber", "-c", "seen_at,placed_at"]
        assert main(asked) == 0
        shown = capsys.readouterr().out.splitlines()[-1]
        assert shown.split() == ["2025-06-15", "16:06:40+01:00", "never"]
        assert told(capsys, *asked) == [{"seen_at": 1_750_000_000.0, "placed_at": 0.0}]
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--where", "true"], "say of which kind"),
        (["--kind", "broker", "--columns", "name,lod"], "no field 'lod'"),
        (["--kind", "broker", "--where", "broker.lod > 1"], "did you mean 'load'"),
        (["--kind", "router"], "router"),
    ],
)
def test_what_has_no_meaning_is_refused(
    file: Path, arguments: list[str], reason: str, capsys: Output
) -> None:
    assert main(["mib", str(file), *arguments]) == 2
    assert reason in capsys.readouterr().err


def test_a_file_that_is_no_mib_is_refused(tmp_path: Path, capsys: Output) -> None:
    assert main(["mib", str(tmp_path / "nowhere.db")]) == 2
    assert "nowhere.db' does not exist" in capsys.readouterr().err
    (tmp_path / "text.db").write_text("hello " * 1000)
    assert main(["mib", str(tmp_path / "text.db")]) == 1
    assert "not the MIB" in capsys.readouterr().err


def test_what_is_shown_of_each_kind_are_fields_of_it() -> None:
    assert all(set(SHOWN[kind]) <= {"name", *FIELDS[kind]} for kind in KINDS)
