"""`kbn access`: what an access file says, what is wrong with it, and what it allows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kbn.broker import digest_of
from kbn.cli import main
from kbn.config import Form
from kbn.transport.access_file import AccessForm, BrokerEntryForm, EntryForm

Output = pytest.CaptureFixture[str]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "access-file.md"

ACCESS = f"""\
clients:
  ann:
    token_sha256: {digest_of("a")}
    subscribe: [title, price]
    limits: {{subscriptions: 3, text_bytes: 30, content_bytes: 100}}
  bob: {{token: b, publish: "*", manage: true}}
  max: {{token: m, publish: "*", manage: true, ontologies: true, block: true}}
brokers:
  cork: {{token: c}}
default: {{publish: [title]}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "access.yaml"
    path.write_text(ACCESS)
    return path


def test_a_file_is_shown_entry_by_entry_with_lines(
    file: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["access", "check", str(file)]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"clients\.ann +2 +yes +nothing +price, title +content_bytes 100, sub", out)
    assert out.endswith("valid: 3 clients, 1 broker; all others have the default\n") and not err
    assert main(["access", "check", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["valid"] and told["remarks"] == []
    assert [each["entry"] for each in told["entries"]] == [
        "clients.ann", "clients.bob", "clients.max", "brokers.cork", "default",
    ]  # fmt: skip
    limits = {"subscriptions": 3, "text_bytes": 30, "content_bytes": 100}
    assert told["entries"][0] == {
        "entry": "clients.ann", "line": 2, "token": True, "publish": [], "limits": limits,
        "subscribe": ["price", "title"], "manage": False, "ontologies": False, "block": False,
    }  # fmt: skip
    assert "b" not in [each.get("token") for each in told["entries"]]


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("clients: {ann: {publish: '*'}}", "1: clients.ann: has no token"),
        ("brokers: {cork: {}}", "1: brokers.cork: has no token"),
        ("default: {manage: true}", "1: default: anybody may manage"),
        ("clients:\n  a: {token: x, publish: '*'}\n  b: {token: x, publish: '*'}",
         "3: clients.b: has the token of clients.a"),
        ("clients: {a: {token: x, publish: '*', ontologies: true}}", "`ontologies` does nothing"),
        ("clients: {a: {token: x}}", "may come in and do nothing"),
        ("clients: {a: {token: x, manage: true}}\nbrokers: {a: {token: x}}", "also under brokers"),
    ],
)  # fmt: skip
def test_what_is_probably_not_meant_is_remarked_on(
    text: str, remark: str, tmp_path: Path, capsys: Output
) -> None:
    path = tmp_path / "access.yaml"
    path.write_text(text)
    assert main(["access", "check", str(path)]) == 0
    assert remark in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("clients:\n  a: {token: s}\n  b: {token: s}\n  a: {}\n",
         "access.yaml:4: the key 'a' occurs twice, first on line 2; remove one"),
        ("clients:\n  a: {token: s, token: t}\n", "access.yaml:2: the key 'token' occurs twice"),
        ("clients: {a: {token: s, tokn: t}}", "clients.a.tokn: unknown key; did you mean 'token'"),
        ("clients: {a: {publish: price}}", "clients.a.publish: expected a list of attributes"),
        ("clients: {a: {limits: {queue: -1}}}", "limits.queue: expected a whole number above 0"),
        ("clients: {a: {limits: {quue: 1}}}", "limits.quue: unknown key; did you mean 'queue'"),
        ("clients: {a: {token: x, token_sha256: " + "0" * 64 + "}}", "not both"),
        ("clients: {" + "n" * 257 + ": {}}", "longer than 256 characters"),
        ("clients: {a: {token: " + "t" * 4097 + "}}", "longer than 4096 characters"),
        ("- a", "expected"),
        ("clients: [", "not YAML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line_and_no_secret(
    text: str, problem: str, tmp_path: Path, capsys: Output
) -> None:
    path = tmp_path / "access.yaml"
    path.write_text(text)
    assert main(["access", "check", str(path)]) == 2
    err = capsys.readouterr().err
    assert problem in err and "t" * 4097 not in err
    assert main(["access", "check", str(path), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert not told["valid"] and problem in told["problems"][0]["reason"]


def test_in_json_both_lines_of_a_key_are_told_too(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "access.json"
    path.write_text('{"clients": {\n"a": {},\n"a": {}}}')
    assert main(["access", "check", str(path)]) == 2
    assert "access.json:3: the key 'a' occurs twice, first on line 2" in capsys.readouterr().err


TRIED = [
    ("ann subscribe price<5", 0, "allowed by clients.ann"),
    ("ann subscribe weight<5", 1, "may not subscribe to 'weight'"),
    (f"ann subscribe price<{10**17}.{10**17}", 1, "characters per subscription"),
    ("ann publish {\"title\":1}", 1, "may not publish 'title'"),
    ("ann manage", 1, "the right `manage`"),
    ("ann --token a connect", 0, "allowed by clients.ann"),
    ("ann --token b connect", 1, "client 'ann' is not admitted: check its token"),
    ("ann --block connect", 1, "the right `block`"),
    ("ann --durable connect", 0, "allowed by clients.ann"),
    ("ann link", 1, "it is not under `brokers` (cork)"),
    ("bob publish {\"x\":1}", 0, "allowed by clients.bob"),
    ("bob --durable publish {\"x\":1}", 0, "allowed by clients.bob"),
    ("bob advertise x>1", 0, "allowed by clients.bob"),
    ("bob subscribe x>1", 1, "may not subscribe to 'x': you may not subscribe to anything"),
    ("bob manage move-clients", 0, "allowed by clients.bob"),
    ("bob manage load-ontology", 1, "the right `ontologies`"),
    ("max manage load-ontology", 0, "allowed by clients.max"),
    ("max --block connect", 0, "allowed by clients.max"),
    ("cork link", 0, "allowed by brokers.cork"),
    ("cork --token x link", 1, "broker 'cork' is not admitted: check its token"),
    ("cork publish {\"x\":1}", 0, "allowed by brokers.cork"),
    ("cork manage", 1, "the right `manage`"),
    ("eve publish {\"title\":1}", 0, "allowed by default"),
    ("eve --token '' --durable connect", 1, "a durable client needs a token"),
    ("eve --token mine --durable connect", 0, "allowed by default"),
]  # fmt: skip


@pytest.mark.parametrize(("tried", "code", "told"), TRIED, ids=[each[0] for each in TRIED])
def test_a_trial_tells_what_a_broker_would_and_which_entry_decides(
    file: Path, tried: str, code: int, told: str, capsys: Output
) -> None:
    name, *words = tried.replace("''", "").split(" ")
    assert main(["access", "try", str(file), "--as", name, *words]) == code
    assert told in capsys.readouterr().out
    assert main(["access", "try", str(file), "--as", name, *words, "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    assert found["allowed"] == (code == 0) and (code == 0 or told in found["reason"])


def test_a_name_without_an_entry_is_refused_with_the_closest(
    tmp_path: Path, capsys: Output
) -> None:
    path = tmp_path / "access.yaml"
    path.write_text("clients: {annabel: {token: x, subscribe: '*'}}")
    assert main(["access", "try", str(path), "--as", "anabel", "connect"]) == 1
    assert "no entry for 'anabel', and no default; did you mean 'annabel'?" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("subscribe", "to subscribe, give a filter"),
        ("subscribe price<", "the text ends too early"),
        ("publish", "to publish, give a notification"),
        ("publish {", "not JSON"),
        ("manage lod-ontology", "did you mean 'load-ontology'"),
        ("connect now", "connect takes no argument"),
        ("link now", "link takes no argument"),
        ("fly", "is not one of"),
    ],
)
def test_what_makes_no_sense_is_no_refusal_but_a_mistake(
    file: Path, words: str, problem: str, capsys: Output
) -> None:
    assert main(["access", "try", str(file), "--as", "ann", *words.split(" ")]) == 2
    out, err = capsys.readouterr()
    assert problem in err and not out


def test_a_subscription_may_use_the_terms_of_an_ontology(file: Path, capsys: Output) -> None:
    tried = ["access", "try", str(file), "--as", "ann", "subscribe", "title @> podcast:Gadgets"]
    assert main(tried) == 2
    assert "podcast" in capsys.readouterr().err
    assert main([*tried, "--ontology", "podcast"]) == 0


def test_the_page_names_every_key() -> None:
    tables = "\n".join(line for line in PAGE.read_text("utf-8").splitlines() if line[:1] == "|")
    forms: list[type[Form]] = [AccessForm, EntryForm, BrokerEntryForm]
    for key in {name for form in forms for name in form.__struct_fields__}:
        assert f"| `{key}` |" in tables, key
