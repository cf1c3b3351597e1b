"""Store: what a broker must not lose, in memory or in a file.

A store keeps the durable clients and their subscriptions, the publications that some peer has not
acknowledged, small facts (*marks*) and the newest ids seen. A *body* is one publication in bytes;
each peer it goes to has a *sequence* that points to it by its *key*, so that many peers share one
body.

Everything is provisional until `commit`, which makes all of it permanent or nothing; `rollback`,
like a crash, goes back to the last commit. Reading sees what was not committed yet. A body that
no peer still needs is removed at the commit, not before: one peer may acknowledge it before it is
queued for another. Times never come from here.

`MemoryStore` does every change on one copy and repeats it on another when it is committed.
`SqliteStore` collects changes in memory and writes them together: what is queued and acknowledged
between two commits never reaches the file. It reads from the file, so memory holds only the changes
since the last commit, up to a bound, and per peer a count and the last sequence.
"""

from __future__ import annotations

from bisect import bisect_right
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


class NotAStoreError(StoreError, InvalidInputError):
    """What was named is no store: nothing, a folder, another file."""


@dataclass(frozen=True, slots=True)
class KeptClient:
    """A durable client, and its subscriptions by the numbers it gave them."""

    name: str
    window: int
    when_slow: str
    subscriptions: dict[int, str] = field(default_factory=dict)


class StoredUnacked(NamedTuple):
    """A publication that a peer has not acknowledged; `note` is what the broker wrote beside it."""

    sequence: int
    key: int
    note: bytes
    envelope: bytes


class Store(Protocol):
    """What a broker asks of a store; forgetting what is not there does nothing.

    Numbers have up to 64 bits with a sign; one that has more is an InvalidInputError.
    """

    @property
    def is_dirty(self) -> bool:
        """Whether there is something to commit."""

    def clients(self) -> list[KeptClient]:
        """Every client kept, by name."""

    def keep_client(self, name: str, window: int, when_slow: str) -> None:
        """Keep a client, or change how it wants its deliveries; its subscriptions stay."""

    def forget_client(self, name: str) -> None:
        """Forget a client, its subscriptions and its unacked publications."""

    def keep_subscription(self, client: str, id: int, subscription_json: str) -> None:
        """Keep a subscription of a client that is kept, in place of any under the same number."""

    def forget_subscription(self, client: str, id: int) -> None: ...

    def keep(self, envelope_bytes: bytes) -> int:
        """Keep a publication for the peers it goes to; its key."""

    def push(self, peer: Peer, sequence: int, key: int, note: bytes = b"") -> None:
        """Queue a kept publication for a peer, with a sequence above its other sequences."""

    @property
    def used_bytes(self) -> int:
        """About how much room everything kept takes; cheap enough for now and then."""

    def unacked(
        self, peer: Peer, after: int, count: int, bytes_max: int = INTEGER_MAX
    ) -> list[StoredUnacked]:
        """The first `count` unacked publications of the peer with sequences above `after`.

        No further than the first one with which there are `bytes_max` bytes of them.
        """

    def unacked_count(self, peer: Peer) -> int:
        """How many publications the peer has not acknowledged; cheap."""

    def unacked_bytes(self, peer: Peer) -> int:
        """How many bytes they have in all, with their notes; cheap."""

    def oldest(self, peer: Peer, count: int) -> list[tuple[int, int]]:
        """The sequences of the peer's first `count` unacked publications, and the bytes of each."""

    def take_out(self, peer: Peer, sequence: int) -> None:
        """Remove one publication from those that the peer has not acknowledged."""

    def ack(self, peer: Peer, sequence: int) -> None:
        """The peer has everything up to this sequence."""

    def forget_unacked(self, peer: Peer) -> None:
        """The peer needs nothing any more."""

    def mark(self, name: str, value: bytes) -> None:
        """Remember a small fact, in place of any of the same name."""

    def marked(self, name: str) -> bytes | None: ...

    def unmark(self, name: str) -> None: ...

    def marks(self, prefix: str) -> dict[str, bytes]:
        """The facts whose names begin so, by name."""

    def saw(self, id: bytes, limit: int) -> None:
        """Remember an id, and of all only the newest `limit`; seeing one again changes nothing."""

    def has_seen(self, id: bytes) -> bool: ...

    def commit(self) -> None:
        """Make everything permanent; StoreError if it cannot be, and then it is as if undone.

        That is also so when something has failed since the last commit: what was done before that
        is undone already, and nobody may be told otherwise.
        """

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


def check_sequence(sequence: int, last: int | None, peer: Peer) -> None:
    check_number(sequence)
    if last is not None and sequence <= last:
        raise InvalidInputError(
            f"sequence {sequence} of {peer.kind} {peer.name} is not above sequence {last}"
        )


def up_to_bytes(bytes_max: int, found: Iterable[StoredUnacked]) -> list[StoredUnacked]:
    """Those found, no further than the first with which there are so many bytes."""
    taken: list[StoredUnacked] = []
    size = 0
    for each in found:
        taken.append(each)
        size += len(each.envelope) + len(each.note)
        if size >= bytes_max:
            break
    return taken


def check_limit(limit: int) -> None:
    if limit < 1:
        raise InvalidInputError(f"at least one id must be remembered, not {limit}")


class Sequences:
    """What one peer has not acknowledged: sequences in order, with the key and note of each.

    `size` is the bytes of all the publications and notes.
    """

    __slots__ = ("_entries", "numbers", "size")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.size = 0
        self._entries: dict[int, tuple[int, bytes, int]] = {}

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def last(self) -> int | None:
        return self.numbers[-1] if self.numbers else None

    def add(self, sequence: int, key: int, note: bytes, size: int) -> None:
        """Add one; `size` is the bytes of its publication."""
        self.numbers.append(sequence)
        self._entries[sequence] = key, note, size + len(note)
        self.size += size + len(note)

    def remove_to(self, last: int) -> list[int]:
        """Take out the sequences up to `last`; their keys."""
        end = bisect_right(self.numbers, last)
        keys = [self._removed(sequence) for sequence in self.numbers[:end]]
        del self.numbers[:end]
        return keys

    def remove(self, sequence: int) -> int | None:
        """Take out one; its key, None when there is none."""
        if sequence not in self._entries:
            return None
        del self.numbers[bisect_right(self.numbers, sequence) - 1]
        return self._removed(sequence)

    def after(self, sequence: int, count: int) -> list[tuple[int, int, bytes]]:
        start = bisect_right(self.numbers, sequence)
        found = self.numbers[start : start + max(count, 0)]
        return [(sequence, *self._entries[sequence][:2]) for sequence in found]

    def sizes(self, count: int) -> list[tuple[int, int]]:
        """The first sequences, with the bytes of each."""
        return [(each, self._entries[each][2]) for each in self.numbers[: max(count, 0)]]

    def _removed(self, sequence: int) -> int:
        key, _, size = self._entries.pop(sequence)
        self.size -= size
        return key


class _Contents:
    """Everything a MemoryStore holds; its methods are those of `Store`."""

    def __init__(self) -> None:
        self.kept: dict[str, KeptClient] = {}
        self.facts: dict[str, bytes] = {}
        self.seen: OrderedDict[bytes, None] = OrderedDict()
        self.bodies: dict[int, bytes] = {}
        self.body_bytes = 0
        self.claims: Counter[int] = Counter()
        self.unacked: dict[Peer, Sequences] = {}
        self.key = 0
        self.loose: set[int] = set()

    def keep_client(self, name: str, window: int, when_slow: str) -> None:
        check_number(window)
        old = self.kept.get(name)
        subscriptions = {} if old is None else old.subscriptions
        self.kept[name] = KeptClient(name, window, when_slow, subscriptions)

    def forget_client(self, name: str) -> None:
        self.kept.pop(name, None)
        self.forget_unacked(Peer("client", name))

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
        self.body_bytes += len(envelope_bytes)
        self.loose.add(self.key)
        return self.key

    def push(self, peer: Peer, sequence: int, key: int, note: bytes) -> None:
        waiting = self.unacked.get(peer) or Sequences()
        check_sequence(sequence, waiting.last, peer)
        if key not in self.bodies:
            raise no_publication(key)
        self.unacked[peer] = waiting
        waiting.add(sequence, key, note, len(self.bodies[key]))
        self.claims[key] += 1

    def ack(self, peer: Peer, sequence: int) -> None:
        waiting = self.unacked.get(peer)
        if waiting is None:
            return
        keys = waiting.remove_to(sequence)
        self.claims.subtract(keys)
        self.loose.update(keys)
        if not waiting:
            del self.unacked[peer]

    def take_out(self, peer: Peer, sequence: int) -> None:
        waiting = self.unacked.get(peer)
        key = None if waiting is None else waiting.remove(sequence)
        if key is None:
            return
        self.claims[key] -= 1
        self.loose.add(key)
        if not waiting:
            del self.unacked[peer]

    def forget_unacked(self, peer: Peer) -> None:
        self.ack(peer, INTEGER_MAX)

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
        """Remove the bodies that no peer needs."""
        for key in self.loose:
            if not self.claims[key]:
                self.body_bytes -= len(self.bodies.pop(key, b""))
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

    def __init__(self) -> None:
        self._now = _Contents()
        self._safe = _Contents()
        self._journal: list[tuple[str, tuple[Any, ...]]] = []

    @property
    def is_dirty(self) -> bool:
        return bool(self._journal)

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

    def push(self, peer: Peer, sequence: int, key: int, note: bytes = b"") -> None:
        self._do("push", peer, sequence, key, note)

    @property
    def used_bytes(self) -> int:
        return self._now.body_bytes

    def unacked(
        self, peer: Peer, after: int, count: int, bytes_max: int = INTEGER_MAX
    ) -> list[StoredUnacked]:
        waiting = self._now.unacked.get(peer) or Sequences()
        bodies = self._now.bodies
        return up_to_bytes(
            bytes_max,
            (
                StoredUnacked(sequence, key, note, bodies[key])
                for sequence, key, note in waiting.after(after, count)
            ),
        )

    def unacked_count(self, peer: Peer) -> int:
        return len(self._now.unacked.get(peer, ()))

    def unacked_bytes(self, peer: Peer) -> int:
        waiting = self._now.unacked.get(peer)
        return 0 if waiting is None else waiting.size

    def oldest(self, peer: Peer, count: int) -> list[tuple[int, int]]:
        waiting = self._now.unacked.get(peer)
        return [] if waiting is None else waiting.sizes(count)

    def take_out(self, peer: Peer, sequence: int) -> None:
        self._do("take_out", peer, sequence)

    def ack(self, peer: Peer, sequence: int) -> None:
        self._do("ack", peer, sequence)

    def forget_unacked(self, peer: Peer) -> None:
        self._do("forget_unacked", peer)

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
