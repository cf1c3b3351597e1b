"""Each trouble of a world: it occurs, what was promised is kept, and a broker that does not mind it
is caught.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from msgspec import msgpack
from msgspec.structs import replace

from kbn.broker import Envelope, content, node_events, notes
from kbn.broker.messages import Left
from kbn.broker.parts import EPOCH_BY_CLOCK_MAX
from kbn.broker.set_aside import Aside
from kbn.broker.store import MemoryStore, Store
from kbn.filters import Notification
from kbn.ontology import Ontology
from kbn.simulation.disk import SimulatedDisk, Spoilt
from kbn.simulation.network import Network
from kbn.simulation.place import Place
from kbn.simulation.troubles import SHARES, kinds_of_seed
from kbn.simulation.world import PromiseBrokenError, World

WORLDS = 6
SLOW_S = 0.3


def evidence(world: World) -> Counter[str]:
    """What can be seen of the troubles in a world that was played."""
    network, ledger = world.network, world.ledger
    received = [
        each
        for client in world.subscribers
        for process in ledger.processes(client)
        for each in process.received
    ]
    noted = Counter(type(note) for _, note in network.notes)
    return Counter(
        {
            "one way": noted[notes.NeighbourLost] + noted[notes.ClientLeft],
            "slow": sum(each.delay_s > SLOW_S for each in received),
            "clocks": sum(b.epoch >= 3600 for b in network.brokers.values()),
            "failing": noted[notes.StoreFailed],
            "dying": sum(map(len, ledger.ended.values())),
            "terms": sum("kind" in each.notification for each in received),
            "lying": world.damage.counts["publications lost"],
            "spoilt": world.damage.counts["rows told"],
            "vanishing": world.troubles.counts["vanishing in a move"],
        }
    )


@pytest.mark.parametrize("kind", [kind for kind, share in SHARES.items() if share])
def test_each_trouble_occurs_and_what_was_promised_is_kept(kind: str) -> None:
    counts, seen = Counter[str](), Counter[str]()
    for seed in range(5000, 5000 + WORLDS):
        world = World.swarm(seed, troubles=[kind])
        world.run()
        counts += world.troubles.counts
        seen += evidence(world)
    assert counts[kind] >= WORLDS, "it happens"
    assert seen[kind] >= WORLDS // 2, "and shows"


def test_worlds_have_all_troubles_alone_and_together() -> None:
    drawn = [kinds_of_seed(seed) for seed in range(1000)]
    for kind, share in SHARES.items():
        assert abs(sum(kind in kinds for kinds in drawn) / 1000 - share) < 0.05
    assert any(not kinds for kinds in drawn) and any(len(kinds) > 3 for kinds in drawn)


def test_worlds_cover_every_trouble() -> None:
    counts, seen = Counter[str](), Counter[str]()
    for seed in range(5000, 5040):
        world = World.swarm(seed)
        world.run()
        counts += world.troubles.counts
        seen += world.damage.counts
        seen["limits"] += world.limits is not None
        seen["lost to a limit"] += sum(client.lost != [] for client in world.subscribers)
        seen["rules"] += world.access.rate > 0
    assert set(SHARES) <= set(counts) and min(counts[kind] for kind in SHARES) >= 5
    assert counts["vanishing in a move"] >= 5
    assert set(seen) >= {"commits lost", "publications lost", "rows told"}
    assert min(seen.values()) >= 5


def commit_in_silence(disk: SimulatedDisk) -> None:
    """Say nothing of a disk that fails."""
    if disk.fails:
        disk.rollback()
    else:
        MemoryStore.commit(disk)


def epoch_of_the_clock(store: Store, now: float) -> int:
    return max(1, min(int(now), EPOCH_BY_CLOCK_MAX))


def use_none(network: Network, name: str, ontology: Ontology | None, digest: str) -> None:
    USE_ONTOLOGY(network, name, None, digest)


def happened_in_turn(place: Place, event: node_events.Event) -> None:
    """New rules wait for what came before them."""
    place._waiting.append(event)


def lose_all(disk: SimulatedDisk) -> None:
    """Lose more than what was stored while the disk lied, and say nothing of it."""
    BEGIN_LYING(disk)
    disk._synced.unacked.clear()


def set_aside_in_silence(aside: Aside, what: str, value: bytes, error: Exception) -> None:
    aside.count += 1


def spoil_what_can_still_be_read(disk: SimulatedDisk, key: int) -> Spoilt:
    """Other bytes that a broker takes for a notification: only a checksum can tell."""
    body = msgpack.decode(disk._safe.bodies[key], type=Envelope)
    other = replace(body, content=content.encode(Notification({"x": 11, "y": 11}).attributes))
    disk._safe.bodies[key] = msgpack.encode(other)
    return Spoilt(frozenset())


USE_ONTOLOGY = Network.use_ontology
BEGIN_LYING = SimulatedDisk.begin_lying
MUTANTS: list[tuple[str, str, Callable[..., object], str]] = [
    ("failing", "kbn.simulation.disk.SimulatedDisk.commit", commit_in_silence, "never had"),
    ("clocks", "kbn.broker.parts._next_epoch", epoch_of_the_clock, ""),
    ("dying", "kbn.broker.unacked.UnackedQueue.rewind", lambda queue: None, "never had"),
    ("vanishing", "kbn.broker.unacked.UnackedQueue.rewind", lambda queue: None, "never had"),
    ("terms", "kbn.simulation.network.Network.use_ontology", use_none, "never had"),
    (
        "terms",
        "kbn.broker.client_subscribing.ClientSubscribing.subscriptions",
        lambda requests: {},
        "never had",
    ),
    (
        "one way",
        "kbn.broker.neighbour_traffic.NeighbourTraffic.repeat_overdue",
        lambda traffic, after_s: None,
        "never had",
    ),
    ("slow", "kbn.simulation.place.Place.happened", happened_in_turn, "is not admitted"),
    ("lying", "kbn.simulation.disk.SimulatedDisk.begin_lying", lose_all, "never had"),
    ("spoilt", "kbn.broker.set_aside.Aside.put", set_aside_in_silence, "never"),
    (
        "spoilt",
        "kbn.simulation.disk.SimulatedDisk._spoil_body",
        spoil_what_can_still_be_read,
        "had {'x': 11, 'y': 11} for",
    ),
]


@pytest.mark.parametrize(
    ("kind", "broken", "mutant", "noticed"), MUTANTS, ids=[f"{m[0]}: {m[1]}" for m in MUTANTS]
)
def test_a_broker_that_does_not_mind_a_trouble_is_caught(
    kind: str,
    broken: str,
    mutant: Callable[..., object],
    noticed: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(broken, mutant)
    for seed in range(5000, 5200):
        try:
            World.swarm(seed, calm=True, troubles=[kind]).run()
        except PromiseBrokenError as error:
            if noticed in str(error).splitlines()[0]:
                return
    pytest.fail("no world noticed")


TAKEN_BACK: list[tuple[int, str, object, str]] = [
    (5624, "kbn.broker.client_session.ClientSession.holds", lambda *_: True, "may not subscribe"),
    (5473, "kbn.broker.client_session.ClientSession.holds", lambda *_: True, "may not subscribe"),
    (70000137, "kbn.simulation.ledger.Ledger.may_come_again", lambda *_: None, "in the order"),
    (80001390, "kbn.simulation.ledger.Ledger.may_be_published_again", lambda *_: None, "wanted no"),
    (
        110000181,
        "kbn.broker.client_sessions.ClientSessions.say_left",
        lambda clients, session: clients._outbox.send(session.peer, Left(session.leaving)),
        "was told of 4",
    ),
    (90004102, "kbn.simulation.ledger.Ledger.may_be_published_again", lambda *_: None, "in the or"),
]


@pytest.mark.parametrize(
    ("seed", "broken", "mutant", "noticed"), TAKEN_BACK, ids=[f"{t[0]}" for t in TAKEN_BACK]
)
def test_what_was_mended_or_excused_is_needed(
    seed: int, broken: str, mutant: object, noticed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worlds that were broken once, or such, are so with the mend or the excuse taken back."""
    monkeypatch.setattr(broken, mutant)
    with pytest.raises(PromiseBrokenError, match=noticed):
        World.swarm(seed, troubles=["spoilt"] if seed < 10_000 else None).run()


@pytest.mark.parametrize(
    ("broken", "noticed"),
    [
        ("kbn.broker.unacked.UnackedQueue.free", "is owed"),
        ("kbn.broker.client.handover.Handover.lost", "told of 0"),
    ],
)
def test_a_limit_that_is_not_kept_or_not_told_is_noticed(
    broken: str, noticed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broken, lambda *_: 0)
    for seed in range(5000, 5100):
        world = World.swarm(seed, troubles=(), rules_change=False)
        try:
            world.run()
        except PromiseBrokenError as error:
            if noticed in str(error).splitlines()[0]:
                return
    pytest.fail("no world noticed")
