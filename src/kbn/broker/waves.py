"""Waves: how a broker finds out that everything it said before has arrived everywhere.

A broker sends a wave to its neighbours; each passes it on to its other neighbours and echoes when
all of them have echoed (Segall's propagation of information with feedback). Links keep order, so
when the echoes are back, every broker has handled what was sent ahead of the wave, and whatever was
on its way to the origin, sent before the echo, has arrived.

One wave of a broker is on its way at a time. Requests that come meanwhile wait for the next and
share it. A neighbour that starts again is sent what it had not echoed; who has forgotten a wave
simply takes part again.

While a broker moves, the network has a cycle, and a wave may reach a broker from two sides. From
one it was passed to, it has met itself: both have it, and wait for nothing of each other. From
another one (a mover passes nothing from its old side to its new one) it is echoed to both sides
when all behind have echoed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kbn.broker.messages import Echo, Wave, WaveKind

Request = Callable[[], None]
WaveId = tuple[str, int, int, WaveKind]


@dataclass(slots=True)
class _Passing:
    """A wave of another broker: where it came from, whom it was passed to, who has not echoed."""

    came_from: list[str]
    passed_to: set[str]
    waiting: set[str]


class Waves:
    """The waves that one broker has begun or passes on; `send` is given neighbour and message."""

    def __init__(
        self,
        name: str,
        epoch: int,
        send: Callable[[str, Wave | Echo], None],
        kind: WaveKind = "barrier",
    ) -> None:
        self._name = name
        self._epoch = epoch
        self._send = send
        self._kind = kind
        self._number = 0
        self._waiting: set[str] = set()
        self._served: list[Request] = []
        self._queued: list[Request] = []
        self._passing: dict[WaveId, _Passing] = {}

    @property
    def newest(self) -> Wave:
        """The wave we began last."""
        return self._wave()

    @property
    def is_waiting(self) -> bool:
        """Whether a wave of our own has not come back."""
        return bool(self._served)

    def begin(self, request: Request, neighbours: Iterable[str]) -> None:
        """Call `request` when all that was sent before now has arrived everywhere."""
        self._queued.append(request)
        if not self._served:
            self._start(neighbours)

    def _start(self, neighbours: Iterable[str]) -> None:
        while self._queued and not self._served:
            self._served, self._queued = self._queued, []
            self._number += 1
            self._waiting = set(neighbours)
            for neighbour in sorted(self._waiting):
                self._send(neighbour, self._wave())
            if not self._waiting:
                self._finish()

    def pass_on(self, wave: Wave, came_from: str, onwards: Iterable[str]) -> None:
        """Take part in another broker's wave."""
        key = (wave.origin, wave.epoch, wave.number, wave.kind)
        known = self._passing.get(key)
        if known is not None:
            if came_from in known.passed_to:
                self._send(came_from, Echo(*key))
            elif came_from not in known.came_from:
                known.came_from.append(came_from)
            return
        waiting = set(onwards) - {came_from}
        if wave.origin == self._name or not waiting:
            self._send(came_from, Echo(*key))
            return
        self._passing[key] = _Passing([came_from], set(waiting), waiting)
        for neighbour in sorted(waiting):
            self._send(neighbour, wave)

    def echoed(self, echo: Echo, neighbour: str, neighbours: Iterable[str]) -> None:
        """A neighbour's part of the network has had the wave."""
        key = (echo.origin, echo.epoch, echo.number, echo.kind)
        if key == (self._name, self._epoch, self._number, self._kind):
            self._waiting.discard(neighbour)
            if not self._waiting and self._served:
                self._finish()
                self._start(neighbours)
            return
        passing = self._passing.get(key)
        if passing is not None:
            passing.waiting.discard(neighbour)
            self._echo_if_done(key)

    def started_again(self, neighbour: str) -> None:
        """The session with a neighbour is new: what it had not echoed is lost, so send it again."""
        if neighbour in self._waiting:
            self._send(neighbour, self._wave())
        for key, passing in list(self._passing.items()):
            if neighbour in passing.waiting:
                self._send(neighbour, Wave(*key))

    def pass_on_to(self, new: str, instead_of: str) -> None:
        """We are to move from one neighbour to another: waves from behind us must visit both."""
        for passing in self._passing.values():
            if instead_of not in passing.came_from:
                passing.passed_to.add(new)
                passing.waiting.add(new)

    def renamed(self, old: str, new: str) -> None:
        """One that was known by its url has a name; it is sent what waits for it as it comes."""
        for names in (self._waiting, *(each.waiting for each in self._passing.values())):
            if old in names:
                names.discard(old)
                names.add(new)
        for passing in self._passing.values():
            if old in passing.passed_to:
                passing.passed_to.add(new)

    def forget(self) -> None:
        """Give up our own wave: nobody waits for it any more."""
        self._served, self._queued, self._waiting = [], [], set()

    def gone(self, neighbour: str, neighbours: Iterable[str]) -> None:
        """A neighbour is one no longer: nobody waits for it."""
        self._waiting.discard(neighbour)
        if self._served and not self._waiting:
            self._finish()
            self._start(neighbours)
        for key, passing in list(self._passing.items()):
            passing.passed_to.discard(neighbour)
            passing.waiting.discard(neighbour)
            self._echo_if_done(key)

    def begin_anew(self, neighbours: Iterable[str]) -> None:
        """The tree has changed: other brokers' waves are theirs to repeat, ours we repeat."""
        self._passing.clear()
        if self._served:
            self._queued = self._served + self._queued
            self._served = []
            self._waiting = set()
        self._start(neighbours)

    def _echo_if_done(self, key: WaveId) -> None:
        passing = self._passing.get(key)
        if passing is not None and not passing.waiting:
            del self._passing[key]
            for neighbour in passing.came_from:
                self._send(neighbour, Echo(*key))

    def _finish(self) -> None:
        served, self._served = self._served, []
        for request in served:
            request()

    def _wave(self) -> Wave:
        return Wave(self._name, self._epoch, self._number, self._kind)
