"""A managed overlay of four brokers, one of which dies: the policy server knows within seconds,
its clients are elsewhere within ten, nobody else moves, and nothing durable is lost.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from kbn import data
from kbn.broker import Topology, administration
from kbn.management import liveness, reports
from kbn.management.assignments import AWAY_AFTER_S, Assignments
from kbn.management.engine import PolicyEngine
from kbn.management.liveness import BrokerSign
from kbn.management.mib import Mib
from kbn.management.policies import SHIPPED, PolicySet
from kbn.management.policy_server import PolicyServer
from kbn.ontology import Individual, Ontology
from kbn.placement import Plan
from kbn.simulation.client import SimulatedClient
from kbn.simulation.managed import ManagedNetwork, ManagedPublisher

HERE = data.namespace("conference")
BROKERS = ("a", "b", "c", "d")
RING = Topology.general([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")])
STAR = Topology.hierarchy({"a": None, "b": "a", "c": "a", "d": "a"})
ROW = Topology.peers([("a", "b"), ("b", "c"), ("c", "d")])
CASES = [(RING, "a"), (STAR, "d"), (ROW, "d")]
# Everybody wants everything here, so reclustering would have all meet in the middle.
PLACING = PolicySet.load(SHIPPED / "placement.yaml")
WITHIN_S = 10.0
EVERY_S = 0.1


@pytest.fixture(scope="module")
def conference() -> Ontology:
    return Ontology.load(data.path("conference"))


class Overlay:
    """At each broker a durable subscriber and a managed publisher that belong there."""

    def __init__(
        self, topology: Topology, ontology: Ontology, seed: int, mib: Mib | None = None
    ) -> None:
        self.managed = ManagedNetwork(topology, ontology, seed, ticks=True)
        self.net = self.managed.network
        self.managed.run(2.0)
        self.serve(ontology, mib or Mib())
        self.managed.run(2.0)
        self.at_home = {broker: self._key_of(broker) for broker in BROKERS}
        self.readers: dict[str, SimulatedClient] = {}
        self.writers: dict[str, ManagedPublisher] = {}
        self.subjects: dict[str, str] = {}
        for broker, key in self.at_home.items():
            self.readers[broker] = self.net.client(f"reader {broker}", at=broker, durable=True)
            self.readers[broker].subscribe(f"topic @= <{key}>")
            self.readers[broker].subscribe("n >= 0")
            self.writers[broker] = self.managed.publisher(f"writer {broker}", at=broker)
        self.published: list[tuple[str, int]] = []
        self.n = 0
        self.publish_for(8.0)
        assert {r.broker for r in self.readers.values()} == set(BROKERS), "each where it belongs"

    def serve(self, ontology: Ontology, mib: Mib) -> None:
        self.server = PolicyServer("one", PolicyEngine(mib, PLACING), Assignments(ontology))
        self.managed.serve(self.server)

    def _key_of(self, broker: str) -> str:
        return next(each.key for each in self.plan.clusters if each.broker == broker)

    @property
    def plan(self) -> Plan:
        assert self.server.assignments.plan is not None
        return self.server.assignments.plan

    def publish_for(self, seconds: float) -> None:
        end = self.net.now + seconds
        while self.net.now < end:
            broker = BROKERS[self.n % len(BROKERS)]
            writer = self.writers[broker]
            about = {"n": self.n, "of": Individual(self.at_home[broker])}
            self.published.append((writer.name, writer.publish(about, durable=True)))
            self.n += 1
            self.managed.run(EVERY_S)

    def clients_of(self, *brokers: str) -> list[SimulatedClient]:
        writers = (self.writers[each].client for each in brokers)
        return [*(self.readers[each] for each in brokers), *(each for each in writers if each)]

    def got(self, reader: SimulatedClient) -> list[tuple[str, int]]:
        found = [(each.id.publisher, each.id.number) for each in reader.received]
        assert len(found) == len(set(found)), f"{reader.name} had something twice"
        return found

    def missing(self) -> dict[str, set[tuple[str, int]]]:
        first = {r.name: min(map(self.published.index, self.got(r))) for r in self.readers.values()}
        must = {name: set(self.published[at:]) for name, at in first.items()}
        return {r.name: must[r.name] - set(self.got(r)) for r in self.readers.values()}

    def run_until(self, condition, at_most_s: float) -> bool:  # type: ignore[no-untyped-def]
        end = self.managed.now + at_most_s
        while not condition() and self.managed.now < end:
            self.managed.run(EVERY_S)
        return bool(condition())

    def is_marked_dead(self, broker: str) -> bool:
        found = self.server.engine.mib.get("broker", broker)
        return found is not None and "dead" in found.marks

    def sent_to(self, broker: str, since: float) -> list[str]:
        """Who was told to go to a broker."""
        log = self.server.engine.log
        return [
            str(each.name)
            for each in log
            if each.at >= since
            and each.action.startswith("place")
            and f"to {broker}" in each.detail
        ]


@pytest.mark.parametrize(("topology", "dead"), CASES, ids=["ring", "star", "row"])
def test_clients_of_a_dead_broker_are_elsewhere_within_ten_seconds_and_nobody_else_moves(
    topology: Topology, dead: str, conference: Ontology
) -> None:
    overlay = Overlay(topology, conference, seed=1)
    net, plan = overlay.net, overlay.plan
    others = [each for each in BROKERS if each != dead]
    homes = {each.name: each.broker for each in overlay.clients_of(*others)}
    died_at = net.now
    net.crash(dead)
    overlay.publish_for(5.0)
    assert overlay.is_marked_dead(dead), "the policy server knows"
    overlay.publish_for(WITHIN_S - 5.0)
    for reader in (overlay.readers[each] for each in others):
        times = [died_at, *(each.at for each in reader.received if each.at >= died_at), net.now]
        assert max(later - earlier for earlier, later in pairwise(times)) < 1.0
    theirs = overlay.clients_of(dead)
    assert all(each.broker != dead and each.core.is_attached for each in theirs)
    assert {each.name: each.broker for each in overlay.clients_of(*others)} == homes
    overlay.publish_for(20.0)
    if topology is ROW:
        overlay.managed.run(AWAY_AFTER_S)
    assert not overlay.sent_to(dead, died_at) and not any(each.core.is_moving for each in theirs)
    assert overlay.plan == plan, "one that may be back costs no moves"

    net.restart(dead)
    overlay.managed.watch(dead)
    overlay.publish_for(3.0)
    assert not overlay.is_marked_dead(dead)
    assert overlay.run_until(lambda: not any(overlay.missing().values()), 20.0), overlay.missing()
    assert overlay.run_until(lambda: all(each.broker == dead for each in theirs), 30.0), (
        "home again"
    )
    overlay.publish_for(2.0)
    assert overlay.run_until(lambda: not any(overlay.missing().values()), 20.0), overlay.missing()


@pytest.mark.parametrize(("topology", "dead"), CASES, ids=["ring", "star", "row"])
def test_when_it_is_retired_others_get_its_clusters_and_its_clients_go_there(
    topology: Topology, dead: str, conference: Ontology
) -> None:
    overlay = Overlay(topology, conference, seed=2)
    net = overlay.net
    net.crash(dead)
    overlay.publish_for(WITHIN_S)
    for name, broker in net.brokers.items():
        if dead in broker.neighbours:
            boss = net.client(f"boss at {name}", at=name)
            boss.admin(administration.Unlink(dead, retired=True))
    overlay.publish_for(5.0)
    assert overlay.is_marked_dead(dead), "nobody has lost it any more, and it is dead"
    assert dead not in overlay.plan.brokers
    theirs = overlay.clients_of(dead)
    wanted = [overlay.plan.brokers_for(overlay.at_home[dead])] * len(theirs)
    assert overlay.run_until(
        lambda: all(each.broker in to for each, to in zip(theirs, wanted, strict=True)), 30.0
    )
    overlay.publish_for(2.0)
    overlay.run_until(lambda: not any(overlay.missing().values()), 10.0)
    # What it alone had was published by its own client, or had reached its disk for its reader.
    missing = overlay.missing()
    lost = missing.pop(overlay.readers[dead].name)
    assert not any(missing.values()) and len(lost) <= 2


def test_a_policy_server_that_starts_again_meanwhile_waits_for_the_dead_one_too(
    conference: Ontology, tmp_path: Path
) -> None:
    overlay = Overlay(STAR, conference, 5, Mib(tmp_path / "mib.db"))
    managed, plan = overlay.managed, overlay.plan
    overlay.net.crash("d")
    overlay.publish_for(WITHIN_S)
    homes = {each.name: each.broker for each in overlay.clients_of(*BROKERS)}
    overlay.server.engine.mib.commit()
    overlay.server.engine.mib.close()
    managed.stop("one")
    overlay.serve(conference, Mib(tmp_path / "mib.db"))
    began_at = managed.now
    managed.run(AWAY_AFTER_S + 10.0)
    assert overlay.is_marked_dead("d") and overlay.plan.clusters == plan.clusters
    assert {each.name: each.broker for each in overlay.clients_of(*BROKERS)} == homes
    assert not overlay.sent_to("d", began_at)
    overlay.net.restart("d")
    managed.watch("d")
    theirs = overlay.clients_of("d")
    assert overlay.run_until(lambda: all(each.broker == "d" for each in theirs), 40.0)
    assert not overlay.is_marked_dead("d")
    overlay.server.engine.mib.close()


def test_one_that_returned_while_the_policy_server_was_away_is_not_marked_dead(
    conference: Ontology, tmp_path: Path
) -> None:
    overlay = Overlay(STAR, conference, 6, Mib(tmp_path / "mib.db"))
    overlay.net.crash("d")
    overlay.managed.run(6.0)
    assert overlay.is_marked_dead("d")
    overlay.server.engine.mib.commit()
    overlay.server.engine.mib.close()
    overlay.managed.stop("one")
    overlay.net.restart("d")
    overlay.managed.watch("d")
    overlay.managed.run(3.0)
    overlay.serve(conference, Mib(tmp_path / "mib.db"))
    overlay.managed.run(3.0)
    assert not overlay.is_marked_dead("d")
    overlay.server.engine.mib.close()


def test_a_link_that_is_cut_makes_nobody_dead(conference: Ontology) -> None:
    overlay = Overlay(RING, conference, seed=3)
    homes = [each.broker for each in overlay.clients_of(*BROKERS)]
    for other in ("a", "c"):
        overlay.net.cut("b", other)
    overlay.publish_for(20.0)
    signs = overlay.net.broker("a").unreached()
    assert signs == ("b",) and not any(map(overlay.is_marked_dead, BROKERS))
    assert [each.broker for each in overlay.clients_of(*BROKERS)] == homes


def test_a_broker_is_not_dead_because_one_neighbour_or_anybody_else_says_so(
    conference: Ontology,
) -> None:
    overlay = Overlay(RING, conference, seed=4)
    managed = overlay.managed
    mallory = managed.trigger.client("mallory", "trigger")
    for _ in range(20):
        for liar in ("a", "b", "d"):
            mallory.publish(reports.to_notification(BrokerSign(liar, ("c",))))
        managed._lines["b"].publish(reports.to_notification(BrokerSign("b", ("c",))))
        managed.run(0.5)
    assert overlay.server.unreadable == 60
    assert not any(map(overlay.is_marked_dead, BROKERS))
    assert liveness.DEAD_AFTER_S < 10.0
