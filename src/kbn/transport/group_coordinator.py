"""A coordinator of publisher groups on the network: the pure `Coordinator`, health and metrics."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

from kbn.peering import Coordinator, CoordinatorSettings, effects, facts_of, warm_up
from kbn.transport.clock import now
from kbn.transport.group_metrics import group_metrics
from kbn.transport.group_shell import GroupShell
from kbn.transport.health import HealthListener
from kbn.transport.logs import event
from kbn.transport.settings import Listen
from kbn.transport.watching import Watch

log = logging.getLogger("kbn.transport")


class CoordinatorServer:
    """Runs a coordinator on a port; use it with `async with`."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        listen: Listen = Listen(),  # noqa: B008  (it is immutable)
        watch: Watch = Watch(),  # noqa: B008  (it is immutable)
    ) -> None:
        self.core = Coordinator(settings, now())
        self._shell = GroupShell(listen, self._handed)
        self._watch = watch
        self._http: HealthListener | None = None
        self._ended = asyncio.Event()

    async def start(self) -> None:
        await asyncio.to_thread(warm_up)  # not while somebody waits
        watch = self._watch
        if watch.port is not None:
            self._http = HealthListener(self.health, self.metrics, host=watch.host, port=watch.port)
            await self._http.start()
        url = await self._shell.start()
        self.core.settings = replace(self.core.settings, url=self.core.settings.url or url)
        self._shell.run(self.core)
        self._shell.do(self.core.start(now()))
        event("listening", url=self.url, http=self.http)
        asyncio.get_running_loop().call_soon(watch.listening, self.url, self.http)

    @property
    def url(self) -> str:
        return self._shell.url

    @property
    def http(self) -> str:
        return "" if self._http is None else self._http.url

    async def stop(self) -> None:
        await self._shell.stop()
        if self._http is not None:
            await self._http.stop()
        self._ended.set()

    async def __aenter__(self) -> CoordinatorServer:
        await self.start()
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.stop()

    async def wait(self) -> None:
        await self._ended.wait()

    def reload(self) -> None:
        """Read the access file again; those who are in stay until they come again."""
        reread = getattr(self.core.settings.authorizer, "reload", None)
        if reread is not None:
            reread()

    def facts(self) -> dict[str, Any]:
        """The state of the group."""
        return facts_of(self.core)

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Whether it arranges the group, and what it waits for."""
        waiting = ["what peers tell of their places"] if self.core.is_learning else []
        status = "waiting" if waiting else "ok"
        about = {"status": status, "coordinator": self.core.settings.name, "waiting_for": waiting}
        return not waiting, about

    def metrics(self) -> str:
        return group_metrics(self.facts(), healthy=self.health()[0])

    def _handed(self, effect: effects.Effect) -> None:
        if isinstance(effect, effects.Note):
            event(effect.text, level=logging.WARNING if effect.is_trouble else logging.INFO)
