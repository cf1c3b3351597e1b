"""`kbn policy-server`: manages an overlay through its trigger broker, until it is told to end."""

from __future__ import annotations

import asyncio
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbn.cli.broker import LogFormat, LogLevel
from kbn.cli.connecting import TlsCa, TlsCert, TlsKey, Token
from kbn.cli.ontology import Reasoning, ontology_file
from kbn.cli.output import AsJson, print_json_line

if TYPE_CHECKING:
    from kbn.management import LogEntry, PolicyServer


def policy_server(
    trigger: Annotated[
        str, typer.Option("--trigger", metavar="URL", help="The trigger broker.")
    ] = "kbn://127.0.0.1:7499",
    ontology: Annotated[
        list[Path] | None,
        typer.Option(
            "--ontology",
            "-o",
            metavar="FILE",
            parser=ontology_file,
            help="What the overlay's brokers reason with; may be repeated.",
        ),
    ] = None,
    reasoning: Annotated[
        Reasoning, typer.Option("--reasoning", "-r", help="none, rdfs, rl, el or dl.")
    ] = Reasoning.RDFS,
    policies: Annotated[
        list[Path] | None,
        typer.Option(
            "--policies",
            "-p",
            metavar="PATH",
            help="A file of policies or a folder of them, read again when changed; those that "
            "come with kbn, unless given.",
        ),
    ] = None,
    mib: Annotated[
        Path | None,
        typer.Option("--mib", metavar="FILE", help="Keep here what is known of the overlay."),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Go by this plan (see kbn plan), always."),
    ] = None,
    load_max: Annotated[
        float,
        typer.Option(
            "--load-max", min=1.0, help="A broker has at most so many fair shares of the clients."
        ),
    ] = 2.0,
    spare: Annotated[
        list[str] | None,
        typer.Option("--spare", metavar="BROKER", help="Holds no clusters until it is added."),
    ] = None,
    name: Annotated[
        str,
        typer.Option(
            "--name", help="Of several servers the first by name acts; host and pid, unless given."
        ),
    ] = "",
    token: Token = "",
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="How remarks are written to stderr.")
    ] = LogFormat.TEXT,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", help="The least important remarks to write.")
    ] = LogLevel.WARNING,
    end_with_stdin: Annotated[bool, typer.Option("--end-with-stdin", hidden=True)] = False,
    as_json: AsJson = False,
) -> None:
    """Manage an overlay until told to end (Ctrl-C, SIGTERM); SIGHUP reads the policies again.

    Brokers started with --trigger report to the trigger broker, an ordinary broker that runs on
    the ontology `management`. Whatever a policy makes of that is printed: the time, the policy, the
    action, whom it is about, and what came of it. While no policy server runs, the overlay works
    on as it is.

    \b
    Examples:
      kbn broker --name trigger --port 7499 --ontology management
      kbn broker --name dublin --ontology conference --trigger kbn://127.0.0.1:7499
      kbn policy-server --trigger kbn://127.0.0.1:7499 --ontology conference --mib mib.db
    """
    from kbn.transport import PolicyServerShell, client_tls, parse_url, set_up, until_told

    if not ontology:
        raise typer.BadParameter("name the --ontology that the overlay's brokers reason with")
    parse_url(trigger)
    known_as = name or f"policy-server-{socket.gethostname()}-{_pid()}"
    set_up(known_as, log_format.value, log_level.value)
    paths = policies or [_shipped()]
    server = _server(known_as, ontology, reasoning, paths, mib, plan, load_max, spare or [])
    given = tls_ca is not None or tls_cert is not None
    shell = PolicyServerShell(
        server,
        trigger,
        policies=paths,
        tell=_print_as_json if as_json else _print,
        token=token,
        tls=client_tls(tls_ca, tls_cert, tls_key) if given else None,
    )
    _tell_begin(server, trigger, as_json)
    asyncio.run(until_told(shell.run(), with_stdin=end_with_stdin, at_hangup=shell.reload))


def _server(
    name: str,
    ontology: list[Path],
    reasoning: Reasoning,
    policies: list[Path],
    mib: Path | None,
    plan: Path | None,
    load_max: float,
    spare: list[str],
) -> PolicyServer:
    from kbn.errors import InvalidInputError
    from kbn.management import Assignments, Mib, PolicyEngine, PolicyServer, PolicySet
    from kbn.ontology import Ontology
    from kbn.placement import Plan

    loaded = PolicySet.load(policies)
    known = Ontology.load(ontology, reasoning=reasoning.value)
    fixed = None
    if plan is not None:
        try:
            fixed = Plan.from_json(plan.read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidInputError(f"{plan}: cannot be read: {error.strerror}") from None
        if fixed.ontology != known.digest:
            raise InvalidInputError(f"{plan}: this plan is for another ontology; make it anew")
    places = Assignments(known, fixed)
    places.spare.update(spare)
    return PolicyServer(name, PolicyEngine(Mib(mib), loaded), places, load_max)


def _shipped() -> Path:
    from kbn.management import SHIPPED

    return SHIPPED


def _pid() -> int:
    import os

    return os.getpid()


def _tell_begin(server: PolicyServer, trigger: str, as_json: bool) -> None:
    policies = len(server.engine.policies)
    if as_json:
        print_json_line({"server": server.name, "trigger": trigger, "policies": policies})
    else:
        typer.echo(f"policy server {server.name}: {policies} policies, reports from {trigger}")
    sys.stdout.flush()


def _print_as_json(entry: LogEntry) -> None:
    print_json_line(entry.to_json())
    sys.stdout.flush()


def _print(entry: LogEntry) -> None:
    at = datetime.fromtimestamp(entry.at, UTC).strftime("%H:%M:%S")
    words = [at, entry.policy or "-", entry.action or "-", entry.name or "-"]
    typer.echo(f"{'  '.join(words)}  {entry.status.value}: {entry.detail}")
    sys.stdout.flush()
