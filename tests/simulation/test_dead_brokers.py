"""Four brokers, one dies under load: the others go on, its clients go elsewhere, nothing durable is
lost when it returns or is retired.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import pytest

from kbn.broker import Peer, Topology, administration
from kbn.broker.content import decode
from kbn.broker.kept import ENVELOPES
from kbn.broker.store import MemoryStore
from kbn.simulation import Network, SimulatedClient

BROKERS = ("a", "b", "c", "d")
RING = Topology.general([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")])
STAR = Topology.hierarchy({"a": None, "b": "a", "c": "a", "d": "a"})
ROW = Topology.peers([("a", "b"), ("b", "c"), ("c", "d")])
CASES = [(RING, "a"), (RING, "c"), (STAR, "d"), (ROW, "d")]
EVERY_S = 0.05


class Overlay:
    """At each broker a durable subscriber, who wants everything, and a publisher."""

    def __init__(self, topology: Topology, seed: int) -> None:
        self.net = Network(topology, seed=seed, ticks=True)
        self.net.run_for(2.0)
        self.readers = {b: self.net.client(f"reader {b}", at=b, durable=True) for b in BROKERS}
        self.writers = {b: self.net.client(f"writer {b}", at=b) for b in BROKERS}
        for reader in self.readers.values():
            reader.subscribe("n >= 0")
            reader.subscribe("n any")
        requests = {reader.name: reader.barrier() for reader in self.readers.values()}
        assert self.net.run_until(
            lambda: all(self.net.clients[n].has("barrier", r) for n, r in requests.items()), 5.0
        )
        self.published: list[tuple[str, int]] = []
        self.n = 0

    def publish_for(self, seconds: float) -> None:
        """Everybody publishes, in turn."""
        end = self.net.now + seconds
        while self.net.now < end:
            writer = self.writers[BROKERS[self.n % len(BROKERS)]]
            number = writer.publish({"n": self.n}, durable=True)
            self.published.append((writer.name, number))
            self.n += 1
            self.net.run_for(EVERY_S)

    def got(self, reader: SimulatedClient) -> list[tuple[str, int]]:
        return [(each.id.publisher, each.id.number) for each in reader.received]

    def have_all(self, but: set[tuple[str, int]] = frozenset()) -> bool:  # type: ignore[assignment]
        must = set(self.published) - but
        return all(must <= set(self.got(each)) for each in self.readers.values())

    def check(self, but: set[tuple[str, int]] = frozenset()) -> None:  # type: ignore[assignment]
        assert not any(each.core.unpublished for each in self.writers.values())
        for reader in self.readers.values():
            got = self.got(reader)
            assert len(set(got)) == len(got), f"{reader.name} had something twice"
            assert not set(self.published) - set(got) - but, f"{reader.name} has lost something"
            if self.net.topology.routing != "general":
                self.check_order(reader)

    def check_order(self, reader: SimulatedClient) -> None:
        """In order, but for what comes late or once more."""
        numbers = defaultdict(list)
        for each in reader.received:
            numbers[each.id.publisher, each.strand, each.is_late].append(each.id.number)
        for stream, found in numbers.items():
            assert found == sorted(found), (reader.name, stream)

    def gap_s(self, reader: SimulatedClient, since: float) -> float:
        """The longest time without a notification."""
        times = [since, *(each.at for each in reader.received if each.at >= since), self.net.now]
        return max(later - earlier for earlier, later in pairwise(times))

    def at_work(self, but: str) -> Iterator[SimulatedClient]:
        return (reader for broker, reader in self.readers.items() if broker != but)


@pytest.mark.parametrize(("topology", "dead"), CASES, ids=lambda each: str(each)[:25])
def test_the_others_go_on_and_nothing_is_lost_when_the_dead_one_returns(
    topology: Topology, dead: str
) -> None:
    overlay = Overlay(topology, seed=1)
    net = overlay.net
    overlay.publish_for(2.0)
    died_at = net.now
    net.crash(dead)
    overlay.publish_for(10.0)
    gaps = {reader.name: overlay.gap_s(reader, died_at) for reader in overlay.at_work(dead)}
    print(f"gaps after {dead} died: {gaps}")
    assert max(gaps.values()) < 1.0
    theirs = [overlay.readers[dead], overlay.writers[dead]]
    assert all(client.broker != dead and client.core.is_attached for client in theirs)
    came_at = next(each.at for each in overlay.readers[dead].received if each.at > died_at + 1.0)
    print(f"its subscriber goes on after {came_at - died_at:.2f} s")
    assert came_at - died_at < 10.0
    net.restart(dead)
    overlay.publish_for(2.0)
    assert net.run_until(overlay.have_all, 20.0)
    assert net.run_until(lambda: not overlay.readers[dead].core.former, 10.0)
    net.run_for(2.0)
    overlay.check()
    # The dead one keeps nothing more for those who left it.
    assert overlay.readers[dead].name not in net.broker(dead).clients


def kept_for(store: MemoryStore, client: str) -> set[tuple[str, int]]:
    """What a dead broker's store alone has for one of its clients."""
    peer = Peer("client", client)
    found = store.unacked(peer, 0, store.unacked_count(peer))
    envelopes = [ENVELOPES.decode(each.envelope) for each in found]
    assert all(decode(each.content) for each in envelopes)
    return {(each.publisher, each.number) for each in envelopes}


@pytest.mark.parametrize(("topology", "dead"), CASES, ids=lambda each: str(each)[:25])
def test_nothing_is_lost_but_what_the_dead_one_alone_had_when_it_is_retired(
    topology: Topology, dead: str
) -> None:
    overlay = Overlay(topology, seed=2)
    net = overlay.net
    overlay.publish_for(2.0)
    net.crash(dead)
    alone = kept_for(net._places[dead].store, overlay.readers[dead].name)
    mine = {each for each in overlay.published if each[0] == overlay.writers[dead].name}
    overlay.publish_for(10.0)
    for name, broker in net.brokers.items():
        if dead in broker.neighbours:
            boss = net.client(f"boss at {name}", at=name)
            asked = boss.admin(administration.Unlink(dead, retired=True))
            assert net.run_until(lambda b=boss, n=asked: b.has("admin-request", n), 5.0)
    overlay.publish_for(2.0)
    net.run_until(overlay.have_all, 10.0)
    net.run_for(2.0)
    overlay.check(but=alone | mine)
    # And nothing waits for it any more: what is asked for is in force everywhere.
    request = overlay.readers[dead].barrier()
    assert net.run_until(lambda: overlay.readers[dead].has("barrier", request), 5.0)


THIRD = [(ROW, "a", "b", "d"), (ROW, "a", "c", "d"), (STAR, "b", "c", "d"), (RING, "a", "b", "c")]


@pytest.mark.parametrize(("topology", "old", "new", "dead"), THIRD)
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_move_between_two_that_live_does_not_wait_for_a_third_one(
    topology: Topology, old: str, new: str, dead: str, is_cut: bool
) -> None:
    overlay = Overlay(topology, seed=3)
    net = overlay.net
    moving = (overlay.readers[old], overlay.writers[old])
    if is_cut:
        beside = [link for link in topology.links if dead in link]
        for link in beside:
            net.cut(*link)
    else:
        net.crash(dead)
    overlay.publish_for(1.0)
    asked = overlay.readers[old].barrier()
    began_at = net.now
    for client in moving:
        client.move(new)
    overlay.publish_for(6.0)  # a link that is cut is noticed after 4 s
    assert all(client.moves == [new] for client in moving)
    assert not any(client.core.former for client in moving), "it was let go"
    assert moving[0].name not in net.broker(old).clients
    assert overlay.gap_s(overlay.readers[old], began_at) < 1.0
    assert not overlay.writers[old].core.unpublished
    assert not moving[0].has("barrier", asked), "not every broker has heard of all"
    if is_cut:
        for link in beside:
            net.mend(*link)
    else:
        net.restart(dead)
    assert net.run_until(overlay.have_all, 20.0)
    assert net.run_until(lambda: moving[0].has("barrier", asked), 20.0)
    net.run_for(2.0)
    overlay.check()
    mine = [each for each in moving[0].received if each.id.publisher == moving[1].name]
    assert {(each.strand, each.is_late) for each in mine} == {(0, False)}, "in order"


def test_a_move_to_a_broker_that_cannot_be_reached_from_the_old_one_waits() -> None:
    overlay = Overlay(ROW, seed=5)
    net, ann = overlay.net, overlay.readers["a"]
    net.crash("b")
    net.run_for(1.0)
    ann.move("c")
    overlay.publish_for(5.0)
    assert ann.broker == "a", "what is published here would not reach it there"
    net.restart("b")
    assert net.run_until(lambda: ann.moves == ["c"], 10.0)
    assert net.run_until(overlay.have_all, 10.0)
    net.run_for(2.0)
    overlay.check()


@pytest.mark.parametrize("durable", [True, False])
def test_a_client_told_to_move_leaves_a_dead_broker_although_it_does_not_answer(
    durable: bool,
) -> None:
    net = Network(STAR, ticks=True)
    ann, bob = net.client("ann", at="b", durable=durable), net.client("bob", at="c")
    ann.subscribe("n >= 0")
    request = ann.barrier()
    assert net.run_until(lambda: ann.has("barrier", request), 5.0)
    net.crash("b")
    ann.move("d")
    number = ann.publish({"n": 1}, durable=True)
    assert net.run_until(lambda: ann.has("publish", number), 10.0)
    assert ann.moves == ["d"]
    bob.publish({"n": 2}, durable=True)
    assert net.run_until(lambda: len(ann.received) == 2, 10.0)


def test_a_client_that_moves_on_from_its_refuge_is_still_let_go_by_the_dead_one() -> None:
    overlay = Overlay(STAR, seed=4)
    net, ann = overlay.net, overlay.readers["d"]
    net.crash("d")
    assert net.run_until(lambda: ann.broker == "a", 10.0) and ann.core.former == ("d",)
    ann.move("c")
    overlay.publish_for(4.0)
    net.restart("d")
    assert net.run_until(lambda: ann.broker == "c" and not ann.core.former, 20.0)
    assert net.run_until(overlay.have_all, 10.0)
    overlay.check()
    assert ann.name not in net.broker("d").clients


def test_a_client_that_leaves_for_good_does_not_wait_for_a_third_broker_that_is_dead() -> None:
    net = Network(ROW, seed=3, ticks=True)
    net.run_for(2.0)
    reader = net.client("reader", at="a", durable=True)
    reader.subscribe("n any")
    writer = net.client("writer", at="b")
    net.run_for(1.0)
    net.crash("d")
    net.run_for(10.0)
    writer.publish({"n": 1}, durable=True)
    reader.leave()
    assert net.run_until(lambda: "reader" not in net.broker("a").clients, 10.0)
    assert [each.id.number for each in reader.received] == [1], "what was on its way has come"
