"""The front of the command line: help, version, exit codes, errors, pipes, interrupts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
import typer

from kbn.cli import main
from kbn.errors import (
    FilterSyntaxError,
    InvalidInputError,
    KbnError,
    MissingDependencyError,
    OntologyError,
)

COMMANDS = [
    ["demo"],
    ["match"],
    ["explain"],
    ["broker"],
    ["publish"],
    ["subscribe"],
    ["status"],
    ["groups", "plan"],
    ["groups", "coordinate"],
    ["groups", "publish"],
    ["groups", "subscribe"],
    ["groups", "status"],
    ["plan"],
    ["mib"],
    ["policy-server"],
    ["access", "check"],
    ["access", "try"],
    ["store", "backup"],
    ["store", "restore"],
    ["store", "check"],
    ["store", "repair"],
    ["policy", "check"],
    ["policy", "list"],
    ["policy", "watch"],
    ["overlay", "up"],
    ["overlay", "move"],
    ["overlay", "unlink"],
    ["pipeline", "run"],
    ["pipeline", "plan"],
    ["pipeline", "status"],
    ["pipeline", "show"],
    ["store", "subscriptions"],
    ["ontology", "compile"],
    ["ontology", "show"],
    ["ontology", "explain"],
    ["ontology", "diff"],
    ["ontology", "medoid"],
    ["ontology", "clusters"],
    ["lab", "list"],
    ["lab", "run"],
    ["lab", "report"],
    ["bench", "load"],
    ["bench", "cover"],
    ["bench", "match"],
    ["bench", "broker"],
    ["bench", "move"],
    ["bench", "spark"],
    ["bench", "stream"],
]


def kbn(*arguments: str, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kbn", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )


def make_it_raise(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """From now on `kbn lab list` raises `error`."""

    def raise_it(*_: object) -> tuple[str, ...]:
        raise error

    monkeypatch.setattr("kbn.lab.experiment.names", raise_it)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--help"]) == 0
    told = capsys.readouterr().out
    assert "Example" in told and f"kbn {' '.join(command)}" in told
    assert "--json" in told


def test_no_command_is_missing_from_these_tests() -> None:
    from kbn.cli.app import app

    groups = {group.name: group.typer_instance for group in app.registered_groups}
    known = [[command.name] for command in app.registered_commands] + [
        [name, command.name]
        for name, group in groups.items()
        if group is not None
        for command in group.registered_commands
    ]
    assert sorted(COMMANDS) == sorted(known)  # type: ignore[type-var]


def test_the_help_names_every_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    told = capsys.readouterr().out
    assert all(word in told for word in ("demo", "match", "ontology", "lab", "bench", "--version"))


def test_the_first_command_a_user_types_waits_for_no_heavy_library() -> None:
    script = (
        "import sys; from kbn.cli import main; main(['--help']); "
        "print([m for m in ('numpy', 'numba', 'pyarrow', 'scipy', 'pyspark') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("[]\n")


def test_a_mistyped_command_is_invalid_and_suggests(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demoo"]) == 2
    assert "demo" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said", "where"),
    [
        (["demoo"], "no such command 'demoo'; did you mean 'demo'?", "kbn"),
        (["broker", "--parnt", "x"], "option: --parnt; did you mean --parent", "kbn broker"),
        (["broker", "--port", "x"], "value for '--port' / '-p': input should be", "kbn broker"),
        (["mib"], "missing argument 'PATH'", "kbn mib"),
        (["broker", "--nope"], "no such option: --nope", "kbn broker"),
        (["broker", "--routing", "genral"], "; did you mean 'general'?", "kbn broker"),
        (["access", "try", "x", "--as", "y"], "'WHAT': give one of connect, ", "kbn access try"),
        (["policy", "list", "b"], "got unexpected extra argument(s) (b)", "kbn policy list"),
        (["status", "--tls-ca", "gone.pem"], "file 'gone.pem' does not exist", "kbn status"),
        (["broker", "--tls-key", "x"], "--tls-key and --tls-client-ca go with", "kbn broker"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)  # fmt: skip
def test_a_wrong_command_line_is_told_like_any_other_error(
    arguments: list[str], said: str, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr()
    first, *others = told.err.splitlines()
    assert first.startswith("error: ") and said in first
    assert "--nope; did" not in first and ".;" not in first
    assert others == [f"  see {where} --help"] and told.out == ""


@pytest.mark.parametrize("group", [[], ["lab"], ["ontology"]], ids=" ".join)
def test_a_group_without_a_command_shows_its_help(
    group: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(group) == 2
    told = capsys.readouterr().err
    assert told.startswith(" ".join(["Usage: kbn", *group])) and "error:" not in told


def test_a_missing_file_is_invalid(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ontology", "show", "no-such-file.ttl"]) == 2
    assert "no-such-file.ttl" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInputError("that means nothing"), 2),
        (FilterSyntaxError("no such operator", text="x ?? 3", position=2), 2),
        (OntologyError("inconsistent", path="wine.rdf", explanation=("Wine is empty",)), 2),
        (OntologyError("reasoning='dl' needs a Java runtime"), 1),
        (MissingDependencyError("drawing plots", extra="lab"), 1),
        (KbnError("something else"), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_one_block_on_stderr_and_never_a_traceback(
    error: KbnError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_it_raise(monkeypatch, error)
    assert main(["lab", "list"]) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: ") and str(error) in told.err
    assert "Traceback" not in told.err


def test_the_explanation_of_an_ontology_error_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_it_raise(
        monkeypatch, OntologyError("inconsistent", explanation=("A is empty", "B is empty"))
    )
    main(["lab", "list"])
    assert capsys.readouterr().err == "error: inconsistent\n  A is empty\n  B is empty\n"


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    make_it_raise(monkeypatch, KbnError("look closer"))
    with pytest.raises(KbnError, match="look closer"):
        main(["--debug", "lab", "list"])


def test_a_file_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_it_raise(monkeypatch, PermissionError(13, "Permission denied", "results/report.html"))
    assert main(["lab", "list"]) == 1
    assert capsys.readouterr().err == "error: results/report.html: Permission denied\n"


def test_a_bug_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    make_it_raise(monkeypatch, ZeroDivisionError("ours"))
    with pytest.raises(ZeroDivisionError):
        main(["lab", "list"])


def test_an_interrupt_from_the_keyboard_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_it_raise(monkeypatch, KeyboardInterrupt())
    assert main(["lab", "list"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_command_may_choose_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    make_it_raise(monkeypatch, typer.Exit(3))
    assert main(["lab", "list"]) == 3


@pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
def test_a_reader_that_goes_away_causes_no_noise() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        [sys.executable, "-m", "kbn", "--help"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(writer)
    assert process.stderr == ""
    assert process.returncode == 1


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_real_interrupt_ends_a_real_process_with_130() -> None:
    code = (
        "import signal, sys, kbn.lab.experiment as e\n"
        "from kbn.cli import main\n"
        # A shell that runs the tests in the background has its children ignore the signal.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def wait(): print('waiting', flush=True); sys.stdin.read(); return ()\n"
        "e.names = wait\n"
        "sys.exit(main(['lab', 'list']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors


def test_python_m_kbn_is_the_same_command() -> None:
    out, err = kbn("--version").communicate(timeout=60)
    assert (out, err) == ("kbn 0.1.0\n", "")


def test_results_as_json_are_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "list", "--json"]) == 0
    assert isinstance(json.loads(capsys.readouterr().out), list)
