"""Worlds in trouble: whatever goes wrong, what was promised is kept once it is healed.

A failure tells its seed and the whole story; `scripts/simulate --seed N` plays it again.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

from kbn.broker import LinkTo, notes
from kbn.simulation.network import Network
from kbn.simulation.world import PromiseBrokenError, World

LINKS_OF = Network._links_of
SEEDS = 1000
BATCH = 50
QUICK = 300  # the seeds of `make test`; the others are for the slow tests
BATCHES = [
    pytest.param(first, marks=() if first < QUICK else pytest.mark.slow)
    for first in range(0, SEEDS, BATCH)
]


@pytest.mark.parametrize("first", BATCHES)
def test_nothing_is_lost_doubled_or_disordered_whatever_goes_wrong(first: int) -> None:
    for seed in range(first, first + BATCH):
        World.swarm(seed).run()


BROKEN_ONCE = [
    11509, 12743, 14112, 22536, 23119, 30066, 31554, 34015, 37093, 37384, 38210, 38465,
    770017, 770232, 770366, 770779, 770873,
]  # fmt: skip


@pytest.mark.parametrize("seed", BROKEN_ONCE)
def test_nor_in_worlds_that_were_broken_once(seed: int) -> None:
    World.swarm(seed, rules_change=False, troubles=()).run()


@pytest.mark.parametrize("seed", [320625, 321192, 321304, 321490])
def test_nor_where_the_rules_changed_at_a_bad_moment(seed: int) -> None:
    World.swarm(seed, troubles=()).run()


@pytest.mark.parametrize(
    ("seed", "troubles"),
    [
        (41000004, "dying, one way, slow"),  # what a neighbour was owed went by another way
        (41000069, "clocks, terms"),  # what was heard in one session counted in the next
        (41000318, "dying, failing, slow"),  # a disk failed in the middle of a turn
        (52000008, "slow"),  # what had come before the rules changed was handled by the old ones
        (52000673, "clocks, one way"),  # publishers were forgotten because a clock was years ahead
        # One process of a publisher was told what was for the one before it.
        (61200274, "dying, one way, slow, terms, vanishing"),
        (61200621, "spoilt, terms"),  # what waited for a subscription that a disk had spoilt
        (70000821, "failing, spoilt"),  # the same, at a broker that the client was leaving
        # A neighbour came back that had not heard that it was left: a ring, without an end.
        (80000900, "failing, terms"),
        (70002523, "clocks, failing, spoilt"),  # the mark of what a neighbour had sent was spoilt
        # The mark of a publisher was spoilt: what it brought again was refused, or out of order.
        (80001390, "clocks, dying, one way, spoilt"),
        (90004102, "failing, one way, spoilt"),
        # The mark of what was withdrawn was spoilt: a client was sent what it might not have.
        (5252, "spoilt"),
        (5473, "spoilt"),
        (91000484, "dying, lying, terms"),  # a disk lost the count of what a limit had dropped
    ],
)
def test_nor_in_worlds_that_more_troubles_have_broken(seed: int, troubles: str) -> None:
    World.swarm(seed, troubles=troubles.split(", ")).run()


def test_nor_for_a_client_that_leaves_without_reading(seed: int = 285) -> None:
    World.swarm(seed, troubles=()).run()


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_nor_in_worlds_whose_brokers_do_not_stay_where_they_are(first: int) -> None:
    for seed in range(first, first + 10):
        World.swarm(seed, restless=True).run()


@pytest.mark.parametrize("number", range(5))
def test_nor_from_a_seed_nobody_has_tried(number: int, seed: int) -> None:
    World.swarm(seed * 5 + number).run()


def test_the_same_seed_is_the_same_world() -> None:
    stories = []
    for _ in range(2):
        world = World.swarm(3)
        world.run()
        received = {name: client.received for name, client in world.network.clients.items()}
        stories.append((world.story, world.network.messages, received))
    assert stories[0] == stories[1]


def test_a_broken_promise_is_told_with_the_seed_and_the_story() -> None:
    world = World.swarm(4)
    world.run()
    client = next(each for each in world.subscribers if each.received)
    client.received.append(client.received[0])
    with pytest.raises(PromiseBrokenError, match=r"(?s)seed 4: .* twice\n.*attaches to"):
        world.check()


def test_a_loss_is_noticed() -> None:
    for seed in range(50):
        world = World.swarm(seed)
        world.run()
        for client in world.subscribers:
            must, _ = world.expected(client)
            if must:
                lost = next(iter(must))
                for process in world.ledger.processes(client):
                    process.received[:] = [r for r in process.received if r.id != lost]
                with pytest.raises(PromiseBrokenError, match="never had"):
                    world.check()
                return
    pytest.fail("no world had anything to lose")


@pytest.mark.parametrize(
    ("broken", "noticed"),
    [
        ("kbn.broker.access_change.AccessChange.obey", "is not admitted, and is sent"),
        ("kbn.broker.deliveries.Deliveries._seen", "may see .* and is sent"),
        # Either of the two is enough where the rules stay as they are.
        (
            "kbn.broker.deliveries.Deliveries.withdraw "
            "kbn.broker.client_session.ClientSession.holds",
            "may not subscribe to what",
        ),
    ],
)
def test_what_the_rules_do_not_allow_is_noticed(
    broken: str, noticed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def do_nothing(_: object, *given: object, **options: object) -> object:
        return given[0] if given else None

    for name in broken.split():
        monkeypatch.setattr(name, do_nothing)
    for seed in range(100):
        try:
            World.swarm(seed, troubles=()).run()
        except PromiseBrokenError as error:
            if re.search(noticed, str(error).splitlines()[0]):
                return
    pytest.fail("no world noticed")


DECIDED = {
    "client attached",
    "client refused",
    "neighbour connected",
    "neighbour connected again",
    "neighbour lost",
    "could not be reached",
    "crossed: ours kept",
    "crossed: theirs kept",
    "connection replaced",
    "broker moved",
    "broker did not move",
    "neighbour moved away",
}


def decided(worlds: int, **how: bool) -> Counter[str]:
    """What nodes have decided about connections in some worlds, and how often."""
    noted: Counter[str] = Counter()
    for seed in range(worlds):
        world = World.swarm(seed, troubles=(), **how)
        world.run()
        noted.update(kind_of(note) for _, note in world.network.notes)
    return noted


def test_worlds_cover_what_a_node_decides_about_connections() -> None:
    noted = decided(50, restless=True)
    assert min(noted[kind] for kind in DECIDED) >= 5


def test_worlds_that_do_not_cover_it_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_the_first_dials(network: Network, name: str, token: str) -> list[LinkTo]:
        dialled = {other for one, other in network.topology.links if one == name}
        return [link for link in LINKS_OF(network, name, token) if link.url in dialled]

    monkeypatch.setattr(Network, "_links_of", only_the_first_dials)
    monkeypatch.setattr("kbn.simulation.happenings._rehome", lambda world: None)
    noted = decided(20, restless=True)
    missing = {kind for kind in DECIDED if not noted[kind]}
    assert missing == {
        "crossed: ours kept",
        "crossed: theirs kept",
        "connection replaced",
        "broker moved",
        "broker did not move",
        "neighbour moved away",
    }


def kind_of(note: notes.Note) -> str:
    match note:
        case notes.ClientAttached():
            return "client attached"
        case notes.ConnectionRefused(None, _, "InvalidInputError", reason) if "client" in reason:
            return "client refused"
        case notes.NeighbourConnected(_, again):
            return "neighbour connected again" if again else "neighbour connected"
        case notes.NeighbourLost():
            return "neighbour lost"
        case notes.DialFailed():
            return "could not be reached"
        case notes.ConnectionsCrossed(_, kept):
            return f"crossed: {kept} kept"
        case notes.ConnectionReplaced():
            return "connection replaced"
        case notes.MoveEnded(_, _, trouble):
            return "broker moved" if trouble is None else "broker did not move"
        case notes.NeighbourLeft(_, "moved", _):
            return "neighbour moved away"
        case _:
            return "something else"
