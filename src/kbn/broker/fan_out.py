"""Fan-out: one notification to many clients, some of them in each turn.

What the publisher (or the neighbour that brought it) says next waits until all have it. A client
that leaves meanwhile gets it at once: it was on its way to it.

**What must not be lost.** A durable notification is acknowledged after its first turn. If durable
clients are among those it is for, the store knows by then whom it is still for, under a peer of its
own, and each turn marks there how far it has come. So a broker that is stopped in the middle goes
on where it was: nobody misses it, and nobody has it twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec import msgpack

from kbn.broker.client_session import ClientSession
from kbn.broker.client_sessions import ClientSessions
from kbn.broker.fields import Number
from kbn.broker.kept import ENCODER, ENVELOPES, Kept
from kbn.broker.messages import Peer
from kbn.broker.set_aside import UNREADABLE, Aside
from kbn.broker.store import INTEGER_MAX, Store, StoredUnacked
from kbn.broker.work import QUEUED, STORED, Work

SHARE_AT_ONCE = 0.25  # of a turn's work: what takes no more is delivered at once
LISTED = 8  # clients that are written down for one unit of work

ROWS = Peer("fan-out", "")
PROGRESS = "fan-out/"

_NOTE = msgpack.Decoder(tuple[tuple[str, str], dict[str, dict[Number, Any]]])
_PROGRESS = msgpack.Decoder(tuple[Number, frozenset[str]])


class FanOut:
    """A notification on its way to many; `sequence` is its row in the store, if it has one.

    The first `done` of the `targets` have it. Those it passes `over` had it before their turn, or
    want it no more.
    """

    __slots__ = ("_rest", "_waiting", "done", "kept", "over", "publisher", "sequence", "targets")

    def __init__(
        self,
        targets: Mapping[str, Mapping[int, Any]],
        kept: Kept,
        publisher: ClientSession | None,
        done: int = 0,
        over: frozenset[str] = frozenset(),
    ) -> None:
        self.targets = targets
        self.kept = kept
        self.publisher = publisher
        self.sequence: int | None = None
        self.done = done
        self.over = set(over)
        self._waiting = dict(targets)
        for name in (*islice(targets, done), *over):
            self._waiting.pop(name, None)
        self._rest = islice(targets, done, None)

    def __contains__(self, name: str) -> bool:
        """Whether it is still on its way to a client."""
        return name in self._waiting

    @property
    def is_over(self) -> bool:
        return self.done >= len(self.targets)

    def take(self) -> str | None:
        """The next, if it is still on its way to it."""
        self.done += 1
        name = next(self._rest)
        return None if self._waiting.pop(name, None) is None else name

    def pass_over(self, name: str) -> None:
        """It is not on its way to this client any more."""
        del self._waiting[name]
        self.over.add(name)


class FanOuts:
    """The notifications that are being delivered to many; `sequences` number their rows."""

    def __init__(
        self,
        clients: ClientSessions,
        store: Store,
        sequences: Iterator[int],
        aside: Aside,
        work: Work,
    ) -> None:
        self._clients = clients
        self._store = store
        self._sequences = sequences
        self._aside = aside
        self._work = work
        self._going_on: list[FanOut] = []
        clients.when_forgotten = self.pass_over

    def is_small(self, targets: Mapping[str, Mapping[int, Any]]) -> bool:
        """Whether so many are delivered to at once."""
        return len(targets) * (QUEUED + STORED) <= SHARE_AT_ONCE * self._work.budget

    def begin(
        self,
        targets: Mapping[str, Mapping[int, Any]],
        kept: Kept,
        publisher: ClientSession | None,
        sender: Peer,
    ) -> Iterator[None] | None:
        """Deliver to as many as the turn allows; a chore that delivers to the others, if any."""
        fan_out = FanOut(targets, kept, publisher)
        while not self._work.is_spent and not fan_out.is_over:
            self._step(fan_out)
        if fan_out.is_over:
            return None
        by_name = self._clients.by_name
        if any(by_name[name].is_durable for name in targets):
            self._write_down(fan_out, sender)
        self._going_on.append(fan_out)
        return self._steps(fan_out)

    def restore(self) -> Iterator[tuple[Iterator[None], Peer]]:
        """What was under way when the broker was stopped: the chores, and who waits for each."""
        for row in self._store.unacked(ROWS, 0, INTEGER_MAX):
            try:
                yield self._restored(row)
            except UNREADABLE as error:
                self._aside.row(ROWS, row, error)

    def _restored(self, row: StoredUnacked) -> tuple[Iterator[None], Peer]:
        sender, targets = _NOTE.decode(row.note)
        mark = f"{PROGRESS}{row.sequence}"
        done, over = self._aside.read_mark(mark, _PROGRESS, (0, frozenset()))
        kept = Kept(self._store, ENVELOPES.decode(row.envelope), row.key)
        fan_out = FanOut(targets, kept, None, done, over)
        fan_out.sequence = row.sequence
        self._going_on.append(fan_out)
        return self._steps(fan_out), Peer(*sender)  # type: ignore[arg-type]

    def deliver_to(self, name: str) -> None:
        """Deliver to one client at once all that is on its way to it."""
        for fan_out in self._coming_to(name):
            self._deliver(fan_out, name)
        self.pass_over(name)

    def pass_over(self, name: str) -> None:
        """A client has what is on its way to it, or has left: another of that name does not."""
        for fan_out in self._coming_to(name):
            fan_out.pass_over(name)
            self._mark(fan_out)

    def _coming_to(self, name: str) -> list[FanOut]:
        return [each for each in self._going_on if name in each]

    def _steps(self, fan_out: FanOut) -> Iterator[None]:
        while not fan_out.is_over:
            self._step(fan_out)
            self._mark(fan_out)
            yield
        self._going_on.remove(fan_out)
        if fan_out.sequence is not None:
            self._store.take_out(ROWS, fan_out.sequence)
            self._store.unmark(f"{PROGRESS}{fan_out.sequence}")

    def _step(self, fan_out: FanOut) -> None:
        name = fan_out.take()
        if name is not None:
            self._deliver(fan_out, name)

    def _deliver(self, fan_out: FanOut, name: str) -> None:
        if name in self._clients.by_name:
            self._clients.traffic.deliver(
                name, fan_out.targets[name], fan_out.kept, fan_out.publisher
            )

    def _write_down(self, fan_out: FanOut, sender: Peer) -> None:
        """Have the store know whom a notification is still for."""
        self._work.done += len(fan_out.targets) // LISTED
        fan_out.sequence = next(self._sequences)
        note = ENCODER.encode((sender, fan_out.targets))
        self._store.push(ROWS, fan_out.sequence, fan_out.kept.key(), note)
        self._mark(fan_out)

    def _mark(self, fan_out: FanOut) -> None:
        if fan_out.sequence is not None:
            progress = ENCODER.encode((fan_out.done, fan_out.over))
            self._store.mark(f"{PROGRESS}{fan_out.sequence}", progress)
