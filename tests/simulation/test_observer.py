"""An observer: all placements by the trigger broker's notifications alone, over a crash."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kbn import data
from kbn.filters import Notification
from kbn.management.assignments import Assignments
from kbn.management.engine import PolicyEngine
from kbn.management.mib import Mib
from kbn.management.observer import Observer
from kbn.management.outcomes import Effect
from kbn.management.policies import PolicySet
from kbn.management.policy_server import PolicyServer
from kbn.management.senders import Sender
from kbn.ontology import Individual, Ontology
from kbn.simulation.managed import TRIGGER, ManagedNetwork

HERE = data.namespace("conference")
TREE = {
    "top": None, "left": "top", "right": "top", "far left": "left", "far right": "right",
}  # fmt: skip


class Crashing(PolicyServer):
    """Ends in the middle of what it has to send, at its so many-th notification with effects."""

    def __init__(self, *given: Any, crash_at: int, rng: Random) -> None:
        super().__init__(*given)
        self._left = crash_at
        self._rng = rng
        self.has_crashed = False

    def received(self, notification: Notification, sender: Sender, now: float) -> list[Effect]:
        if self.has_crashed:
            return []
        effects = super().received(notification, sender, now)
        self._left -= bool(effects)
        self.has_crashed = self._left == 0
        return effects[: self._rng.randrange(len(effects))] if self.has_crashed else effects

    def tick(self, now: float) -> list[Effect]:
        return [] if self.has_crashed else super().tick(now)


@pytest.fixture(scope="module")
def conference() -> Ontology:
    return Ontology.load(data.path("conference"))


class Follower:
    """An observer at the trigger broker of a managed network."""

    def __init__(self, managed: ManagedNetwork) -> None:
        self.observer = Observer()
        self.news: list[Any] = []
        self._line = managed.trigger.client("observer", TRIGGER)
        self._line.subscribe(self.observer.wanted)
        managed.trigger.run()

    def read(self) -> None:
        for each in self._line.received:
            sender = Sender(each.id.publisher, each.by_manager)
            self.news.append(self.observer.received(each.notification, sender, 0.0))
        self._line.received.clear()


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 9))]
)
def test_all_placements_can_be_reconstructed_over_a_crash(seed: int, conference: Ontology) -> None:
    print(f"seed {seed}")
    rng = Random(seed)
    managed = ManagedNetwork(TREE, conference, seed)
    follower = Follower(managed)
    engine = PolicyEngine(Mib(), PolicySet.shipped())
    first = Crashing("one", engine, Assignments(conference), crash_at=rng.randint(5, 15), rng=rng)
    managed.serve(first)
    classes = sorted(conference.classes)
    clients = []

    def come(count: int) -> None:
        for _ in range(count):
            name = f"s{len(managed.network.clients)}"
            clients.append(managed.network.client(name, rng.choice(list(TREE))))
            clients[-1].subscribe(f"topic @= <{rng.choice(classes)}>")
            managed.run(rng.choice([0.0, 0.3]))

    subjects = sorted(conference.individuals)
    for number in range(4):
        publisher = managed.publisher(f"p{number}", rng.choice(list(TREE)))
        publisher.intend({"topic": Individual(rng.choice(subjects))})
    come(20)
    for _ in range(40):  # until it has had enough to do to crash
        if not first.has_crashed:
            come(1)
    assert first.has_crashed
    managed.stop("one")
    come(5)
    clients.pop(rng.randrange(len(clients))).leave()
    managed.run(10.0)
    # It knows nothing of what the first one did.
    second = PolicyServer("two", PolicyEngine(Mib(), PolicySet.shipped()), Assignments(conference))
    managed.serve(second)
    come(5)
    managed.run(90.0)
    for each in managed.publishers.values():
        each.publish({"topic": Individual(rng.choice(subjects))})
    managed.run(30.0)
    follower.read()

    observer, mib = follower.observer, second.engine.mib
    assert observer.unreadable == 0
    assert observer.plan == second.assignments.text()
    found = {kind: {} for kind in ("broker", "subscriber", "publisher")}
    for (kind, name), placement in observer.placements.items():
        found[kind][name] = placement
    assert found["subscriber"].keys() == {client.name for client in clients}
    for client in clients:
        known = mib.get("subscriber", client.name)
        assert known is not None
        placement = found["subscriber"][client.name]
        assert (placement.at, placement.told) == (client.broker, known.placed_on)
    for name, each in managed.publishers.items():
        known = mib.get("publisher", name)
        assert known is not None
        placement = found["publisher"][name]
        assert (placement.at, placement.told) == (each.broker, known.placed_on)
    assert {name: each.at or None for name, each in found["broker"].items()} == TREE
    decided = {getattr(each, "action", "") for each in follower.news}
    assert {"place-subscriber", "place-publisher", "request-broker-medoids"} <= decided


def test_what_is_not_the_senders_to_say_or_about_another_overlay_is_dropped() -> None:
    from kbn.management import instructions
    from kbn.management.instructions import PlacementNote

    observer, note = Observer(), PlacementNote("subscriber", "ann", "east")
    boss = Sender("boss", manages=True)
    said = instructions.to_notification(note)
    assert observer.received(said, Sender("mallory"), 0.0) is None
    elsewhere = instructions.to_notification(note, overlay="north")
    assert observer.received(elsewhere, boss, 0.0) is None
    assert (observer.placements, observer.unreadable) == ({}, 1)
    assert observer.received(said, boss, 0.0) == note
