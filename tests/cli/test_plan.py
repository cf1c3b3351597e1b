"""`kbn plan`, and the files of deliveries it reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kbn.cli import main
from kbn.data import namespace
from kbn.errors import InvalidInputError
from kbn.placement import Plan
from kbn.placement.delivery_file import read_deliveries

ANIMALS = namespace("animals")
BROKERS = ("--brokers", "top,left,right")
LINKS = ("--links", "top-left,top-right")
CSV = """\
day,publisher_medoid,subscriber_medoid,count
1,Gus,:Dixie,10
1,Food,Food,10
2,Gus,Dixie,5
2,,Dixie,99
"""
JSON_LINES = """\
{"publisher_medoid": ":Gus", "subscriber_medoid": "Dixie", "count": 15}

{"publisher_medoid": "Food", "subscriber_medoid": "Food", "count": 10}
{"publisher_medoid": null, "subscriber_medoid": "Food", "count": 10}
"""


@pytest.fixture
def deliveries(tmp_path: Path) -> str:
    path = tmp_path / "deliveries.csv"
    path.write_text(CSV, encoding="utf-8")
    return str(path)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["plan", "animals", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def brokers(made: Any) -> dict[str, str]:
    return {row["key"].removeprefix(ANIMALS): row["broker"] for row in made["clusters"]}


def test_the_taxonomic_plan_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    made = told(capsys, "--brokers", "top, left,right")
    assert made["planner"] == "taxonomic"
    assert brokers(made) == {
        "Animal": "top",
        "Food": "left",
        "Cats": "right",
        "Dogs": "top",
        "Mammal": "left",
    }


def test_the_plan_is_kept_in_the_form_a_policy_server_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    made = told(capsys, *BROKERS, "--output", str(path))
    kept = Plan.from_json(path.read_text(encoding="utf-8"))
    assert kept.to_json() == made
    assert kept.broker_for(ANIMALS + "Dixie") == "right"


def test_the_traffic_planner_puts_clusters_together_that_talk(
    deliveries: str, capsys: pytest.CaptureFixture[str]
) -> None:
    traffic = (*BROKERS, *LINKS, "--planner", "traffic", "--deliveries", deliveries)
    made = told(capsys, *traffic)
    assert made["planner"] == "traffic"
    assert brokers(made)["Cats"] == brokers(made)["Dogs"]
    # A fair share is a third of the load, and the two together are more than half of it.
    tight = told(capsys, *traffic, "--load-max", "1", "--seed", "3")
    assert brokers(tight)["Cats"] != brokers(tight)["Dogs"]


def test_people_see_what_the_traffic_planner_gains(
    deliveries: str, capsys: pytest.CaptureFixture[str]
) -> None:
    traffic = ("--planner", "traffic", "--deliveries", deliveries)
    assert main(["plan", "animals", *BROKERS, *LINKS, *traffic]) == 0
    assert "1.00 (taxonomic: 1.60)" in capsys.readouterr().out


def test_people_see_which_brokers_have_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "animals", "-b", "a,b,c,d,e,f,g"]) == 0
    out = capsys.readouterr().out
    assert "without a cluster  f, g" in out and ":Burmese, :Cats, :Dixie" in out


def test_an_order_changes_which_cluster_a_class_is_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = tmp_path / "listed.txt"
    listed.write_text("Animal\n", encoding="utf-8")
    made = told(capsys, *BROKERS, "--order", str(listed))
    assert ANIMALS + "Cats" in made["clusters"][0]["members"]


def test_names_of_brokers_may_have_dashes(
    deliveries: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("--brokers", "eu-west,eu-east", "--links", "eu-west-eu-east")
    made = told(capsys, *names, "--planner", "traffic", "--deliveries", deliveries)
    assert set(brokers(made).values()) <= {"eu-west", "eu-east"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--planner", "trafic"], "did you mean 'traffic'?"),
        (["--planner", "traffic"], "needs --links and --deliveries"),
        (["--links", "top-left"], "only with --planner traffic"),
        (["--load-max", "1.5", "--seed", "2"], "--load-max, --seed: only"),
        (["--output", "no-such-folder/plan.json"], "there is no such folder"),
        (["--deliveries", "gone.csv"], "gone.csv"),
        (["--brokers", "top,top"], "listed twice"),
        (["--brokers", "top,,left"], "not empty"),
    ],
)
def test_what_cannot_be_planned_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "animals", *BROKERS, *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("links", "said"),
    [
        ("top-left,top-rigth", "did you mean 'right'?"),
        ("top-left,top-nowhere", "there is no broker 'nowhere'; use top, left or right"),
        ("top-left,top", "a link is written a-b"),
        ("top-left", "no links lead from 'top' to 'right'"),
    ],
)
def test_links_that_are_none_are_refused(
    links: str, said: str, deliveries: str, capsys: pytest.CaptureFixture[str]
) -> None:
    traffic = ("--planner", "traffic", "--links", links, "--deliveries", deliveries)
    assert main(["plan", "animals", *BROKERS, *traffic]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("name", "text"), [("a.csv", CSV), ("a.jsonl", JSON_LINES)])
def test_deliveries_are_summed_up_and_clients_without_a_medoid_left_out(
    name: str, text: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    found = read_deliveries(path, lambda given: given.removeprefix(":"))
    assert found == {("Gus", "Dixie"): 15, ("Food", "Food"): 10}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "", "1: deliveries have"),
        ("a.csv", "publisher_medoid,count\nA,1\n", "1: .*subscriber_medoid is missing"),
        ("a.csv", "publisher_medoid,subscriber_medoid,count\nA,B,x\n", "2: 'count' is a whole"),
        ("a.csv", "publisher_medoid,subscriber_medoid,count\nA,B\n", "2: 'count' is a whole"),
        ("a.csv", 'publisher_medoid,subscriber_medoid,count\nA,"B" c,1\n', "2: not CSV"),
        ("a.jsonl", "{", "1: not JSON"),
        ("a.jsonl", "[1]", "1: deliveries are an object"),
        ("a.jsonl", '\n{"publisher_medoid": "A", "count": 1}', "2: .*missing"),
        (
            "a.jsonl",
            '{"publisher_medoid": 3, "subscriber_medoid": "A", "count": 1}',
            "1: 'publisher_medoid' is an IRI",
        ),
        (
            "a.jsonl",
            '{"publisher_medoid": "A", "subscriber_medoid": "A", "count": -1}',
            "1: 'count' is a whole",
        ),
        (
            "a.jsonl",
            '{"publisher_medoid": "A", "subscriber_medoid": "A", "count": true}',
            "1: 'count' is a whole",
        ),
    ],
)
def test_a_mistake_in_deliveries_is_reported_with_its_line(
    name: str, text: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=f"{name}:{said}"):
        read_deliveries(path, str)


def test_an_unknown_medoid_is_reported_with_its_line_and_what_may_be_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "d.csv"
    path.write_text("publisher_medoid,subscriber_medoid,count\nGuss,Dixie,1\n", encoding="utf-8")
    traffic = ("--planner", "traffic", "--deliveries", str(path))
    assert main(["plan", "animals", *BROKERS, *LINKS, *traffic]) == 2
    error = capsys.readouterr().err
    assert f"{path}:2: " in error and "animals#Gus" in error
