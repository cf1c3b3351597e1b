"""`kbn subscribe`: what a broker delivers, a JSON line each."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbn.cli.connecting import Connecting
from kbn.cli.map_options import MAIN, OverlayName, check_overlay
from kbn.cli.options import option_group, with_options
from kbn.cli.output import print_json_line, remark
from kbn.wording import counted

if TYPE_CHECKING:
    from kbn.transport import Client, Delivery, Feed, ManagedSubscriber

BARRIER_S = 5.0
SEEN_MAX = 100_000


@option_group
class Ending:
    """When it ends, and what happens then."""

    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="End after this many notifications.")
    ] = None
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", min=0, metavar="S", help="End after this many seconds."),
    ] = None
    forget: Annotated[
        bool, typer.Option("--forget", help="At the end, let the broker forget the durable client.")
    ] = False


@with_options
def subscribe(
    *,
    filters: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILTER...",
            help="Filters in the text language; none with --forget, to be forgotten at once.",
            show_default=False,
        ),
    ] = None,
    durable: Annotated[
        bool,
        typer.Option("--durable", help="The broker keeps what arrives while you are away."),
    ] = False,
    name: Annotated[
        str | None, typer.Option("--name", help="Your name as a client; --durable needs one.")
    ] = None,
    trigger: Annotated[
        list[str] | None,
        typer.Option(
            "--trigger",
            metavar="URL",
            help="Count hops, and ask at this trigger broker to be moved when they are many.",
            show_default=False,
        ),
    ] = None,
    overlay: OverlayName = MAIN,
    ending: Ending,
    with_facts: Annotated[
        bool,
        typer.Option("--with-facts", help="Print id, publisher, time, hops, path and broker too."),
    ] = False,
    connecting: Connecting,
    as_json: Annotated[
        bool, typer.Option("--json", help="Has no effect: results are always JSON lines.")
    ] = False,
) -> None:
    """Print each notification that satisfies one of the filters, as a line of JSON.

    It says on stderr when the whole network knows of the subscription, and runs until --count,
    --timeout or Ctrl-C. Fewer than --count in the --timeout is a failure, exit code 1.

    \b
    Examples:
      kbn subscribe --url kbn://127.0.0.1:7420 'price < 20 and kind = "book"'
      kbn subscribe --durable --name ann --count 9 'category @> podcast:Arts'
      kbn subscribe --durable --name ann --forget
    """
    if durable and name is None:
        raise typer.BadParameter("a durable client needs a --name, to be known when it comes back")
    if ending.forget and not durable:
        raise typer.BadParameter("--forget goes with --durable")
    if not filters and not ending.forget:
        raise typer.BadParameter("give a filter, such as 'price < 20'", param_hint="FILTER...")
    for text in filters or ():
        _check_syntax(text)
    check_overlay(overlay)
    client = connecting.client(name, durable=durable)
    printer = _Printer(ending.count, with_facts)
    if not filters:
        asyncio.run(_forget(client))
        remark(f"the broker has forgotten {name}")
        return
    managed = _managed(client, trigger, overlay, connecting) if trigger else None
    asyncio.run(_subscribe(client, filters, printer, ending, managed))
    if ending.count is not None and not printer.is_done and ending.timeout is not None:
        remark(f"{printer.printed} of {ending.count} came in {ending.timeout:g} s")
        raise typer.Exit(1)


def _check_syntax(text: str) -> None:
    """Refuse what no broker could read, before one is asked; what prefixes mean, it knows."""
    from kbn.filters import Subscription, tokenize_filter

    prefixes = {spelling.partition(":")[0] for spelling in tokenize_filter(text).spellings}
    Subscription.parse(text, dict.fromkeys(prefixes, "urn:any:"))


async def _forget(client: Client) -> None:
    """Have the broker forget a durable client, its subscriptions and what waits for it."""
    from kbn.errors import TransportError

    async with client:
        try:
            async with asyncio.timeout(BARRIER_S):
                await client.leave()
        except TimeoutError:
            raise TransportError(f"no answer in {BARRIER_S:g} s: try again later") from None


def _managed(
    client: Client, triggers: list[str], overlay: str, connecting: Connecting
) -> ManagedSubscriber:
    from kbn.transport import ManagedSubscriber, parse_url

    for url in triggers:
        parse_url(url)
    known = connecting.credentials
    return ManagedSubscriber(
        client, triggers, overlay=overlay, token=known.token, tls_ca=known.tls_ca,
        tls_certificate=known.tls_cert, tls_key=known.tls_key,
    )  # fmt: skip


async def _subscribe(
    client: Client,
    filters: list[str],
    printer: _Printer,
    ending: Ending,
    managed: ManagedSubscriber | None,
) -> None:
    told_to_end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, told_to_end.set)
    async with client, managed or nullcontext():
        feeds = [client.subscribe(text) for text in filters]
        for feed in feeds:
            await feed
        work: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(printer.print_all(feed, managed)) for feed in feeds
        ]
        telling = asyncio.ensure_future(_tell(client, len(filters)))
        work.append(asyncio.ensure_future(told_to_end.wait()))
        work.append(_reader_of_stdout_gone())
        try:
            done, _ = await asyncio.wait(
                work, timeout=ending.timeout, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()
        finally:
            telling.cancel()
            for task in work:
                task.cancel()
            await asyncio.gather(*work, telling, return_exceptions=True)
        if ending.forget:
            with suppress(TimeoutError):
                async with asyncio.timeout(BARRIER_S):
                    await client.leave()


def _reader_of_stdout_gone() -> asyncio.Future[None]:
    """Fails when stdout is a pipe whose reader goes away, though nothing is written just then."""
    loop = asyncio.get_running_loop()
    gone: asyncio.Future[None] = loop.create_future()

    def notice() -> None:
        loop.remove_reader(1)
        if not gone.done():
            gone.set_exception(BrokenPipeError())

    with suppress(OSError, NotImplementedError):
        if stat.S_ISFIFO(os.fstat(1).st_mode):
            loop.add_reader(1, notice)
    return gone


async def _tell(client: Client, count: int) -> None:
    """Say when the subscriptions are in force."""
    what = f"subscribed to {counted(count, 'filter')} at {client.broker}"
    try:
        async with asyncio.timeout(BARRIER_S):
            await client.barrier()
        remark(what)
    except TimeoutError:
        remark(f"{what}; part of the network has not answered yet")


class _Printer:
    """Prints each notification once, whichever of the filters wanted it."""

    def __init__(self, count: int | None, with_facts: bool) -> None:
        self._count = count
        self._with_facts = with_facts
        self._seen: dict[object, None] = {}
        self.printed = 0

    @property
    def is_done(self) -> bool:
        return self._count is not None and self.printed >= self._count

    async def print_all(self, feed: Feed, managed: ManagedSubscriber | None) -> None:
        """Print until there were enough. The next is asked for when the last is printed."""
        async for delivery in feed.deliveries() if managed is None else managed.deliveries(feed):
            if delivery.id in self._seen:
                continue
            self._remember(delivery.id)
            print_json_line(self._form(delivery))
            sys.stdout.flush()
            self.printed += 1
            if self.is_done:
                return

    def _remember(self, id: object) -> None:
        self._seen[id] = None
        if len(self._seen) > SEEN_MAX:
            del self._seen[next(iter(self._seen))]

    def _form(self, delivery: Delivery) -> dict[str, Any]:
        form: dict[str, Any] = delivery.notification.to_json()
        if not self._with_facts:
            return dict(form["attributes"])
        return {
            **form,
            "hops": delivery.hops,
            "path": None if delivery.path is None else list(delivery.path),
            "broker": delivery.broker,
            "durable": delivery.durable,
            "dropped": delivery.dropped,
        }
