"""Files of configuration: what they mean, and what is said about whatever is wrong in them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from kbn.config import AS_WRITTEN, ConfigError, Document, Form, Text, Word, did_you_mean, or_one_of
from kbn.config import document as documents


class BrokerForm(Form, frozen=True):
    port: Annotated[int, Meta(ge=0, le=65535, description="a port", extra=AS_WRITTEN)] = 0
    peers: Word | list[Word] | None = None
    host: Text | None = None


class OverlayForm(Form, frozen=True):
    brokers: Annotated[dict[Word, BrokerForm | None], Meta(description="names of brokers")]
    routing: Literal["acyclic", "general"] = "acyclic"
    flag: bool = False
    rate: float = 1.0
    anything: Any = None
    renamed: Text | None = msgspec.field(name="as", default=None)


def written(folder: Path, content: str | bytes, name: str = "o.yaml") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(folder: Path, content: str | bytes, name: str = "o.yaml") -> OverlayForm:
    return Document.read(written(folder, content, name), "the overlay").root.convert(OverlayForm)


def told(folder: Path, content: str | bytes, name: str = "o.yaml") -> list[str]:
    """What is wrong with a file, each with its line and path, without the folder."""
    with pytest.raises(ConfigError) as caught:
        read(folder, content, name)
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    return [str(each).removeprefix(f"{folder}/") for each in caught.value.problems]


# What is right.


def test_a_file_becomes_a_struct(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "routing: general\nflag: yes\nrate: 2\nas: x\n"
        "brokers:\n  a: {port: 7000, peers: b}\n  b:\n  c: {peers: [a, b]}\n",
    )
    assert (found.routing, found.flag, found.rate, found.renamed) == ("general", True, 2.0, "x")
    assert found.brokers["a"] == BrokerForm(port=7000, peers="b")
    assert found.brokers["b"] is None
    assert found.brokers["c"] == BrokerForm(peers=["a", "b"])


def test_json_says_the_same_as_yaml(tmp_path: Path) -> None:
    text = '{"brokers":\n\t{"a": {"host": "\\ud83d\\ude00 \\u00e9", "port": 1}}, "rate": 1e3}'
    assert read(tmp_path, text, "o.json").brokers["a"] == BrokerForm(port=1, host="\U0001f600 é")
    plain = '{"brokers": {"a": {"port": 1}}, "rate": 1e3}'
    assert read(tmp_path, plain, "o.json") == read(tmp_path, plain, "o.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("yes", True), ("Off", False), ("12", 12),
        ("-0750", -750), ("1_000", 1000), ("0x1F", 31), ("1.5", 1.5), ("1e3", "1e3"),
        (".inf", float("inf")), ("12:30", "12:30"), ("2026-01-01", "2026-01-01"), ("'12'", "12"),
        ('"no"', "no"), ("!!str 12", "12"), ("!!int '12'", 12), ("[1, [a]]", [1, ["a"]]),
        ("{1: a, on: b}", {"1": "a", "on": "b"}), ("9" * 5000, "9" * 5000),
    ],
)  # fmt: skip
def test_a_scalar_means_what_people_expect(tmp_path: Path, text: str, value: object) -> None:
    found = read(tmp_path, f"brokers: {{}}\nanything: {text}\n").anything
    assert found == value and type(found) is type(value)


def test_a_token_like_a_power_of_ten_is_a_text_and_where_a_number_stands_a_number(
    tmp_path: Path,
) -> None:
    found = read(tmp_path, "brokers: {a: {host: 12e3}}\nrate: 12e3\n")
    assert (found.brokers["a"], found.rate) == (BrokerForm(host="12e3"), 12000.0)
    assert told(tmp_path, "brokers: {}\nrate: '2'\n") == [
        "o.yaml:2: rate: expected a number, not '2'"
    ]


def test_where_only_a_word_can_stand_it_is_taken_as_written(tmp_path: Path) -> None:
    found = read(tmp_path, "brokers:\n  no: {port: '07000', peers: [1.10, on]}\n  2:\n")
    assert found.brokers == {"no": BrokerForm(port=7000, peers=["1.10", "on"]), "2": None}


def test_anchors_and_merges_work(tmp_path: Path) -> None:
    text = (
        "anything: &base {port: 1, peers: x}\n"
        "brokers:\n  a: *base\n  b: {<<: *base, port: 2}\n  c: {<<: [{port: 3}, *base]}\n"
    )
    assert read(tmp_path, text).brokers == {
        "a": BrokerForm(port=1, peers="x"),
        "b": BrokerForm(port=2, peers="x"),
        "c": BrokerForm(port=3, peers="x"),
    }


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbfbrokers: {}\n").brokers == {}
    assert read(tmp_path, b'\xef\xbb\xbf{"brokers": {}}', "o.json").brokers == {}


# What is wrong.


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("brokers:\n  a:\nbroker: 3\n", "o.yaml:3: broker: unknown key; did you mean 'brokers'?"),
        ("brokers:\n  a:\n    prot: 1\n", "o.yaml:3: brokers.a.prot: unknown key; did you mean"),
        ("brokers:\n  a: {x: 1}\n", "o.yaml:2: brokers.a.x: unknown key; use port, peers or host"),
        ("brokers:\n  a: {port: x}\n", "o.yaml:2: brokers.a.port: expected a port, not 'x'"),
        ("brokers:\n  a: {port: 70000}\n", "o.yaml:2: brokers.a.port: expected a port, not 70000"),
        ("brokers:\n  a: {port: 1.5}\n", "o.yaml:2: brokers.a.port: expected a port, not 1.5"),
        ("brokers:\n  a: 5\n", "o.yaml:2: brokers.a: expected port, peers, host, not 5"),
        ("brokers:\n  a:\n    peers:\n    - b\n    - [c]\n", "o.yaml:5: brokers.a.peers[1]: "),
        ("brokers:\n  a: {host: no}\n", "brokers.a.host: expected a text, not False; put it in"),
        ("brokers:\n  a: {host: ''}\n", "brokers.a.host: expected a text, not ''"),
        ("brokers:\n  '': {}\n", "o.yaml:2: brokers.: as a name, expected a text, not ''"),
        ("brokers: [a]\n", "o.yaml:1: brokers: expected names of brokers, not ['a']"),
        ("brokers:\n", "o.yaml:1: brokers: expected names of brokers, not nothing"),
        ("routing: general\n", "o.yaml:1: brokers: is missing; expected names of brokers"),
        ("", "o.yaml:1: brokers: is missing; expected names of brokers"),
        ("# nothing\n", "o.yaml:1: brokers: is missing"),
        ("- a\n", "o.yaml:1: expected brokers, routing, flag, rate, anything, as, not ['a']"),
        ("5\n", "o.yaml:1: expected brokers, routing, flag"),
        ("brokers: {}\nrouting: genral\n", "o.yaml:2: routing: 'genral' is unknown; did you mean"),
        ("brokers: {}\nrouting: x\n", "routing: 'x' is unknown; use acyclic or general"),
        ("brokers: {}\nrouting: [x]\n", "routing: expected acyclic, general, not ['x']"),
        ("brokers: {}\nflag: perhaps\n", "o.yaml:2: flag: expected true or false, not 'perhaps'"),
        ("brokers: {}\nflag: 'true'\n", "o.yaml:2: flag: expected true or false, not 'true'"),
        ("brokers: {}\nrate: fast\n", "o.yaml:2: rate: expected a number, not 'fast'"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_line_and_path(tmp_path: Path, text: str, problem: str) -> None:
    (found,) = told(tmp_path, text)
    assert found.startswith(problem) or problem in found


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = "rate: fast\nbrokers:\n  a: {port: x, hots: h}\n  b: {port: -1}\nflag: 3\nx: 1\n"
    assert [each.split(": ")[0:2] for each in told(tmp_path, text)] == [
        ["o.yaml:1", "rate"],
        ["o.yaml:3", "brokers.a.port"],
        ["o.yaml:3", "brokers.a.hots"],
        ["o.yaml:4", "brokers.b.port"],
        ["o.yaml:5", "flag"],
        ["o.yaml:6", "x"],
    ]


def test_of_very_many_mistakes_the_first_are_shown(tmp_path: Path) -> None:
    lines = "".join(f"  b{number}: {{prot: 1}}\n" for number in range(5_000))
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, "brokers:\n" + lines)
    shown = str(caught.value).splitlines()
    assert len(caught.value.problems) == 5_000 and caught.value.problems[-1].line == 5_001
    assert len(shown) == 21 and shown[-1] == "… and 4980 more"
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("brokers: {}\nflag: yes\nflag: no\n", "o.yaml:3: the key 'flag' occurs twice"),
        ("brokers: {a: , 'a': }\n", "o.yaml:1: the key 'a' occurs twice"),
        ("brokers: {? [a] : b}\n", "o.yaml:1: a key is a text"),
        ("brokers: [\n", "o.yaml:2: not YAML"),
        ("brokers: {}\nflag:\n\tyes\n", "o.yaml:3: not YAML: "),
        ("a: b: c\n", "o.yaml:1: not YAML: mapping values are not allowed"),
        ("brokers: {}\n---\nbrokers: {}\n", "o.yaml:2: not YAML: but found another document"),
        ("brokers: *a\n", "o.yaml:1: not YAML: found undefined alias"),
        ("brokers: {}\nanything: \x01\n", "o.yaml:2: not YAML: control or"),
        ("anything: !!python/name:os.system x\nbrokers: {}", "o.yaml:1: not understood: !!python"),
        ("anything: !!set {a}\nbrokers: {}", "o.yaml:1: not YAML that a configuration may use"),
        ("anything: !!int x\nbrokers: {}", "o.yaml:1: not understood: !!int"),
        ("brokers: {<<: 3}\n", "o.yaml:1: <<: expected a mapping"),
        (b"brokers:\n  \xff: {}\n", "o.yaml:2: not UTF-8 text; save it in that encoding"),
        (b"\xff\xfeb\x00", "o.yaml:1: not UTF-8 text"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_line(
    tmp_path: Path, content: str | bytes, problem: str
) -> None:
    (found,) = told(tmp_path, content)
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"brokers":\n {"a": {}, "a": {}}}', "o.json:2: the key 'a' occurs twice"),
        ('{"brokers":\n {,}}', "o.json:2: not JSON: Expecting property name"),
        ('{"brokers":\n {"a":\n {"prot": 1}}}', "o.json:3: brokers.a.prot: unknown key"),
        ('{"brokers": {}, "rate": "1"}', "o.json:1: rate: expected a number, not '1'"),
        ("[" * 100_000, "o.json:1: nested"),
        ('{"anything": ' + "[" * 70 + "]" * 70 + "}", "o.json:1: nested deeper than 64 levels"),
        ("", "o.json:1: not JSON"),
    ],
)
def test_json_is_refused_likewise(tmp_path: Path, text: str, problem: str) -> None:
    assert told(tmp_path, text, "o.json")[0].startswith(problem)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ('{"x": "\\ud83d\\ude00", "x": 1}', 1, "the key 'x' occurs twice"),
        ('{"brokers": {"a":\n {"host": "\\ud83d\\ude00", "prot": 1}}}', 2, "brokers.a.prot: "),
        ('{"brokers":\n {"\\uD83D\\uDE00": {"prot": 1}}}', 2, "brokers.😀.prot: "),
        ('{"brokers": {"a":\n {"host": "\\ud83d", "prot": 1}}}', 2, "brokers.a.prot: "),
        ('{"brokers": {"a":\n {"host": "\\\\ud83d", "prot": 1}}}', 2, "brokers.a.prot: "),
    ],
)
def test_json_with_escapes_that_yaml_does_not_have_is_told_with_its_line(
    tmp_path: Path, text: str, line: int, problem: str
) -> None:
    (found,) = told(tmp_path, text, "o.json")
    assert found.startswith(f"o.json:{line}: {problem}")


def test_what_nests_too_deep_is_refused(tmp_path: Path) -> None:
    for text in ("[" * 5_000, "anything: " + "[" * 64 + "]" * 64, "- " * 200 + "a"):
        assert told(tmp_path, text) == ["o.yaml:1: nested deeper than 64 levels"]
    text = "brokers: {}\nanything: &a [*a]\n"
    assert told(tmp_path, text) == ["o.yaml:2: nested deeper than 64 levels, aliases expanded"]


def test_aliases_that_expand_to_too_much_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    (found,) = told(tmp_path, "brokers: {}\nanything:\n  " + "\n  ".join(lines))
    assert "aliases stand for more than 100,000 values" in found


def test_merges_of_too_much_are_refused(tmp_path: Path) -> None:
    keys = ", ".join(f"k{n}: 1" for n in range(2_000))
    merges = "\n".join(f"  - {{<<: *a, x: {n}}}" for n in range(60))
    (found,) = told(tmp_path, f"brokers: {{}}\nanything:\n  - &a {{{keys}}}\n{merges}")
    assert "<< merges more than 100,000 keys" in found


def test_a_file_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "SIZE_MAX", 1024 * 1024)
    assert read(tmp_path, "brokers: {}\n#" + "x" * 1000).brokers == {}
    (found,) = told(tmp_path, "brokers: {}\n#" + "x" * 1024 * 1024)
    assert found == "o.yaml: larger than 1 MiB, the limit of a configuration"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot read the overlay: No such file"):
        Document.read(tmp_path / "none.yaml", "the overlay")
    with pytest.raises(ConfigError, match="cannot read the overlay: Is a directory"):
        Document.read(tmp_path, "the overlay")


# Places.


def test_a_place_knows_its_line_and_column(tmp_path: Path) -> None:
    text = "brokers:\n  a: {host: 'x y'}\nanything: >-\n  folded\n  text\n"
    root = Document.read(written(tmp_path, text), "the overlay").root
    assert (root.at("brokers").line, root.at("brokers", "a", "host").line) == (2, 2)
    assert root.at("brokers", "a", "host").column == 14
    assert (root.at("anything").line, root.at("anything").column) == (3, None)
    assert root.at("brokers", "b", "port").line == 2
    error = root.at("brokers", "a", "host").error("is taken; choose another")
    assert str(error) == f"{tmp_path}/o.yaml:2: brokers.a.host: is taken; choose another"
    assert root.at("brokers").data() == {"a": {"host": "x y"}}


def test_what_is_right_is_kept_beside_what_is_wrong(tmp_path: Path) -> None:
    root = Document.read(written(tmp_path, "brokers: {}\nflag: 3\nrate: 2\n"), "it").root
    found, problems = root.convert_valid_keys(OverlayForm)
    assert found == OverlayForm(brokers={}, rate=2.0) and len(problems) == 1
    root = Document.read(written(tmp_path, "brokers: 3\nrate: 2\n"), "it").root
    assert root.convert_valid_keys(OverlayForm)[0] is None


def test_data_is_checked_like_a_file_and_has_no_lines() -> None:
    with pytest.raises(ConfigError, match=r"^call: brokers\.a\.prot: unknown key"):
        Document.of({"brokers": {"a": {"prot": 1}}}, "call").root.convert(OverlayForm)
    with pytest.raises(ConfigError, match=r"^call: brokers\.3: as a name, expected a text, not 3"):
        Document.of({"brokers": {3: None}}, "call").root.convert(OverlayForm)


# Close names.


def test_at_most_three_close_names_are_named() -> None:
    assert did_you_mean("naem", ["name"]) == "; did you mean 'name'?"
    many = did_you_mean("broker", [f"broker{n}" for n in range(14)])
    assert many.count("broker") == 3
    assert did_you_mean("subscribr", ["subscriber", "subscription"]) == (
        "; did you mean 'subscriber'?"
    )
    assert or_one_of("x", ["port"]) == "; use port"
    assert or_one_of("x", [f"key{n}" for n in range(40)]).endswith("key15, …")
