"""`kbn groups plan` over a file of advertisements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kbn.cli import main
from kbn.errors import InvalidInputError
from kbn.grouping.advertisement_file import Advertised, read_advertisements

LINES = """\
{"publisher": "p1", "attributes": ["A", "D"], "connections": 3}
{"publisher": "p2", "advertisement": "D > 3", "connections": 1}

{"publisher": "p3", "attributes": ["A", "E"]}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "publishers.jsonl"
    path.write_text(LINES, encoding="utf-8")
    return path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["groups", "plan", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_clusters_come_with_rates_and_connections(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    got = told(capsys, str(file), "--strategy", "3.1", "--connections", "2")
    assert [cluster["combinations"] for cluster in got["clusters"]] == [
        [["A", "D"], ["D"]],
        [["A"]],
        [["A", "E"], ["E"]],
    ]
    assert [cluster["false_positive_rate"] for cluster in got["clusters"]] == [0.25, 0, 0]
    assert got["publishers"] == [
        {"publisher": "p1", "clusters": [2, 3], "limit": 3},
        {"publisher": "p2", "clusters": [2], "limit": 1},
        {"publisher": "p3", "clusters": [3, 4], "limit": 2},
    ]


def test_strategy_4_is_the_default_and_uses_what_3_1_leaves(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(capsys, str(file), "-c", "2")["false_positive_rate"] == 0


def test_strategies_without_limits_pass_over_them(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    got = told(capsys, str(file), "--strategy", "1")
    assert {publisher["limit"] for publisher in got["publishers"]} == {None}


def test_people_get_a_table(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", "plan", str(file), "-s", "3.1", "-c", "2"]) == 0
    out = capsys.readouterr().out
    assert "A+D, D" in out and "25.0%" in out and "2 of 3" in out


def test_an_advertisement_is_a_filter_as_text_or_json(tmp_path: Path) -> None:
    from kbn.filters import Subscription

    form = Subscription.parse("price < 10 and city any").to_json()
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"advertisement": form}), encoding="utf-8")
    assert read_advertisements(path) == [Advertised("1", frozenset({"price", "city"}), None)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[1]", "is an object"),
        ('{"publisher": "p1", "attributes": ["A"]}', "there already, in line 1"),
        ('{"attributes": "A"}', "list of names"),
        ('{"attributes": [1]}', "is a text"),
        ('{"attributes": []}', "at least one attribute"),
        ('{"attributes": ["A"], "advertisement": "A > 1"}', "either"),
        ('{"attributes": ["A"], "connections": 0}', "from 1"),
        ('{"attributes": ["A"], "connections": true}', "from 1"),
        ('{"attributes": ["A"], "publisher": 7}', "name is a text"),
        ('{"attribute": ["A"]}', "'attribute' is not one of"),
        ('{"attributes": ["A"], "attributes": ["B"]}', "twice"),
        ('{"advertisement": "A >"}', "line 1"),
    ],
)
def test_a_mistake_is_reported_with_its_line(file: Path, line: str, said: str) -> None:
    file.write_text(LINES.strip() + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match=said) as caught:
        read_advertisements(file)
    assert f"{file}:5: " in str(caught.value)
