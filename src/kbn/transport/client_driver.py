"""Drives a client's core: carries out its effects, and tells it what happens on the connections.

`ClientConnections` keeps the connections, `Pending` the answers that coroutines wait for, `Feeds`
what arrives; the driver passes effects of the core to them.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import deque
from collections.abc import Coroutine
from typing import Any

from kbn.broker import (
    ClientCore,
    Confirmed,
    ConnAck,
    Delivered,
    Dial,
    Effect,
    Failed,
    HangUp,
    Lost,
    Moved,
    NotAllowedError,
    OntologyChanged,
    Publish,
    Refused,
    Send,
    TermNote,
    TermsUnknown,
)
from kbn.errors import InvalidInputError, KbnError, RemotePeerError, TransportError
from kbn.transport.client_connections import ClientConnections
from kbn.transport.client_options import ClientOptions
from kbn.transport.clock import Backoff, now
from kbn.transport.dialling import ask_name
from kbn.transport.feeds import Feeds
from kbn.transport.pending import Pending
from kbn.transport.refusals import error_of
from kbn.transport.urls import parse_url

TICK_S = 0.2
REFUSALS_MAX = 1000
UNKNOWN_TERMS_MAX = 1000

log = logging.getLogger("kbn.transport")


class ClientDriver:
    """A `ClientCore` with sockets and a clock, from `begin` to `end`.

    `refusals` are the errors of notifications that nobody waited for. `url` is where the broker is
    that the client is at, `ontology` the digest of its ontology. `unknown_terms` are what brokers
    said of terms in what was published, `unknown_count` how many notifications had some.
    """

    def __init__(self, url: str, name: str, options: ClientOptions) -> None:
        self.name = name
        self.url = url
        self.ontology = ""
        self.options = options
        self.connections = ClientConnections(self, options.tls)
        self.pending = Pending()
        self.feeds = Feeds()
        self.refusals: deque[KbnError] = deque(maxlen=REFUSALS_MAX)
        self.unknown_terms: deque[TermNote] = deque(maxlen=UNKNOWN_TERMS_MAX)
        self.unknown_count = 0
        self._core: ClientCore | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: KbnError | None = None
        self._problem = ""
        self.lost = 0

    @property
    def core(self) -> ClientCore:
        """The core; raises what ended the client, once it is over."""
        if self._core is None:
            raise InvalidInputError("not connected: use `async with kbn.connect(…) as client`")
        if self._over is not None:
            raise self._over
        return self._core

    @property
    def is_running(self) -> bool:
        """Whether it has begun and not ended."""
        return self._core is not None and self._over is None

    # Beginning and end.

    async def begin(self) -> None:
        """Connect; TransportError when no broker answers in time."""
        timeout_s = self.options.timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._connect()
        except TimeoutError:
            await self.end()
            problem = self._problem or f"{self.url} does not answer"
            raise TransportError(f"{problem} (tried for {timeout_s:g} s)") from None
        except BaseException:
            await self.end()
            raise

    async def _connect(self) -> None:
        admitted = self.pending.expect("connect")
        broker = await self._find()
        epoch = self.options.epoch
        if epoch is None:
            epoch = time.time_ns() // 1000
        self._core = ClientCore(self.name, broker, epoch, self.options.settings)
        self.connections.open(broker, self.url)
        self._run(self._tick())
        await admitted

    async def _find(self) -> str:
        """The name of the broker at our URL; waits for it to appear."""
        backoff = Backoff()
        while True:
            try:
                return await ask_name(self.url, self.options.tls)
            except TransportError as error:
                self._problem = str(error)
                if isinstance(error.__context__, ssl.SSLError):
                    raise  # waiting does not mend a certificate
            await asyncio.sleep(backoff.next_s())

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            time = now()
            self.do(self.core.tick(time))
            self.connections.drop_silent(time)

    async def end(self, error: KbnError | None = None) -> None:
        """Close the connections; whoever waits is told of the error, or that it is closed."""
        self._over = error or TransportError("the client is closed")
        self.pending.fail_all(self._over)
        self.feeds.end(error)
        others = self._tasks - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await self.connections.shut()
        await asyncio.gather(*others, return_exceptions=True)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What the core asks.

    def do(self, effects: list[Effect]) -> None:
        """Carry out effects of the core, in their order."""
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                self._send(effect)  # type: ignore[arg-type]
            elif kind is Delivered:
                self.consume(self.feeds.deliver(effect))  # type: ignore[arg-type]
            else:
                self._do_rarely(effect)

    def consume(self, consumed: list[Delivered]) -> None:
        """The application is done with deliveries."""
        if self._core is not None and self._over is None:
            for delivered in consumed:
                self.do(self._core.consumed(delivered))

    def _do_rarely(self, effect: Effect) -> None:
        match effect:
            case Confirmed(what, reference, result):
                self.pending.answer(what, 0 if what == "leave" else reference, result)
            case Failed():
                self._failed(effect)
            case Dial(broker, url):
                self._dial(broker, url)
            case HangUp(broker):
                self.connections.close(broker)
            case Moved(broker):
                self.url = self.connections.url_of(broker) or self.url
                self.pending.answer("move")
            case Lost(broker, more, total):
                self.lost += more
                log.warning(
                    "%s: %s has dropped %s deliveries because this client was slow or away, %s in "
                    "all", self.name, broker, more, total,
                )  # fmt: skip
            case TermsUnknown(more, terms):
                self._told_unknown(more, terms)
            case OntologyChanged(digest):
                self._new_ontology(digest)
            case _:
                raise AssertionError(f"{effect} is done elsewhere")

    def _send(self, send: Send) -> None:
        message = send.message
        if type(message) is Publish and not message.durable:
            self.pending.answer("sent", message.number)
        self.connections.send(send.to.name, message)

    def _dial(self, broker: str, url: str) -> None:
        if problem := tls_problem(self.url, url):
            asyncio.get_running_loop().call_soon(self.unreachable, broker, problem)
        else:
            self.connections.open(broker, url)

    def _failed(self, failed: Failed) -> None:
        error = error_of(failed.kind, failed.reason)
        match failed.what:
            case "connect" | "frame":
                self._refused_altogether(error, failed)
            case "block":
                log.warning("%s: %s", self.name, error)
            case "move" | "join":
                self.pending.fail("move", 0, error)
            case "publish" if not failed.durable:
                self.refusals.append(error)
            case what:
                is_told = self.pending.fail(what, failed.reference, error)
                if what == "subscribe" and not is_told:
                    self._objected(failed.reference, error)

    def _objected(self, subscription: int, error: KbnError) -> None:
        if isinstance(error, NotAllowedError):
            self.consume(self.feeds.withdraw(subscription, error))
        elif self.feeds.objected(subscription, error):
            log.warning("%s: subscription %s: %s", self.name, subscription, error)

    def _refused_altogether(self, error: KbnError, failed: Failed) -> None:
        if self.pending.fail("move", 0, error) or self.pending.fail("connect", 0, error):
            return
        if failed.what == "connect" and failed.kind != RemotePeerError.__name__:
            self._run(self.end(error))
        else:
            log.warning("%s: %s", self.name, error)

    def _told_unknown(self, more: int, terms: tuple[TermNote, ...]) -> None:
        self.unknown_count += more
        self.unknown_terms.extend(terms)
        for note in terms:
            if self.options.on_unknown_term is not None:
                self.options.on_unknown_term(note)
            else:
                log.warning("%s published an unknown term: %s", self.name, note)

    def _new_ontology(self, digest: str) -> None:
        if digest != self.ontology:
            self.ontology = digest
            if self.options.on_ontology is not None:
                self.options.on_ontology(digest)

    # What the connections tell.

    def connected(self, broker: str) -> None:
        if self._core is not None and self._over is None:
            self.do(self._core.connected(broker, now()))

    def received(self, broker: str, message: Any, time: float) -> None:
        core = self._core
        if core is None or self._over is not None:
            return
        kind = type(message)
        if kind is ConnAck:
            self._admitted(message, broker)
        elif kind is Refused and message.what == "frame":
            log.warning("%s: %s: %s", self.name, broker, message)
            return
        self.do(core.receive(message, broker, time))

    def _admitted(self, admitted: ConnAck, broker: str) -> None:
        self.connections.admitted(broker)
        if broker == self.core.broker:
            self._new_ontology(admitted.ontology)
        self.pending.answer("connect")

    def disconnected(self, broker: str) -> None:
        if self._core is not None and self._over is None:
            self.do(self._core.disconnected(broker, now()))

    def drained(self) -> None:
        self.pending.answer("drained")

    def may_give_up(self, broker: str) -> bool:
        return self.core.is_arriving_at(broker)

    def unreachable(self, broker: str, reason: str) -> None:
        if self._core is not None and self._over is None:
            self.do(self._core.unreachable(broker, reason))


def tls_problem(here: str, there: str) -> str | None:
    """Why a client does not go from one URL to another: its token stays behind TLS."""
    if parse_url(here).tls and not parse_url(there).tls:
        return f"{there} is without TLS: our token does not go there"
    return None
