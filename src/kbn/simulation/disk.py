"""Disks with errors: a store that fails, and one that lies.

A store that *fails* says so: a commit, or already what is to be committed, raises `StoreError`, and
nothing since the last commit is kept. Its broker stops, as it does over TCP. Everything that
was promised holds: nobody was told of what is not kept.

A store that *lies* says that it has committed, and loses that when its broker crashes: what is
left is what it had when it began to lie. (So does an honest one with `sync="normal"` at a power
failure.) A real store notices by the count of commits beside it and is repaired
(`broker/storage`); each lost commit may have begun an epoch, so as many epochs are skipped. What
holds then: only what was stored while it lied may be lost; `Losses` says what that was.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

from msgspec import msgpack

from kbn.broker import Envelope, MemoryStore, NotificationId, StoreError

_ENVELOPES = msgpack.Decoder(Envelope)


@dataclass(frozen=True, slots=True)
class Losses:
    """What a store has lost in a crash: publications that somebody still waited for, and
    subscriptions of clients, by the numbers that these gave them.
    """

    commits: int
    publications: frozenset[NotificationId]
    subscriptions: frozenset[tuple[str, int]]


class SimulatedDisk(MemoryStore):
    """A store on a disk that has errors for a while: `fails`, or `begin_lying`."""

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
        """From now on nothing that is committed survives a crash."""
        if not self._lies:
            self._lies, self._unsynced, self._synced = True, 0, deepcopy(self._safe)

    def mend(self) -> None:
        """No errors from now on; what was committed is safe."""
        self.fails = self._lies = False

    def crash(self) -> Losses | None:
        """The broker is gone; what a store that lies has lost, if it has lost something."""
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
        bodies = {_ENVELOPES.decode(body).id for body in self._safe.bodies.values()}
        return Losses(
            self._unsynced,
            frozenset(_ENVELOPES.decode(body).id for body in lost.bodies.values()) - bodies,
            frozenset(
                (name, id)
                for name, client in lost.kept.items()
                for id in client.subscriptions
                if name not in kept or id not in kept[name].subscriptions
            ),
        )

    def _skip_epochs(self) -> None:
        epoch = int(self._safe.facts.get("epoch", b"0"))
        self._safe.facts["epoch"] = str(epoch + self._unsynced).encode()


def _error() -> StoreError:
    return StoreError("the disk has an error", path="a simulated disk")
