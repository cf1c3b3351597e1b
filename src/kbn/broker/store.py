"""Store: what a broker must not lose, in memory or in a file.

A store keeps the durable clients and their subscriptions, the publications that somebody is still
owed, small facts (*marks*) and the newest ids seen. A *body* is one publication in bytes; each peer
that is owed it has a *row* that points to it by its *key*, so that many peers share one body.

Everything is provisional until `commit`, which makes all of it permanent or nothing; `rollback`,
like a crash, goes back to the last commit. Reading sees what was not committed yet. A body that
nobody is owed is removed at the commit, not before: a broker may settle one peer and then owe
another. Times never come from here.

`MemoryStore` does every change on one copy and repeats it on another when it is committed.
`SqliteStore` collects changes in memory and writes them together: what is owed and settled between
two commits never reaches the file. It reads from the file, so memory holds only the changes since
the last commit, up to a bound, and per peer a count and the last row.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from kbn.broker.messages import Peer
from kbn.errors import InvalidInputError, KbnError

INTEGER_MAX = 2**63 - 1


class StoreError(KbnError):
    """The store's file cannot be used, or could not be written: `path` says which.

    Nothing that was done since the last commit is kept.
    """

    def __init__(self, message: str, *, path: str) -> None:
        self.path = path
        super().__init__(f"{path}: {message}")


@dataclass(frozen=True, slots=True)
class KeptClient:
    """A durable client, and its subscriptions by the numbers it gave them."""

    name: str
    window: int
    when_slow: str
    subscriptions: dict[int, str] = field(default_factory=dict)


class Owed(NamedTuple):
    """A publication that a peer is owed; `note` is whatever the broker wrote beside it."""

    row: int
    key: int
    note: bytes
    envelope: bytes


class Store(Protocol):
    """What a broker asks of a store; forgetting what is not there does nothing.

    Numbers have up to 64 bits with a sign; one that has more is an InvalidInputError.
    """

    @property
    def identity(self) -> str:
        """The same as long as the store exists, and no other's."""

    @property
    def is_dirty(self) -> bool:
        """Whether there is something to commit."""

    def run(self) -> int:
        """A number larger than any before it, permanent at once; ask before anything is changed."""

    def clients(self) -> list[KeptClient]:
        """Every client kept, by name."""

    def keep_client(self, name: str, window: int, when_slow: str) -> None:
        """Keep a client, or change how it wants its deliveries; its subscriptions stay."""

    def forget_client(self, name: str) -> None:
        """Forget a client with its subscriptions and everything owed to it."""

    def keep_subscription(self, client: str, id: int, subscription_json: str) -> None:
        """Keep a subscription of a client that is kept, in place of any under the same number."""

    def forget_subscription(self, client: str, id: int) -> None: ...

    def keep(self, envelope_bytes: bytes) -> int:
        """Keep a publication for those it will be owed to; its key."""

    def owe(self, peer: Peer, row: int, key: int, note: bytes = b"") -> None:
        """Owe a kept publication, under a row above all that the peer is owed."""

    def owed(self, peer: Peer, after: int, count: int) -> list[Owed]:
        """The first `count` publications the peer is owed under rows above `after`, in order."""

    def owed_count(self, peer: Peer) -> int:
        """How many publications the peer is owed; cheap."""

    def debtors(self) -> list[Peer]:
        """Every peer that is owed something, in order."""

    def settle(self, peer: Peer, row: int) -> None:
        """The peer is owed nothing any more under rows up to this one."""

    def settle_one(self, peer: Peer, row: int) -> None:
        """The peer is owed nothing any more under this row."""

    def forget_owed(self, peer: Peer) -> None:
        """The peer is owed nothing any more."""

    def mark(self, name: str, value: bytes) -> None:
        """Remember a small fact, in place of any of the same name."""

    def marked(self, name: str) -> bytes | None: ...

    def unmark(self, name: str) -> None: ...

    def marks(self, prefix: str) -> dict[str, bytes]:
        """The facts whose names begin so, by name."""

    def saw(self, id: bytes, limit: int) -> None:
        """Remember an id, and of all only the newest `limit`; seeing one again changes nothing."""

    def has_seen(self, id: bytes) -> bool: ...

    def size(self) -> int:
        """About how many bytes are kept."""

    def commit(self) -> None:
        """Make everything permanent; StoreError if it cannot be, and then it is as if undone."""

    def rollback(self) -> None:
        """Forget everything since the last commit."""

    def close(self) -> None:
        """Forget everything since the last commit and let go of the file."""


def check_number(number: int) -> None:
    if not -INTEGER_MAX - 1 <= number <= INTEGER_MAX:
        raise InvalidInputError(f"{number} does not fit in 64 bits")


def clamped(number: int) -> int:
    return min(max(number, -INTEGER_MAX - 1), INTEGER_MAX)


def check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidInputError(f"{text!r} is not valid Unicode text") from None


def check_row(row: int, last: int | None, peer: Peer) -> None:
    check_number(row)
    if last is not None and row <= last:
        raise InvalidInputError(f"row {row} of {peer.kind} {peer.name} is not above row {last}")


def check_limit(limit: int) -> None:
    if limit < 1:
        raise InvalidInputError(f"at least one id must be remembered, not {limit}")


class Rows:
    """What one peer is owed: rows in order, and for each its key and note."""

    __slots__ = ("entries", "rows")

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.entries: dict[int, tuple[int, bytes]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def last(self) -> int | None:
        return self.rows[-1] if self.rows else None

    def add(self, row: int, key: int, note: bytes) -> None:
        self.rows.append(row)
        self.entries[row] = key, note

    def remove(self, first: int | None, last: int) -> list[int]:
        """Take out the rows from `first` (or the beginning) to `last`; their keys."""
        start = 0 if first is None else bisect_left(self.rows, first)
        end = bisect_right(self.rows, last)
        keys = [self.entries.pop(row)[0] for row in self.rows[start:end]]
        del self.rows[start:end]
        return keys

    def after(self, row: int, count: int) -> list[tuple[int, int, bytes]]:
        start = bisect_right(self.rows, row)
        return [(row, *self.entries[row]) for row in self.rows[start : start + max(count, 0)]]


class _Contents:
    """Everything a MemoryStore holds; its methods are those of `Store`."""

    def __init__(self) -> None:
        self.kept: dict[str, KeptClient] = {}
        self.facts: dict[str, bytes] = {}
        self.seen: OrderedDict[bytes, None] = OrderedDict()
        self.bodies: dict[int, bytes] = {}
        self.claims: Counter[int] = Counter()
        self.ledger: dict[Peer, Rows] = {}
        self.key = 0
        self.loose: set[int] = set()

    def keep_client(self, name: str, window: int, when_slow: str) -> None:
        check_number(window)
        old = self.kept.get(name)
        subscriptions = {} if old is None else old.subscriptions
        self.kept[name] = KeptClient(name, window, when_slow, subscriptions)

    def forget_client(self, name: str) -> None:
        self.kept.pop(name, None)
        self.forget_owed(Peer("client", name))

    def keep_subscription(self, client: str, id: int, subscription_json: str) -> None:
        check_number(id)
        if client not in self.kept:
            raise no_client(client)
        self.kept[client].subscriptions[id] = subscription_json

    def forget_subscription(self, client: str, id: int) -> None:
        check_number(id)
        if client in self.kept:
            self.kept[client].subscriptions.pop(id, None)

    def keep(self, envelope_bytes: bytes) -> int:
        self.key += 1
        self.bodies[self.key] = envelope_bytes
        self.loose.add(self.key)
        return self.key

    def owe(self, peer: Peer, row: int, key: int, note: bytes) -> None:
        rows = self.ledger.get(peer) or Rows()
        check_row(row, rows.last, peer)
        if key not in self.bodies:
            raise no_publication(key)
        self.ledger[peer] = rows
        rows.add(row, key, note)
        self.claims[key] += 1

    def remove(self, peer: Peer, first: int | None, last: int) -> None:
        rows = self.ledger.get(peer)
        if rows is None:
            return
        keys = rows.remove(first, last)
        self.claims.subtract(keys)
        self.loose.update(keys)
        if not rows:
            del self.ledger[peer]

    def forget_owed(self, peer: Peer) -> None:
        self.remove(peer, None, INTEGER_MAX)

    def saw(self, id: bytes, limit: int) -> None:
        check_limit(limit)
        self.seen.setdefault(id)
        while len(self.seen) > limit:
            self.seen.popitem(last=False)

    def mark(self, name: str, value: bytes) -> None:
        check_text(name)
        self.facts[name] = value

    def unmark(self, name: str) -> None:
        self.facts.pop(name, None)

    def sweep(self) -> None:
        """Remove the bodies that nobody is owed."""
        for key in self.loose:
            if not self.claims[key]:
                self.bodies.pop(key, None)
                del self.claims[key]
        self.loose.clear()


def no_client(name: str) -> InvalidInputError:
    return InvalidInputError(f"no client {name!r} is kept; keep the client first")


def no_publication(key: int) -> InvalidInputError:
    return InvalidInputError(f"no publication is kept under key {key}")


class MemoryStore:
    """A store for brokers without a disk and for simulated crashes: as if it were a file.

    `rollback` is a crash, and afterwards the same object is what a restarted broker finds.
    """

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self._run = 0
        self._now = _Contents()
        self._safe = _Contents()
        self._journal: list[tuple[str, tuple[Any, ...]]] = []

    @property
    def is_dirty(self) -> bool:
        return bool(self._journal)

    def run(self) -> int:
        assert not self.is_dirty, "a run begins before anything is changed"
        self._run += 1
        return self._run

    def clients(self) -> list[KeptClient]:
        kept = self._now.kept.values()
        return [
            KeptClient(one.name, one.window, one.when_slow, dict(sorted(one.subscriptions.items())))
            for one in sorted(kept, key=lambda client: client.name)
        ]

    def keep_client(self, name: str, window: int, when_slow: str) -> None:
        self._do("keep_client", name, window, when_slow)

    def forget_client(self, name: str) -> None:
        self._do("forget_client", name)

    def keep_subscription(self, client: str, id: int, subscription_json: str) -> None:
        self._do("keep_subscription", client, id, subscription_json)

    def forget_subscription(self, client: str, id: int) -> None:
        self._do("forget_subscription", client, id)

    def keep(self, envelope_bytes: bytes) -> int:
        self._do("keep", envelope_bytes)
        return self._now.key

    def owe(self, peer: Peer, row: int, key: int, note: bytes = b"") -> None:
        self._do("owe", peer, row, key, note)

    def owed(self, peer: Peer, after: int, count: int) -> list[Owed]:
        rows = self._now.ledger.get(peer) or Rows()
        bodies = self._now.bodies
        return [Owed(row, key, note, bodies[key]) for row, key, note in rows.after(after, count)]

    def owed_count(self, peer: Peer) -> int:
        return len(self._now.ledger.get(peer, ()))

    def debtors(self) -> list[Peer]:
        return sorted(self._now.ledger)

    def settle(self, peer: Peer, row: int) -> None:
        self._do("remove", peer, None, row)

    def settle_one(self, peer: Peer, row: int) -> None:
        self._do("remove", peer, row, row)

    def forget_owed(self, peer: Peer) -> None:
        self._do("forget_owed", peer)

    def mark(self, name: str, value: bytes) -> None:
        self._do("mark", name, value)

    def marked(self, name: str) -> bytes | None:
        return self._now.facts.get(name)

    def unmark(self, name: str) -> None:
        self._do("unmark", name)

    def marks(self, prefix: str) -> dict[str, bytes]:
        facts = sorted(self._now.facts.items())
        return {name: value for name, value in facts if name.startswith(prefix)}

    def saw(self, id: bytes, limit: int) -> None:
        self._do("saw", id, limit)

    def has_seen(self, id: bytes) -> bool:
        return id in self._now.seen

    def size(self) -> int:
        now = self._now
        texts = [text for kept in now.kept.values() for text in kept.subscriptions.values()]
        blobs: list[Iterable[Any]] = [now.bodies.values(), now.facts.values(), now.seen, texts]
        return sum(len(blob) for several in blobs for blob in several)

    def commit(self) -> None:
        for name, arguments in self._journal:
            getattr(self._safe, name)(*arguments)
        self._journal.clear()
        self._safe.sweep()
        self._now.sweep()

    def rollback(self) -> None:
        if self._journal:
            self._journal.clear()
            self._now = deepcopy(self._safe)

    def close(self) -> None:
        self.rollback()

    def _do(self, name: str, *arguments: Any) -> None:
        # Refused arguments raise here, before they get into the journal.
        getattr(self._now, name)(*arguments)
        self._journal.append((name, arguments))
