"""A managed broker's line to the trigger broker: what its agent has to tell is published there.

The broker works as ever while the trigger broker is away; its agent gathers what changes, and tells
it when the line stands again.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from time import process_time

import psutil

from kbn.broker import administration
from kbn.errors import KbnError
from kbn.filters import Notification
from kbn.management import (
    INFO_EVERY_S,
    BrokerAgent,
    BrokerUtilisation,
    ManagementMessage,
    Report,
    instructions,
    reports,
    terms,
)
from kbn.ontology import Ontology
from kbn.placement import MapSettings
from kbn.transport.client import Client
from kbn.transport.clock import Backoff, now
from kbn.transport.server import BrokerServer
from kbn.transport.triggers import Triggers

LOOK_EVERY_S = 0.2

log = logging.getLogger("kbn.transport")


class Reporting:
    """Reports on a server's broker to a trigger broker, as a task of that server.

    Of several `triggers`, which are linked with each other, it takes one that answers.
    Medoids are worked out on the map that `settings` give.
    """

    def __init__(
        self,
        server: BrokerServer,
        triggers: str | Sequence[str],
        *,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        settings: MapSettings | None = None,
        overlay: str = terms.MAIN,
    ) -> None:
        self._server = server
        self._settings = settings or MapSettings()
        self._triggers = Triggers(triggers)
        self._overlay = overlay
        self._token = token
        self._tls = tls
        self._agent: BrokerAgent | None = None
        self._ontology: Ontology | None = None
        self._busy_s, self._told_at = process_time(), now()
        server.add_background_task(self.run)

    async def run(self) -> None:
        """Report until cancelled; what goes wrong is logged, and tried again."""
        backoff = Backoff()
        while True:
            try:
                await self._report()
            except KbnError as error:
                log.warning("%s: management: %s", self._server.broker.name, error)
            except Exception:
                # Nobody awaits this task: a broker that reports no more would look well.
                log.exception("%s: management: a bug", self._server.broker.name)
            await asyncio.sleep(backoff.next_s())

    async def _report(self) -> None:
        broker = self._server.broker
        options = self._triggers.options(self._token, self._tls)
        name = terms.name_at_trigger(broker.name, self._overlay)
        async with Client(self._triggers.next(), name, options) as client:
            listening = asyncio.ensure_future(self._listen(client))
            try:
                while not listening.done():
                    agent = await self._with_map()
                    sign = agent.sign(now())
                    if sign is not None:
                        await client.publish(self._said(sign))
                    for report in agent.reports(now(), load=self._load(), memory=_memory()):
                        await self._tell(client, report)
                    await asyncio.sleep(LOOK_EVERY_S)
                listening.result()
            finally:
                listening.cancel()

    async def _tell(self, client: Client, report: Report) -> None:
        # One that was refused, as too long or not allowed, takes no others with it.
        for error in client.take_refusals():
            log.warning("%s: management: %s", self._server.broker.name, error)
        await client.publish(self._said(report))
        if isinstance(report, BrokerUtilisation):
            self._busy_s, self._told_at = process_time(), now()

    def _said(self, message: ManagementMessage) -> Notification:
        return reports.to_notification(message, now(), self._overlay)

    async def _listen(self, client: Client) -> None:
        """Tell everything again when somebody new asks."""
        async for _ in client.subscribe(instructions.of_type("RequestInfo", self._overlay)):
            broker = self._server.broker
            if broker.reporter is not None:
                broker.reporter(administration.Report("info", INFO_EVERY_S))
                broker.reporter(administration.Report("subscribers"))

    async def _with_map(self) -> BrokerAgent:
        """The agent, with a map of the ontology that the broker has now."""
        broker = self._server.broker
        ontology = broker.table.ontology
        if self._agent is not None and ontology is self._ontology:
            return self._agent
        # A large ontology's map takes a while, and the broker goes on meanwhile.
        made = (
            None if ontology is None else await asyncio.to_thread(self._settings.map_of, ontology)
        )
        self._ontology = ontology
        if self._agent is None:
            self._agent = BrokerAgent(broker, self._server.url, made)
        else:
            self._agent.use_map(made)
        return self._agent

    def _load(self) -> float:
        """The share of time this process was busy since it last told."""
        share = (process_time() - self._busy_s) / max(now() - self._told_at, 1e-6)
        return min(share, 1.0)


def _memory() -> int:
    return int(psutil.Process().memory_info().rss)
