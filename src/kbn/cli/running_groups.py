"""`kbn groups coordinate|publish|subscribe|status`: publisher groups as a running system."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbn.cli.broker import Tls
from kbn.cli.connecting import Credentials, Token
from kbn.cli.groups import Strategy
from kbn.cli.logs import Logs
from kbn.cli.notification_texts import notification_texts, read_notification
from kbn.cli.options import option_group, with_options
from kbn.cli.output import AsJson, print_facts, print_json, print_json_line, print_table, remark
from kbn.errors import InvalidInputError, KbnError, TransportError

if TYPE_CHECKING:
    from kbn.transport import GroupFeed, GroupPeer

DEFAULT_URL = "kbn://127.0.0.1:7430"
DEFAULT_PORT = 7430

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    short_help="Groups of peers that serve each other within delay bounds.",
    help="Publishers and subscribers without brokers: a coordinator groups them by what they "
    "advertise and arranges those of a group so that delay bounds are kept.",
)

EndWithStdin = Annotated[bool, typer.Option("--end-with-stdin", hidden=True)]


@option_group
class Membership:
    """Which group to join, and as whom."""

    url: Annotated[
        list[str],
        typer.Option(
            "--url", "-u", envvar="KBN_GROUP_URL", metavar="URL",
            help=f"The coordinator, and its standbys: may be repeated [default: {DEFAULT_URL}].",
            show_default=False,
        ),
    ] = field(default_factory=list)  # fmt: skip
    name: Annotated[str | None, typer.Option("--name", help="Your name as a peer.")] = None
    slots: Annotated[
        int,
        typer.Option("--slots", min=0, help="How many other peers you pass notifications on to."),
    ] = 4
    host: Annotated[
        str, typer.Option("--host", help="The address at which other peers reach you.")
    ] = "127.0.0.1"
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="The port; 0 takes a free one.")
    ] = 0
    shown_url: Annotated[
        str | None,
        typer.Option(
            "--shown-url", metavar="URL", help="Where others see you, if it is elsewhere."
        ),
    ] = None
    credentials: Credentials = Credentials()
    wait_s: Annotated[
        float,
        typer.Option("--wait", min=0.1, metavar="S", help="How long the coordinator may take."),
    ] = 10.0

    def peer(self, **changed: Any) -> GroupPeer:
        """A peer to use with `async with`."""
        from kbn.groups import connect

        known = self.credentials
        given = {
            "name": self.name, "slots": self.slots, "host": self.host, "port": self.port,
            "shown_url": self.shown_url,
        }  # fmt: skip
        return connect(
            self.url or [DEFAULT_URL], token=known.token, timeout=self.wait_s, tls_ca=known.tls_ca,
            tls_certificate=known.tls_cert, tls_key=known.tls_key, **{**given, **changed},
        )  # fmt: skip


@app.command("coordinate", short_help="Run the coordinator of a group.")
@with_options
def coordinate(
    *,
    name: Annotated[str, typer.Option("--name", help="Its name [default: host and port].")] = "",
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="The port; 0 takes a free one.")
    ] = DEFAULT_PORT,
    strategy: Annotated[
        Strategy, typer.Option("--strategy", "-s", help="How publishers are grouped.")
    ] = Strategy.FOUR,
    connections: Annotated[
        int | None,
        typer.Option("--connections", "-c", min=1, help="The limit of publishers that give none."),
    ] = None,
    access: Annotated[
        Path | None,
        typer.Option("--access", metavar="FILE", help="The access file: who may join and do what."),
    ] = None,
    standby_of: Annotated[
        str | None,
        typer.Option(
            "--standby-of", metavar="URL", help="Take over when the coordinator there is gone."
        ),
    ] = None,
    token: Token = "",
    tls: Tls,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port", min=0, max=65535,
            help="Serve /health and /metrics over HTTP on this port.",
        ),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option("--metrics-host", help="The address for --metrics-port.")
    ] = "127.0.0.1",
    logs: Logs,
    end_with_stdin: EndWithStdin = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Run a coordinator until it is told to end; SIGHUP reads the access file again.

    It prints one line when it listens. It keeps nothing on disk: after a restart it learns from the
    peers where they are, and they go on meanwhile.

    \b
    Examples:
      kbn groups coordinate
      kbn groups coordinate --strategy 3.1 --connections 12 --metrics-port 9430
    """
    from secrets import token_hex

    from kbn.broker import AllowAll
    from kbn.peering import CoordinatorSettings
    from kbn.transport import AccessFile, CoordinatorServer, Listen, Watch, parse_url

    tls.check()
    if standby_of is not None:
        parse_url(standby_of)
    known_as = name or f"{socket.gethostname()}-{port or os.getpid()}"
    logs.set_up(known_as)
    listen = Listen(host, port, tls.for_clients(), tls.for_links())
    settings = CoordinatorSettings(
        known_as,
        lambda: token_hex(16),
        strategy.value,
        None if strategy.value in ("1", "2") else connections,
        AllowAll() if access is None else AccessFile(access),
        listen.checks_certificates,
        standby_of=standby_of or "",
        token=token,
    )
    watch = Watch(metrics_host, metrics_port, _announcer(known_as, as_json))

    async def run() -> None:
        from kbn.transport import at_end_of_stdin, end, serve

        if end_with_stdin:
            at_end_of_stdin(end)
        try:
            await serve(CoordinatorServer(settings, listen, watch))
        except OSError as error:
            raise TransportError(f"cannot listen at {host}:{port}: {error.strerror}") from None

    asyncio.run(run())


def _announcer(name: str, as_json: bool) -> Callable[[str, str], None]:
    def announce(url: str, http: str) -> None:
        metrics = f"{http}/metrics" if http else None
        if as_json:
            print_json_line({"coordinator": name, "url": url, "metrics": metrics})
        else:
            also = f", metrics at {metrics}" if metrics else ""
            typer.echo(f"coordinator {name} listens at {url}{also}")
        sys.stdout.flush()

    return announce


@app.command("publish", short_help="Publish to a group.")
@with_options
def publish(
    *,
    notifications: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[JSON]...",
            help="Notifications as JSON, one each; - reads them from stdin, one a line.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", exists=True, dir_okay=False, help="Read them from this file."),
    ] = None,
    advertise: Annotated[
        list[str],
        typer.Option(
            "--advertise", "-a", metavar="NAME", help="An attribute you publish; may be repeated."
        ),
    ],
    connections: Annotated[
        int | None,
        typer.Option(
            "--connections", "-c", min=1,
            help="To how many clusters you connect at most [default: as many as it takes].",
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.001, help="How many a second at most.")
    ] = None,
    begin_after: Annotated[
        float,
        typer.Option("--begin-after", min=0, metavar="S", help="Wait so long for subscribers."),
    ] = 3.0,
    linger: Annotated[
        float,
        typer.Option("--linger", min=0, metavar="S", help="Stay so long after the last one."),
    ] = 1.0,
    membership: Membership,
    end_with_stdin: EndWithStdin = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Join a group as a publisher, publish notifications, and leave.

    Each notification has attributes that you advertise. One that is not valid is reported with its
    number; the others are published, and the exit code is 1.

    \b
    Examples:
      kbn groups publish -a price -a city '{"price": 5, "city": "Cork"}'
      kbn groups publish -a price --connections 4 --rate 20 --file prices.jsonl
    """
    if not notifications and file is None:
        raise typer.BadParameter("give notifications as JSON, - to read stdin, or a --file")
    texts = notification_texts(notifications or [], file)

    async def run() -> tuple[int, int]:
        done = failed = 0
        async with membership.peer() as peer:
            peer.advertise(advertise, connections)
            await asyncio.sleep(begin_after)
            loop = asyncio.get_running_loop()
            due = loop.time()
            async for where, text in texts:
                try:
                    notification = read_notification(text)
                    if rate is not None:
                        await asyncio.sleep(max(0.0, due - loop.time()))
                        due = max(due, loop.time() - 1.0) + 1.0 / rate
                    await peer.publish(notification)
                    done += 1
                except TransportError:
                    raise
                except KbnError as error:
                    failed += 1
                    remark(f"{where}: {error}")
            await asyncio.sleep(linger)
        return done, failed

    done, failed = asyncio.run(_until_told(run(), end_with_stdin))
    if as_json:
        print_json({"published": done, "failed": failed})
    else:
        typer.echo(f"{done} published")
    if failed:
        raise typer.Exit(1)


async def _until_told(work: Any, end_with_stdin: bool) -> Any:
    """The result of some work; it is cancelled when our input ends, if that is asked for."""
    from kbn.transport import at_end_of_stdin

    task = asyncio.ensure_future(work)
    if end_with_stdin:
        at_end_of_stdin(task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        raise typer.Exit(0) from None


@app.command("subscribe", short_help="Print what a group delivers, within a delay bound.")
@with_options
def subscribe(
    *,
    filter: Annotated[
        str,
        typer.Argument(metavar="FILTER", help="A filter in the text language, or several with or."),
    ],
    within: Annotated[
        str | None,
        typer.Option("--within", metavar="TIME", help="The delay bound, as in 200ms or 1.5s."),
    ] = None,
    probability: Annotated[
        str,
        typer.Option("--probability", metavar="P", help="How often it must be kept: 95% or 0.95."),
    ] = "95%",
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="End after this many notifications.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", min=0, metavar="S", help="End after so many seconds."),
    ] = None,
    with_facts: Annotated[
        bool, typer.Option("--with-facts", help="Print publisher, number and delay, too.")
    ] = False,
    membership: Membership,
    end_with_stdin: EndWithStdin = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Has no effect: results are always JSON lines.")
    ] = False,
) -> None:
    """Join a group as a subscriber; print each notification as a line of JSON.

    Stderr says whether the bound is admitted, and when it is no longer kept. As a peer, you pass on
    to others what they want (--slots). Fewer than --count in the --timeout is exit code 1.

    \b
    Examples:
      kbn groups subscribe 'price < 20' --within 200ms --probability 95%
      kbn groups subscribe 'price < 20 or city = "Cork"' --slots 8
    """
    within_s, share = _seconds(within), _share(probability)

    async def run() -> int:
        async with membership.peer() as peer:
            feed = peer.subscribe(filter, within_s=within_s, probability=share)
            telling = asyncio.ensure_future(_tell(feed))
            try:
                async with asyncio.timeout(timeout):
                    return await _print(feed, count, with_facts)
            except TimeoutError:
                return _printed
            finally:
                telling.cancel()

    printed = asyncio.run(_until_told(run(), end_with_stdin))
    if count is not None and printed < count:
        remark(f"{printed} of {count} came in {timeout:g} s")
        raise typer.Exit(1)


_printed = 0


async def _print(feed: GroupFeed, count: int | None, with_facts: bool) -> int:
    global _printed
    async for notification, delay_s, number in feed.deliveries():
        form = notification.to_json()["attributes"]
        if with_facts:
            form = {
                "publisher": notification.publisher,
                "number": number,
                "delay_s": round(delay_s, 6),
                "attributes": form,
            }
        print_json_line(form)
        sys.stdout.flush()
        _printed += 1
        if count is not None and _printed >= count:
            break
    return _printed


async def _tell(feed: GroupFeed) -> None:
    """Say how the bound stands, whenever that changes."""
    told = None
    while True:
        promise = feed.promise
        if promise is not None and (promise.state, promise.reason) != told:
            told = (promise.state, promise.reason)
            if promise.state == "admitted":
                remark(f"admitted: the bound is expected to be kept in {promise.predicted:.1%}")
            else:
                best = f"; {promise.best_s:.3g} s could be kept" if promise.best_s else ""
                remark(f"{promise.state}: {promise.reason}{best}")
        await asyncio.sleep(0.1)


TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s)?")


def _seconds(text: str | None) -> float | None:
    """A time as people write it.

    >>> _seconds("200ms"), _seconds("1.5s"), _seconds("2")
    (0.2, 1.5, 2.0)
    """
    if text is None:
        return None
    found = TIME.fullmatch(text.strip())
    if found is None:
        raise InvalidInputError(f"{text!r} is not a time: write 200ms or 1.5s")
    return float(found[1]) / (1000 if found[2] == "ms" else 1)


def _share(text: str) -> float:
    """A probability as people write it.

    >>> _share("95%"), _share("0.9")
    (0.95, 0.9)
    """
    try:
        share = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        raise InvalidInputError(f"{text!r} is not a probability: write 95% or 0.95") from None
    if not 0.5 <= share < 1:
        raise InvalidInputError(f"a probability is from 50% to under 100%, not {text}")
    return share


@app.command("status", short_help="How a group is doing: clusters, trees, bounds.")
@with_options
def status(
    *,
    page: Annotated[
        Path | None,
        typer.Option("--page", metavar="FILE", help="Draw the trees in this HTML file."),
    ] = None,
    membership: Membership,
    as_json: AsJson = False,
) -> None:
    """Show a group: clusters and their trees, false positives, predicted and measured bounds.

    A coordinator with an access file answers only peers that may manage it.

    \b
    Examples:
      kbn groups status
      kbn groups status --url kbn://127.0.0.1:7430 --json
      kbn groups status --page group.html
    """

    async def ask() -> dict[str, Any]:
        async with membership.peer(slots=0) as peer, asyncio.timeout(membership.wait_s):
            return await peer.facts()

    facts = asyncio.run(ask())
    if page is not None:
        page.write_text(group_page(facts), encoding="utf-8")
        remark(f"written to {page}")
    if as_json:
        print_json(facts)
    else:
        _print_status(facts)


KEPT, BROKEN, UNBOUNDED = "#2a9d4a", "#d62728", "#8a8a8a"


def group_page(facts: dict[str, Any]) -> str:
    """A group as a page: a tree for each cluster, bounds that are kept in green."""
    from kbn.pages import Section, TreeNode, tree_drawing, whole_page
    from kbn.pages import facts as facts_block

    of_peer: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for each in facts["subscriptions"]:
        for number in each["clusters"]:
            of_peer.setdefault((each["peer"], number), []).append(each)
    sections = []
    for cluster in facts["clusters"]:
        nodes = []
        for member in cluster["members"]:
            wanted = of_peer.get((member["peer"], cluster["number"]), [])
            nodes.append(TreeNode(member["peer"], member["parent"], _colour(wanted), _note(wanted)))
        summary = {
            "publishers": len(cluster["publishers"]),
            "members": len(cluster["members"]),
            "depth": cluster["depth"],
            "false positives": f"{cluster['false_positive_rate']:.1%}",
        }
        blocks = [facts_block(summary), tree_drawing(nodes)]
        sections.append(Section(f"Cluster {cluster['number']}", blocks))
    lead = "<p>Green: the bound is kept. Red: it is not. Grey: none was asked for.</p>"
    return whole_page(f"Group of {facts['coordinator']}", sections, lead=lead)


def _colour(wanted: list[dict[str, Any]]) -> str:
    bounded = [each for each in wanted if each["within_s"] is not None]
    if not bounded:
        return UNBOUNDED
    return KEPT if all(each["state"] == "admitted" for each in bounded) else BROKEN


def _note(wanted: list[dict[str, Any]]) -> str:
    return "; ".join(
        f"{each['filter']}: {each['state']}, predicted {_percent(each['predicted'])}, "
        f"measured {_percent(each['measured']) or 'nothing yet'}"
        for each in wanted
    )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _print_status(facts: dict[str, Any]) -> None:
    print_facts(
        {
            "coordinator": facts["coordinator"],
            "strategy": facts["strategy"],
            "peers": facts["peers"] - 1,  # we asked as one
            "publishers": len(facts["publishers"]),
            "subscriptions": len(facts["subscriptions"]),
            "suspects": ", ".join(facts["suspects"]),
        }
    )
    typer.echo()
    clusters = [
        (
            str(each["number"]), str(len(each["publishers"])), str(len(each["members"])),
            str(each["depth"]), str(each["bounds_kept"]), str(len(each["waiting"])),
            f"{each['false_positive_rate']:.1%}",
        )
        for each in facts["clusters"]
    ]  # fmt: skip
    of_clusters = (
        "cluster", "publishers", "members", "depth", "bounds kept", "waiting", "false positives",
    )  # fmt: skip
    print_table(clusters, columns=of_clusters)
    typer.echo()
    subscriptions = [
        (
            each["peer"], each["filter"], each["state"],
            "" if each["within_s"] is None else f"{each['within_s']:g} s",
            _percent(each["probability"]),
            _percent(each["predicted"] if each["within_s"] is not None else None),
            _percent(each["measured"] if each["within_s"] is not None else None),
            str(each["delivered"]),
        )
        for each in facts["subscriptions"]
    ]  # fmt: skip
    columns = ("peer", "filter", "state", "within", "asked", "predicted", "measured", "delivered")
    print_table(subscriptions, columns=columns)
