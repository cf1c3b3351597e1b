"""`kbn broker`: one broker, until it is told to end."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbn.cli.logs import Logs
from kbn.cli.map_options import MAIN, MapOptions, OverlayName, check_overlay
from kbn.cli.mapping_options import MappingsGiven, mapped, mapping_files
from kbn.cli.ontology import OntologyOptions
from kbn.cli.options import option_group, with_options
from kbn.cli.output import AsJson, print_json_line, remark_on_compiling
from kbn.wording import close_names, did_you_mean

if TYPE_CHECKING:
    from ssl import SSLContext

    from kbn.broker import BrokerLimits, ClientLimits, LinkTo, NodeSettings, ServerLimits
    from kbn.transport import Watched


class RoutingMode(StrEnum):
    """Which shape the overlay has."""

    HIERARCHICAL = "hierarchical"
    ACYCLIC = "acyclic"
    GENERAL = "general"


class Sync(StrEnum):
    """How safe a commit is."""

    NORMAL = "normal"
    FULL = "full"


class AfterDamage(StrEnum):
    """What a broker does when its store is damaged."""

    REFUSE = "refuse"
    REPAIR = "repair"


class UnknownTerms(StrEnum):
    """What a broker does about terms that its ontology does not know."""

    TELL = "tell"
    REFUSE = "refuse"
    IGNORE = "ignore"


@option_group
class Tls:
    """Certificates: the broker's own, and whose it trusts."""

    tls_cert: Annotated[
        Path | None,
        typer.Option("--tls-cert", metavar="FILE", help="The certificate to speak TLS with."),
    ] = None
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of that certificate.")
    ] = None
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            "--tls-client-ca",
            metavar="FILE",
            help="Admit only clients with certificates of this CA.",
        ),
    ] = None
    tls_ca: Annotated[
        Path | None,
        typer.Option(
            "--tls-ca", metavar="FILE", help="The CA to trust when it connects to other brokers."
        ),
    ] = None

    def check(self) -> None:
        if self.tls_cert is None and (self.tls_key is not None or self.tls_client_ca is not None):
            raise typer.BadParameter("--tls-key and --tls-client-ca go with --tls-cert")

    def for_clients(self) -> SSLContext | None:
        """For those who connect to this broker."""
        from kbn.transport import server_tls

        if self.tls_cert is None:
            return None
        return server_tls(self.tls_cert, self.tls_key or self.tls_cert, self.tls_client_ca)

    def for_links(self) -> SSLContext | None:
        """For brokers that this one connects to."""
        from kbn.transport import client_tls

        if self.tls_ca is None and self.tls_cert is None:
            return None
        return client_tls(self.tls_ca, self.tls_cert, self.tls_key)


@option_group
class Neighbours:
    """Where in an overlay the broker stands."""

    routing: Annotated[
        RoutingMode | None,
        typer.Option(
            "--routing",
            help="The overlay's shape, the same at all brokers [default: hierarchical with "
            "--parent, acyclic with --peer, else that of the first neighbour that comes].",
        ),
    ] = None
    parent: Annotated[
        str | None,
        typer.Option("--parent", metavar="URL", help="The parent of this broker in a hierarchy."),
    ] = None
    peer: Annotated[
        list[str],
        typer.Option("--peer", metavar="URL", help="A broker to link with; may be repeated."),
    ] = field(default_factory=list)

    def check(self) -> None:
        if self.parent is not None and self.peer:
            raise typer.BadParameter("a broker has a --parent or has a --peer, not both")
        if self.parent is not None and self.routing not in (None, RoutingMode.HIERARCHICAL):
            raise typer.BadParameter("a --parent goes with --routing hierarchical")
        if self.peer and self.routing is RoutingMode.HIERARCHICAL:
            raise typer.BadParameter("in a hierarchy a broker has a --parent, and no --peer")

    @property
    def mode(self) -> RoutingMode:
        """The routing asked for, or the one that goes with the neighbours."""
        if self.routing is not None:
            return self.routing
        return RoutingMode.ACYCLIC if self.parent is None else RoutingMode.HIERARCHICAL

    @property
    def adapts(self) -> bool:
        """Whether it takes the shape of the first neighbour that comes."""
        return self.routing is None and self.parent is None and not self.peer

    def links(self, token: str) -> list[LinkTo]:
        """The connections this broker makes."""
        from kbn.broker import LinkTo
        from kbn.transport import parse_url

        for url in [*self.peer, *([] if self.parent is None else [self.parent])]:
            parse_url(url)
        if self.parent is not None:
            return [LinkTo(self.parent, "parent", token)]
        return [LinkTo(url, "peer", token) for url in self.peer]


@option_group
class BrokerOptions:
    """Everything a broker is told."""

    name: Annotated[
        str, typer.Option("--name", help="Its name in the overlay [default: host and port].")
    ] = ""
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int,
        typer.Option(
            "--port", "-p", min=0, max=65535, help="The port to listen on; 0 takes a free one."
        ),
    ] = 7420
    neighbours: Neighbours
    reasoning: OntologyOptions
    mapping: MappingsGiven = field(default_factory=list)
    ontology_folder: Annotated[
        Path | None,
        typer.Option(
            "--ontology-folder",
            metavar="DIR",
            help="The folder of ontologies that a manager may have loaded; without it, none may.",
        ),
    ] = None
    store: Annotated[
        Path | None,
        typer.Option(
            "--store", metavar="FILE", help="The database for what must survive a restart."
        ),
    ] = None
    sync: Annotated[
        Sync, typer.Option("--sync", help="full survives a power failure and is slower.")
    ] = Sync.NORMAL
    after_damage: Annotated[
        AfterDamage,
        typer.Option(
            "--after-damage",
            help="With a damaged store: refuse to start, or repair it (see kbn store repair).",
        ),
    ] = AfterDamage.REFUSE
    advertisements: Annotated[
        bool,
        typer.Option("--advertisements", help="Send subscriptions only towards advertisements."),
    ] = False
    unknown_terms: Annotated[
        UnknownTerms,
        typer.Option(
            "--unknown-terms",
            help="A notification with a term that the ontology does not know: tell its publisher, "
            "refuse it, or ignore that.",
        ),
    ] = UnknownTerms.TELL
    keep_roots: Annotated[
        bool,
        typer.Option("--keep-roots", help="Let kbn status count the filters that no other covers."),
    ] = False
    tls: Tls
    access: Annotated[
        Path | None,
        typer.Option(
            "--access", metavar="FILE", help="The access file: who may connect and do what."
        ),
    ] = None
    token: Annotated[
        str,
        typer.Option(
            "--token",
            envvar="KBN_TOKEN",
            metavar="TEXT",
            help="The token for the parent and peers.",
            show_default=False,
        ),
    ] = ""
    trigger: Annotated[
        list[str],
        typer.Option(
            "--trigger",
            metavar="URL",
            help="Report to this trigger broker, and be managed; of several, to one that answers.",
        ),
    ] = field(default_factory=list)
    overlay: OverlayName = MAIN
    semantic_map: MapOptions
    limit: Annotated[
        list[str],
        typer.Option("--limit", metavar="NAME=N", help="Change a limit; a wrong name lists them."),
    ] = field(default_factory=list)
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            min=0,
            max=65535,
            help="Serve /health and /metrics over HTTP on this port.",
        ),
    ] = None
    metrics_host: Annotated[
        str, typer.Option("--metrics-host", help="The address for --metrics-port.")
    ] = "127.0.0.1"

    @property
    def known_as(self) -> str:
        """Its name, or one made of the host and the port."""
        return self.name or f"{socket.gethostname()}-{self.port or os.getpid()}"

    def check(self) -> None:
        """Refuse options that do not go together."""
        self.neighbours.check()
        self.tls.check()
        folder = self.ontology_folder
        if folder is not None and not folder.is_dir():
            raise typer.BadParameter(f"--ontology-folder {folder}: there is no such folder")
        if not self.name and self.port == 0 and self.store is not None:
            raise typer.BadParameter("with a --store and --port 0, give a --name")
        if not self.trigger and (self.semantic_map.are_given or self.overlay != MAIN):
            raise typer.BadParameter("--overlay, --weights and --ties need a --trigger")
        check_overlay(self.overlay)


@with_options
def broker(
    *,
    options: BrokerOptions,
    logs: Logs,
    end_with_stdin: Annotated[bool, typer.Option("--end-with-stdin", hidden=True)] = False,
    as_json: AsJson = False,
) -> None:
    """Run a broker until it is told to end (Ctrl-C, SIGTERM); SIGHUP reloads ontology and access.

    It prints one line when it listens; events go to stderr. A broker with a --parent is part of a
    hierarchy, one with --peer of a network of equals.

    \b
    Examples:
      kbn broker --name dublin -o podcast --store dublin.db --metrics-port 9420
      kbn broker --name cork --port 7421 --parent kbn://127.0.0.1:7420 -o podcast
    """
    options.check()
    logs.set_up(options.known_as)
    server = make_server(options, _announcer(options.known_as, as_json))
    from kbn.transport import new_loop

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(server, end_with_stdin))


def make_server(options: BrokerOptions, announce: Callable[[str, str], None]) -> Watched:
    """The server that the options describe; `announce` is told its URLs when it listens.

    Everything the user may have got wrong is looked at before the store is opened, and the store
    before the kernels are loaded, which may take long.
    """
    from kbn.transport import Listen, OntologyFiles, OntologyFolder, parse_url

    if options.trigger:
        for url in options.trigger:
            parse_url(url)
        options.semantic_map.settings()
    listen = Listen(options.host, options.port, options.tls.for_clients(), options.tls.for_links())
    settings = _node_settings(options)
    _warm_up()
    # These load the whole broker with its index: not before a mistake above could be told.
    from kbn.transport import Reporting, Watch, watched

    reasoning = options.reasoning
    files = OntologyFiles(
        tuple(reasoning.ontology or ()), reasoning.reasoning.value, mapping_files(options.mapping)
    )
    watch = Watch(options.metrics_host, options.metrics_port, announce)
    server = watched(
        settings,
        listen,
        watch,
        ontology=files if settings.ontology else None,
        folder=OntologyFolder(options.ontology_folder),
    )
    if options.trigger:
        Reporting(
            server.server,
            options.trigger,
            token=options.token,
            tls=listen.link_tls,
            settings=options.semantic_map.settings(),
            overlay=options.overlay,
        )
    return server


def _node_settings(options: BrokerOptions) -> NodeSettings:
    """What the node of the broker goes by; this opens the store, last of all."""
    from kbn.broker import AllowAll, NodeSettings, SqliteStore
    from kbn.transport import AccessFile

    limits, broker_limits, server_limits = _limits(options.limit)
    settings = NodeSettings(
        options.known_as,
        routing=options.neighbours.mode.value,
        adapts=options.neighbours.adapts,
        links=tuple(options.neighbours.links(options.token)),
        token=options.token,
        authorizer=AllowAll() if options.access is None else AccessFile(options.access),
        ontology=mapped(options.reasoning.load(), options.mapping),
        advertisements=options.advertisements,
        unknown_terms=options.unknown_terms.value,
        keeps_roots=options.keep_roots,
        limits=limits,
        broker_limits=broker_limits,
        server_limits=server_limits,
    )
    if options.store is None:
        return settings
    store = SqliteStore(options.store, options.sync.value, options.after_damage.value)
    return replace(settings, store=store)


async def _serve(server: Watched, end_with_stdin: bool) -> None:
    from kbn.transport import GarbageSearch, at_end_of_stdin, end, serve

    if end_with_stdin:
        at_end_of_stdin(end)
    garbage = GarbageSearch()
    garbage.begin()
    server.server.add_background_task(garbage.run)
    await serve(server)


def _limits(given: list[str]) -> tuple[ClientLimits, BrokerLimits, ServerLimits]:
    """The limits of clients, broker and server, with those changed that were named."""
    from kbn.broker import BrokerLimits, ClientLimits
    from kbn.transport import ServerLimits

    kinds: tuple[type[Any], ...] = (ClientLimits, BrokerLimits, ServerLimits)
    of = {each.name: kind for kind in kinds for each in fields(kind)}
    changed: dict[type[Any], dict[str, float]] = {kind: {} for kind in kinds}
    for text in given:
        name, _, value = text.partition("=")
        if name not in of:
            meant = did_you_mean(close_names(name, of))
            known = meant or f"; the limits are {', '.join(sorted(of))}"
            raise typer.BadParameter(f"{name!r} is not a limit{known}")
        changed[of[name]][name] = _limit_value(name, value)
    clients, broker, server = (kind(**changed[kind]) for kind in kinds)
    return clients, broker, server


def _limit_value(name: str, text: str) -> float:
    with suppress(ValueError):
        value = float(text) if name.endswith("_s") else int(text)
        if 0 < value < 2**63:
            return value
    raise typer.BadParameter(f"{name}={text}: a limit is a number above 0, as in {name}=1000")


def _announcer(name: str, as_json: bool) -> Callable[[str, str], None]:
    """What prints the line that says where the broker listens."""

    def announce(url: str, http: str) -> None:
        metrics = f"{http}/metrics" if http else None
        if as_json:
            print_json_line({"broker": name, "url": url, "metrics": metrics})
        else:
            also = f", metrics at {metrics}" if metrics else ""
            typer.echo(f"broker {name} listens at {url}{also}")
        sys.stdout.flush()

    return announce


def compile_kernels_once() -> None:
    """Compile the kernels, before processes are started that would each do it."""
    from kbn.matching import kernels

    if not kernels.are_compiled(with_covering=True):
        _warm_up()


def _warm_up() -> None:
    """Load the matching kernels, and say so when that takes long."""
    from kbn.broker import warm_up

    remark_on_compiling(with_covering=True)
    warm_up()
