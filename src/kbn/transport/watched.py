"""A broker's server that tells what happens: events in the log, health and metrics over HTTP."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from kbn.broker import Broker, Peer, Refused, Send, Store
from kbn.errors import RemotePeerError, TransportError
from kbn.transport.clock import now
from kbn.transport.connection import Connection
from kbn.transport.health import HealthListener
from kbn.transport.logs import RateLimiter, event
from kbn.transport.metrics import CommitTimer, metrics_text, state_of
from kbn.transport.server import BrokerServer

LOOK_EVERY_S = 0.5
UP = ("session", "complete")


@dataclass(frozen=True, slots=True)
class Watch:
    """What to watch with: where the HTTP listener is (none without a port), and whom to tell.

    `listening` is called once, with the URLs of the broker and of the HTTP listener ("").
    """

    host: str = "127.0.0.1"
    port: int | None = None
    listening: Callable[[str, str], None] = lambda url, http: None


class WatchedServer(BrokerServer):
    """A `BrokerServer` under watch; `ontology` is what its broker was made with, to be reloaded."""

    def __init__(
        self,
        broker: Broker,
        store: Store,
        *,
        watch: Watch,
        ontology: tuple[Iterable[Path], str] | None = None,
        **options: Any,
    ) -> None:
        timed, self.commits = CommitTimer.around(store)
        super().__init__(broker, timed, **options)
        if ontology is not None:
            self._ontology = (list(ontology[0]), ontology[1])
        self._watch = watch
        self._http: HealthListener | None = None
        self._is_stopping = False
        self._gate = RateLimiter()
        self._refused = 0
        self._seen = _Seen()

    # Beginning and end.

    async def start(self) -> None:
        event("started", routing=self.broker.routing, ontology=self.broker.status()["ontology"])
        watch = self._watch
        try:
            if watch.port is not None:
                self._http = HealthListener(
                    self.health, self.metrics, host=watch.host, port=watch.port
                )
                await self._http.start()
        except OSError as error:
            _cannot_listen(error, watch.host, watch.port or 0, "--metrics-port")
        try:
            await super().start()
        except OSError as error:
            await self._stop_http()
            _cannot_listen(error, self._host, self._port, "--port")
        http = "" if self._http is None else self._http.url
        event("listening", url=self.url, http=http)
        self._run(self._look())
        # Not at once: whoever starts us must first have seen to our signals.
        asyncio.get_running_loop().call_soon(watch.listening, self.url, http)

    async def stop(self) -> None:
        if self._listener is None:
            return
        self._is_stopping = True
        await super().stop()
        await self._stop_http()
        event("stopped", **self.broker.counts)

    async def _stop_http(self) -> None:
        if self._http is not None:
            await self._http.stop()

    def _fail(self, error: BaseException) -> None:
        event("store error", level=logging.CRITICAL, reason=str(error))
        super()._fail(error)

    # What machines ask.

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Whether everything a broker needs to be useful is there, and what is not."""
        waiting = [] if self._is_stopping else list(self._waiting_for())
        status = "stopping" if self._is_stopping else "waiting" if waiting else "ok"
        about = {"status": status, "broker": self.broker.name, "waiting_for": waiting}
        return status == "ok", about

    def _waiting_for(self) -> Iterable[str]:
        status = self._told()
        # A link beside the spanning tree has no session: it is there for when another breaks.
        ready = {
            each["broker"]
            for each in status["neighbours"]
            if each["in_session"] or (each["connected"] and not each["in_tree"])
        }
        for link in status["links"]:
            if link["broker"] not in ready:
                yield f"a session with {link['url']}: {link['problem'] or 'connecting'}"
        if not self.broker.is_complete:
            late = [
                each["broker"]
                for each in status["neighbours"]
                if not each["complete"] and each["in_tree"] and each["role"] != "parent"
            ]
            yield f"what is wanted at {', '.join(late)} (or they have another ontology)"

    def metrics(self) -> str:
        return metrics_text(self._told(), self.commits, healthy=self.health()[0])

    def _told(self) -> dict[str, Any]:
        return self.broker.answers["status"]({})

    # What is logged.

    def _bind(self, connection: Connection, peer: Peer, stage: str) -> None:
        is_new = peer not in self._bound
        super()._bind(connection, peer, stage)
        if peer.kind == "client" and is_new:
            self._say("client attached", peer.name, connection.address)

    def lost(self, connection: Connection) -> None:
        peer = connection.peer
        if peer is not None and peer.kind == "client" and self._bound.get(peer) is connection:
            self._say("client left", peer.name)
        super().lost(connection)

    def _give_up(
        self, connection: Connection, reason: str, kind: str = RemotePeerError.__name__
    ) -> None:
        if not connection.is_closing:
            name = "" if connection.peer is None else connection.peer.name
            host = connection.address.rpartition(":")[0]
            self._say_refused("connection", name or host, kind, reason, connection.address)
        super()._give_up(connection, reason, kind)

    def _write(self, sends: list[Send]) -> None:
        refused = self.broker.counts["refused"]
        if refused != self._refused:
            self._refused = refused
            for to, message in sends:
                if type(message) is Refused:
                    self._say_refused(message.what, to.name, message.kind, message.reason)
        super()._write(sends)

    def _say(self, name: str, client: str, address: str = "") -> None:
        left_out = self._gate.passes((name, client), now())
        if left_out is not None:
            event(name, client=client, address=address, left_out=left_out or None)

    def _say_refused(
        self, what: str, client: str, kind: str, reason: str, address: str = ""
    ) -> None:
        left_out = self._gate.passes(("refused", client), now())
        if left_out is not None:
            event(
                "refused", level=logging.WARNING, what=what, client=client, error=kind,
                reason=reason, address=address, left_out=left_out or None,
            )  # fmt: skip

    async def load_ontology(self, paths: Iterable[str | Path], reasoning: Any = "rdfs") -> str:
        digest = await super().load_ontology(paths, reasoning)
        event("ontology changed", ontology=digest)
        return digest

    def reload(self) -> None:
        event("reloading")
        super().reload()

    async def _look(self) -> None:
        """Look every now and then whether neighbours, links or queues are another than before."""
        while True:
            self._seen.look(self._told())
            await asyncio.sleep(LOOK_EVERY_S)


class _Seen:
    """What was seen last, to tell what is new."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._problems: dict[str, str] = {}
        self._dropped: dict[str, int] = {}
        self._gate = RateLimiter()

    def look(self, status: dict[str, Any]) -> None:
        self._look_at_neighbours(status["neighbours"])
        for link in status["links"]:
            problem = link["problem"]
            if problem != self._problems.get(link["url"], ""):
                self._problems[link["url"]] = problem
                if problem:
                    event("unreachable", level=logging.WARNING, url=link["url"], reason=problem)
        self._look_at_clients(status["clients"])

    def _look_at_neighbours(self, links: list[dict[str, Any]]) -> None:
        before, self._states = self._states, {each["broker"]: state_of(each) for each in links}
        for each in links:
            name, state = each["broker"], self._states[each["broker"]]
            was_up, is_up = before.get(name, "away") in UP, state in UP
            if is_up and not was_up:
                event("neighbour up", neighbour=name, role=each["role"])
            elif was_up and not is_up:
                event("neighbour down", level=logging.WARNING, neighbour=name, role=each["role"])
        for name in before.keys() - self._states.keys():
            event("neighbour gone", neighbour=name)

    def _look_at_clients(self, clients: list[dict[str, Any]]) -> None:
        before = self._dropped
        self._dropped = {each["client"]: each["dropped"] for each in clients if each["dropped"]}
        for name, dropped in self._dropped.items():
            more = dropped - before.get(name, 0)
            if more > 0 and self._gate.passes(name, now()) is not None:
                event("slow client", level=logging.WARNING, client=name, dropped=more, ever=dropped)


def _cannot_listen(error: OSError, host: str, port: int, option: str) -> NoReturn:
    if error.errno == errno.EADDRINUSE:
        reason = f"the port is in use: name another with {option}, or 0 for any that is free"
    elif error.errno == errno.EACCES:
        reason = f"ports below 1024 are not for everybody: name another with {option}"
    else:
        reason = error.strerror or str(error)
    raise TransportError(f"cannot listen at {host}:{port}: {reason}") from None
