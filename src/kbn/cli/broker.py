"""`kbn broker`: one broker, until it is told to end."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbn.cli.ontology import Level, Ontologies, Reasoning
from kbn.cli.output import AsJson, print_json_line, remark_on_compiling

if TYPE_CHECKING:
    from kbn.broker import LinkTo, ServerLimits
    from kbn.transport import Listen, Watched


WARMING = 64


class RoutingMode(StrEnum):
    """Which shape the overlay has."""

    HIERARCHICAL = "hierarchical"
    ACYCLIC = "acyclic"
    GENERAL = "general"


class Sync(StrEnum):
    """How safe a commit is."""

    NORMAL = "normal"
    FULL = "full"


class LogFormat(StrEnum):
    """How events are written."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """Which events are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def broker(
    name: Annotated[
        str, typer.Option("--name", help="What others know it by; the host and port, unless given.")
    ] = "",
    host: Annotated[str, typer.Option("--host", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="0 takes one that is free.")
    ] = 7420,
    routing: Annotated[
        RoutingMode | None,
        typer.Option(
            "--routing",
            help="The overlay's shape, alike at all brokers; acyclic unless --parent is given.",
        ),
    ] = None,
    parent: Annotated[
        str | None, typer.Option("--parent", metavar="URL", help="The broker above this one.")
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option("--peer", metavar="URL", help="A neighbour; may be repeated."),
    ] = None,
    ontology: Ontologies = None,
    reasoning: Level = Reasoning.RDFS,
    store: Annotated[
        Path | None,
        typer.Option("--store", metavar="FILE", help="Keep here what must outlive the process."),
    ] = None,
    sync: Annotated[
        Sync, typer.Option("--sync", help="full survives a power failure, and is slower.")
    ] = Sync.NORMAL,
    advertisements: Annotated[
        bool,
        typer.Option("--advertisements", help="Tell of subscriptions only where publishers are."),
    ] = False,
    keep_roots: Annotated[
        bool,
        typer.Option("--keep-roots", help="Let kbn status say how many filters no other covers."),
    ] = False,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="Speak TLS, with this.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="The certificate's key.")
    ] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option("--tls-client-ca", metavar="FILE", help="Admit only certificates of this."),
    ] = None,
    tls_ca: Annotated[
        Path | None,
        typer.Option("--tls-ca", metavar="FILE", help="Trust this of brokers we connect to."),
    ] = None,
    access: Annotated[
        Path | None,
        typer.Option("--access", metavar="FILE", help="Who may come in and do what (YAML, JSON)."),
    ] = None,
    token: Annotated[
        str,
        typer.Option(
            "--token",
            envvar="KBN_TOKEN",
            metavar="TEXT",
            help="Shown to the parent and peers.",
            show_default=False,
        ),
    ] = "",
    trigger: Annotated[
        str | None,
        typer.Option(
            "--trigger", metavar="URL", help="Be managed: report to the trigger broker there."
        ),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="NAME=N", help="Change a limit; a wrong name lists them."),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port", min=0, max=65535, help="Serve /health and /metrics here (HTTP)."
        ),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option("--metrics-host", help="Where to listen for that.")
    ] = "127.0.0.1",
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="How events are written to stderr.")
    ] = LogFormat.TEXT,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", help="The least important events to write.")
    ] = LogLevel.INFO,
    end_with_stdin: Annotated[bool, typer.Option("--end-with-stdin", hidden=True)] = False,
    as_json: AsJson = False,
) -> None:
    """Run a broker until it is told to end (Ctrl-C, SIGTERM); SIGHUP reloads ontology and access.

    It prints one line when it listens; events go to stderr. A broker with a --parent is part of a
    hierarchy, one with --peer of a network of equals.

    \b
    Examples:
      kbn broker --name dublin --ontology podcast --store dublin.db --metrics-port 9420
      kbn broker --name cork --port 7421 --parent kbn://127.0.0.1:7420 --ontology podcast
    """
    _check_together(routing, parent, peer or [], tls_cert, tls_key, tls_client_ca)
    known_as = _name(name, port, store)
    from kbn.transport import Listen, client_tls, server_tls, set_up

    limits, server_limits = _limits(limit or [])
    # Everything the user may have got wrong is looked at before the store is opened.
    links = _links(parent, peer or [], token)
    listen = Listen(
        host,
        port,
        None if tls_cert is None else server_tls(tls_cert, tls_key or tls_cert, tls_client_ca),
        None if tls_ca is None and tls_cert is None else client_tls(tls_ca, tls_cert, tls_key),
    )
    set_up(known_as, log_format.value, log_level.value)
    server = _server(
        known_as,
        listen,
        node_settings={
            "routing": (routing or _routing_of(parent)).value,
            "links": tuple(links),
            "advertisements": advertisements,
            "limits": limits,
            "server_limits": server_limits,
            "keeps_roots": keep_roots,
        },
        ontology=(ontology or [], reasoning),
        store=(store, sync),
        access=access,
        watch=(metrics_host, metrics_port, _announcer(known_as, as_json)),
    )
    if trigger is not None:
        from kbn.transport import Reporting, parse_url

        parse_url(trigger)
        Reporting(server.server, trigger, token=token, tls=listen.link_tls)
    asyncio.run(_serve(server, end_with_stdin))


async def _serve(server: Watched, end_with_stdin: bool) -> None:
    from kbn.transport import at_end_of_stdin, end, serve

    if end_with_stdin:
        at_end_of_stdin(end)
    await serve(server)


def _check_together(
    routing: RoutingMode | None,
    parent: str | None,
    peers: list[str],
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
) -> None:
    if parent is not None and peers:
        raise typer.BadParameter("a broker has a --parent or has a --peer, not both")
    if parent is not None and routing not in (None, RoutingMode.HIERARCHICAL):
        raise typer.BadParameter("a --parent goes with --routing hierarchical")
    if peers and routing is RoutingMode.HIERARCHICAL:
        raise typer.BadParameter("in a hierarchy a broker has a --parent, and no --peer")
    if tls_cert is None and (tls_key is not None or tls_client_ca is not None):
        raise typer.BadParameter("--tls-key and --tls-client-ca go with --tls-cert")


def _routing_of(parent: str | None) -> RoutingMode:
    return RoutingMode.ACYCLIC if parent is None else RoutingMode.HIERARCHICAL


def _name(name: str, port: int, store: Path | None) -> str:
    if name:
        return name
    if port == 0 and store is not None:
        raise typer.BadParameter("with a --store and --port 0, say by which --name it is known")
    return f"{socket.gethostname()}-{port or os.getpid()}"


def _links(parent: str | None, peers: list[str], token: str) -> list[LinkTo]:
    from kbn.broker import LinkTo
    from kbn.transport import parse_url

    for url in [*peers, *([] if parent is None else [parent])]:
        parse_url(url)
    if parent is not None:
        return [LinkTo(parent, "parent", token)]
    return [LinkTo(url, "peer", token) for url in peers]


def _limits(given: list[str]) -> tuple[Any, ServerLimits]:
    """The limits of clients and of the server, with those changed that were named."""
    from kbn.broker import Limits, ServerLimits

    kinds = {each.name: kind for kind in (Limits, ServerLimits) for each in fields(kind)}
    changed: dict[type, dict[str, float]] = {Limits: {}, ServerLimits: {}}
    for text in given:
        name, _, value = text.partition("=")
        if name not in kinds:
            known = ", ".join(sorted(kinds))
            raise typer.BadParameter(f"{name!r} is no limit; there are {known}")
        changed[kinds[name]][name] = _limit_value(name, value)
    return Limits(**changed[Limits]), ServerLimits(**changed[ServerLimits])  # type: ignore[arg-type]


def _limit_value(name: str, text: str) -> float:
    with suppress(ValueError):
        value = float(text) if name.endswith("_s") else int(text)
        if 0 < value < 2**63:
            return value
    raise typer.BadParameter(f"{name}={text}: a limit is a number above 0, as in {name}=1000")


def _announcer(name: str, as_json: bool) -> Callable[[str, str], None]:
    def announce(url: str, http: str) -> None:
        metrics = f"{http}/metrics" if http else None
        if as_json:
            print_json_line({"broker": name, "url": url, "metrics": metrics})
        else:
            typer.echo(
                f"broker {name} listens at {url}" + (f", metrics at {metrics}" if metrics else "")
            )
        sys.stdout.flush()

    return announce


def _server(
    name: str,
    listen: Listen,
    *,
    node_settings: dict[str, Any],
    ontology: tuple[list[Path], Reasoning],
    store: tuple[Path | None, Sync],
    access: Path | None,
    watch: tuple[str, int | None, Callable[[str, str], None]],
) -> Watched:
    from kbn.broker import AllowAll, NodeSettings, SqliteStore
    from kbn.ontology import Ontology
    from kbn.transport import AccessFile, OntologyFiles, Watch, watched

    _warm_up()
    files, level = ontology
    authorizer = AllowAll() if access is None else AccessFile(access)
    loaded = Ontology.load(files, reasoning=level.value) if files else None
    path, sync = store
    settings = NodeSettings(
        name,
        ontology=loaded,
        store=None if path is None else SqliteStore(path, sync.value),
        authorizer=authorizer,
        **node_settings,
    )
    source = OntologyFiles(tuple(files), level.value) if files else None
    return watched(settings, listen, Watch(*watch), ontology=source)


def compile_kernels_once() -> None:
    """Have the kernels compiled, before processes are started that would each do it."""
    from kbn.matching import kernels

    if not kernels.are_compiled():
        _warm_up()


def _warm_up() -> None:
    """Have the matching kernels loaded, so that the first notification does not wait for them."""
    from kbn.broker import Peer, RoutingTable
    from kbn.filters import Notification, Subscription

    remark_on_compiling()
    table = RoutingTable()
    table.add((Peer("client", "nobody"), 1), Subscription.parse("warm = 1"))
    notifications = [Notification({"warm": number}) for number in range(WARMING)]
    assert table.match(notifications[1]).clients and table.match_many(notifications)[1].clients
