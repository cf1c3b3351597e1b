"""A peer of publisher groups on the network, as programs use it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from kbn.errors import InvalidInputError, KbnError, TransportError
from kbn.filters import Notification, Subscription
from kbn.ontology import Ontology
from kbn.peering import Peer, PeerSettings, Promise, effects
from kbn.transport.clock import now
from kbn.transport.connecting import some_name
from kbn.transport.group_shell import GroupShell
from kbn.transport.security import client_tls, server_tls
from kbn.transport.settings import Listen
from kbn.transport.urls import parse_url

WAITING_MAX = 100_000
log = logging.getLogger("kbn.transport")


class GroupDelivery(NamedTuple):
    """A notification, how long it took, and its number among those of its publisher."""

    notification: Notification
    delay_s: float
    number: int


class GroupFeed:
    """What one subscription brings; iterate over it. `promise` says how its bound stands now."""

    def __init__(self, peer: GroupPeer, id: int) -> None:
        self._peer = peer
        self.id = id
        self.promise: Promise | None = None
        self.dropped = 0
        self._waiting: deque[GroupDelivery] = deque()
        self._changed = asyncio.Event()
        self._error: KbnError | None = None
        self._is_ended = False

    async def promised(self) -> Promise:
        """How the subscription stands, once its delays are measured; waits for publishers, too."""
        while True:
            if self._error is not None:
                raise self._error
            if self.promise is not None and self.promise.state != "waiting":
                return self.promise
            await self._wait()

    async def deliveries(self) -> AsyncIterator[GroupDelivery]:
        """Each notification with how long it took, until the subscription ends."""
        while True:
            while self._waiting:
                yield self._waiting.popleft()
            if self._error is not None:
                raise self._error
            if self._is_ended:
                return
            await self._wait()

    async def __aiter__(self) -> AsyncIterator[Notification]:
        async for delivery in self.deliveries():
            yield delivery.notification

    def unsubscribe(self) -> None:
        """End it."""
        self._peer._unsubscribe(self)
        self._end()

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _deliver(self, delivery: GroupDelivery) -> None:
        if len(self._waiting) >= WAITING_MAX:  # the application does not read
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(delivery)
        self._changed.set()

    def _told(self, promise: Promise) -> None:
        self.promise = promise
        self._changed.set()

    def _end(self, error: KbnError | None = None) -> None:
        self._error, self._is_ended = error, True
        self._changed.set()


class GroupPeer:
    """A peer; use it with `async with`. Made by `kbn.groups.connect`."""

    def __init__(
        self,
        settings: PeerSettings,
        listen: Listen,
        *,
        timeout_s: float | None = 30.0,
        ontology: Ontology | None = None,
        url: str | None = None,
    ) -> None:
        self.core = Peer(settings, now(), ontology)
        self._shell = GroupShell(listen, self._handed)
        self._timeout_s = timeout_s
        self._shown_url = url
        self._feeds: dict[int, GroupFeed] = {}
        self._joined = asyncio.Event()
        self._facts: list[asyncio.Future[dict[str, Any]]] = []
        self._refused: KbnError | None = None
        self._problem = "no answer"

    @property
    def name(self) -> str:
        return self.core.name

    @property
    def url(self) -> str:
        """Where other peers find this one."""
        return self._shown_url or self._shell.url

    async def __aenter__(self) -> GroupPeer:
        await self._shell.start()
        self._shell.run(self.core)
        self._shell.do(self.core.start(self.url, now()))
        try:
            async with asyncio.timeout(self._timeout_s):
                while not self.core.is_joined:
                    self._check()
                    self._joined.clear()
                    try:
                        async with asyncio.timeout(0.05):
                            await self._joined.wait()
                    except TimeoutError:
                        continue
        except TimeoutError:
            await self._shell.stop()
            known = ", ".join(self.core.settings.coordinators)
            raise TransportError(f"no coordinator at {known}: {self._problem}") from None
        except BaseException:
            await self._shell.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._shell.do(self.core.leave(now()))
        await self._shell.stop()
        for feed in self._feeds.values():
            feed._end()

    def advertise(self, attributes: Iterable[str], connections: int | None = None) -> None:
        """Say which attributes you publish, and to how many clusters at most you connect::

        peer.advertise(["price", "city"], connections=4)
        """
        if isinstance(attributes, str):
            raise InvalidInputError(f"attributes are a list of names, not {attributes!r}")
        self._check()
        self._shell.do(self.core.advertise(attributes, connections, now()))

    async def publish(self, notification: Mapping[str, object]) -> None:
        """Send a notification to all who want it::

        await peer.publish({"price": 5})
        """
        self._check()
        self._shell.do(self.core.publish(notification, now()))
        await asyncio.sleep(0)  # others have their turn

    def subscribe(
        self,
        subscription: Subscription | str,
        *,
        within_s: float | None = None,
        probability: float = 0.95,
    ) -> GroupFeed:
        """What a subscription accepts, within a delay bound if there is one::

        feed = peer.subscribe("price < 20", within_s=0.2, probability=0.95)
        """
        self._check()
        if isinstance(subscription, str):
            ontology = self.core.ontology
            prefixes = None if ontology is None else ontology.prefixes
            subscription = Subscription.parse(subscription, prefixes)
        id, to_do = self.core.subscribe(subscription, now(), within_s, probability)
        feed = self._feeds[id] = GroupFeed(self, id)
        self._shell.do(to_do)
        return feed

    async def facts(self) -> dict[str, Any]:
        """The state of the group, from the coordinator."""
        asked: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._facts.append(asked)
        self._shell.do(self.core.ask_facts(now()))
        return await asked

    def _unsubscribe(self, feed: GroupFeed) -> None:
        if self._feeds.pop(feed.id, None) is not None:
            self._shell.do(self.core.unsubscribe(feed.id, now()))

    def _check(self) -> None:
        if self._refused is not None:
            raise self._refused

    def _handed(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Deliver(ids, notification, number, delay_s):
                for id in ids:
                    if id in self._feeds:
                        self._feeds[id]._deliver(GroupDelivery(notification, delay_s, number))
            case effects.Told(promise):
                if promise.id in self._feeds:
                    self._feeds[promise.id]._told(promise)
            case effects.Failed(about, id, reason):
                self._failed(about, id, reason)
            case effects.Facts(text):
                for asked in self._facts:
                    if not asked.done():
                        asked.set_result(json.loads(text))
                self._facts.clear()
            case effects.Note(text, is_trouble):
                self._problem = text
                log.log(logging.WARNING if is_trouble else logging.INFO, "%s", text)
            case _:
                pass
        self._joined.set()

    def _failed(self, about: str, id: int, reason: str) -> None:
        error = TransportError(f"the coordinator refuses: {reason}")
        if about == "want" and id in self._feeds:
            self._feeds.pop(id)._end(error)
        elif about == "facts":
            for asked in self._facts:
                if not asked.done():
                    asked.set_exception(error)
            self._facts.clear()
        elif about == "advertise" or not self.core.is_joined:
            self._refused = error
        log.warning("%s: %s", self.name, error)


def connect_group(
    url: str | Sequence[str],
    *,
    name: str | None = None,
    slots: int = 4,
    token: str = "",
    host: str = "127.0.0.1",
    port: int = 0,
    shown_url: str | None = None,
    timeout: float | None = 30.0,
    ontology: Ontology | None = None,
    tls_ca: str | Path | None = None,
    tls_certificate: str | Path | None = None,
    tls_key: str | Path | None = None,
) -> GroupPeer:
    """A peer of the group whose coordinator is at a URL (or at one of several, as standbys are)::

        async with kbn.groups.connect("kbn://localhost:7430", name="ann") as peer:
            feed = peer.subscribe("price < 20", within_s=0.2, probability=0.95)
            print(await feed.promised())
            async for notification in feed: ...

    Other peers connect to this one, at `host` and `port` (`shown_url`, if they see it elsewhere);
    it feeds at most `slots` of them. With `tls_certificate`, that is by TLS.
    """
    urls = (url,) if isinstance(url, str) else tuple(url)
    for each in urls:
        parse_url(each)
    has_tls = tls_ca is not None or tls_certificate is not None
    listen = Listen(
        host,
        port,
        None
        if tls_certificate is None
        else server_tls(tls_certificate, tls_key or tls_certificate, tls_ca),
        client_tls(tls_ca, tls_certificate, tls_key) if has_tls else None,
    )
    settings = PeerSettings(name or some_name(), int(now() * 1e6), urls, token, slots)
    return GroupPeer(settings, listen, timeout_s=timeout, ontology=ontology, url=shown_url)
