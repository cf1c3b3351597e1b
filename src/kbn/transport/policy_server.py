"""A policy server on the network: the pure `PolicyServer`, driven by the trigger broker's
notifications and the clock.

Instructions go to each broker over a line of its own, one after the other, so that a broker that
does not answer holds up nobody else. Files of policies are read again when they change; a bad one
is told and the policies in force stay.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from kbn.errors import KbnError, TransportError
from kbn.filters import Subscription
from kbn.management import (
    Announce,
    Effect,
    Instruct,
    LogEntry,
    PolicyServer,
    Sender,
    instructions,
    terms,
)
from kbn.transport.client import Client
from kbn.transport.client_options import ClientOptions
from kbn.transport.clock import Backoff, now
from kbn.transport.feed import Feed
from kbn.transport.triggers import Triggers

TICK_S = 0.2
COMMIT_EVERY_S = 1.0
ANSWER_S = 10.0
IDLE_S = 60.0
WAITING_MAX = 10_000

log = logging.getLogger("kbn.transport")
Tell = Callable[[LogEntry], None]


class PolicyServerShell:
    """Runs a policy server against a trigger broker; `tell` gets each entry of its log.

    Of several `triggers`, which are linked with each other, it takes one that answers.
    `policies` are the files and folders its policies came from.
    """

    def __init__(
        self,
        server: PolicyServer,
        triggers: str | Sequence[str],
        *,
        policies: Iterable[Path] = (),
        tell: Tell = lambda entry: None,
        token: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._server = server
        self._triggers = Triggers(triggers)
        self._paths = tuple(policies)
        self._tell = tell
        self._token = token
        self._tls = tls
        self._client: Client | None = None
        self._greeted: Client | None = None
        self._lines: dict[str, _Line] = {}
        self._read_at = self._files()

    async def run(self) -> None:
        """Manage the overlay until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen())
                group.create_task(self._tick())
        finally:
            for line in self._lines.values():
                line.task.cancel()
            await asyncio.gather(
                *(line.task for line in self._lines.values()), return_exceptions=True
            )
            self._commit()
            self._server.engine.mib.close()

    def reload(self) -> None:
        """Read the policies again."""
        self._read_at = self._files()
        self._server.engine.reload(self._paths, now())
        self._do([])

    # The trigger broker.

    async def _listen(self) -> None:
        backoff = Backoff()
        while True:
            trigger = self._triggers.next()
            try:
                await self._heed(trigger)
            except KbnError as error:
                log.warning("%s: %s", trigger, error)
            self._client = None
            await asyncio.sleep(backoff.next_s())

    async def _heed(self, trigger: str) -> None:
        options = self._triggers.options(self._token, self._tls)
        name = terms.name_at_trigger(self._server.name, self._server.overlay)
        async with Client(trigger, name, options) as client:
            wanted = self._server.wanted
            feed = await client.subscribe(wanted)
            self._client = client
            while True:
                reading = asyncio.ensure_future(self._read(feed))
                try:
                    wanted = await self._until_wanted_changes(wanted, reading)
                    # The new one before the old one goes, so that little is missed meanwhile; and
                    # everybody is asked again for what is.
                    other = await client.subscribe(wanted)
                finally:
                    reading.cancel()
                    await asyncio.gather(reading, return_exceptions=True)
                await feed.cancel()
                feed, self._greeted = other, None

    async def _read(self, feed: Feed) -> None:
        async for delivery in feed.deliveries():
            sender = Sender(delivery.id.publisher, delivery.by_manager)
            self._do(self._server.received(delivery.notification, sender, now()))

    async def _until_wanted_changes(
        self, wanted: Subscription, reading: asyncio.Future[None]
    ) -> Subscription:
        """What is wanted when other policies are in force; raises what reading has raised."""
        while not reading.done():
            await asyncio.wait({reading}, timeout=TICK_S)
            new = self._server.wanted
            if new != wanted:
                return new
        reading.result()
        raise TransportError("the trigger broker has ended")

    async def _tick(self) -> None:
        looked_at = now()
        while True:
            client, at = self._attached(), now()
            if client is not None and client is not self._greeted:  # the first time, or again
                self._do(self._server.connected(at))
            elif client is not None:
                self._do(self._server.tick(at))
            self._greeted = client
            if at - looked_at >= COMMIT_EVERY_S:
                looked_at = at
                self._commit()
                if self._files() != self._read_at:
                    self.reload()
            await asyncio.sleep(TICK_S)

    def _attached(self) -> Client | None:
        """The client at the trigger broker; None while that is away."""
        try:
            client = self._client
            return client if client is not None and client.core.is_attached else None
        except KbnError:  # it has ended
            return None

    def _commit(self) -> None:
        """Write what is new into the MIB's file; what cannot be written is tried again."""
        try:
            self._server.engine.mib.commit()
        except KbnError as error:
            log.error("the MIB is not kept: %s", error)

    def _files(self) -> dict[Path, int]:
        """The files of policies, and when each was changed."""
        found = {}
        for path in self._paths:
            for file in sorted(path.glob("*.y*ml")) if path.is_dir() else [path]:
                try:
                    found[file] = file.stat().st_mtime_ns
                except OSError:
                    found[file] = 0
        return found

    # What is to be done.

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Announce):
                self._announce(effect)
            else:
                self._instruct(effect)
        for entry in self._server.news():
            self._tell(entry)

    def _announce(self, announce: Announce) -> None:
        client = self._attached()
        if client is not None:
            for error in client.take_refusals():  # of an earlier one, which keeps back no other
                log.warning("not published: %s", error)
            overlay = self._server.overlay
            said = instructions.to_notification(announce.message, now(), overlay)
            publishing = asyncio.ensure_future(client.publish(said))
            publishing.add_done_callback(_look_at)

    def _instruct(self, instruct: Instruct) -> None:
        line = self._lines.get(instruct.url)
        if line is None or line.task.done():
            line = self._lines[instruct.url] = _Line()
            line.task = asyncio.ensure_future(self._work(instruct.url, line))
        try:
            line.waiting.put_nowait(instruct)
        except asyncio.QueueFull:
            self._server.refused(instruct, "too much waits for this broker", now())

    async def _work(self, url: str, line: _Line) -> None:
        """Tell one broker what waits for it; the line ends when nothing did for a while."""
        options = ClientOptions.with_token(self._token, self._tls, ANSWER_S)
        while True:
            try:
                async with asyncio.timeout(IDLE_S):
                    instruct = await line.waiting.get()
            except TimeoutError:
                if line.waiting.empty():  # nothing came while the time ran out
                    return
                continue
            name = f"{self._server.name} at {instruct.broker}"
            try:
                async with Client(url, name, options) as client:
                    while True:
                        await self._ask(client, instruct)
                        instruct = line.waiting.get_nowait()
            except asyncio.QueueEmpty:
                continue
            except KbnError as error:
                self._server.refused(instruct, str(error), now())

    async def _ask(self, client: Client, instruct: Instruct) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                await client.admin(instruct.request)
        except TimeoutError:
            raise TransportError(f"{instruct.url} gave no answer in {ANSWER_S:g} s") from None
        except TransportError:
            raise
        except KbnError as error:
            self._server.refused(instruct, str(error), now())


class _Line:
    """What waits to be told to one broker, and who tells it."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[Instruct] = asyncio.Queue(WAITING_MAX)
        self.task: asyncio.Task[None]


def _look_at(publishing: asyncio.Future[None]) -> None:
    if not publishing.cancelled() and publishing.exception() is not None:
        log.warning("not published: %s", publishing.exception())
