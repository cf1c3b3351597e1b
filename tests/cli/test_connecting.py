"""The options that commands share to reach a broker, and what is refused before one is asked."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import pytest
import typer

from kbn.cli import main
from kbn.cli.broker import compile_kernels_once
from kbn.cli.connecting import DEFAULT_URL, Connecting, Credentials
from kbn.cli.options import with_options
from kbn.errors import InvalidInputError

NOBODY = ("--url", "kbn://127.0.0.1:1")


def said_by(*arguments: str) -> list[tuple[str, Connecting, int]]:
    """What a small command is called with, for such a command line."""
    calls: list[tuple[str, Connecting, int]] = []
    app = typer.Typer()

    @app.command()
    @with_options
    def small(
        *,
        word: str,
        connecting: Connecting,
        count: Annotated[int, typer.Option("--count")] = 1,
    ) -> None:
        """A command."""
        calls.append((word, connecting, count))

    app(arguments, standalone_mode=False)
    return calls


def test_a_command_gets_what_the_shared_options_say() -> None:
    ((_, here, count),) = said_by("connect")
    assert (asdict(here), count) == (asdict(Connecting()), 1)
    assert Connecting().url == DEFAULT_URL
    given = ("--url", "kbn://there:1", "--token", "secret", "--wait", "0.5", "--count", "3")
    there = Connecting(url="kbn://there:1", credentials=Credentials(token="secret"), wait_s=0.5)
    ((_, said, count),) = said_by("connect", *given)
    assert (asdict(said), count) == (asdict(there), 3)


def test_the_environment_says_where_the_broker_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBN_URL", "kbn://there:2")
    monkeypatch.setenv("KBN_TOKEN", "secret")
    ((_, connecting, _),) = said_by("connect")
    assert (connecting.url, connecting.credentials.token) == ("kbn://there:2", "secret")
    ((_, connecting, _),) = said_by("connect", "-u", "kbn://here:3")
    assert connecting.url == "kbn://here:3"


@pytest.mark.parametrize(
    "command", ["publish", "status", "subscribe", "overlay move", "overlay unlink"]
)
def test_every_command_that_reaches_a_broker_has_the_options(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--help"]) == 0
    told = capsys.readouterr().out
    for option in ("--url", "--token", "--tls-ca", "--tls-cert", "--tls-key", "--wait"):
        assert option in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["subscribe", "price <"], "the text ends too early"),
        (["subscribe", "price < 3", "kind @@ :Cats"], "line 1, column"),
        (["publish", '{"a": '], "notification 1: not JSON"),
        (["publish", "[1]", "{"], "a notification is an object"),
        (["overlay", "move", "--to", "nonsense", "--all"], "is not a broker's address"),
        (["status", "--tls-ca", "gone.pem"], "gone.pem"),
    ],
)
def test_what_no_broker_could_make_sense_of_is_refused_before_one_is_asked(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, *NOBODY]) == 2
    error = capsys.readouterr().err
    assert said in error and "listens" not in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["subscribe", "likes @> anyprefix:Cats and x = :Dogs"],
        ["publish", "{", '{"a": 1}'],
    ],
)
def test_what_one_could_make_sense_of_is_asked(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, *NOBODY, "--wait", "0.1"]) == 1
    assert "no broker listens there" in capsys.readouterr().err


@pytest.mark.parametrize("are_compiled", [False, True])
def test_kernels_are_compiled_once_before_the_processes_of_an_overlay_start(
    are_compiled: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def compile_them() -> None:
        raise InvalidInputError("that is what we waited for")

    monkeypatch.setattr("kbn.matching.kernels.are_compiled", lambda **_: are_compiled)
    monkeypatch.setattr("kbn.cli.broker._warm_up", compile_them)
    if are_compiled:
        compile_kernels_once()
        return
    file = tmp_path / "overlay.yaml"
    file.write_text("brokers: {a: , b: {peers: [a]}}", encoding="utf-8")
    assert main(["overlay", "up", str(file), "--", "true"]) == 2
    assert "that is what we waited for" in capsys.readouterr().err


def test_a_folder_of_subscriptions_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "posts.jsonl"
    file.write_text("{}\n", encoding="utf-8")
    assert main(["match", "-s", str(tmp_path), "-n", str(file)]) == 2
    assert "is a folder" in capsys.readouterr().err
