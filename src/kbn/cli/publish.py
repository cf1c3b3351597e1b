"""`kbn publish`: notifications from arguments, a file or a pipe, to a broker."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbn.cli.connecting import Connecting
from kbn.cli.ontology import ontology_file
from kbn.cli.options import with_options
from kbn.cli.output import AsJson, print_json, remark
from kbn.errors import InvalidInputError, KbnError, TransportError

if TYPE_CHECKING:
    from kbn.filters import Notification
    from kbn.transport import Client, ManagedPublisher

# Durable ones that may be on their way to the store at once.
AHEAD_MAX = 256
BARRIER_S = 5.0
SHOWN_MAX = 20
READ_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Management:
    """For a publisher that publishes where a policy server says."""

    trigger: Annotated[
        str | None,
        typer.Option(
            "--trigger",
            metavar="URL",
            help="Publish where the policy server behind this trigger broker says.",
        ),
    ] = None
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

    def check(self) -> None:
        if (self.trigger is not None) is not bool(self.ontology):
            raise typer.BadParameter("--trigger and --ontology go together")


@dataclass(frozen=True, kw_only=True)
class Publishing:
    """How notifications are published."""

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
    published, and the exit code is 1 (2 when no argument is valid). A broker that goes away is
    waited for.

    \b
    Examples:
      kbn publish --url kbn://127.0.0.1:7420 '{"price": 5, "kind": "book"}'
      kbn publish --url kbn://127.0.0.1:7420 --durable --file posts.jsonl
      kbn publish --trigger kbn://127.0.0.1:7499 --ontology conference --file talks.jsonl
    """
    texts = _texts(notifications or [], file)
    management.check()
    publisher = _publisher(connecting, publishing, management)
    count = asyncio.run(_publish(publisher, texts, publishing))
    durable = publishing.durable
    if as_json:
        print_json({"published": count.done, "durable": durable, "failed": count.failed})
    else:
        typer.echo(f"{count.done} published" + (" and stored" if durable else ""))
    if count.failed:
        raise typer.Exit(1)


def _publisher(
    connecting: Connecting, publishing: Publishing, management: Management
) -> Client | ManagedPublisher:
    """A client of the broker or, with a trigger broker, one that is managed."""
    if management.trigger is None:
        return connecting.client(publishing.name, with_path=publishing.with_path)
    from kbn.ontology import Ontology
    from kbn.transport import ManagedPublisher, parse_url

    parse_url(management.trigger)
    known = connecting.credentials
    return ManagedPublisher(
        management.trigger, Ontology.load(management.ontology), url=connecting.url,
        name=publishing.name, wait_s=connecting.wait_s, with_path=publishing.with_path,
        token=known.token, tls_ca=known.tls_ca, tls_certificate=known.tls_cert,
        tls_key=known.tls_key,
    )  # fmt: skip


def _texts(given: list[str], file: Path | None) -> AsyncIterator[tuple[str, str]]:
    """Where each notification stands, and its text."""
    if file is not None and given:
        raise typer.BadParameter("give notifications as arguments or in a --file, not both")
    if file is not None:
        return _placed(_lines_of_file(file), f"{file}:")
    if given == ["-"] or (not given and not sys.stdin.isatty()):
        return _placed(_lines_of_stdin(), "stdin:")
    if not given:
        raise typer.BadParameter("nothing to publish: give JSON, --file, or - for stdin")
    _check_one_is_valid(given)
    return _placed(_each(given), "notification ")


def _check_one_is_valid(texts: list[str]) -> None:
    """Refuse arguments of which none can be published, before a broker is asked."""
    errors = []
    for text in texts:
        try:
            _read(text)
        except InvalidInputError as error:
            errors.append(error)
    if len(errors) == len(texts):
        raise InvalidInputError(f"notification 1: {errors[0]}")


async def _placed(texts: AsyncIterator[str], place: str) -> AsyncIterator[tuple[str, str]]:
    number = 0
    async for text in texts:
        number += 1
        if text.strip():
            yield f"{place}{number}", text


async def _each(texts: Iterable[str]) -> AsyncIterator[str]:
    for text in texts:
        yield text


async def _lines_of_file(path: Path) -> AsyncIterator[str]:
    # What is no UTF-8 is found out line by line, as anything else that is wrong.
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="\n") as stream:
        for line in stream:
            yield line


async def _lines_of_stdin() -> AsyncIterator[str]:
    """Lines as they come; while none comes the connection is kept up."""
    rest = b""
    while data := await _read_stdin():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "surrogateescape")
    if rest:
        yield rest.decode("utf-8", "surrogateescape")


async def _read_stdin() -> bytes:
    file, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(file, _wake, readable)
    except OSError:  # a file: reading one never waits
        return os.read(file, READ_BYTES)
    try:
        await readable
    finally:
        loop.remove_reader(file)
    return os.read(file, READ_BYTES)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


class _Count:
    """How many were published, and how many could not be."""

    def __init__(self) -> None:
        self.done = 0
        self.failed = 0

    def fail(self, where: str, error: KbnError) -> None:
        self.failed += 1
        if self.failed <= SHOWN_MAX:
            remark(f"{where}: {error}")
        elif self.failed == SHOWN_MAX + 1:
            remark("… further ones are counted, and not shown")


async def _publish(
    client: Client | ManagedPublisher,
    texts: AsyncIterator[tuple[str, str]],
    publishing: Publishing,
) -> _Count:
    count = _Count()
    async with client:
        pace = _Pace(publishing.rate)
        send = _Durable(client, count) if publishing.durable else _Quick(client, count)
        async for where, text in texts:
            try:
                notification = _read(text)
            except InvalidInputError as error:
                count.fail(where, error)
                continue
            await pace.wait()
            await send.one(where, notification)
        await send.finish()
    return count


def _read(text: str) -> Notification:
    import json

    from kbn.filters import Notification, json_depth_error, refuse_duplicate_names

    try:
        text.encode()
        data = json.loads(text, object_pairs_hook=refuse_duplicate_names)
    except UnicodeEncodeError:
        raise InvalidInputError("not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"not JSON: {error}") from None
    except RecursionError:
        raise json_depth_error() from None
    return Notification.from_json(data)


class _Quick:
    """Publishes without waiting; what the broker refuses is heard of later, without its place."""

    def __init__(self, client: Client | ManagedPublisher, count: _Count) -> None:
        self._client = client
        self._count = count

    async def one(self, where: str, notification: Notification) -> None:
        while True:
            try:
                await self._client.publish(notification)
            except TransportError:
                raise
            except KbnError as error:  # of one before; this one is still to be sent
                self._refused(error)
                continue
            self._count.done += 1
            return

    def _refused(self, error: KbnError) -> None:
        self._count.done -= 1
        self._count.fail("refused", error)

    async def finish(self) -> None:
        """Wait until the broker has handled all of them, for as long as is reasonable."""
        try:
            async with asyncio.timeout(BARRIER_S):
                await self._client.barrier()
        except TimeoutError:
            remark("all were sent; part of the network has not answered yet")
        for error in self._client.take_refusals():
            self._refused(error)


class _Durable:
    """Publishes and waits until each is stored, many at a time."""

    def __init__(self, client: Client | ManagedPublisher, count: _Count) -> None:
        self._client = client
        self._count = count
        self._ahead: deque[tuple[str, asyncio.Task[None]]] = deque()

    async def one(self, where: str, notification: Notification) -> None:
        work = self._client.publish(notification, durable=True)
        self._ahead.append((where, asyncio.ensure_future(work)))
        await asyncio.sleep(0)  # it is sent now, so all are sent in order
        while len(self._ahead) >= AHEAD_MAX or (self._ahead and self._ahead[0][1].done()):
            await self._finish_first()

    async def finish(self) -> None:
        while self._ahead:
            await self._finish_first()

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
    """Lets so many pass per second."""

    def __init__(self, rate: float | None) -> None:
        self._gap_s = 0.0 if rate is None else 1.0 / rate
        self._next_at = 0.0

    async def wait(self) -> None:
        if not self._gap_s:
            return
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(max(0.0, self._next_at - now))
        self._next_at = max(self._next_at, now) + self._gap_s
