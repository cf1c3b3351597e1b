"""`kbn match` over files, and the files it reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbn import InvalidInputError, LimitError
from kbn.cli import main
from kbn.filters.files import read_notifications, read_subscriptions

ONTOLOGY = """
@prefix ex: <http://example.org/zoo#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:Animal a owl:Class .
ex:Cow a owl:Class ; rdfs:subClassOf ex:Animal .
"""
WANTS = """\
# who wants what
prefix zoo: <http://example.org/zoo#>

ann: subject @> zoo:Animal
bob: subject @> ex:Cow and legs > 3
legs < 3
"""
POSTS = """\
{"subject": {"class": "http://example.org/zoo#Cow"}, "legs": 4}

{"legs": 2}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "zoo.ttl").write_text(ONTOLOGY, encoding="utf-8")
    (tmp_path / "wants.txt").write_text(WANTS, encoding="utf-8")
    (tmp_path / "posts.jsonl").write_text(POSTS, encoding="utf-8")
    return tmp_path


def match(folder: Path, *more: str, wants: str = "wants.txt", posts: str = "posts.jsonl") -> int:
    where = ["-s", str(folder / wants), "-n", str(folder / posts), "-o", str(folder / "zoo.ttl")]
    return main(["match", *where, *more])


def test_each_notification_gives_a_line(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert match(files, "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        {"notification": "1", "matches": ["ann", "bob"]},
        {"notification": "2", "matches": ["3"]},
    ]


def test_lines_for_people(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert match(files) == 0
    assert capsys.readouterr().out.splitlines() == [
        "notification  wanted by",
        "1             ann, bob",
        "2             3",
    ]


def test_a_line_ends_only_where_json_says_it_does(files: Path) -> None:
    odd = "x\u2028\x85y"
    (files / "posts.jsonl").write_text(
        f'{{"a": "{odd}"}}\r\n{{"a": 1}}\r\n', encoding="utf-8", newline=""
    )
    (files / "wants.txt").write_text(f'ann: a = "{odd}"\r\n', encoding="utf-8", newline="")
    (post, _), ((key, want),) = (
        list(read_notifications(files / "posts.jsonl")),
        list(read_subscriptions(files / "wants.txt", {})),
    )
    assert post["a"] == odd and key == "ann" and want.matches(post)


def test_subscriptions_as_json(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = {"any": [{"all": [{"attribute": "legs", "op": "<", "value": 3}]}]}
    forms = [{"key": "cyd", "subscription": few}, few]
    (files / "wants.json").write_text(json.dumps(forms), encoding="utf-8")
    assert match(files, "--json", wants="wants.json") == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last == {"notification": "2", "matches": ["2", "cyd"]}


def test_a_mistake_in_a_subscription_names_file_and_line(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "wants.txt").write_text("ann: legs < 3\n bob: legs <! 4\n", encoding="utf-8")
    assert match(files) == 2
    place, line, caret, _ = capsys.readouterr().err.splitlines()
    assert place.startswith(f"error: {files / 'wants.txt'}:2:") and "line 1" not in place
    column = int(place.split("wants.txt:2:")[1].partition(":")[0])
    assert line == "   bob: legs <! 4"
    assert caret.index("^") - 2 == column - 1


def test_an_unknown_term_in_a_subscription_is_invalid(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "wants.txt").write_text("ann: subject @> ex:Cwo\n", encoding="utf-8")
    assert match(files) == 2
    told = capsys.readouterr().err
    assert "wants.txt:1: the ontology defines no" in told and "did you mean" in told


def test_an_error_in_a_file_is_still_the_error_it_was(files: Path) -> None:
    from kbn import Ontology, UnknownTermError

    zoo = Ontology.load(files / "zoo.ttl")
    (files / "wants.txt").write_text("subject @> ex:Cwo\n", encoding="utf-8")
    with pytest.raises(UnknownTermError) as caught:
        list(read_subscriptions(files / "wants.txt", zoo.prefixes, zoo))
    assert caught.value.closest == ("http://example.org/zoo#Cow",)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("wants.txt", "ann: a = 1\n\nann: a = 2\n", r"wants\.txt:3: the key 'ann' .*wants\.txt:1"),
        ("wants.txt", "2: a = 1\na = 2\n", r"wants\.txt:2: the key '2' .*wants\.txt:1"),
        (
            "wants.jsonl",
            '{"key": "ann", "subscription": []}\n{"key": "ann", "subscription": []}\n',
            r"wants\.jsonl:2: the key 'ann'",
        ),
    ],
)
def test_a_key_that_is_given_twice_is_invalid(
    files: Path, name: str, content: str, told: str
) -> None:
    (files / name).write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=told):
        list(read_subscriptions(files / name, {}))


def test_json_nested_too_deep_is_a_limit_and_a_name_given_twice_is_invalid(files: Path) -> None:
    path = files / "posts.jsonl"
    path.write_text('{"a": ' + "[" * 3000 + "]" * 3000 + "}", encoding="utf-8")
    with pytest.raises(LimitError, match=r"posts\.jsonl:1: .*deep"):
        list(read_notifications(path))
    path.write_text('{"a": 1, "a": 2}', encoding="utf-8")
    with pytest.raises(
        InvalidInputError, match=r"posts\.jsonl:1: an object has the name 'a' twice"
    ):
        list(read_notifications(path))


def test_compiling_kernels_is_said_on_stderr_alone(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kbn.matching.kernels.are_compiled", lambda **_: False)
    assert match(files, "--json") == 0
    told = capsys.readouterr()
    assert told.err.count("compiling the matching kernels") == 1
    assert [json.loads(line)["notification"] for line in told.out.splitlines()] == ["1", "2"]
    monkeypatch.setattr("kbn.matching.kernels.are_compiled", lambda **_: True)
    assert match(files, "--json") == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "content", ["{", "[1]", '{"a": {"class": 3}}', "nonsense", "[" * 100_000, '{"a": null}']
)
def test_bad_notifications_are_invalid_with_their_place(files: Path, content: str) -> None:
    path = files / "posts.jsonl"
    path.write_text('{"a": 1}\n' + content, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"posts\.jsonl:2"):
        list(read_notifications(path))


def test_a_file_that_is_not_text_is_invalid(files: Path) -> None:
    (files / "wants.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInputError, match="not UTF-8"):
        list(read_subscriptions(files / "wants.txt", {}))


def test_a_notification_with_an_id_is_known_by_it(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from kbn import Notification

    form = Notification({"legs": 2}, id="stool").to_json()
    (files / "posts.json").write_text(json.dumps([form]), encoding="utf-8")
    assert match(files, "--json", posts="posts.json") == 0
    assert json.loads(capsys.readouterr().out)["notification"] == "stool"
