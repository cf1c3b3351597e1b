"""A managed overlay in memory: brokers with agents, a trigger broker, policy servers, publishers.

All of it is the real thing but for sockets and the clock: reports are notifications of a trigger
broker in a network of its own, policy servers are its clients, and what they tell a broker goes
through a client of that broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbn.broker import Topology, administration
from kbn.filters import Notification
from kbn.management import (
    Announce,
    BrokerAgent,
    Effect,
    Instruct,
    ManagementMessage,
    PlacePublisher,
    PolicyServer,
    PublisherAgent,
    RequestInfo,
    RequestPublisherMedoids,
    Sender,
    instructions,
    reports,
    terms,
)
from kbn.ontology import Ontology
from kbn.placement import MapSettings
from kbn.simulation.client import SimulatedClient
from kbn.simulation.network import Network

TRIGGER = "trigger"
ROUNDS_MAX = 1000
LOOK_EVERY_S = 0.2
"""How often agents and policy servers look, where time passes in the network."""


class ManagedPublisher:
    """A publisher that asks where to go before it publishes, and goes where it is told."""

    def __init__(self, managed: ManagedNetwork, name: str, at: str) -> None:
        self._managed = managed
        self.name = name
        self._agent = PublisherAgent(name, managed.semantic_map)
        self._line = managed.line(name)
        overlay = managed.overlay
        self._line.subscribe(instructions.of_type("Instruction", overlay, publisherId=name))
        self._line.subscribe(instructions.of_type("RequestInfo", overlay))
        self._line.subscribe(instructions.of_type("RequestPublisherMedoids", overlay))
        self._read = 0
        self._start = at
        self.client: SimulatedClient | None = None

    @property
    def broker(self) -> str | None:
        return None if self.client is None else self.client.broker

    def intend(self, notification: Notification | Mapping[str, object]) -> None:
        """Say what is about to be published, so that it can be told where."""
        if not isinstance(notification, Notification):
            notification = Notification(notification)
        self._agent.publishing(notification)

    def publish(self, notification: Notification | Mapping[str, object], **options: Any) -> int:
        """Publish where it is; where it likes, when nobody has told it anything."""
        self.intend(notification)
        if self.client is None:
            self.client = self._managed.network.client(self.name, self._start)
        return self.client.publish(notification, **options)

    def work(self) -> bool:
        """Tell what is new and follow what was said; whether there was anything."""
        again = False
        for received in self._line.received[self._read :]:
            order = instructions.from_notification(received.notification)
            if isinstance(order, PlacePublisher) and received.by_manager:
                self._go(order.broker)
            again |= isinstance(order, RequestInfo | RequestPublisherMedoids)
        was_told = self._read < len(self._line.received)
        self._read = len(self._line.received)
        info = self._agent.info(self.broker, again=again)
        if info is not None and info.medoid is not None:
            self._line.publish(self._managed.said(info))
        return was_told or info is not None

    def _go(self, broker: str) -> None:
        self._start = broker
        if self.client is not None and self.client.broker != broker:
            self.client.move(broker)


class ManagedNetwork:
    """A network whose brokers are managed; addresses of brokers are their names.

    `servers` are policy servers; one can be taken away and put back: the rest goes on. With
    `ticks` time passes in the network, too, as crashes need it. Several overlays, each with a name
    of its own, may share the `trigger` network of one of them.
    """

    def __init__(
        self,
        topology: Topology | Mapping[str, str | None],
        ontology: Ontology,
        seed: int = 0,
        settings: MapSettings | None = None,
        overlay: str = terms.MAIN,
        trigger: Network | None = None,
        **options: Any,
    ) -> None:
        self.network = Network(topology, ontology, seed, **options)
        self._ticks = bool(options.get("ticks"))
        self.overlay = overlay
        self.trigger = trigger or Network({TRIGGER: None}, terms.ontology(), seed)
        self.semantic_map = (settings or MapSettings()).map_of(ontology)
        self.now = 0.0
        self.servers: dict[str, PolicyServer] = {}
        self.publishers: dict[str, ManagedPublisher] = {}
        self._lines: dict[str, SimulatedClient] = {}
        self._read: dict[str, int] = {}
        self._managers: dict[tuple[str, str], SimulatedClient] = {}
        self._agents: dict[str, BrokerAgent] = {}
        for name in self.network.brokers:
            self.watch(name)

    def watch(self, broker: str) -> None:
        """Give a broker an agent: at the start, and when it was restarted."""
        self._agents[broker] = BrokerAgent(self.network.broker(broker), broker, self.semantic_map)
        if broker not in self._lines:
            line = self.line(broker)
            line.subscribe(instructions.of_type("RequestInfo", self.overlay))
            self._lines[broker] = line

    def serve(self, server: PolicyServer) -> None:
        """Have a policy server at work."""
        line = self._lines.get(server.name) or self.line(server.name)
        if server.name not in self._lines:
            line.subscribe(server.wanted)
            self._lines[server.name] = line
            self.trigger.run()
        self._read[server.name] = len(line.received)
        self.servers[server.name] = server
        self._do(server, server.connected(self.now))

    def line(self, name: str) -> SimulatedClient:
        """A client of the trigger broker, for a broker, a publisher or a policy server."""
        return self.trigger.client(terms.name_at_trigger(name, self.overlay), TRIGGER)

    def said(self, message: ManagementMessage) -> Notification:
        """A message as this overlay publishes it now."""
        return reports.to_notification(message, self.now, self.overlay)

    def stop(self, name: str) -> None:
        """A policy server is gone without a word."""
        del self.servers[name]

    def publisher(self, name: str, at: str) -> ManagedPublisher:
        """A publisher that starts at a broker unless it is told another."""
        made = self.publishers[name] = ManagedPublisher(self, name, at)
        return made

    def run(self, seconds: float = 0.0, step_s: float = 1.0) -> None:
        """Let everybody work until nobody has anything to say; then so much time pass."""
        end = self.now + seconds
        if self._ticks:
            self._run_by_the_clock(end)
            return
        self._run_until_quiet()
        while self.now < end:
            self.now = min(end, self.now + step_s)
            for server in list(self.servers.values()):
                self._do(server, server.tick(self.now))
            self._run_until_quiet()

    def _run_by_the_clock(self, end: float) -> None:
        while self.now < end:
            self.network.run_for(min(LOOK_EVERY_S, end - self.now))
            self.now = self.network.now
            self._tell()
            for server in list(self.servers.values()):
                self._do(server, server.tick(self.now))

    def _run_until_quiet(self) -> None:
        for _ in range(ROUNDS_MAX):
            self.network.run()
            if not self._tell():
                return
        raise AssertionError(f"the managed network is not quiet after {ROUNDS_MAX} rounds")

    def _tell(self) -> bool:
        """Have everybody say what there is to say; whether there was anything."""
        said = [self._report(name) for name in self._agents]
        said += [each.work() for each in self.publishers.values()]
        self.trigger.run()
        said += [self._serve(server) for server in list(self.servers.values())]
        return any(said)

    def _report(self, broker: str) -> bool:
        agent, line = self._agents[broker], self._lines[broker]
        if self.network.brokers.get(broker) is None:
            return False
        sign = agent.sign(self.now)
        if sign is not None:
            line.publish(self.said(sign))
        if line.received:
            line.received.clear()
            self.network.broker(broker).administer(administration.Report("info", every_s=30.0))
            self.network.broker(broker).administer(administration.Report("subscribers"))
        found = agent.reports(self.now)
        for report in found:
            line.publish(self.said(report))
        return bool(found)

    def _serve(self, server: PolicyServer) -> bool:
        line = self._lines[server.name]
        news = line.received[self._read[server.name] :]
        self._read[server.name] = len(line.received)
        for received in news:
            sender = Sender(received.id.publisher, received.by_manager)
            self._do(server, server.received(received.notification, sender, self.now))
        return bool(news)

    def _do(self, server: PolicyServer, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Announce):
                self._lines[server.name].publish(self.said(effect.message))
            else:
                self._instruct(server, effect)

    def _instruct(self, server: PolicyServer, instruct: Instruct) -> None:
        key = (server.name, instruct.broker)
        manager = self._managers.get(key)
        if manager is None:
            name = f"{server.name} at {instruct.broker}"
            manager = self._managers[key] = self.network.client(name, instruct.broker)
        manager.admin(instruct.request)
