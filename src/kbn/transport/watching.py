"""A broker's server under watch: events in the log, health and metrics over HTTP."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Any, NoReturn

from msgspec import to_builtins

from kbn.broker import AllowAll, MemoryStore, NodeSettings, notes
from kbn.errors import TransportError
from kbn.transport.clock import now
from kbn.transport.health import HealthListener
from kbn.transport.logs import RateLimiter, event
from kbn.transport.metrics import CommitTimer, metrics_text, state_of
from kbn.transport.ontology_folder import OntologyFolder
from kbn.transport.server import BrokerServer
from kbn.transport.settings import Listen, OntologyFiles

LOOK_EVERY_S = 0.5
UP = ("session", "complete")
OPEN = (
    "whoever reaches this address may publish, subscribe and manage, and take over the name and "
    "the queue of any durable client: name an access file (--access), or listen on 127.0.0.1"
)


@dataclass(frozen=True, slots=True)
class Watch:
    """What to watch with: where the HTTP listener is (none without a port), and whom to tell.

    `listening` is called once, with the URLs of the broker and of the HTTP listener ("").
    """

    host: str = "127.0.0.1"
    port: int | None = None
    listening: Callable[[str, str], None] = lambda url, http: None


def watched(
    settings: NodeSettings,
    listen: Listen,
    watch: Watch,
    *,
    ontology: OntologyFiles | None = None,
    folder: OntologyFolder = OntologyFolder(),  # noqa: B008  (it is immutable)
) -> Watched:
    """A server under watch: its commits are timed, what it notes is told."""
    store = MemoryStore() if settings.store is None else settings.store
    timed, commits = CommitTimer.around(store)
    keeps = settings.keeps and settings.store is not None
    timed_settings = replace(settings, store=timed, keeps=keeps)
    server = BrokerServer(timed_settings, listen, ontology=ontology, folder=folder)
    return Watched(server, watch, commits)


class Watched:
    """A `BrokerServer` and those who look after it: events in the log, health and metrics."""

    def __init__(self, server: BrokerServer, watch: Watch, commits: CommitTimer) -> None:
        self.server = server
        self.commits = commits
        self._watch = watch
        self._http: HealthListener | None = None
        self._is_stopping = False
        self._events = EventLog()
        server.observe(self._events.note)
        server.add_background_task(self._look)

    # Beginning and end.

    async def start(self) -> None:
        broker, watch = self.server.broker, self._watch
        repaired = getattr(self.server.node.settings.store, "repaired", None)
        if repaired is not None:
            event("store repaired", level=logging.ERROR, reason=repaired.summary)
        event("started", routing=broker.routing, ontology=broker.status().ontology)
        await self._start_http()
        try:
            await self.server.start()
        except OSError as error:
            await self._stop_http()
            _cannot_listen(error, self.server.listen.host, self.server.listen.port, "--port")
        event("listening", url=self.server.url, http=self.http)
        if self._is_open_to_strangers:
            event("anybody may come in", level=logging.WARNING, url=self.server.url, advice=OPEN)
        # Not at once: whoever starts us must first have seen to our signals.
        asyncio.get_running_loop().call_soon(watch.listening, self.server.url, self.http)

    @property
    def _is_open_to_strangers(self) -> bool:
        """Whether others than this machine reach it, and nothing is checked of anybody."""
        settings = self.server.node.settings
        is_checked = type(settings.authorizer) is not AllowAll or settings.checks_certificates
        return not is_checked and not ip_address(self.server.address.host).is_loopback

    async def _start_http(self) -> None:
        watch = self._watch
        if watch.port is None:
            return
        self._http = HealthListener(self.health, self.metrics, host=watch.host, port=watch.port)
        try:
            await self._http.start()
        except OSError as error:
            _cannot_listen(error, watch.host, watch.port, "--metrics-port")

    @property
    def http(self) -> str:
        """Where health and metrics are served; nowhere when it is empty."""
        return "" if self._http is None else self._http.url

    async def stop(self) -> None:
        if not self.server.is_running:
            return
        self._is_stopping = True
        await self.server.stop()
        await self._stop_http()
        event("stopped", **self.server.broker.counts)

    async def _stop_http(self) -> None:
        if self._http is not None:
            await self._http.stop()

    async def __aenter__(self) -> Watched:
        await self.start()
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.stop()

    async def wait(self) -> None:
        await self.server.wait()

    def reload(self) -> None:
        event("reloading")
        self.server.reload()

    # What machines ask.

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Whether everything a broker needs to be useful is there, and what is not."""
        waiting = [] if self._is_stopping else list(self._waiting_for())
        status = "stopping" if self._is_stopping else "waiting" if waiting else "ok"
        about = {"status": status, "broker": self.server.broker.name, "waiting_for": waiting}
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
        if not self.server.broker.is_complete:
            late = [
                each["broker"]
                for each in status["neighbours"]
                if not each["complete"] and each["in_tree"] and each["role"] != "parent"
            ]
            yield f"what is wanted at {', '.join(late)} (or they have another ontology)"

    def metrics(self) -> str:
        times = self.server.turn_times
        return metrics_text(self._told(), self.commits, times, healthy=self.health()[0])

    def _told(self) -> dict[str, Any]:
        facts: dict[str, Any] = to_builtins(self.server.node.status())
        return facts

    async def _look(self) -> None:
        """Look every now and then whether neighbours, links or queues are another than before."""
        seen = _Seen()
        while True:
            seen.look(self._told())
            await asyncio.sleep(LOOK_EVERY_S)


class EventLog:
    """Logs what a node notes, and not too much about anybody."""

    def __init__(self) -> None:
        self._gate = RateLimiter()

    def note(self, note: notes.Note) -> None:
        match note:
            case notes.ClientAttached(client, address):
                self._say("client attached", client, address)
            case notes.ClientLeft(client):
                self._say("client left", client)
            case notes.ConnectionRefused(peer, address, kind, reason):
                name = address.rpartition(":")[0] if peer is None else peer.name
                self._say_refused(notes.RequestRefused(name, "connection", kind, reason), address)
            case notes.RequestRefused():
                self._say_refused(note)
            case notes.OntologyUsed(digest):
                event("ontology changed", ontology=digest)
            case notes.OntologyUnchanged(digest):
                event("ontology unchanged", ontology=digest)
            case notes.SetAside(what, reason):
                event("set aside", level=logging.ERROR, what=what, reason=reason)
            case notes.Lost(client, total, reason):
                event("lost", level=logging.WARNING, client=client, total=total, reason=reason)
            case notes.StoppedWaiting(client, seconds):
                event("publishers go on", level=logging.WARNING, client=client, after_s=seconds)
            case notes.StoreFull(peer, used):
                neighbour = None if peer is None else peer.name
                event("store full", level=logging.ERROR, neighbour=neighbour, bytes=used)
            case notes.StoreFailed(reason):
                event("store error", level=logging.CRITICAL, reason=reason)
            case _:
                pass  # what else matters is seen in the status

    def _say(self, name: str, client: str, address: str = "") -> None:
        left_out = self._gate.passes((name, client), now())
        if left_out is not None:
            event(name, client=client, address=address, left_out=left_out or None)

    def _say_refused(self, refused: notes.RequestRefused, address: str = "") -> None:
        client, what, kind, reason = refused
        left_out = self._gate.passes(("refused", client), now())
        if left_out is not None:
            event(
                "refused", level=logging.WARNING, what=what, client=client, error=kind,
                reason=reason, address=address, left_out=left_out or None,
            )  # fmt: skip


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
