"""A whole publisher group in one process: coordinators and peers, links with delays, crashes.

    group = SimulatedGroup(seed=1)
    sensor = group.peer("sensor")
    sensor.advertise(["price"])
    reader = group.peer("reader")
    reader.subscribe("price < 10", within_s=0.2)
    group.run_for(5.0)
    sensor.publish({"price": 5})

Everything passes as bytes. Links keep order; each message takes the delay that `delay_s` draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from kbn.broker import wire
from kbn.filters import Notification, Subscription
from kbn.peering import Coordinator, CoordinatorSettings, Peer, PeerSettings, Promise, effects
from kbn.simulation.timeline import Timeline

TICK_S = 0.05
Delay = Callable[[Random, str, str], float]


def near(rng: Random, sender: str, receiver: str) -> float:
    """A local network: a millisecond or two."""
    return 0.001 + rng.expovariate(1000.0)


@dataclass(slots=True)
class _End:
    """One end of a connection."""

    process: _Process
    id: int
    other: _End | None = None
    is_open: bool = True
    nothing_before: float = 0.0


class _Process:
    """A core with connections, that may be killed."""

    def __init__(
        self, group: SimulatedGroup, name: str, url: str, core: Peer | Coordinator
    ) -> None:
        self.group, self.name, self.url, self.core = group, name, url, core
        self.is_alive = True
        self.ends: dict[int, _End] = {}
        self.handed: list[effects.Effect] = []
        group.processes[url] = self
        self.do(core.start(url, group.now) if isinstance(core, Peer) else core.start(group.now))
        self._tick()

    def _tick(self) -> None:
        if self.is_alive:
            self.do(self.core.tick(self.group.now))
            self.group.timeline.at(self.group.now + TICK_S, self._tick)

    def do(self, to_do: list[effects.Effect]) -> None:
        """Perform effects."""
        for effect in to_do:
            match effect:
                case effects.Send(connection, message):
                    end = self.ends.get(connection)
                    if end is not None:
                        self.group.transmit(end, wire.encode(message)[wire.HEADER_BYTES :])
                case effects.Close(connection):
                    end = self.ends.pop(connection, None)
                    if end is not None:
                        self.group.hang_up(end)
                case effects.Dial(key, url):
                    self.group.dial(self, key, url)
                case _:
                    self.handed.append(effect)
                    self.heard(effect)

    def heard(self, effect: effects.Effect) -> None:
        """Something for the application."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A notification that was handed to an application."""

    subscriptions: tuple[int, ...]
    notification: Notification
    delay_s: float
    at: float


class SimulatedPeer(_Process):
    """A peer and its application."""

    core: Peer

    def __init__(self, group: SimulatedGroup, name: str, settings: PeerSettings) -> None:
        self.arrived: list[Arrived] = []
        self.promises: dict[int, Promise] = {}
        self.failures: list[effects.Failed] = []
        super().__init__(group, name, f"kbn://{name}:1", Peer(settings, group.now))

    def heard(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Deliver(ids, notification, _, delay_s):
                self.arrived.append(Arrived(ids, notification, delay_s, self.group.now))
            case effects.Told(promise):
                self.promises[promise.id] = promise
            case effects.Failed():
                self.failures.append(effect)
            case _:
                pass

    def advertise(self, attributes: list[str], connections: int | None = None) -> None:
        self.do(self.core.advertise(attributes, connections, self.group.now))

    def subscribe(self, text: str, within_s: float | None = None, probability: float = 0.95) -> int:
        subscription = Subscription.parse(text)
        id, to_do = self.core.subscribe(subscription, self.group.now, within_s, probability)
        self.do(to_do)
        return id

    def publish(self, attributes: Mapping[str, Any]) -> None:
        self.do(self.core.publish(attributes, self.group.now))

    def leave(self) -> None:
        """Go in good order."""
        self.do(self.core.leave(self.group.now))
        self.group.timeline.at(self.group.now + 1.0, self.kill)

    def kill(self) -> None:
        self.group.kill(self)


@dataclass
class SimulatedGroup:
    """Coordinators, peers and the links between them, from a seed."""

    seed: int = 0
    delay_s: Delay = near
    strategy: str = "4"
    learn_s: float = 0.0
    timeline: Timeline = field(default_factory=Timeline)
    processes: dict[str, _Process] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rng = Random(self.seed)
        self._ids = count(1)
        self._epochs = count(1)
        self.coordinator = self.start_coordinator("coordinator")

    @property
    def now(self) -> float:
        return self.timeline.now

    def run_for(self, seconds: float) -> None:
        self.timeline.run_for(seconds)

    def start_coordinator(self, name: str, **settings: Any) -> _Process:
        """A coordinator, new or in the place of one that was killed."""
        url = f"kbn://{name}:1"
        made = CoordinatorSettings(
            name, lambda: f"key of {name}", strategy=self.strategy, url=url,
            **{"learn_s": self.learn_s, **settings},
        )  # fmt: skip
        started = _Process(self, name, url, Coordinator(made, self.now))
        if not made.standby_of:
            self.coordinator = started
        return started

    @property
    def core(self) -> Coordinator:
        """The coordinator itself."""
        assert isinstance(self.coordinator.core, Coordinator)
        return self.coordinator.core

    def peer(
        self, name: str, slots: int = 4, coordinators: tuple[str, ...] = ("coordinator",),
        token: str = "",
    ) -> SimulatedPeer:  # fmt: skip
        """A new peer."""
        urls = tuple(f"kbn://{each}:1" for each in coordinators)
        settings = PeerSettings(name, next(self._epochs), urls, token, slots)
        return SimulatedPeer(self, name, settings)

    def kill(self, process: _Process) -> None:
        """As kill -9 does: nothing is said, but connections end."""
        process.is_alive = False
        if self.processes.get(process.url) is process:
            del self.processes[process.url]
        for end in [*process.ends.values()]:
            self.hang_up(end)
        process.ends.clear()

    # The network.

    def dial(self, process: _Process, key: str, url: str) -> None:
        def answer() -> None:
            if not process.is_alive:
                return
            called = self.processes.get(url)
            if called is None:
                process.do(process.core.dial_failed(key, f"{url}: connection refused", self.now))
                return
            mine, theirs = _End(process, next(self._ids)), _End(called, next(self._ids))
            mine.other, theirs.other = theirs, mine
            process.ends[mine.id], called.ends[theirs.id] = mine, theirs
            called.do(called.core.opened(theirs.id, None, self.now))
            process.do(process.core.opened(mine.id, key, self.now))

        self.timeline.at(self.now + 0.002, answer)

    def transmit(self, end: _End, body: bytes) -> None:
        to = end.other
        assert to is not None
        at = max(
            to.nothing_before, self.now + self.delay_s(self._rng, end.process.name, to.process.name)
        )
        to.nothing_before = at

        def arrive() -> None:
            if to.is_open and to.process.is_alive and to.id in to.process.ends:
                to.process.do(to.process.core.received(to.id, [body], self.now))

        self.timeline.at(at, arrive)

    def hang_up(self, end: _End) -> None:
        """Close one end; the other learns of it."""
        end.is_open = False
        to = end.other
        assert to is not None

        def learn() -> None:
            if to.is_open and to.process.is_alive and to.process.ends.pop(to.id, None) is not None:
                to.is_open = False
                to.process.do(to.process.core.closed(to.id, self.now))

        self.timeline.at(max(self.now + 0.001, to.nothing_before), learn)
