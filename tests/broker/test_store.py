"""Stores: both behave like a plain model, through commits, crashes and reopening."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from bisect import insort
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kbn.broker import sqlite_store as module
from kbn.broker.messages import Peer
from kbn.broker.sqlite_store import SqliteStore
from kbn.broker.store import KeptClient, MemoryStore, Owed, Store, StoreError
from kbn.errors import InvalidInputError, KbnError

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
        self.owed: dict[Peer, list[tuple[int, int, bytes]]] = {}
        self.bodies: dict[int, bytes] = {}
        self.marks: dict[str, bytes] = {}
        self.seen: list[bytes] = []

    def settle(self, peer: Peer, is_settled: Callable[[int], bool]) -> None:
        self.owed[peer] = [each for each in self.owed.get(peer, []) if not is_settled(each[0])]

    def sweep(self) -> None:
        used = {key for rows in self.owed.values() for _, key, _ in rows}
        self.bodies = {key: body for key, body in self.bodies.items() if key in used}


class StoreAgreesWithModel(RuleBasedStateMachine):
    """Every rule does the same to a store and to a model; the invariants compare them."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.safe = Model(), Model()
        self.store: Store = self.opened()
        self.run = 0
        self.changed = False

    def opened(self) -> Store:
        raise NotImplementedError

    def reopened(self) -> Store:
        raise NotImplementedError

    @initialize()
    def start(self) -> None:
        number = self.store.run()
        assert number > self.run
        self.run = number

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
        self.now.owed.pop(Peer("client", name), None)

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
        for peer, row in to:
            self.owe(peer, row, key, body)
        self.changed = True

    @precondition(lambda self: self.now.bodies)
    @rule(data=st.data(), peer=peers, row=small)
    def owe_what_is_kept(self, data: st.DataObject, peer: Peer, row: int) -> None:
        self.owe(peer, row, data.draw(st.sampled_from(sorted(self.now.bodies))), b"again")

    def owe(self, peer: Peer, row: int, key: int, note: bytes) -> None:
        rows = self.now.owed.setdefault(peer, [])
        if rows and row <= rows[-1][0]:
            with pytest.raises(InvalidInputError, match="not above"):
                self.store.owe(peer, row, key, note)
            return
        self.store.owe(peer, row, key, note)
        insort(rows, (row, key, note))
        self.changed = True

    @rule(peer=peers, key=st.integers(500, 600) | st.just(2**64))
    def owe_what_nobody_kept(self, peer: Peer, key: int) -> None:
        with pytest.raises(InvalidInputError):
            self.store.owe(peer, 10**6, key)

    @rule(peer=peers, row=small)
    def settle(self, peer: Peer, row: int) -> None:
        self.store.settle(peer, row)
        self.now.settle(peer, lambda each: each <= row)

    @rule(peer=peers, row=small)
    def settle_one(self, peer: Peer, row: int) -> None:
        self.store.settle_one(peer, row)
        self.now.settle(peer, lambda each: each == row)

    @rule(peer=peers)
    def forget_owed(self, peer: Peer) -> None:
        self.store.forget_owed(peer)
        self.now.settle(peer, lambda each: True)

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
    def look_at_what_is_owed(self, peer: Peer, after: int, count: int) -> None:
        wanted = [each for each in self.expected(peer) if each.row > after]
        assert self.store.owed(peer, after, count) == wanted[: max(count, 0)]

    @rule(peer=peers)
    def count_what_is_owed(self, peer: Peer) -> None:
        assert self.store.owed_count(peer) == len(self.now.owed.get(peer, []))

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
        assert self.store.debtors() == sorted(peer for peer, rows in self.now.owed.items() if rows)
        for peer in PEERS:
            assert self.store.owed(peer, -1, EVERYTHING) == self.expected(peer)
        assert self.store.size() >= sum(map(len, self.now.bodies.values()))

    @rule()
    def commit(self) -> None:
        self.store.commit()
        self.now.sweep()
        self.safe = deepcopy(self.now)
        self.changed = False
        assert not self.store.is_dirty
        assert self.kept_bodies() == sorted(self.now.bodies)

    @rule()
    def crash(self) -> None:
        self.store.rollback()
        self.go_back()
        self.start()

    @rule()
    def reopen(self) -> None:
        identity = self.store.identity
        self.store = self.reopened()
        assert self.store.identity == identity
        self.go_back()
        self.start()

    def go_back(self) -> None:
        self.now = deepcopy(self.safe)
        self.changed = False
        assert not self.store.is_dirty

    def expected(self, peer: Peer) -> list[Owed]:
        rows = self.now.owed.get(peer, [])
        return [Owed(row, key, note, self.now.bodies[key]) for row, key, note in rows]

    def kept_bodies(self) -> list[int]:
        raise NotImplementedError

    @invariant()
    def what_changed_is_to_be_committed(self) -> None:
        assert self.store.is_dirty or not self.changed


class MemoryStoreAgreesWithModel(StoreAgreesWithModel):
    def opened(self) -> Store:
        return MemoryStore("m1")

    def reopened(self) -> Store:
        self.store.close()
        return self.store

    def kept_bodies(self) -> list[int]:
        assert isinstance(self.store, MemoryStore)
        assert self.store._now.bodies == self.store._safe.bodies
        return sorted(self.store._safe.bodies)


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

    def kept_bodies(self) -> list[int]:
        assert isinstance(self.store, SqliteStore)
        assert not self.store._bodies
        return [key for (key,) in self.store._query("SELECT key FROM body ORDER BY key")]

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
        MemoryStore("m1") if request.param == "memory" else SqliteStore(tmp_path / "broker.store")
    )
    yield made
    made.close()


def test_many_peers_share_one_body_and_the_last_to_settle_removes_it(store: Store) -> None:
    body = bytes(100_000)
    empty = store.size()
    key = store.keep(body)
    for peer in PEERS:
        store.owe(peer, 1, key, peer.name.encode())
    store.commit()
    shared = store.size()
    assert 0.9 * len(body) < shared - empty < 2 * len(body)
    store.settle(ANN, 1)
    store.settle_one(BOB, 1)
    store.commit()
    assert store.owed(HUB, 0, 9) == [Owed(1, key, b"ann", body)]
    store.settle(HUB, 7)
    store.commit()
    assert store.debtors() == []
    assert store.size() < empty + len(body) / 2


def test_a_body_may_pass_from_one_peer_to_another_before_the_commit(store: Store) -> None:
    key = store.keep(b"tea")
    store.owe(ANN, 1, key)
    store.commit()
    store.settle(ANN, 1)
    store.owe(BOB, 1, key)
    store.commit()
    assert store.owed(BOB, 0, 9) == [Owed(1, key, b"", b"tea")]
    store.settle(BOB, 1)
    store.commit()
    with pytest.raises(InvalidInputError, match=str(key)):
        store.owe(ANN, 2, key)


def test_rows_must_be_above_what_is_owed_not_above_what_was(store: Store) -> None:
    store.owe(ANN, 5, store.keep(b"tea"))
    store.commit()
    with pytest.raises(InvalidInputError, match="row 3 of client ann is not above row 5"):
        store.owe(ANN, 3, store.keep(b"pot"))
    store.settle(ANN, 9)
    store.owe(ANN, 3, store.keep(b"pot"))
    store.commit()
    assert [(each.row, each.envelope) for each in store.owed(ANN, 0, 9)] == [(3, b"pot")]


def test_forgetting_a_client_forgets_what_is_owed_to_it_and_not_to_a_broker_of_that_name(
    store: Store,
) -> None:
    key = store.keep(b"tea")
    store.owe(ANN, 1, key)
    store.owe(HUB, 1, key)
    store.keep_client("ann", 5, "drop")
    store.forget_client("ann")
    assert store.debtors() == [HUB]


def test_numbers_and_texts_from_outside_cannot_break_a_store(store: Store) -> None:
    key = store.keep(b"tea")
    store.owe(ANN, 1, key)
    store.commit()
    bad: list[Callable[[], Any]] = [
        lambda: store.owe(ANN, 2**63, key),
        lambda: store.keep_client("ann", 2**64, "drop"),
        lambda: store.keep_subscription("ann", 2**64, "{}"),
        lambda: store.forget_subscription("ann", 2**64),
        lambda: store.saw(b"1", 0),
        lambda: store.mark("\ud800", b""),
    ]
    for attempt in bad:
        with pytest.raises(InvalidInputError):
            attempt()
    store.settle_one(ANN, 2**64)
    assert store.owed(ANN, 2**64, 2**64) == []
    assert store.owed_count(ANN) == 1
    store.settle(ANN, 2**64)
    assert store.owed_count(ANN) == 0


def test_the_newest_ids_are_remembered_and_the_oldest_forgotten(store: Store) -> None:
    for number in range(100):
        store.saw(str(number).encode(), 10)
        if number % 7 == 0:
            store.commit()
    assert [n for n in range(100) if store.has_seen(str(n).encode())] == list(range(90, 100))


def test_what_is_collected_in_memory_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_COLLECTED_BYTES_MAX", 10_000)
    store = SqliteStore(tmp_path / "broker.store")
    for row in range(500):
        store.owe(ANN, row, store.keep(bytes(100)))
        assert sum(map(len, store._bodies.values())) <= 10_000
    assert store.owed_count(ANN) == 500
    store.rollback()
    assert store.owed_count(ANN) == 0
    store.close()


# The file.

CRASHING = """
import os, sys
from kbn.broker.messages import Peer
from kbn.broker.sqlite_store import SqliteStore
store = SqliteStore(sys.argv[1], sync="full")
print(store.run(), flush=True)
ann = Peer("client", "ann")
store.owe(ann, 1, store.keep(b"safe"))
store.commit()
store.owe(ann, 2, store.keep(b"lost"))
store.owed(ann, 0, 9)
if len(sys.argv) > 2:
    sys.stdin.read()
os._exit(1)
"""


def crashing(path: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CRASHING, str(path), *more]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_what_was_committed_survives_the_end_of_the_process_and_nothing_else(
    tmp_path: Path,
) -> None:
    path = tmp_path / "broker.store"
    told, _ = crashing(path).communicate(timeout=60)
    store = SqliteStore(path)
    assert store.run() > int(told)
    assert [each.envelope for each in store.owed(ANN, 0, 9)] == [b"safe"]
    store.close()


def test_a_store_in_use_by_another_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broker.store"
    with crashing(path, "wait") as other:
        assert other.stdout is not None and other.stdout.readline() == "1\n"
        with pytest.raises(StoreError, match="another broker uses it") as caught:
            SqliteStore(path)
        assert caught.value.path == str(path)
        other.communicate("", timeout=60)
    SqliteStore(path).close()


def test_a_store_in_use_in_this_process_is_refused(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path / "broker.store")
    with pytest.raises(StoreError, match="another broker uses it"):
        SqliteStore(tmp_path / "broker.store")
    first.close()
    SqliteStore(tmp_path / "broker.store").close()


def test_two_stores_have_two_identities(tmp_path: Path) -> None:
    one, other = SqliteStore(tmp_path / "one"), SqliteStore(tmp_path / "other")
    assert one.identity != other.identity
    one.close()
    other.close()


def test_a_file_that_is_not_ours_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database " * 100)
    with pytest.raises(StoreError, match="not the store of a broker"):
        SqliteStore(path)
    assert path.read_text() == "not a database " * 100


def test_a_database_that_is_not_ours_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE t (x)")
    other.commit()
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not the store of a broker"):
        SqliteStore(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["other.db"]


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broker.store"
    SqliteStore(path).close()
    later = sqlite3.connect(path)
    later.execute("PRAGMA user_version = 99")
    later.close()
    with pytest.raises(StoreError, match="version 99"):
        SqliteStore(path)


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broker.store"
    SqliteStore(path).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + bytes(len(whole) - 100))
    with pytest.raises(StoreError):
        SqliteStore(path)


@pytest.mark.parametrize("path", ["", "missing/broker.store"])
def test_a_place_where_no_file_can_be_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        SqliteStore(tmp_path / path)


def test_an_unknown_way_to_sync_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="sync"):
        SqliteStore(tmp_path / "broker.store", "sometimes")  # type: ignore[arg-type]


def one_owed(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    store.owe(ANN, 1, store.keep(b"tea"))
    store.commit()
    return store


def test_on_a_full_disk_a_commit_fails_whole_and_earlier_ones_stay(tmp_path: Path) -> None:
    store = one_owed(tmp_path / "broker.store")
    ((pages,),) = store._query("PRAGMA page_count")
    store._query(f"PRAGMA max_page_count = {pages}")
    store.keep_client("bob", 1, "drop")
    store.settle(ANN, 1)
    store.owe(BOB, 1, store.keep(bytes(1_000_000)))
    with pytest.raises(StoreError, match="disk is full"):
        store.commit()
    assert not store.is_dirty
    assert store.debtors() == [ANN] and store.clients() == []
    assert [each.envelope for each in store.owed(ANN, 0, 9)] == [b"tea"]
    store.mark("small", b"1")
    store.commit()
    store.close()


def test_on_a_read_only_disk_a_commit_fails_whole(tmp_path: Path) -> None:
    store = one_owed(tmp_path / "broker.store")
    store._query("PRAGMA query_only = 1")
    store.mark("a", b"1")
    with pytest.raises(StoreError, match="cannot be written"):
        store.commit()
    assert store.marked("a") is None and store.owed_count(ANN) == 1
    store.close()


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = one_owed(tmp_path / "broker.store")
    store.close()
    store.close()
    attempts: list[Callable[[], Any]] = [
        store.clients,
        store.rollback,
        store.commit,
        lambda: store.keep_client("ann", 1, "drop"),
        lambda: store.marks(""),
        lambda: store.has_seen(b"1"),
    ]
    for attempt in attempts:
        with pytest.raises(KbnError, match="closed"):
            attempt()
