"""Neighbour messages: what a neighbour says, and which part of the broker it is for.

What needs room that there is not is *held*, and all that the same neighbour says behind it, to keep
the order (`room.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from kbn.broker.incoming import Incoming
from kbn.broker.membership import Membership
from kbn.broker.messages import (
    Ack,
    Announce,
    BestEffort,
    BetweenBrokers,
    Body,
    Bye,
    Complete,
    Echo,
    Forward,
    Frame,
    Greet,
    Heard,
    Wave,
)
from kbn.broker.mover import Mover
from kbn.broker.neighbour import Neighbour
from kbn.broker.parts import Parts
from kbn.errors import KbnError

HELD_MAX = 10_000
"""When so much of what a neighbour says waits for room, its session ends and begins anew."""


class NeighbourMessages:
    """Handles what neighbours say to the broker of a name."""

    def __init__(
        self, parts: Parts, incoming: Incoming, membership: Membership, mover: Mover
    ) -> None:
        self._name = parts.name
        self._outbox = parts.outbox
        self._neighbours = parts.neighbours
        self._interests = parts.interests
        self._waves = parts.waves
        self._room = parts.room
        self._router = parts.router
        self._incoming = incoming
        self._membership = membership
        self._mover = mover

    def handle(self, message: BetweenBrokers, name: str) -> None:
        """Take in one message of a neighbour; a stranger may only greet."""
        neighbour = self._neighbours.by_name.get(name)
        if neighbour is None:
            if not isinstance(message, Greet):
                return
            neighbour = self._membership.admit(message, name)
            if neighbour is None:
                return
        neighbour.link.heard_at = self._outbox.now
        match message:
            case Frame():
                body = self._neighbours.traffic.receive_frame(message, neighbour)
                if body is not None:
                    self._from_frame(body, neighbour)
            case BestEffort():
                if self._neighbours.traffic.receive_best_effort(message, neighbour):
                    self._notified(message, neighbour)
            case Heard():
                self._neighbours.traffic.heard(message, neighbour)
            case Greet():
                self._membership.greeted(message, neighbour)
            case Bye():
                self._membership.left_by(message, neighbour)
            case _:
                assert_never(message)

    def _from_frame(self, body: Body, neighbour: Neighbour) -> None:
        """Take in what a neighbour says, or hold it; its acknowledgements never wait."""
        if isinstance(body, Ack):
            self._acked(body.sequence, neighbour)
        elif neighbour.held or (self._room.full and self._must_wait(body, neighbour)):
            neighbour.held.append(body)
            if isinstance(body, Wave | Echo) and body.kind == "move":
                # The broker that moves takes nothing from us before this has passed: it must not
                # wait for room that only comes when that broker goes on.
                while neighbour.held:
                    self._take_in(neighbour.held.popleft(), neighbour)
            elif len(neighbour.held) > HELD_MAX:
                self._neighbours.end(neighbour)
        else:
            self._take_in(body, neighbour)

    def _take_in(self, body: Body, neighbour: Neighbour) -> None:
        match body:
            case Forward():
                self._notified(body, neighbour)
            case Ack(sequence):
                self._acked(sequence, neighbour)
            case Announce():
                self._router.chores.start(self._announced(body, neighbour), neighbour.peer)
            case Complete(is_complete):
                completed = self._interests.completed(is_complete, neighbour)
                self._router.chores.start(completed, neighbour.peer)
                self._membership.tell_complete()
            case Wave():
                self._mover.waved(body, neighbour.name)
            case Echo(origin, kind=kind):
                if kind == "move" and origin == self._name:
                    self._mover.echoed(body, neighbour.name)
                else:
                    targets = self._neighbours.names_in_tree()
                    self._waves.echoed(body, neighbour.name, targets)
            case _:
                assert_never(body)

    def _announced(self, announce: Announce, neighbour: Neighbour) -> Iterator[None]:
        """Take in what a neighbour announces; after too much of it, it is sent everything."""
        was_overfull = neighbour.announced.is_overfull
        yield from self._interests.announced(announce, neighbour)
        if neighbour.announced.is_overfull and not was_overfull:
            yield from self._interests.completed(False, neighbour)
            self._membership.tell_complete()

    def _notified(self, message: Forward | BestEffort, neighbour: Neighbour) -> None:
        """Take in a notification, unless a move of ours holds it back."""
        if self._neighbours.move is None or not self._mover.holds_back(message, neighbour.name):
            self._incoming.take(message, neighbour)

    # Room.

    def _acked(self, sequence: int, neighbour: Neighbour) -> None:
        self._neighbours.traffic.acked(sequence, neighbour)
        if self._room.full and self._room.acked(neighbour.name, neighbour.unacked):
            self.release_held()

    def _must_wait(self, body: Body, neighbour: Neighbour) -> bool:
        """Whether there is no room for what a neighbour brings."""
        if not isinstance(body, Forward) or body.sequence <= neighbour.received.sequence:
            return False
        content = body.envelope.content
        try:
            notification = self._router.contents.read(content)
        except KbnError:
            return False
        return not self._router.has_room(content, notification, neighbour.name)

    def release_held(self) -> None:
        """Handle what waited for room, as far as there is some now; in steps."""
        self._router.chores.start(self._releasing())

    def _releasing(self) -> Iterator[None]:
        contents = self._router.contents
        for neighbour in list(self._neighbours.by_name.values()):
            held = neighbour.held
            while held and self._neighbours.by_name.get(neighbour.name) is neighbour:
                body = held[0]
                if isinstance(body, Forward):
                    yield from self._router.preparing(body.envelope.content)
                    if not held or held[0] is not body:
                        continue  # a move, or the end of its session, was quicker
                if self._must_wait(body, neighbour):
                    break
                self._take_in(held.popleft(), neighbour)
                if isinstance(body, Forward):
                    contents.handled(body.envelope.content)
                yield
