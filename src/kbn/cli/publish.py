"""`kbn publish`: notifications from arguments, a file or a pipe, to a broker."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbn.cli.connecting import Connecting
from kbn.cli.map_options import MAIN, MapOptions, OverlayName, check_overlay
from kbn.cli.notification_texts import notification_texts, read_notification
from kbn.cli.ontology import ontology_file
from kbn.cli.options import option_group, with_options
from kbn.cli.output import AsJson, print_json, remark
from kbn.errors import InvalidInputError, KbnError, TransportError
from kbn.wording import counted

if TYPE_CHECKING:
    from kbn.broker import TermNote
    from kbn.filters import Notification
    from kbn.transport import Client, ManagedPublisher

AHEAD_MAX = 256
"""The most durable notifications that wait to be stored at once."""

BARRIER_S = 5.0
"""How long to wait, at the end, for the broker to have handled everything."""

SHOWN_MAX = 20
"""The most failures that are shown one by one; the others are only counted."""


@option_group
class Management:
    """Options of a publisher that publishes where a policy server says."""

    trigger: Annotated[
        list[str],
        typer.Option(
            "--trigger",
            metavar="URL",
            help="Publish where the policy server behind this trigger broker says; of several "
            "trigger brokers, one that answers.",
        ),
    ] = field(default_factory=list)
    ontology: Annotated[
        list[Path],
        typer.Option(
            "--ontology",
            "-o",
            metavar="FILE",
            parser=ontology_file,
            help="With --trigger: the ontology you publish in; may be repeated.",
        ),
    ] = field(default_factory=list)
    overlay: OverlayName = MAIN
    semantic_map: MapOptions

    def check(self) -> None:
        """Refuse options that do not go together."""
        if bool(self.trigger) is not bool(self.ontology):
            raise typer.BadParameter("--trigger and --ontology go together")
        if not self.trigger and (self.semantic_map.are_given or self.overlay != MAIN):
            raise typer.BadParameter("--overlay, --weights and --ties need a --trigger")
        check_overlay(self.overlay)


@option_group
class Publishing:
    """Options for how notifications are published."""

    durable: Annotated[
        bool,
        typer.Option(
            "--durable", help="Store each; it then reaches durable subscribers for certain."
        ),
    ] = False
    rate: Annotated[
        float | None,
        typer.Option("--rate", min=0.001, help="How many to publish a second at most."),
    ] = None
    name: Annotated[str | None, typer.Option("--name", help="Your name as a publisher.")] = None
    with_path: Annotated[
        bool, typer.Option("--with-path", help="Record the brokers that each one passes.")
    ] = False


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
        typer.Option(
            "--file",
            "-f",
            exists=True,
            dir_okay=False,
            help="Read notifications from this file, one a line.",
        ),
    ] = None,
    publishing: Publishing,
    management: Management,
    connecting: Connecting,
    as_json: AsJson = False,
) -> None:
    """Publish notifications at a broker, and say how many.

    One that is not valid, or that the broker refuses, is reported with its number; the others are
    published, and the exit code is 1 (2 when no argument is valid). Terms that the ontology of the
    broker does not know are told on stderr. A broker that goes away is waited for.

    \b
    Examples:
      kbn publish --url kbn://127.0.0.1:7420 '{"price": 5, "kind": "book"}'
      kbn publish --url kbn://127.0.0.1:7420 --durable --file posts.jsonl
      kbn publish --trigger kbn://127.0.0.1:7499 -o conference --file talks.jsonl
    """
    if not notifications and file is None:
        raise typer.BadParameter("give notifications as JSON, - to read stdin, or a --file")
    texts = notification_texts(notifications or [], file)
    management.check()
    publisher = _publisher(connecting, publishing, management)
    count = asyncio.run(_publish(publisher, texts, publishing))
    durable = publishing.durable
    if as_json:
        print_json(
            {
                "published": count.done,
                "durable": durable,
                "failed": count.failed,
                "unknown_terms": count.unknown,
            }
        )
    else:
        typer.echo(f"{count.done} published" + (" and stored" if durable else ""))
    if count.failed:
        raise typer.Exit(1)


def _publisher(
    connecting: Connecting, publishing: Publishing, management: Management
) -> Client | ManagedPublisher:
    """A client of the broker or, with a trigger broker, one that is managed."""
    if not management.trigger:
        return connecting.client(
            publishing.name, with_path=publishing.with_path, on_unknown_term=lambda note: None
        )
    from kbn.ontology import Ontology
    from kbn.transport import ManagedPublisher, parse_url

    for url in management.trigger:
        parse_url(url)
    known, settings = connecting.credentials, management.semantic_map.settings()
    return ManagedPublisher(
        management.trigger, settings.map_of(Ontology.load(management.ontology)), url=connecting.url,
        overlay=management.overlay, name=publishing.name, wait_s=connecting.wait_s,
        with_path=publishing.with_path,
        on_unknown_term=lambda note: None, token=known.token, tls_ca=known.tls_ca,
        tls_certificate=known.tls_cert, tls_key=known.tls_key,
    )  # fmt: skip


class _Count:
    """How many were published, and how many could not be."""

    def __init__(self) -> None:
        self.done = 0
        self.failed = 0
        self.unknown = 0
        self._shown: set[TermNote] = set()

    def fail(self, where: str, error: KbnError) -> None:
        self.failed += 1
        if self.failed <= SHOWN_MAX:
            remark(f"{where}: {error}")
        elif self.failed == SHOWN_MAX + 1:
            remark("… further ones are counted, and not shown")

    def tell_unknown(self, client: Client | ManagedPublisher) -> None:
        """Tell the terms that the broker's ontology does not know, each once, and count."""
        for note in client.take_unknown_terms():
            if note not in self._shown and len(self._shown) < SHOWN_MAX:
                self._shown.add(note)
                remark(str(note))
        self.unknown = client.unknown_count


async def _publish(
    client: Client | ManagedPublisher,
    texts: AsyncIterator[tuple[str, str]],
    publishing: Publishing,
) -> _Count:
    count = _Count()
    async with client:
        pace = _Pace(publishing.rate)
        make = _DurableSender if publishing.durable else _BestEffortSender
        sender = make(client, count)
        async for where, text in texts:
            try:
                notification = read_notification(text)
            except InvalidInputError as error:
                count.fail(where, error)
                continue
            await pace.wait()
            await sender.send(where, notification)
            count.tell_unknown(client)
        await sender.finish()
        count.tell_unknown(client)
    if count.unknown:
        remark(f"{counted(count.unknown, 'notification')} with terms that the broker does not know")
    return count


class _BestEffortSender:
    """Publishes without waiting.

    The broker reports a refusal later, and does not say where the notification came from.
    """

    def __init__(self, client: Client | ManagedPublisher, count: _Count) -> None:
        self._client = client
        self._count = count

    async def send(self, where: str, notification: Notification) -> None:
        while True:
            try:
                await self._client.publish(notification)
            except TransportError:
                raise
            except KbnError as error:  # about an earlier one; this one is still to be sent
                self._refused(error)
                continue
            self._count.done += 1
            return

    def _refused(self, error: KbnError) -> None:
        self._count.done -= 1
        self._count.fail("refused", error)

    async def finish(self) -> None:
        await _until_handled(self._client)
        for error in self._client.take_refusals():
            self._refused(error)


async def _until_handled(client: Client | ManagedPublisher) -> None:
    """Wait until the broker has handled all that was published, at most `BARRIER_S`."""
    try:
        async with asyncio.timeout(BARRIER_S):
            await client.barrier()
    except TimeoutError:
        remark("all were sent; part of the network has not answered yet")


class _DurableSender:
    """Publishes many at a time, and waits until each is stored."""

    def __init__(self, client: Client | ManagedPublisher, count: _Count) -> None:
        self._client = client
        self._count = count
        self._ahead: deque[tuple[str, asyncio.Task[None]]] = deque()

    async def send(self, where: str, notification: Notification) -> None:
        work = self._client.publish(notification, durable=True)
        self._ahead.append((where, asyncio.ensure_future(work)))
        await asyncio.sleep(0)  # it is sent now, so all are sent in order
        while len(self._ahead) >= AHEAD_MAX or (self._ahead and self._ahead[0][1].done()):
            await self._finish_first()

    async def finish(self) -> None:
        while self._ahead:
            await self._finish_first()
        if self._client.unknown_count:  # all of them are told before a barrier is reached
            await _until_handled(self._client)

    async def _finish_first(self) -> None:
        where, task = self._ahead.popleft()
        try:
            await task
        except TransportError:
            raise
        except KbnError as error:
            self._count.fail(where, error)
        else:
            self._count.done += 1


class _Pace:
    """Waits so that no more than `rate` notifications are published in a second."""

    def __init__(self, rate: float | None) -> None:
        self._gap_s = 0.0 if rate is None else 1.0 / rate
        self._next_at = 0.0

    async def wait(self) -> None:
        if not self._gap_s:
            return
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(max(0.0, self._next_at - now))
        self._next_at = max(self._next_at, now) + self._gap_s
