"""The mover: what a step of a move does to the parts around it."""

from __future__ import annotations

from itertools import count

import pytest

from kbn.broker.broker_move import State
from kbn.broker.interests import Interests
from kbn.broker.kept import Kept
from kbn.broker.messages import (
    BestEffort,
    ByeCause,
    Echo,
    Envelope,
    Forward,
    Frame,
    Peer,
    Wave,
)
from kbn.broker.mover import Mover, Surroundings
from kbn.broker.neighbour import Neighbour
from kbn.broker.neighbour_sessions import NeighbourSessions
from kbn.broker.outbox import Outbox
from kbn.broker.routing_table import RoutingTable
from kbn.broker.set_aside import Aside
from kbn.broker.store import MemoryStore
from kbn.broker.unacked import UnackedQueue
from kbn.broker.waves import Waves

ENVELOPE = Envelope("ann", 1, 1, 0.0, b"", True)


class Moving:
    """Broker x between old, new and a neighbour behind it, all in session; what it did."""

    def __init__(self) -> None:
        self.store, self.outbox, self.sequences = MemoryStore(), Outbox(1.0), count(1)
        self.neighbours = NeighbourSessions(
            "x", 1, "acyclic", self.store, self.outbox, self.unacked_of
        )
        self.interests = Interests(
            RoutingTable(),
            self.neighbours.traffic.send,
            self.neighbours.by_name.get,
            self.outbox.work,
            gated=False,
        )
        self.waves = Waves("x", 1, self.neighbours.traffic.send_wave)
        self.parted: list[tuple[str, ByeCause]] = []
        self.passed_on: list[str] = []
        self.handled: list[Forward | BestEffort] = []
        self.ended: list[str | None] = []
        around = Surroundings(
            self.part_with,
            lambda neighbour, kept: self.passed_on.append(neighbour.name),
            lambda message, neighbour: self.handled.append(message),
            lambda: None,
        )
        self.mover = Mover("x", 1, self.store, self.neighbours, self.interests, self.waves, around)
        for name in ("old", "behind"):
            self.add(name)

    def unacked_of(self, peer: Peer) -> UnackedQueue:
        return UnackedQueue(self.store, peer, self.sequences, Aside(self.store, Outbox()))

    def add(self, name: str) -> Neighbour:
        neighbour = self.neighbours.add(name, "peer")
        neighbour.begin_session()
        return neighbour

    def begin(self) -> Moving:
        self.mover.prepare("old", "new", self.ended.append)
        self.add("new")
        self.mover.join()
        return self

    def part_with(self, name: str, reason: str, cause: ByeCause) -> None:
        self.parted.append((name, cause))
        self.neighbours.remove(name)
        self.mover.lost(name)

    def waves_to(self) -> list[tuple[str, Wave]]:
        """The waves of the move that were sent since the last time."""
        return [
            (to.name, message.body)
            for to, message in self.outbox.take()
            if isinstance(message, Frame) and isinstance(message.body, Wave)
        ]

    def echo(self, wave: Wave, source: str) -> None:
        self.mover.echoed(Echo(wave.origin, wave.epoch, wave.number, wave.kind), source)

    def drain(self) -> Wave:
        """Go on until the old side drains; the wave that is out there."""
        [(_, joining)] = self.waves_to()
        self.mover.waved(joining, "old")
        self.echo(joining, "new")
        [(behind, clearing)] = self.waves_to()
        assert behind == "behind"
        self.echo(clearing, "behind")
        [(old, draining)] = self.waves_to()
        assert old == "old"
        return draining


def state(moving: Moving) -> State:
    assert moving.mover.move is not None
    return moving.mover.move.state


def test_a_move_goes_through_its_steps_and_leaves_the_old_neighbour() -> None:
    moving = Moving().begin()
    assert moving.neighbours.traffic.paused == "new"
    assert moving.interests.table.apart == {"old", "new"}
    draining = moving.drain()
    assert state(moving) is State.DRAINING
    moving.mover.waved(draining, "new")
    held = Forward(7, ENVELOPE)
    assert moving.mover.holds_back(held, "new")
    moving.echo(draining, "old")
    assert moving.ended == [None]
    assert moving.parted == [("old", "moved")]
    assert moving.handled == [held]
    assert moving.neighbours.traffic.paused is None
    assert moving.interests.table.apart == frozenset()
    assert moving.neighbours.left("new") is None


def test_a_broker_that_stays_sends_what_it_put_aside_by_the_old_way() -> None:
    moving = Moving().begin()
    moving.drain()
    new = moving.neighbours.by_name["new"]
    moving.neighbours.traffic.pass_on(new, Kept(moving.store, ENVELOPE))
    moving.mover.refused("no room")
    assert moving.ended == ["no room"]
    assert moving.passed_on == ["old"]
    assert moving.parted == [("new", "moved")]
    assert moving.mover.move is None


def test_a_new_neighbour_below_us_is_noticed() -> None:
    moving = Moving().begin()
    [(_, joining)] = moving.waves_to()
    moving.echo(joining, "new")
    assert moving.ended == ["'new' hangs below 'x', or is not connected to 'old'"]


def test_a_move_ends_when_the_old_neighbour_is_lost_before_it_drains() -> None:
    moving = Moving().begin()
    [(_, joining)] = moving.waves_to()
    moving.mover.waved(joining, "old")
    moving.echo(joining, "new")
    [(_, clearing)] = moving.waves_to()
    moving.neighbours.remove("old")
    moving.mover.lost("old")
    moving.echo(clearing, "behind")
    assert moving.ended == [None]


@pytest.mark.parametrize("drains", [False, True])
def test_a_rival_from_behind_stops_a_move_unless_it_drains_already(drains: bool) -> None:
    moving = Moving().begin()
    draining = moving.drain() if drains else None
    rival = Wave("y", 1, 1, "move")
    moving.mover.waved(rival, "behind")
    if draining is None:
        assert moving.ended == ["'y' moves behind 'x': try again later"]
        return
    assert moving.mover.move is not None
    assert moving.mover.move.kept_waves == [(rival, "behind")]
    moving.outbox.take()
    moving.mover.waved(draining, "new")
    moving.echo(draining, "old")
    assert ("new", rival) in moving.waves_to(), "the rival's wave goes on when the move is over"


def test_a_wave_from_the_new_side_waits_until_it_is_known_where_that_hangs() -> None:
    moving = Moving().begin()
    [(_, joining)] = moving.waves_to()
    other = Wave("far", 1, 1)
    moving.mover.waved(other, "new")
    assert moving.waves_to() == []
    moving.mover.waved(joining, "old")
    assert moving.waves_to() == [("behind", other)]


def test_an_unfinished_move_is_given_up_at_the_next_start() -> None:
    moving = Moving().begin()
    new = Peer("broker", "new")
    moving.unacked_of(new).push(Kept(moving.store, ENVELOPE))
    moving.mover.give_up_unfinished(moving.sequences)
    assert moving.store.unacked_count(new) == 0
    assert moving.store.unacked_count(Peer("broker", "old")) == 1
    assert moving.neighbours.left("new") == "moved", "the new one must know"
