"""A client of a broker: the pure `ClientCore`, driven by sockets and the clock.

The core knows what to say to whom; here are the connections (one, or two while moving), kept up
with growing waits between attempts, the answers that coroutines wait for, and the feeds.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from getpass import getuser
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal

from kbn.broker import (
    ClientCore,
    ClientSettings,
    Confirmed,
    ConnAck,
    Delivered,
    Dial,
    Effect,
    Failed,
    HangUp,
    Moved,
    OntologyChanged,
    Publish,
    Refused,
    Send,
    content,
    wire,
)
from kbn.errors import InvalidInputError, KbnError, RemotePeerError, TransportError
from kbn.filters import Notification, Subscription
from kbn.transport.clock import Backoff, now
from kbn.transport.connection import Connection
from kbn.transport.dialling import ask_name, dial
from kbn.transport.feed import Delivery, Feed, Item
from kbn.transport.refusals import error_of
from kbn.transport.security import client_tls
from kbn.transport.urls import parse_url

__all__ = ["Client", "Delivery", "Feed", "connect"]

TICK_S = 0.2
SILENT_S = 15.0
CLOSE_S = 5.0
MOVE_ATTEMPTS_MAX = 5
FRAME_BYTES_MAX = 256 << 20
# A publisher that never has to wait lets others run after so many notifications.
BREATH_EVERY = 128
REFUSALS_MAX = 1000

log = logging.getLogger("kbn.transport")


def connect(
    url: str,
    *,
    name: str | None = None,
    token: str = "",
    durable: bool = False,
    window: int = 1000,
    when_slow: Literal["drop", "block"] = "drop",
    with_path: bool = False,
    timeout: float | None = 30.0,
    tls_ca: str | Path | None = None,
    tls_certificate: str | Path | None = None,
    tls_key: str | Path | None = None,
    on_ontology: Callable[[str], None] | None = None,
    run: int | None = None,
    published: int = 0,
) -> Client:
    """A client of the broker at a URL: `async with kbn.connect("kbn://localhost:7420") as client`.

    `name` is how brokers and subscribers know it; a durable client must have one, and the broker
    keeps for it what comes while it is away. Such a client subscribes to the same, in the same
    order, each time its process starts. `window` notifications at most wait here for the
    application; of more, the broker drops the oldest, or stops their publishers (`when_slow`).
    `timeout` bounds the first connection only; a lost one is made again for as long as it takes.
    A publisher that goes on with an earlier `run` of its name says how many durable notifications
    of it are `published`: of the following ones, the broker drops those it has.
    """
    if durable and name is None:
        raise InvalidInputError("a durable client needs a name, to be known when it comes back")
    if window < 1:
        raise InvalidInputError(f"a window of {window}: at least one notification must fit")
    given = tls_ca is not None or tls_certificate is not None
    tls = client_tls(tls_ca, tls_certificate, tls_key) if given else None
    parse_url(url)
    options = {
        "durable": durable, "window": window, "when_slow": when_slow, "token": token,
        "with_path": with_path, "published": published,
    }  # fmt: skip
    return Client(url, name or _some_name(), options, tls, timeout, on_ontology, run)


class Client:
    """A client; make one with `kbn.connect`, and use it with `async with`."""

    def __init__(
        self,
        url: str,
        name: str,
        options: dict[str, Any],
        tls: ssl.SSLContext | None,
        timeout_s: float | None,
        on_ontology: Callable[[str], None] | None,
        run: int | None = None,
    ) -> None:
        self.name = name
        self.url = url
        self.ontology = ""
        self.on_ontology = on_ontology
        self._options = options
        self._tls = tls
        self._timeout_s = timeout_s
        self._run_number = run
        self._core: ClientCore | None = None
        self._lines: dict[str, _Line] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[tuple[str, int], asyncio.Future[Any]] = {}
        self._feeds: dict[int, Feed] = {}
        self._unclaimed: dict[int, list[Item]] = {}
        self._owed: deque[Item] = deque()  # durable ones that are not done with, as they came
        self._last_feed = 0
        self._refusals: deque[KbnError] = deque(maxlen=REFUSALS_MAX)
        self._breath = 0
        self._flush_is_due: set[Connection] = set()
        self._attached: asyncio.Future[None] | None = None
        self._moving: asyncio.Future[None] | None = None
        self._over: KbnError | None = None
        self._problem = ""

    # Beginning and end.

    async def __aenter__(self) -> Client:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._open()
        except TimeoutError:
            await self._shut(None)
            raise TransportError(
                f"{self.url} did not answer within {self._timeout_s} s: is a broker running there?"
                + (f" ({self._problem})" if self._problem else "")
            ) from None
        except BaseException:
            await self._shut(None)
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *details: object) -> None:
        await self.close(all_is_done=kind is None)
        if kind is None and self._refusals:
            raise self._refusals[0]

    async def close(self, *, all_is_done: bool = True) -> None:
        """Close the connection; a durable client is kept by its broker, see `leave`.

        What was handed to the application counts as done with, unless told otherwise.
        """
        if self._core is not None and self._over is None:
            if all_is_done:
                for feed in list(self._feeds.values()):
                    feed.done()
            self._do(self._core.acknowledge())
        await self._shut(None)

    async def _open(self) -> None:
        self._attached = asyncio.get_running_loop().create_future()
        broker = await self._find()
        run = time.time_ns() // 1000 if self._run_number is None else self._run_number
        self._core = ClientCore(self.name, broker, run, ClientSettings(**self._options))
        self._start_line(broker, self.url)
        self._run(self._tick())
        await self._attached

    async def _find(self) -> str:
        """The name of the broker at our URL; waits for it to appear."""
        backoff = Backoff()
        while True:
            try:
                return await ask_name(self.url, self._tls)
            except TransportError as error:
                self._problem = str(error)
                if isinstance(error.__context__, ssl.SSLError):
                    raise  # waiting does not mend a certificate
            await asyncio.sleep(backoff.next_s())

    async def _shut(self, error: KbnError | None) -> None:
        self._over = error or TransportError("the client is closed")
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(self._over)
                future.exception()  # whoever waits is told; if nobody does, that is no mistake
        self._waiting.clear()
        for feed in self._feeds.values():
            feed.end(error)
        lines = [line.connection for line in self._lines.values() if line.connection is not None]
        others = self._tasks - {asyncio.current_task()}
        for task in others:
            task.cancel()
        for connection in lines:
            connection.close()
        if lines:
            await asyncio.wait([each.closed for each in lines], timeout=CLOSE_S)
        for connection in lines:
            connection.abort()
        await asyncio.gather(*others, return_exceptions=True)

    def _run(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def core(self) -> ClientCore:
        if self._core is None:
            raise InvalidInputError("not connected: use `async with kbn.connect(…) as client`")
        if self._over is not None:
            raise self._over
        return self._core

    @property
    def broker(self) -> str:
        """The name of the broker the client is at."""
        return self.core.broker

    # What the application asks.

    @property
    def is_moving(self) -> bool:
        """Whether the client is between two brokers."""
        return self.core.is_moving

    async def publish(
        self, notification: Notification | Mapping[str, object], *, durable: bool = False
    ) -> None:
        """Publish; returns when the broker has stored it (`durable`) or when it is on its way.

        A broker that is slow, or away, makes this wait. That one which is only on its way was
        refused is raised by a later `publish`, or at the end.
        """
        core = self.core
        if self._refusals:
            raise self._refusals.popleft()
        if not isinstance(notification, Notification):
            notification = Notification(notification)
        number, effects = core.publish(content.encode(notification), time.time(), durable)
        if durable:
            confirmed = self._expect("publish", number)
            self._do(effects)
            await confirmed
            return
        if not effects:  # nothing was granted, so it waits its turn
            await self._expect("sent", number)
            return
        self._do(effects)
        self._breath += 1
        if not self._breath % BREATH_EVERY:
            await self._breathe()

    def take_refusals(self) -> list[KbnError]:
        """What was said against notifications that were on their way, and raised by nothing yet."""
        taken = list(self._refusals)
        self._refusals.clear()
        return taken

    async def _breathe(self) -> None:
        line = self._lines.get(self.core.broker)
        if line is not None and line.connection is not None and line.connection.is_paused:
            await self._expect("drained", 0)
        await asyncio.sleep(0)

    def subscribe(self, subscription: Subscription | str) -> Feed:
        """Want what the subscription says: `async for notification in client.subscribe("…")`.

        Await the feed to know that the broker has accepted it, or its `settled` to know that the
        whole network has.
        """
        text, is_text = _text(subscription)
        id, effects = self.core.subscribe(text, is_text=is_text)
        accepted = self._expect("subscribe", id)
        accepted.add_done_callback(_seen)
        feed = self._feeds[id] = Feed(self, id, accepted)
        self._last_feed = id
        for item in self._unclaimed.pop(id, []):
            feed.put(item)
        self._do(effects)
        return feed

    async def advertise(self, advertisement: Subscription | str) -> int:
        """Say what will be published; returns when the whole network knows: its number."""
        text, is_text = _text(advertisement)
        id, effects = self.core.advertise(text, is_text=is_text)
        await self._asked("advertise", id, effects)
        return id

    async def unadvertise(self, id: int) -> None:
        """Take an advertisement back."""
        effects = self.core.unadvertise(id)
        if effects:
            await self._asked("unadvertise", id, effects)

    async def barrier(self) -> None:
        """Wait until everything asked for so far is in force in the whole network."""
        request, effects = self.core.barrier()
        await self._asked("barrier", request, effects)

    async def ask(self, what: str, /, **about: Any) -> dict[str, Any]:
        """Ask the broker itself: "status"; or instruct it: "move", "ontology"."""
        request, effects = self.core.ask(what, about)
        return dict(await self._asked("ask", request, effects))

    async def status(self) -> dict[str, Any]:
        """What a person wants to know of the broker."""
        return await self.ask("status")

    async def move(self, url: str) -> None:
        """Go to the broker at another URL; nothing is lost on the way, nothing comes twice."""
        if self._moving is not None and not self._moving.done():
            raise InvalidInputError("the client is moving: wait until it is there")
        if parse_url(self.url).tls and not parse_url(url).tls:
            raise InvalidInputError(f"{url} is without TLS: our token does not go there")
        broker = await ask_name(url, self._tls)
        if broker == self.core.broker:
            return
        self._moving = asyncio.get_running_loop().create_future()
        self._do(self.core.move(broker, url))
        await asyncio.shield(self._moving)

    async def leave(self) -> None:
        """Have the broker forget this client, once it has delivered what is on its way here.

        That comes to the feeds as always: go on reading them meanwhile.
        """
        left = self._expect("leave", 0)
        self._do(self.core.leave())
        await left

    async def _unsubscribe(self, feed: Feed) -> None:
        feed.done()
        if self._feeds.pop(feed.id, None) is None:
            return
        for item in feed.end():
            self._done_with(item)
        effects = self.core.unsubscribe(feed.id)
        await self._asked("unsubscribe", feed.id, effects)

    def _expect(self, what: str, reference: int) -> asyncio.Future[Any]:
        future = self._waiting.get((what, reference))
        if future is None or future.done():
            future = asyncio.get_running_loop().create_future()
            self._waiting[what, reference] = future
        return future

    async def _asked(self, what: str, reference: int, effects: list[Effect]) -> Any:
        answered = self._expect(what, reference)
        self._do(effects)
        return await answered

    def _done_with(self, item: Item) -> None:
        """One feed's application is done with an item.

        Durable ones are acknowledged up to a number, so they count in the order they came: one
        that a slower feed still has holds back those after it.
        """
        item.remaining -= 1
        if item.remaining or self._core is None or self._over is not None:
            return
        if not item.delivered.delivery.durable:
            self._do(self._core.consumed(item.delivered))
            return
        while self._owed and not self._owed[0].remaining:
            self._do(self._core.consumed(self._owed.popleft().delivered))

    def _log_unreadable(self, error: KbnError) -> None:
        log.warning("%s: a notification cannot be read: %s", self.name, error)

    # What the core asks.

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                self._send(effect)  # type: ignore[arg-type]
            elif kind is Delivered:
                self._deliver(effect)  # type: ignore[arg-type]
            else:
                self._do_rarely(effect)

    def _do_rarely(self, effect: Effect) -> None:
        match effect:
            case Confirmed(what, reference, about):
                self._answer(what, 0 if what == "leave" else reference, about)
            case Failed():
                self._failed(effect)
            case Dial(broker, url):
                self._start_line(broker, url)
            case HangUp(broker):
                self._end_line(broker)
            case Moved(broker):
                self.url = self._lines[broker].url if broker in self._lines else self.url
                if self._moving is not None and not self._moving.done():
                    self._moving.set_result(None)
            case OntologyChanged(digest):
                self._new_ontology(digest)
            case _:
                raise AssertionError(f"{effect} is done elsewhere")

    def _send(self, send: Send) -> None:
        line = self._lines.get(send.to.name)
        connection = None if line is None else line.connection
        message = send.message
        if type(message) is Publish and not message.durable:
            self._answer("sent", message.number)
        if connection is None or connection.is_closing:
            return  # the core says again what matters when the connection stands
        connection.send(message)
        if not self._flush_is_due:
            asyncio.get_running_loop().call_soon(self._flush)
        self._flush_is_due.add(connection)

    def _flush(self) -> None:
        due, self._flush_is_due = self._flush_is_due, set()
        for connection in due:
            connection.flush()

    def _deliver(self, delivered: Delivered) -> None:
        ids = delivered.delivery.subscriptions
        item = Item(delivered, 0)
        if delivered.delivery.durable:
            self._owed.append(item)
        for id in ids:
            feed = self._feeds.get(id)
            if feed is not None:
                item.remaining += 1
                feed.put(item)
            elif id > self._last_feed:  # of an earlier run: its feed is still to be asked for
                item.remaining += 1
                self._unclaimed.setdefault(id, []).append(item)
        if not item.remaining:
            item.remaining = 1
            self._done_with(item)

    def _answer(self, what: str, reference: int, result: Any = None) -> None:
        future = self._waiting.pop((what, reference), None)
        if future is not None and not future.done():
            future.set_result(result)

    def _failed(self, failed: Failed) -> None:
        error = error_of(failed.kind, failed.reason)
        what, reference = failed.what, failed.reference
        if what in ("connect", "frame"):
            self._refused_altogether(error, failed)
            return
        if what in ("move", "join"):
            if self._moving is not None and not self._moving.done():
                self._moving.set_exception(error)
            return
        if what == "publish" and not failed.durable:
            self._refusals.append(error)
            return
        future = self._waiting.pop((what, reference), None)
        if future is not None and not future.done():
            future.set_exception(error)
        elif what == "subscribe" and reference in self._feeds:
            self._feeds[reference].problem = error
            log.warning("%s: subscription %s: %s", self.name, reference, error)

    def _refused_altogether(self, error: KbnError, failed: Failed) -> None:
        if self._moving is not None and not self._moving.done():
            self._moving.set_exception(error)
        elif self._attached is not None and not self._attached.done():
            self._attached.set_exception(error)
        elif failed.what == "connect" and failed.kind != RemotePeerError.__name__:
            self._run(self._shut(error))
        else:
            log.warning("%s: %s", self.name, error)

    def _new_ontology(self, digest: str) -> None:
        if digest != self.ontology:
            self.ontology = digest
            if self.on_ontology is not None:
                self.on_ontology(digest)

    # Connections.

    def _start_line(self, broker: str, url: str) -> None:
        line = self._lines[broker] = _Line(broker, url)
        line.task = asyncio.get_running_loop().create_task(self._keep(line))
        self._tasks.add(line.task)
        line.task.add_done_callback(self._tasks.discard)

    def _end_line(self, broker: str) -> None:
        line = self._lines.pop(broker, None)
        if line is None:
            return
        if line.connection is not None:
            line.connection.close()
        if line.task is not None:
            line.task.cancel()

    async def _keep(self, line: _Line) -> None:
        """Have a connection to a broker for as long as we want one."""
        backoff = Backoff()
        if parse_url(self.url).tls and not line.url.startswith("kbns:"):
            reason = f"{line.url} is without TLS: our token does not go there"
            self._do(self.core.unreachable(line.broker, reason))
            return
        while self._lines.get(line.broker) is line:
            try:
                connection = await dial(line.url, lambda: self._made(line), self._tls)
            except KbnError as error:
                if self._is_too_much(line, backoff):
                    self._do(self.core.unreachable(line.broker, str(error)))
                    return
                await asyncio.sleep(backoff.next_s())
                continue
            await asyncio.shield(connection.closed)
            if line.was_welcome:
                backoff.reset()
                line.was_welcome = False
            elif self._is_too_much(line, backoff):
                self._do(self.core.unreachable(line.broker, f"{line.url} turns us away"))
                return
            await asyncio.sleep(backoff.next_s())

    def _is_too_much(self, line: _Line, backoff: Backoff) -> bool:
        """Whether to give up: never on the broker we are at."""
        return line.broker != self.core.broker and backoff.attempts >= MOVE_ATTEMPTS_MAX

    def _made(self, line: _Line) -> Connection:
        connection = Connection(self, FRAME_BYTES_MAX)
        connection.label = line
        return connection

    def opened(self, connection: Connection) -> None:
        line: _Line = connection.label
        line.connection = connection
        connection.heard_at = now()
        if self._core is not None and self._over is None:
            self._do(self._core.connected(line.broker, now()))

    def arrived(self, connection: Connection, frames: list[bytes]) -> None:
        core, line = self._core, connection.label
        if core is None or line.connection is not connection:
            return
        time = connection.heard_at = now()
        try:
            for body in frames:
                message = wire.decode_to_client(body)
                kind = type(message)
                if kind is ConnAck:
                    self._welcomed(message, line)  # type: ignore[arg-type]
                elif kind is Refused and message.what == "frame":  # type: ignore[union-attr]
                    log.warning("%s: %s: %s", self.name, line.url, message)
                    continue
                self._do(core.receive(message, line.broker, time))
        except wire.FrameError as error:
            self.broken(connection, error)

    def _welcomed(self, welcome: ConnAck, line: _Line) -> None:
        line.was_welcome = True
        if line.broker == self.core.broker:
            self._new_ontology(welcome.ontology)
        if self._attached is not None and not self._attached.done():
            self._attached.set_result(None)

    def broken(self, connection: Connection, error: wire.FrameError) -> None:
        log.error("%s: %s does not speak our language: %s", self.name, connection.address, error)
        connection.abort()

    def paused(self, connection: Connection) -> None:
        pass

    def resumed(self, connection: Connection) -> None:
        self._answer("drained", 0)

    def lost(self, connection: Connection) -> None:
        line: _Line = connection.label
        self._answer("drained", 0)
        if line.connection is not connection:
            return
        line.connection = None
        if self._core is not None and self._over is None:
            self._do(self._core.disconnected(line.broker, now()))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            time = now()
            self._do(self.core.tick(time))
            for line in self._lines.values():
                connection = line.connection
                if connection is not None and connection.heard_at < time - SILENT_S:
                    connection.abort()


class _Line:
    """A broker, and the connection to it while there is one."""

    __slots__ = ("broker", "connection", "task", "url", "was_welcome")

    def __init__(self, broker: str, url: str) -> None:
        self.broker = broker
        self.url = url
        self.connection: Connection | None = None
        self.task: asyncio.Task[None] | None = None
        self.was_welcome = False


def _text(subscription: Subscription | str) -> tuple[str, bool]:
    """A subscription as it is sent, and whether that is text rather than JSON."""
    if isinstance(subscription, str):
        return subscription, True
    import json

    data = json.dumps(subscription.to_json(), separators=(",", ":"), ensure_ascii=False)
    return data, False


def _seen(future: asyncio.Future[Any]) -> None:
    """Whoever iterates is told; a feed that nobody looks at is no mistake of asyncio's."""
    if not future.cancelled():
        future.exception()


def _some_name() -> str:
    try:
        user = getuser()
    except (OSError, KeyError):
        user = "client"
    return f"{user}-{token_hex(6)}"
