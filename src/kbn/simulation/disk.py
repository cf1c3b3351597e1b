"""Disks with errors: a store that fails, one that lies, and one with spoilt rows.

A store that *fails* says so: a commit, or already what is to be committed, raises `StoreError`, and
nothing since the last commit is kept. Its broker stops, as it does over TCP. Everything that
was promised holds: nobody was told of what is not kept.

A store that *lies* says that it has committed, and loses that when its broker crashes: what is
left is what it had when it began to lie. (So does an honest one with `sync="normal"` at a power
failure.) A real store notices by the count of commits beside it and is repaired
(`broker/storage`); each lost commit may have begun an epoch, so as many epochs are skipped. What
holds then: only what was stored while it lied may be lost; `Losses` says what that was. What was
acknowledged meanwhile may be brought again, and what was taken may be refused when it comes again.

A store with *spoilt* rows gives back other bytes than it was given. The broker finds that when it
reads them, sets them aside and tells so; all else goes on. Nobody is given what is spoilt, and what
is lost that way is told. (A real store finds it by checksums when it starts, and is repaired; here
the rows reach the broker, so that it is the broker who has to find them.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Protocol

from msgspec import msgpack

from kbn.broker import Envelope, MemoryStore, NotificationId, Store, StoreError

UNREADABLE = b"\xc1"  # nothing in MessagePack begins so, and no text
# Not those about the shape of the overlay, nor the epoch: they are for a person to mend.
LOST = "lost/"  # how many deliveries a client has lost
SPOILT_MARKS = ("received/", "past/", "publisher/", "redirect/", "withdrawn/", "former/")

_ENVELOPES = msgpack.Decoder(Envelope)


@dataclass(frozen=True, slots=True)
class Losses:
    """What a store has lost in a crash: publications that somebody still waited for, and
    subscriptions of clients, by the numbers that these gave them. It had counted so many deliveries
    that clients have lost to a limit, and does not know that any more: `uncounted`, by client.
    """

    commits: int
    publications: frozenset[NotificationId]
    subscriptions: frozenset[tuple[str, int]]
    uncounted: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spoilt:
    """A row that cannot be read any more. It is to be set aside under one of these names.

    `publication` or `subscription` is what it held, `value` what a mark said. With `is_told` the
    store has found it by itself, and told so.
    """

    told_as: frozenset[str] = frozenset()
    publication: NotificationId | None = None
    subscription: tuple[str, int] | None = None
    value: bytes = b""
    is_told: bool = False


class Disk(Store, Protocol):
    """A store that can be made to have errors. It outlives the broker: `crash` is the end of one
    broker, and the next finds what is left.
    """

    fails: bool

    def begin_lying(self) -> None:
        """From now on nothing that is committed survives a crash."""

    def spoil(self, rng: Random) -> list[Spoilt]:
        """Make some rows unreadable, while no broker uses them."""

    def mend(self) -> None:
        """No errors from now on; what was committed is safe."""

    def crash(self) -> Losses | None:
        """The broker is gone; what a store that lies has lost, if it has lost something."""


class SimulatedDisk(MemoryStore):
    """A disk in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = False
        self._has_failed = False  # since the last commit
        self._synced = self._safe
        self._lies = False
        self._unsynced = 0

    @property
    def is_dirty(self) -> bool:
        return super().is_dirty or self._has_failed

    def commit(self) -> None:
        if self.fails or self._has_failed:
            self.rollback()
            raise _error()
        super().commit()
        self._unsynced += self._lies

    def keep(self, envelope_bytes: bytes) -> int:
        if self.fails:
            self.rollback()
            self._has_failed = True
            raise _error()
        return super().keep(envelope_bytes)

    def rollback(self) -> None:
        super().rollback()
        self._has_failed = False

    def begin_lying(self) -> None:
        if not self._lies:
            self._lies, self._unsynced, self._synced = True, 0, deepcopy(self._safe)

    def mend(self) -> None:
        self.fails = self._lies = False

    def crash(self) -> Losses | None:
        self.rollback()
        if not self._lies:
            return None
        self._lies = False
        if not self._unsynced:
            return None
        lost, self._safe = self._safe, self._synced
        self._skip_epochs()
        self._now = deepcopy(self._safe)
        kept = self._safe.kept
        return Losses(
            self._unsynced,
            publications(lost.bodies.values()) - publications(self._safe.bodies.values()),
            frozenset(
                (name, id)
                for name, client in lost.kept.items()
                for id in client.subscriptions
                if name not in kept or id not in kept[name].subscriptions
            ),
            {
                mark.removeprefix(LOST): msgpack.decode(count) - _count(self._safe.facts.get(mark))
                for mark, count in lost.facts.items()
                if mark.startswith(LOST)
            },
        )

    def spoil(self, rng: Random) -> list[Spoilt]:
        bodies, kept, facts = self._safe.bodies, self._safe.kept, self._safe.facts
        rows: list[Callable[[], Spoilt]] = [
            *(partial(self._spoil_body, key) for key in bodies if publications([bodies[key]])),
            *(
                partial(self._spoil_subscription, name, id)
                for name, client in kept.items()
                for id in client.subscriptions
            ),
            *(
                partial(self._spoil_mark, name)
                for name, value in facts.items()
                if name.startswith(SPOILT_MARKS) and value != UNREADABLE
            ),
        ]
        found = [spoil() for spoil in rng.sample(rows, min(len(rows), rng.randint(1, 3)))]
        self._now = deepcopy(self._safe)
        return found

    def _spoil_body(self, key: int) -> Spoilt:
        contents = self._safe
        told_as = frozenset(
            f"{peer.kind}/{peer.name}/{sequence}"
            for peer, waiting in contents.unacked.items()
            for sequence, body, _ in waiting.after(0, len(waiting))
            if body == key
        )
        [id] = publications([contents.bodies[key]])
        contents.bodies[key] = UNREADABLE * len(contents.bodies[key])
        return Spoilt(told_as, publication=id)

    def _spoil_subscription(self, name: str, id: int) -> Spoilt:
        subscriptions = self._safe.kept[name].subscriptions
        subscriptions[id] = "?" * len(subscriptions[id])
        return Spoilt(frozenset({f"subscription/{name}/{id}"}), subscription=(name, id))

    def _spoil_mark(self, name: str) -> Spoilt:
        value, self._safe.facts[name] = self._safe.facts[name], UNREADABLE
        return Spoilt(frozenset({f"mark/{name}"}), value=value)

    def _skip_epochs(self) -> None:
        epoch = int(self._safe.facts.get("epoch", b"0"))
        self._safe.facts["epoch"] = str(epoch + self._unsynced).encode()


def _count(mark: bytes | None) -> int:
    return 0 if mark is None else msgpack.decode(mark, type=int)


def publications(bodies: Iterable[bytes]) -> frozenset[NotificationId]:
    """Those that can be read."""
    readable = (body for body in bodies if not body.startswith(UNREADABLE))
    return frozenset(_ENVELOPES.decode(body).id for body in readable)


def _error() -> StoreError:
    return StoreError("the disk has an error", path="a simulated disk")
