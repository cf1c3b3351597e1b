"""`kbn policy-server`: manages an overlay through its trigger broker, until it is told to end."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from dataclasses import field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbn.cli.connecting import Credentials
from kbn.cli.logs import QUIET, Logs
from kbn.cli.map_options import MAIN, MapOptions, OverlayName, check_overlay
from kbn.cli.ontology import Level, Reasoning, ontology_file
from kbn.cli.options import option_group, with_options
from kbn.cli.output import AsJson, print_json_line
from kbn.errors import InvalidInputError
from kbn.wording import counted

if TYPE_CHECKING:
    from kbn.management import LogEntry, PolicyServer
    from kbn.ontology import Ontology
    from kbn.placement import Plan


TRIGGER = "kbn://127.0.0.1:7499"
Triggers = Annotated[
    list[str],
    typer.Option(
        "--trigger", metavar="URL", help="The trigger broker; of several, one that answers."
    ),
]


@option_group
class PolicyServerOptions:
    """What a policy server manages, and by what."""

    trigger: Triggers = field(default_factory=lambda: [TRIGGER])
    overlay: OverlayName = MAIN
    semantic_map: MapOptions
    ontology: Annotated[
        list[Path],
        typer.Option(
            "--ontology",
            "-o",
            metavar="FILE",
            parser=ontology_file,
            help="The ontology of the overlay's brokers; may be repeated.",
        ),
    ] = field(default_factory=list)
    reasoning: Level = Reasoning.RDFS
    policies: Annotated[
        list[Path],
        typer.Option(
            "--policies",
            "-p",
            metavar="PATH",
            help="A file or folder of policies, read again when it changes [default: the "
            "policies that come with kbn].",
        ),
    ] = field(default_factory=list)
    mib: Annotated[
        Path | None,
        typer.Option(
            "--mib", metavar="FILE", help="The database for what is known of the overlay."
        ),
    ] = None
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Keep to this plan (see kbn plan)."),
    ] = None
    load_max: Annotated[
        float,
        typer.Option(
            "--load-max", min=1.0, help="The most clients a broker may have, in fair shares."
        ),
    ] = 2.0
    spare: Annotated[
        list[str],
        typer.Option(
            "--spare", metavar="BROKER", help="This broker holds no clusters until it is added."
        ),
    ] = field(default_factory=list)
    name: Annotated[
        str,
        typer.Option(
            "--name", help="Of several servers the first by name acts [default: host and pid]."
        ),
    ] = ""

    @property
    def known_as(self) -> str:
        """Its name, or one made of the host and the process."""
        return self.name or f"policy-server-{socket.gethostname()}-{os.getpid()}"

    def policy_files(self) -> list[Path]:
        """The files and folders of policies."""
        from kbn.management import SHIPPED

        return self.policies or [SHIPPED]

    def check(self) -> None:
        """Refuse what no policy server could work with."""
        from kbn.transport import parse_url

        if not self.ontology:
            raise typer.BadParameter("name the --ontology that the overlay's brokers reason with")
        for url in self.trigger:
            parse_url(url)
        check_overlay(self.overlay)
        self.semantic_map.settings()


@with_options
def policy_server(
    *,
    options: PolicyServerOptions,
    credentials: Credentials,
    logs: Logs = QUIET,
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
      kbn broker --name dublin -o conference --trigger kbn://127.0.0.1:7499
      kbn policy-server --trigger kbn://127.0.0.1:7499 -o conference --mib mib.db
    """
    from kbn.transport import PolicyServerShell, until_told

    options.check()
    logs.set_up(options.known_as)
    server = _server(options)
    shell = PolicyServerShell(
        server,
        options.trigger,
        policies=options.policy_files(),
        tell=_print_as_json if as_json else print_entry,
        token=credentials.token,
        tls=credentials.tls(),
    )
    _tell_begin(server, options.trigger[0], as_json)
    asyncio.run(until_told(shell.run(), with_stdin=end_with_stdin, at_hangup=shell.reload))


def _server(options: PolicyServerOptions) -> PolicyServer:
    from kbn.management import Assignments, Mib, PolicyEngine, PolicyServer, PolicySet
    from kbn.ontology import Ontology

    policies = PolicySet.load(options.policy_files())
    ontology = Ontology.load(options.ontology, reasoning=options.reasoning.value)
    fixed = None if options.plan is None else _plan(options.plan, ontology)
    assignments = Assignments(ontology, fixed)
    assignments.spare.update(options.spare)
    engine = PolicyEngine(Mib(options.mib), policies)
    return PolicyServer(
        options.known_as,
        engine,
        assignments,
        options.load_max,
        overlay=options.overlay,
        settings=options.semantic_map.settings(),
    )


def _plan(file: Path, ontology: Ontology) -> Plan:
    """The plan that a file holds, if it is for this ontology."""
    from kbn.placement import Plan

    try:
        plan = Plan.from_json(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(f"{file}: cannot be read: {error.strerror}") from None
    if plan.ontology != ontology.digest:
        raise InvalidInputError(f"{file}: this plan is for another ontology; make it anew")
    return plan


def _tell_begin(server: PolicyServer, trigger: str, as_json: bool) -> None:
    policies = len(server.engine.policies)
    if as_json:
        print_json_line({"server": server.name, "trigger": trigger, "policies": policies})
    else:
        typer.echo(
            f"policy server {server.name}: {counted(policies, 'policy')}, reports from {trigger}"
        )
    sys.stdout.flush()


def _print_as_json(entry: LogEntry) -> None:
    print_json_line(entry.to_json())
    sys.stdout.flush()


def print_entry(entry: LogEntry) -> None:
    """Print an entry of the log of a policy server, as a line for people."""
    at = datetime.fromtimestamp(entry.at).strftime("%H:%M:%S")
    words = [at, entry.policy or "-", entry.action or "-", entry.name or "-"]
    typer.echo(f"{'  '.join(words)}  {entry.status.value}: {entry.detail}")
    sys.stdout.flush()
