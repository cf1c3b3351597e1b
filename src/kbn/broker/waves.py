"""Waves: how a broker finds out that everything it said before has arrived everywhere.

A broker sends a wave to its neighbours; each passes it on to its other neighbours and echoes when
all of them have echoed (Segall's propagation of information with feedback). Links keep order, so
when the echoes are back, every broker has handled what was sent ahead of the wave, and whatever was
on its way to the origin, sent before the echo, has arrived.

One wave of a broker is on its way at a time. Requests that come meanwhile wait for the next and
share it. A neighbour that starts again is sent what it had not echoed; who has forgotten a wave
simply takes part again.

**The dead.** A wave waits for a broker that is down. For some requests it is enough that it has
been to all that can be reached now, as long as certain brokers are among them: those between which
somebody moves (`reaching`). So a broker that has all echoes but those of neighbours that are down
says so in a *partial* echo, with those of the brokers sought that were found, and its full echo
follows when they are back. An origin that waits for the dead only is free to begin another wave,
which then serves the requests of this one, too; whoever passes that on forgets the one before it.

While a broker moves, the network has a cycle, and a wave may reach a broker from two sides. From
one it was passed to, it has met itself: both have it, and wait for nothing of each other. From
another one (a mover passes nothing from its old side to its new one) it is echoed to both sides
when all behind have echoed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kbn.broker.fields import BROKERS_MAX
from kbn.broker.messages import SOUGHT_MAX, Echo, Wave, WaveKind

Request = Callable[[], None]
WaveId = tuple[str, int, int, WaveKind]

PASSING_MAX = 2 * BROKERS_MAX
"""So many waves of others are on their way at a time: a broker has one of each kind."""


class _Awaited(NamedTuple):
    """What to call when a wave is back: from everywhere, or from all that can be reached, with
    these brokers among them.
    """

    request: Request
    reaching: frozenset[str] | None


@dataclass(slots=True)
class _Round:
    """A wave on its way: where it came from, whom it was passed to, who has not echoed.

    Of those some have echoed `partly`. `found` are the brokers it seeks that have had it; `told`,
    those that were named in a partial echo.
    """

    wave: Wave
    came_from: list[str]
    passed_to: set[str]
    waiting: set[str]
    partly: set[str] = field(default_factory=set)
    found: set[str] = field(default_factory=set)
    told: frozenset[str] | None = None

    def echoed(self, echo: Echo, neighbour: str) -> None:
        """A neighbour's part of the network has had the wave, or all of it that can be reached."""
        self.found.update(set(self.wave.seeks or ()).intersection(echo.found))
        if echo.is_partial:
            self.partly.add(neighbour)
        else:
            self.waiting.discard(neighbour)

    def waits_for_the_dead(self, down: set[str]) -> bool:
        """Whether only brokers that are down have not had it."""
        return all(name in down or name in self.partly for name in self.waiting)

    def renamed(self, old: str, new: str) -> None:
        if old in self.waiting:
            self.waiting.discard(old)
            self.waiting.add(new)
        if old in self.passed_to:
            self.passed_to.add(new)

    def gone(self, neighbour: str) -> None:
        self.passed_to.discard(neighbour)
        self.waiting.discard(neighbour)


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
        self._send = send
        self._own = _Round(Wave(name, epoch, 0, kind), [], set(), set())
        self._served: list[_Awaited] = []
        self._queued: list[_Awaited] = []
        self._passing: dict[WaveId, _Round] = {}
        self._newest: dict[tuple[str, WaveKind], WaveId] = {}  # of each broker, that was passed on
        self._down: set[str] = set()

    @property
    def newest(self) -> Wave:
        """The wave we began last."""
        return self._own.wave

    def is_newest(self, wave: Wave) -> bool:
        """Whether it is the wave we began last."""
        return _id(wave) == _id(self._own.wave)

    @property
    def is_waiting(self) -> bool:
        """Whether a wave of our own has not come back."""
        return bool(self._served)

    @property
    def count(self) -> int:
        """How many waves of others are on their way through us."""
        return len(self._passing)

    def begin(
        self,
        request: Request,
        neighbours: Iterable[str],
        reaching: Iterable[str] | None = None,
    ) -> None:
        """Call `request` when all that was sent before now has arrived everywhere; or in all of the
        network that can be reached, if it is said which brokers must be there.
        """
        sought = None if reaching is None else frozenset(reaching) - {self._name}
        self._queued.append(_Awaited(request, sought))
        self._start(neighbours)

    def _start(self, neighbours: Iterable[str]) -> None:
        while self._queued and self._may_start():
            self._served, self._queued = [*self._served, *self._queued], []
            waiting = set(neighbours)
            was = self._own.wave
            wave = Wave(was.origin, was.epoch, was.number + 1, was.kind, self._sought())
            self._own = _Round(wave, [], set(waiting), waiting)
            for neighbour in sorted(waiting):
                self._send(neighbour, wave)
            self._look_at_own()

    def _may_start(self) -> bool:
        """Whether another wave would serve somebody sooner."""
        return not self._served or (
            any(each.reaching is not None for each in self._queued)
            and self._own.waits_for_the_dead(self._down)
        )

    def _sought(self) -> tuple[str, ...]:
        """Whom a wave is to find; of very many, those that were asked for last: the others may be
        dead.
        """
        names = (name for each in reversed(self._served) for name in each.reaching or ())
        return _sorted(list(dict.fromkeys(names))[:SOUGHT_MAX])

    def _seek_others(self) -> None:
        """Some were found: those that were too many for this wave are sought by the next."""
        seeks = set(self._own.wave.seeks or ())
        others = [each for each in self._served if not seeks.issuperset(each.reaching or ())]
        if others:
            self._served = [each for each in self._served if seeks.issuperset(each.reaching or ())]
            self._queued = [*others, *self._queued]

    def pass_on(self, wave: Wave, came_from: str, onwards: Iterable[str]) -> None:
        """Take part in another broker's wave."""
        key = _id(wave)
        known = self._passing.get(key)
        if known is not None:
            if came_from in known.passed_to:
                self._send(came_from, Echo(*key))
                return
            if came_from not in known.came_from:
                known.came_from.append(came_from)
            if known.told is not None:
                self._send(came_from, Echo(*key, _sorted(known.told), is_partial=True))
            return
        self._forget_before(wave)
        waiting = set(onwards) - {came_from}
        found = {self._name}.intersection(wave.seeks or ())
        if wave.origin == self._name or not waiting:
            self._send(came_from, Echo(*key, _sorted(found)))
            return
        self._passing[key] = _Round(wave, [came_from], set(waiting), waiting, found=found)
        for neighbour in sorted(waiting):
            self._send(neighbour, wave)
        self._look_at(key)

    def _forget_before(self, wave: Wave) -> None:
        """A broker has one wave at a time: nobody waits for the one before. Of more waves than
        there can be brokers, somebody makes them up: the oldest goes.
        """
        whose = wave.origin, wave.kind
        before = self._newest.get(whose)
        if before is not None and before[:3] < (wave.origin, wave.epoch, wave.number):
            self._passing.pop(before, None)
        if before is None or before not in self._passing:
            self._newest.pop(whose, None)
            self._newest[whose] = _id(wave)
        while len(self._passing) >= PASSING_MAX:
            del self._passing[next(iter(self._passing))]
        while len(self._newest) > PASSING_MAX:
            del self._newest[next(iter(self._newest))]

    def echoed(self, echo: Echo, neighbour: str, neighbours: Iterable[str]) -> None:
        """A neighbour's part of the network has had the wave, or all of it that can be reached."""
        key = _id(echo)
        if key == _id(self._own.wave):
            self._own.echoed(echo, neighbour)
            self._look_at_own()
            self._start(neighbours)
            return
        passing = self._passing.get(key)
        if passing is not None:
            passing.echoed(echo, neighbour)
            self._look_at(key)

    def started_again(self, neighbour: str) -> None:
        """The session with a neighbour is new: what it had not echoed is lost, so send it again."""
        for each in (self._own, *list(self._passing.values())):
            if neighbour in each.waiting:
                each.partly.discard(neighbour)
                self._send(neighbour, each.wave)

    def is_down(self, neighbour: str, neighbours: Iterable[str]) -> None:
        """A neighbour cannot be reached: who can do without it waits for it no longer."""
        if neighbour not in self._down:
            self._down.add(neighbour)
            self._look_at_own()
            self._start(neighbours)
            for key in list(self._passing):
                self._look_at(key)

    def is_up(self, neighbour: str) -> None:
        """A neighbour can be reached."""
        self._down.discard(neighbour)

    def pass_on_to(self, new: str, instead_of: str) -> None:
        """We are to move from one neighbour to another: waves from behind us must visit both."""
        for passing in self._passing.values():
            if instead_of not in passing.came_from:
                passing.passed_to.add(new)
                passing.waiting.add(new)

    def renamed(self, old: str, new: str) -> None:
        """One that was known by its url has a name; it is sent what waits for it as it comes."""
        self._down.discard(old)
        for each in (self._own, *self._passing.values()):
            each.renamed(old, new)

    def forget(self) -> None:
        """Give up our own wave: nobody waits for it any more."""
        self._served, self._queued = [], []
        self._own.waiting.clear()

    def gone(self, neighbour: str, neighbours: Iterable[str]) -> None:
        """A neighbour is one no longer: nobody waits for it."""
        self._down.discard(neighbour)
        self._own.gone(neighbour)
        self._look_at_own()
        self._start(neighbours)
        for key, passing in list(self._passing.items()):
            passing.gone(neighbour)
            self._look_at(key)

    def begin_anew(self, neighbours: Iterable[str]) -> None:
        """The tree has changed: other brokers' waves are theirs to repeat, ours we repeat."""
        self._passing.clear()
        self._queued, self._served = [*self._served, *self._queued], []
        self._own.waiting.clear()
        self._start(neighbours)

    def _look_at(self, key: WaveId) -> None:
        """Echo a wave of another broker that has been to all behind us, or to all it can reach."""
        passing = self._passing.get(key)
        if passing is None:
            return
        found = frozenset(passing.found)
        if not passing.waiting:
            del self._passing[key]
            self._echo(passing, Echo(*key, _sorted(found)))
        elif passing.wave.seeks is None or passing.told == found:
            return  # it was told so, or came by way of a broker that does not know partial echoes
        elif passing.waits_for_the_dead(self._down):
            passing.told = found
            self._echo(passing, Echo(*key, _sorted(found), is_partial=True))

    def _echo(self, passing: _Round, echo: Echo) -> None:
        for neighbour in passing.came_from:
            self._send(neighbour, echo)

    def _look_at_own(self) -> None:
        """Serve whoever has what it asked for."""
        own = self._own
        if not own.waiting:
            ready, self._served = self._served, []
        elif own.waits_for_the_dead(self._down):
            waiting, self._served, ready = self._served, [], []
            for each in waiting:
                is_ready = each.reaching is not None and each.reaching <= own.found
                (ready if is_ready else self._served).append(each)
            if ready:
                self._seek_others()
        else:
            return
        for each in ready:
            each.request()


def _id(message: Wave | Echo) -> WaveId:
    return message.origin, message.epoch, message.number, message.kind


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
