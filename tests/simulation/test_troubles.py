"""Each trouble of a world: it occurs, what was promised is kept, and a broker that does not mind it
is caught.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from kbn.broker import notes
from kbn.broker.parts import EPOCH_BY_CLOCK_MAX
from kbn.broker.store import MemoryStore, Store
from kbn.ontology import Ontology
from kbn.simulation.disk import SimulatedDisk
from kbn.simulation.network import Network
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


USE_ONTOLOGY = Network.use_ontology
MUTANTS: dict[str, tuple[str, Callable[..., object]]] = {
    "failing": ("kbn.simulation.disk.SimulatedDisk.commit", commit_in_silence),
    "clocks": ("kbn.broker.parts._next_epoch", epoch_of_the_clock),
    "dying": ("kbn.broker.unacked.UnackedQueue.rewind", lambda queue: None),
    "terms": ("kbn.simulation.network.Network.use_ontology", use_none),
}


@pytest.mark.parametrize("kind", MUTANTS)
def test_a_broker_that_does_not_mind_a_trouble_is_caught(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*MUTANTS[kind])
    with pytest.raises(PromiseBrokenError):
        for seed in range(5000, 5050):
            World.swarm(seed, calm=True, troubles=[kind]).run()
