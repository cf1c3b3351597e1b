"""The mover: carries out what the table of a broker's move asks for (`broker_move.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import assert_never

from msgspec import msgpack

from kbn.broker.broker_move import Action, BrokerMove, Event, why_it_stayed
from kbn.broker.interests import Interests
from kbn.broker.kept import Kept
from kbn.broker.messages import BestEffort, ByeCause, Echo, Forward, Wave
from kbn.broker.neighbour import Neighbour
from kbn.broker.neighbour_sessions import NeighbourSessions
from kbn.broker.store import Store
from kbn.broker.unmet import queue_of
from kbn.broker.waves import Waves

_MARK = "move"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a move asks of the broker: leave a neighbour, pass a notification on to one, handle what
    was held back, and tell neighbours whether they know everything.
    """

    part_with: Callable[[str, str, ByeCause], None]
    pass_on: Callable[[Neighbour, Kept], None]
    handle: Callable[[Forward | BestEffort, Neighbour], None]
    tell_complete: Callable[[], None]


class Mover:
    """The moves of one broker, one at a time; `move` is the present one.

    `waves` are those that the broker begins for others or passes on. A move has its own.
    """

    def __init__(
        self,
        name: str,
        epoch: int,
        store: Store,
        neighbours: NeighbourSessions,
        interests: Interests,
        waves: Waves,
        broker: Surroundings,
    ) -> None:
        self._name = name
        self._store = store
        self._neighbours = neighbours
        self._interests = interests
        self._waves = waves
        self._own_waves = Waves(name, epoch, neighbours.traffic.send_wave, "move")
        self._broker = broker

    @property
    def move(self) -> BrokerMove | None:
        """The present move."""
        return self._neighbours.move

    def prepare(self, old: str, new: str, done: Callable[[str | None], None]) -> None:
        """Begin a move; the new neighbour is to be added next."""
        self._set(BrokerMove(old, new, done))
        # Should we stop in the middle, we start again at the old place: the new one must know.
        self._neighbours.leave(new, "moved")
        self._store.mark(_MARK, msgpack.encode((old, new)))

    def join(self) -> None:
        """The new neighbour is added: find out when the whole network knows."""
        move = self.move
        assert move is not None
        self._waves.pass_on_to(move.new, move.old)
        self._begin_wave([move.new])

    def give_up_unfinished(self, sequences: Iterator[int]) -> None:
        """A move was not finished when the broker stopped: what was put aside for the new
        neighbour goes by way of the old one.
        """
        mark = self._store.marked(_MARK)
        if mark is None:
            return
        names = msgpack.decode(mark, type=tuple[str, str])
        old, new = (queue_of(self._store, name) for name in names)
        for each in self._store.unacked(new, 0, self._store.unacked_count(new)):
            self._store.push(old, next(sequences), self._store.keep(each.envelope))
        self._store.forget_unacked(new)
        self._store.unmark(_MARK)

    # What happens meanwhile.

    def refused(self, reason: str) -> None:
        """The new neighbour is not to be had."""
        self._step(Event.REFUSED, reason)

    def lost(self, name: str) -> None:
        """A neighbour is one no longer: nobody waits for it."""
        if self.move is not None and name == self.move.old:
            self._step(Event.OLD_LOST)
        self._own_waves.gone(name, [])

    def session_began(self, name: str) -> None:
        """What a neighbour had not echoed is lost, so it is sent again."""
        self._own_waves.started_again(name)

    def echoed(self, echo: Echo, source: str) -> None:
        """A wave of ours is back from a neighbour."""
        self._own_waves.echoed(echo, source, [])

    def holds_back(self, message: Forward | BestEffort, source: str) -> bool:
        """Whether what a neighbour brings must wait until the move is over."""
        move = self.move
        if move is None or not move.holds_back(source):
            return False
        move.held.append(message)
        return True

    def waved(self, wave: Wave, source: str) -> None:
        """Take part in a wave; while we move, not everybody gets it."""
        move = self.move
        if move is None:
            self._waves.pass_on(wave, source, self._neighbours.names_in_tree())
        elif wave.origin == self._name:
            self._came_round(wave, source, move)
        elif source in move.both:
            self._waved_while_moving(wave, source, move)
        else:
            actions = self._step(Event.RIVAL, wave.origin) if wave.kind == "move" else ()
            if Action.KEEP_WAVE in actions:
                move.kept_waves.append((wave, source))
            else:
                self._waves.pass_on(wave, source, self._neighbours.names_in_tree())

    def _came_round(self, wave: Wave, source: str, move: BrokerMove) -> None:
        # Not behind what is put aside: that waits for this wave.
        self._neighbours.traffic.send(source, Echo(wave.origin, wave.epoch, wave.number, wave.kind))
        if self._own_waves.is_newest(wave) and source in move.both:
            self._step(Event.CAME_BY_OLD if source == move.old else Event.CAME_BY_NEW)

    def _waved_while_moving(self, wave: Wave, source: str, move: BrokerMove) -> None:
        """A wave from one of the two sides reaches the other by itself, unless the new one is
        behind us: until we know, it waits, or visits both when it is another mover's.
        """
        targets = self._neighbours.names_in_tree()
        if source == move.old or move.has_come_round:
            targets = [name for name in targets if name not in move.both]
        elif wave.kind != "move":
            move.unsure_waves.append((wave, source))
            return
        self._waves.pass_on(wave, source, targets)

    # Steps.

    def _set(self, move: BrokerMove | None) -> None:
        self._neighbours.move = move
        self._neighbours.traffic.paused = self._neighbours.moving_to
        self._interests.keep_apart(frozenset() if move is None else move.both)

    def _begin_wave(self, names: list[str]) -> None:
        self._own_waves.begin(self._wave_is_back, names)

    def _wave_is_back(self) -> None:
        self._step(Event.ECHOED)

    def _step(self, event: Event, detail: str = "") -> tuple[Action, ...]:
        """Take a step and do what it asks for; a wave to keep is the caller's."""
        move = self.move
        assert move is not None
        before = move.state
        actions = move.on(event)
        for action in actions:
            match action:
                case Action.ANSWER_UNSURE:
                    self._answer_unsure(move)
                case Action.CLEAR_BEHIND:
                    behind = self._neighbours.names_in_tree()
                    self._begin_wave([name for name in behind if name not in move.both])
                case Action.DRAIN_OLD:
                    self._drain_old(move)
                case Action.KEEP_WAVE:
                    pass
                case Action.LEAVE_OLD:
                    self._leave_old(move)
                case Action.STAY:
                    self._stay(move, why_it_stayed(move, before, event, self._name, detail))
                case _:
                    assert_never(action)
        return actions

    def _answer_unsure(self, move: BrokerMove) -> None:
        unsure, move.unsure_waves = move.unsure_waves, []
        for wave, source in unsure:
            self._waved_while_moving(wave, source, move)

    def _drain_old(self, move: BrokerMove) -> None:
        if move.old in self._neighbours.by_name:
            self._begin_wave([move.old])
        else:
            self._step(Event.OLD_LOST)
            self._begin_wave([])

    def _leave_old(self, move: BrokerMove) -> None:
        """The old side is drained: leave it, and go on at the new one."""
        self._set(None)
        self._neighbours.forget_leaving(move.new)
        self._store.unmark(_MARK)
        self._broker.part_with(move.old, "moved", "moved")
        new = self._neighbours.by_name[move.new]
        self._neighbours.set_past(new, move.newest)
        for message in move.held:
            self._broker.handle(message, new)
        self._broker.tell_complete()
        self._neighbours.traffic.forward(new)
        self._neighbours.traffic.send_best_effort(new)
        for wave, source in move.kept_waves:
            self.waved(wave, source)
        move.done(None)

    def _stay(self, move: BrokerMove, reason: str) -> None:
        """Stay where we are; what was put aside for the new neighbour goes by way of the old."""
        self._set(None)
        self._own_waves.forget()
        self._store.unmark(_MARK)
        new, old = self._neighbours.by_name[move.new], self._neighbours.by_name.get(move.old)
        if old is not None:
            for envelope in new.unacked.take_all():
                self._broker.pass_on(old, Kept(self._store, envelope))
            for envelope in new.best_effort.waiting:
                self._broker.pass_on(old, Kept(self._store, envelope))
        self._broker.part_with(move.new, "not moving here after all", "moved")
        for wave, source in move.kept_waves:
            self.waved(wave, source)
        move.done(reason)
