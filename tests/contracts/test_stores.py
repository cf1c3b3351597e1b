"""What every store does: it behaves like a plain model, through commits, crashes and reopening."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kbn.broker import sqlite_store as module
from kbn.broker.messages import Peer
from kbn.broker.sqlite_store import SqliteStore
from kbn.broker.store import KeptClient, MemoryStore, Store, StoredUnacked
from kbn.errors import InvalidInputError

ANN, BOB = Peer("client", "ann"), Peer("client", "bob")
HUB = Peer("broker", "ann")  # a broker may have a client's name
PEERS = [ANN, BOB, HUB]
EVERYTHING = 10**6

peers = st.sampled_from(PEERS)
names = st.sampled_from(["ann", "bob", "éva"])
ids = st.sampled_from([b"", b"1", b"2", b"3", b"4", b"\xff"])
marks = st.sampled_from(["", "a", "a/b", "a/c", "ab", "b", "a\U0010ffff", "a\0b"])
small = st.integers(0, 12)


class Model:
    """What a store means, with no thought of cost."""

    def __init__(self) -> None:
        self.clients: dict[str, tuple[int, str, dict[int, str]]] = {}
        self.unacked: dict[Peer, list[tuple[int, int, bytes]]] = {}
        self.bodies: dict[int, bytes] = {}
        self.marks: dict[str, bytes] = {}
        self.seen: list[bytes] = []

    def ack(self, peer: Peer, sequence: int) -> None:
        self.unacked[peer] = [each for each in self.unacked.get(peer, []) if each[0] > sequence]

    def sweep(self) -> None:
        used = {key for each in self.unacked.values() for _, key, _ in each}
        self.bodies = {key: body for key, body in self.bodies.items() if key in used}


def kept_bodies(store: Store) -> list[int]:
    """The keys of the bodies that a store holds after a commit."""
    if isinstance(store, MemoryStore):
        assert store._now.bodies == store._safe.bodies
        return sorted(store._safe.bodies)
    assert isinstance(store, SqliteStore)
    assert not store._bodies
    return [key for (key,) in store._rows.query("SELECT key FROM body ORDER BY key")]


class StoreAgreesWithModel(RuleBasedStateMachine):
    """Every rule does the same to a store and to a model; the invariants compare them."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.safe = Model(), Model()
        self.store: Store = self.opened()
        self.changed = False

    def opened(self) -> Store:
        raise NotImplementedError

    def reopened(self) -> Store:
        raise NotImplementedError

    @rule(name=names, window=st.integers(0, 3), when_slow=st.sampled_from(["drop", "block"]))
    def keep_client(self, name: str, window: int, when_slow: str) -> None:
        self.store.keep_client(name, window, when_slow)
        old = self.now.clients.get(name, (0, "", {}))
        self.now.clients[name] = window, when_slow, old[2]
        self.changed = True

    @rule(name=names)
    def forget_client(self, name: str) -> None:
        self.store.forget_client(name)
        self.now.clients.pop(name, None)
        self.now.unacked.pop(Peer("client", name), None)

    @rule(name=names, id=st.integers(0, 2), text=st.sampled_from(["{}", "[]"]))
    def keep_subscription(self, name: str, id: int, text: str) -> None:
        if name not in self.now.clients:
            with pytest.raises(InvalidInputError, match=name):
                self.store.keep_subscription(name, id, text)
            return
        self.store.keep_subscription(name, id, text)
        self.now.clients[name][2][id] = text
        self.changed = True

    @rule(name=names, id=st.integers(0, 2))
    def forget_subscription(self, name: str, id: int) -> None:
        self.store.forget_subscription(name, id)
        if name in self.now.clients:
            self.now.clients[name][2].pop(id, None)

    @rule(body=st.binary(max_size=4), to=st.lists(st.tuples(peers, small), max_size=4))
    def publish(self, body: bytes, to: list[tuple[Peer, int]]) -> None:
        key = self.store.keep(body)
        assert key not in self.now.bodies
        self.now.bodies[key] = body
        for peer, sequence in to:
            self.push(peer, sequence, key, body)
        self.changed = True

    @precondition(lambda self: self.now.bodies)
    @rule(data=st.data(), peer=peers, sequence=small)
    def push_what_is_kept(self, data: st.DataObject, peer: Peer, sequence: int) -> None:
        self.push(peer, sequence, data.draw(st.sampled_from(sorted(self.now.bodies))), b"again")

    def push(self, peer: Peer, sequence: int, key: int, note: bytes) -> None:
        waiting = self.now.unacked.setdefault(peer, [])
        if waiting and sequence <= waiting[-1][0]:
            with pytest.raises(InvalidInputError, match="not above"):
                self.store.push(peer, sequence, key, note)
            return
        self.store.push(peer, sequence, key, note)
        insort(waiting, (sequence, key, note))
        self.changed = True

    @rule(peer=peers, key=st.integers(500, 600) | st.just(2**64))
    def push_what_nobody_kept(self, peer: Peer, key: int) -> None:
        with pytest.raises(InvalidInputError):
            self.store.push(peer, 10**6, key)

    @rule(peer=peers, sequence=small)
    def ack(self, peer: Peer, sequence: int) -> None:
        self.store.ack(peer, sequence)
        self.now.ack(peer, sequence)

    @rule(peer=peers, sequence=small)
    def take_out(self, peer: Peer, sequence: int) -> None:
        self.store.take_out(peer, sequence)
        waiting = self.now.unacked.get(peer, [])
        waiting[:] = [each for each in waiting if each[0] != sequence]

    @rule(peer=peers)
    def forget_unacked(self, peer: Peer) -> None:
        self.store.forget_unacked(peer)
        self.now.ack(peer, EVERYTHING)

    @rule(name=marks, value=st.binary(max_size=3))
    def mark(self, name: str, value: bytes) -> None:
        self.store.mark(name, value)
        self.now.marks[name] = value
        self.changed = True

    @rule(name=marks)
    def unmark(self, name: str) -> None:
        self.store.unmark(name)
        self.now.marks.pop(name, None)

    @rule(id=ids, limit=st.integers(1, 4))
    def saw(self, id: bytes, limit: int) -> None:
        self.store.saw(id, limit)
        if id not in self.now.seen:
            self.now.seen.append(id)
            self.changed = True
        del self.now.seen[:-limit]

    @rule(peer=peers, after=st.integers(-1, 12), count=st.integers(-1, 3))
    def look_at_what_is_unacked(self, peer: Peer, after: int, count: int) -> None:
        wanted = [each for each in self.expected(peer) if each.sequence > after]
        assert self.store.unacked(peer, after, count) == wanted[: max(count, 0)]

    @rule(peer=peers)
    def count_what_is_unacked(self, peer: Peer) -> None:
        assert self.store.unacked_count(peer) == len(self.now.unacked.get(peer, []))

    @rule(peer=peers, count=st.integers(-1, 3), bytes_max=st.integers(0, 12))
    def count_the_bytes_of_what_is_unacked(self, peer: Peer, count: int, bytes_max: int) -> None:
        sizes = [(e.sequence, len(e.note) + len(e.envelope)) for e in self.expected(peer)]
        assert self.store.unacked_bytes(peer) == sum(size for _, size in sizes)
        assert self.store.oldest(peer, count) == sizes[: max(count, 0)]
        found = self.store.unacked(peer, -1, EVERYTHING, bytes_max)
        assert found == self.expected(peer)[: len(found)]
        before_last = sum(size for _, size in sizes[: max(0, len(found) - 1)])
        assert len(found) == len(sizes) or before_last + sizes[len(found) - 1][1] >= bytes_max
        assert len(found) <= 1 or before_last < bytes_max

    @rule(prefix=marks)
    def look_at_marks(self, prefix: str) -> None:
        wanted = {n: v for n, v in sorted(self.now.marks.items()) if n.startswith(prefix)}
        assert list(self.store.marks(prefix).items()) == list(wanted.items())
        assert self.store.marked(prefix) == self.now.marks.get(prefix)

    @rule(id=ids)
    def look_at_ids(self, id: bytes) -> None:
        assert self.store.has_seen(id) is (id in self.now.seen)

    @rule()
    def look_at_everything(self) -> None:
        clients = [KeptClient(name, *kept) for name, kept in sorted(self.now.clients.items())]
        assert self.store.clients() == clients
        assert [list(c.subscriptions) for c in self.store.clients()] == [
            sorted(c.subscriptions) for c in clients
        ]
        for peer in PEERS:
            assert self.store.unacked(peer, -1, EVERYTHING) == self.expected(peer)

    @rule()
    def commit(self) -> None:
        self.store.commit()
        self.now.sweep()
        self.safe = deepcopy(self.now)
        self.changed = False
        assert not self.store.is_dirty
        assert kept_bodies(self.store) == sorted(self.now.bodies)

    @rule()
    def crash(self) -> None:
        self.store.rollback()
        self.go_back()

    @rule()
    def reopen(self) -> None:
        self.store = self.reopened()
        self.go_back()

    def go_back(self) -> None:
        self.now = deepcopy(self.safe)
        self.changed = False
        assert not self.store.is_dirty

    def expected(self, peer: Peer) -> list[StoredUnacked]:
        waiting = self.now.unacked.get(peer, [])
        return [
            StoredUnacked(sequence, key, note, self.now.bodies[key])
            for sequence, key, note in waiting
        ]

    @invariant()
    def what_changed_is_to_be_committed(self) -> None:
        assert self.store.is_dirty or not self.changed


class MemoryStoreAgreesWithModel(StoreAgreesWithModel):
    def opened(self) -> Store:
        return MemoryStore()

    def reopened(self) -> Store:
        self.store.close()
        return self.store


class Unsynchronised(SqliteStore):
    """Waits for no disk: these crashes are only simulated, and there are thousands."""

    def _set_sync(self, sync: str) -> None:
        super()._set_sync("off")


class SqliteStoreAgreesWithModel(StoreAgreesWithModel):
    def opened(self) -> Store:
        self.folder = TemporaryDirectory()
        return Unsynchronised(Path(self.folder.name) / "broker.store")

    def reopened(self) -> Store:
        self.store.close()
        return Unsynchronised(Path(self.folder.name) / "broker.store")

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()


class EagerSqliteStoreAgreesWithModel(SqliteStoreAgreesWithModel):
    """Collects next to nothing, so that most is in the file before it is committed."""

    def __init__(self) -> None:
        self.usual = module._COLLECTED_BYTES_MAX
        module._COLLECTED_BYTES_MAX = 300
        super().__init__()

    def teardown(self) -> None:
        module._COLLECTED_BYTES_MAX = self.usual
        super().teardown()


TestMemoryStore = MemoryStoreAgreesWithModel.TestCase
TestSqliteStore = SqliteStoreAgreesWithModel.TestCase
TestEagerSqliteStore = EagerSqliteStoreAgreesWithModel.TestCase
TestMemoryStore.settings = settings(stateful_step_count=40)
TestSqliteStore.settings = settings(stateful_step_count=40)
TestEagerSqliteStore.settings = settings(stateful_step_count=40)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = (
        MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "broker.store")
    )
    yield made
    made.close()


def test_many_peers_share_one_body_and_the_last_to_acknowledge_removes_it(store: Store) -> None:
    body = bytes(100_000)
    key = store.keep(body)
    for peer in PEERS:
        store.push(peer, 1, key, peer.name.encode())
    store.commit()
    assert kept_bodies(store) == [key]
    store.ack(ANN, 1)
    store.forget_unacked(BOB)
    store.commit()
    assert store.unacked(HUB, 0, 9) == [StoredUnacked(1, key, b"ann", body)]
    store.ack(HUB, 7)
    store.commit()
    assert [store.unacked_count(peer) for peer in PEERS] == [0, 0, 0]
    assert kept_bodies(store) == []


def test_a_body_may_pass_from_one_peer_to_another_before_the_commit(store: Store) -> None:
    key = store.keep(b"tea")
    store.push(ANN, 1, key)
    store.commit()
    store.ack(ANN, 1)
    store.push(BOB, 1, key)
    store.commit()
    assert store.unacked(BOB, 0, 9) == [StoredUnacked(1, key, b"", b"tea")]
    store.ack(BOB, 1)
    store.commit()
    with pytest.raises(InvalidInputError, match=str(key)):
        store.push(ANN, 2, key)


def test_a_sequence_must_be_above_what_is_unacked_not_above_what_was(store: Store) -> None:
    store.push(ANN, 5, store.keep(b"tea"))
    store.commit()
    with pytest.raises(InvalidInputError, match="sequence 3 of client ann is not above sequence 5"):
        store.push(ANN, 3, store.keep(b"pot"))
    store.ack(ANN, 9)
    store.push(ANN, 3, store.keep(b"pot"))
    store.commit()
    assert [(each.sequence, each.envelope) for each in store.unacked(ANN, 0, 9)] == [(3, b"pot")]


def test_forgetting_a_client_forgets_its_queue_and_not_that_of_a_broker_of_that_name(
    store: Store,
) -> None:
    key = store.keep(b"tea")
    store.push(ANN, 1, key)
    store.push(HUB, 1, key)
    store.keep_client("ann", 5, "drop")
    store.forget_client("ann")
    assert [store.unacked_count(peer) for peer in PEERS] == [0, 0, 1]


def test_numbers_and_texts_from_outside_cannot_break_a_store(store: Store) -> None:
    key = store.keep(b"tea")
    store.push(ANN, 1, key)
    store.commit()
    bad: list[Callable[[], Any]] = [
        lambda: store.push(ANN, 2**63, key),
        lambda: store.keep_client("ann", 2**64, "drop"),
        lambda: store.keep_subscription("ann", 2**64, "{}"),
        lambda: store.forget_subscription("ann", 2**64),
        lambda: store.saw(b"1", 0),
        lambda: store.mark("\ud800", b""),
    ]
    for attempt in bad:
        with pytest.raises(InvalidInputError):
            attempt()
    store.ack(ANN, -(2**64))
    assert store.unacked(ANN, 2**64, 2**64) == []
    assert store.unacked_count(ANN) == 1
    store.ack(ANN, 2**64)
    assert store.unacked_count(ANN) == 0


def test_the_newest_ids_are_remembered_and_the_oldest_forgotten(store: Store) -> None:
    for number in range(100):
        store.saw(str(number).encode(), 10)
        if number % 7 == 0:
            store.commit()
    assert [n for n in range(100) if store.has_seen(str(n).encode())] == list(range(90, 100))
