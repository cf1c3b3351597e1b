"""`kbn broker`, `publish`, `subscribe`, `status` and `overlay`, as real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbn.cli import main

PATIENCE_S = 120
pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")


def start(*arguments: str, folder: Path | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kbn", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def start_broker(*arguments: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    process = start("broker", "--port", "0", "--json", *arguments)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return process, json.loads(line)


def end(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> tuple[int, str, str]:
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def wait_for(process: subprocess.Popen[str], text: str) -> str:
    """The first line on stderr that has the text."""
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return line
    raise AssertionError(f"{text!r} was not said")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    store = tmp_path_factory.mktemp("store") / "b.db"
    process, about = start_broker(
        "--name", "b", "--ontology", "animals", "--store", str(store), "--metrics-port", "0"
    )
    yield {**about, "store": str(store)}
    code, _, err = end(process)
    assert code == 0, err
    assert "Traceback" not in err


def test_a_broker_tells_its_url_is_healthy_logs_json_and_ends_when_told() -> None:
    process, about = start_broker("--name", "a", "--metrics-port", "0", "--log-format", "json")
    assert about["broker"] == "a" and about["url"].startswith("kbn://127.0.0.1:")
    with urllib.request.urlopen(about["metrics"].replace("metrics", "health")) as answer:
        assert json.loads(answer.read())["status"] == "ok"
    code, out, err = end(process, signal.SIGINT)
    assert (code, out) == (0, "")
    events = [json.loads(line)["event"] for line in err.splitlines() if line.startswith("{")]
    assert events[:2] == ["started", "listening"] and events[-1] == "stopped"


@pytest.mark.slow
def test_a_broker_of_an_overlay_ends_with_whoever_started_it() -> None:
    process, _ = start_broker("--name", "a", "--end-with-stdin")
    _, err = process.communicate(timeout=PATIENCE_S)  # closes its input
    assert process.returncode == 0 and "stopped" in err


def test_a_hangup_reloads_the_ontology(tmp_path: Path) -> None:
    file = tmp_path / "terms.ttl"
    prefix = (
        "@prefix ex: <http://example.org/#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
    )
    file.write_text(prefix + "ex:Tea a owl:Class .\n")
    process, _ = start_broker("--name", "a", "--ontology", str(file))
    file.write_text(prefix + "ex:Tea a owl:Class . ex:Milk a owl:Class .\n")
    process.send_signal(signal.SIGHUP)
    wait_for(process, "ontology changed")
    file.write_text("this is no Turtle")
    process.send_signal(signal.SIGHUP)
    assert "stays as it was" in wait_for(process, "stays as it was")
    assert end(process)[0] == 0


def test_what_is_published_is_printed_with_how_it_came(broker: dict[str, Any]) -> None:
    wanted = start(
        "subscribe", "--url", broker["url"], "--count", "2", "--timeout", "60", "--with-facts",
        "price < 10", "price < 5", "likes @> animals:Cats",
    )  # fmt: skip
    assert "subscribed to 3 filters at b" in wait_for(wanted, "subscribed")
    publishing = start("publish", "--url", broker["url"], "--json", "--with-path", "-")
    lines = '{"price": 3}\n\n{"price": }\n{"price": 30}\n{"price": 7}\n'
    out, err = publishing.communicate(lines, timeout=PATIENCE_S)
    told = {"published": 3, "durable": False, "failed": 1, "unknown_terms": 0}
    assert json.loads(out) == told
    assert publishing.returncode == 1 and "stdin:3: not JSON" in err
    out, _ = wanted.communicate(timeout=PATIENCE_S)
    printed = [json.loads(line) for line in out.splitlines()]
    assert [each["attributes"] for each in printed] == [{"price": 3}, {"price": 7}]
    assert [(each["hops"], each["path"], each["broker"]) for each in printed] == [
        (1, ["b"], "b")
    ] * 2
    assert wanted.returncode == 0


def test_a_subscriber_whose_reader_goes_away_ends(broker: dict[str, Any]) -> None:
    process = start("subscribe", "--url", broker["url"], "never = 1")
    wait_for(process, "subscribed")
    with process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.wait(timeout=PATIENCE_S) == 1
        assert process.stderr.read() == ""


def test_a_durable_subscriber_gets_what_came_while_it_was_away(
    broker: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    url = ["--url", broker["url"]]
    durable = ["subscribe", *url, "--durable", "--name", "dora", "weight > 1"]
    assert main([*durable, "--timeout", "0"]) == 0
    assert main(["publish", *url, "--durable", '{"weight": 5}', '{"weight": 6}']) == 0
    assert "2 published and stored" in capsys.readouterr().out
    assert main(["status", *url, "--over", "0", "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    dora = next(each for each in about["clients"] if each["client"] == "dora")
    assert (dora["connected"], dora["durable"], dora["queued"]) == (False, True, 2)
    assert main([*durable, "--count", "2", "--timeout", "60", "--forget"]) == 0
    assert capsys.readouterr().out.splitlines() == ['{"weight": 5}', '{"weight": 6}']
    assert main([*durable, "--count", "1", "--timeout", "0.2", "--forget"]) == 1


def test_status_shows_tables(broker: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--url", broker["url"], "--over", "0.1"]) == 0
    told = capsys.readouterr().out
    assert all(word in told for word in ("broker", "published", "per second", "subscriptions"))


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["subscribe", "--url", "URL", "price <"], 2, "column 8"),
        (["subscribe", "--url", "URL", "likes @> animals:Catz"], 2, "did you mean"),
        (["subscribe", "--url", "http://here", "a = 1"], 2, "is not a broker's address"),
        (
            ["subscribe", "--url", "kbn://127.0.0.1:1", "--wait", "0.2", "a = 1"],
            1,
            "no broker listens there",
        ),
        (["subscribe", "--url", "URL", "--durable", "a = 1"], 2, "--name"),
        (["publish", "--url", "URL", "--file", "gone.jsonl"], 2, "gone.jsonl"),
        (
            ["publish", "--url", "kbn://127.0.0.1:1", "--wait", "0.2", "{}"],
            1,
            "no broker listens there",
        ),
        (["status", "--url", "kbn://127.0.0.1:1", "--wait", "0.2"], 1, "no broker listens there"),
        (["overlay", "move", "--url", "URL", "--to", "URL"], 2, "--all"),
        (["overlay", "move", "--url", "URL", "--to", "URL", "--all"], 2, "another broker"),
        (["overlay", "move", "--url", "URL", "--to", "kbn://127.0.0.1:1", "--all"], 1, "reached"),
        (["overlay", "up", "gone.yaml"], 2, "gone.yaml"),
        (["broker", "--parent", "kbn://a", "--peer", "kbn://b"], 2, "not both"),
        (["broker", "--port", "0", "--store", "s.db"], 2, "--name"),
        (["broker", "--limit", "queu=1"], 2, "queue"),
        (["broker", "--limit", "queue=-1"], 2, "above 0"),
        (["broker", "--tls-key", "k.pem"], 2, "--tls-cert"),
        (["broker", "--tls-cert", "gone.pem"], 2, "gone.pem"),
        (["broker", "--access", "gone.yaml", "--port", "0"], 2, "gone.yaml"),
        (["broker", "--peer", "nowhere", "--port", "0"], 2, "is not a broker's address"),
        (["broker", "--name", "c", "--port", "PORT"], 1, "in use"),
        (["broker", "--name", "c", "--port", "0", "--store", "STORE"], 1, "another broker"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_is_told_and_the_exit_code_says_whose_it_is(
    arguments: list[str], code: int, told: str, broker: dict[str, Any]
) -> None:
    given = {
        "URL": broker["url"], "PORT": broker["url"].rpartition(":")[2], "STORE": broker["store"]
    }  # fmt: skip
    process = start(*(given.get(each, each) for each in arguments))
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code, err
    assert told in err and "Traceback" not in err


@pytest.mark.slow
def test_an_access_file_keeps_out_who_has_no_token(tmp_path: Path) -> None:
    access = tmp_path / "access.json"
    access.write_text('{"clients": {"ann": {"token": "s3cret", "publish": ["price"]}}}')
    process, about = start_broker("--name", "g", "--access", str(access))
    url = ["--url", about["url"], "--name", "ann"]
    for token, body, code, told in [
        ("wrong", '{"price": 1}', 2, "check its token"),
        ("s3cret", '{"price": 1}', 0, ""),
        ("s3cret", '{"colour": 1}', 1, "may not publish 'colour'"),
    ]:
        trying = start("publish", *url, "--token", token, body)
        _, err = trying.communicate(timeout=PATIENCE_S)
        assert (trying.returncode, told in err) == (code, True), err
    assert "refused" in end(process)[2]


def test_an_overlay_comes_up_runs_a_command_and_goes(tmp_path: Path) -> None:
    (tmp_path / "o.yaml").write_text(
        "routing: hierarchical\nstore: kept\n"
        "brokers:\n  dublin:\n  cork: {parent: dublin}\n  galway: {parent: dublin}\n"
    )
    (tmp_path / "try.sh").write_text(
        f'kbn() {{ "{sys.executable}" -m kbn "$@"; }}\n'
        'kbn subscribe -u "$KBN_URL_cork" --durable --name ann "price < 10" --timeout 0 || exit 7\n'
        'kbn publish -u "$KBN_URL_galway" --durable \'{"price": 4}\' || exit 8\n'
        'kbn overlay move -u "$KBN_URL_cork" --clients ann --to "$KBN_URL" || exit 9\n'
        'kbn subscribe -u "$KBN_URL_cork" --durable --name ann "price < 10" --with-facts '
        "--count 1 --timeout 60 || exit 10\n"
        'kbn overlay unlink -u "$KBN_URL" galway --retired || exit 11\n'
        "exit 3\n"
    )
    process = start("overlay", "up", "o.yaml", "--", "sh", "try.sh", folder=tmp_path)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3, out + err
    assert "1 client told to go to dublin" in out
    assert out.splitlines()[-1] == "galway is no neighbour any more"
    last = json.loads(out.splitlines()[-2])
    assert (last["attributes"], last["hops"]) == ({"price": 4}, 3)
    assert sorted(path.name for path in (tmp_path / "kept").glob("*.db")) == [
        "cork.db", "dublin.db", "galway.db",
    ]  # fmt: skip
    assert "Traceback" not in err and "died" not in err


@pytest.mark.slow
def test_a_broker_that_dies_is_reported_and_the_exit_code_tells(tmp_path: Path) -> None:
    (tmp_path / "o.yaml").write_text(
        "routing: general\nbrokers: {a: {peers: [b, c]}, b: {peers: [c]}, c: }\n"
    )
    process = start("overlay", "up", "o.yaml", "--json", folder=tmp_path)
    assert process.stdout is not None
    text = ""
    while not text.endswith("]\n"):
        text += process.stdout.readline()
    brokers = {each["broker"]: each for each in json.loads(text)}
    assert set(brokers) == {"a", "b", "c"}
    os.kill(brokers["b"]["pid"], signal.SIGKILL)
    assert "exit code -9" in wait_for(process, "broker b")
    assert end(process, signal.SIGINT)[0] == 1
    for each in brokers.values():
        with pytest.raises(ProcessLookupError):
            os.kill(each["pid"], 0)
