"""The store in an SQLite file: what a broker must not lose outlives its process.

Changes go into one transaction, which `commit` ends; publications, marks and ids are collected in
memory first. `StoreFile` has the file
(in WAL mode), `CheckedRows` its rows; `storage/` says how damage is noticed and what is done then.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from kbn.broker.messages import Peer
from kbn.broker.storage import VERSIONS, AfterDamage, Repaired, StoreFile, StoreVersion, Sync, rows
from kbn.broker.storage.checked_rows import CheckedRows
from kbn.broker.storage.opening import failed
from kbn.broker.store import (
    INTEGER_MAX,
    KeptClient,
    Sequences,
    StoredUnacked,
    StoreError,
    check_limit,
    check_number,
    check_sequence,
    check_text,
    clamped,
    no_client,
    no_publication,
    up_to_bytes,
)
from kbn.errors import InvalidInputError

# How much is collected in memory before it is handed to SQLite, still uncommitted.
_COLLECTED_BYTES_MAX = 16 * 2**20
_BYTES_PER_ROW = 200


class SqliteStore:
    """A store in a file, for one broker at a time; others may read the file meanwhile.

    With `sync="full"` a commit has reached the disk when it returns. With "normal" it has reached
    the operating system: it survives the broker's end, but not a power failure. Not for
    several threads at once. `Store` says what each method does.

    A store that is damaged is refused with `StoreDamagedError`; with `after_damage="repair"` it is
    repaired first, and `repaired` says what that has done.
    """

    _key: int  # of the newest body
    _newest: int  # the number of the newest id seen
    _forgotten: int  # ids up to this number are forgotten, wherever they still are

    def __init__(
        self,
        path: str | Path,
        sync: Sync = "normal",
        after_damage: AfterDamage = "refuse",
        *,
        versions: Sequence[StoreVersion] = VERSIONS,
    ) -> None:
        if sync not in ("normal", "full"):
            raise InvalidInputError(f"sync is 'normal' or 'full', not {sync!r}")
        self._file = StoreFile(str(path), sync, after_damage, versions)
        self._rows = CheckedRows(self._file, on_undo=self._reload)
        try:
            self._reload()
        except sqlite3.Error as error:
            self._file.connection.close()
            raise failed(error, str(path)) from error

    @property
    def repaired(self) -> Repaired | None:
        """What was repaired when the store was opened, if anything was."""
        return self._file.repaired

    @property
    def is_dirty(self) -> bool:
        return bool(
            self._bodies
            or self._new
            or self._acked
            or self._marks
            or self._seen
            or self._unreferenced
            or self._rows.failure
            or self._rows.in_transaction
        )

    def clients(self) -> list[KeptClient]:
        kept = {}
        for name, window, when_slow, checksum in self._rows.query(
            "SELECT name, window, when_slow, checksum FROM client ORDER BY name"
        ):
            self._rows.check("client", name, window, when_slow, checksum)
            kept[name] = KeptClient(name, window, when_slow)
        for client, id, json, checksum in self._rows.query(
            "SELECT client, id, json, checksum FROM subscription ORDER BY client, id"
        ):
            self._rows.check("subscription", client, id, json, checksum)
            if client not in kept:
                raise self._rows.damaged()
            kept[client].subscriptions[id] = json
        return list(kept.values())

    def keep_client(self, name: str, window: int, when_slow: str) -> None:
        check_number(window)
        check_text(name)
        self._rows.remove("client", "name = ?", name)
        checksum = rows.of_client(name.encode(), window, when_slow.encode())
        self._rows.insert("client", [(name, window, when_slow, checksum)])

    def forget_client(self, name: str) -> None:
        self._rows.remove("subscription", "client = ?", name)
        self._rows.remove("client", "name = ?", name)
        self.forget_unacked(Peer("client", name))

    def keep_subscription(self, client: str, id: int, subscription_json: str) -> None:
        check_number(id)
        check_text(subscription_json)
        if not self._rows.query("SELECT 1 FROM client WHERE name = ?", client):
            raise no_client(client)
        self._rows.remove("subscription", "client = ? AND id = ?", client, id)
        checksum = rows.of_subscription(client.encode(), id, subscription_json.encode())
        self._rows.insert("subscription", [(client, id, subscription_json, checksum)])

    def forget_subscription(self, client: str, id: int) -> None:
        check_number(id)
        self._rows.remove("subscription", "client = ? AND id = ?", client, id)

    def keep(self, envelope_bytes: bytes) -> int:
        self._key += 1
        self._bodies[self._key] = envelope_bytes
        self._collect(len(envelope_bytes))
        return self._key

    def push(self, peer: Peer, sequence: int, key: int, note: bytes = b"") -> None:
        new = self._new.get(peer)
        if new is None:
            check_text(peer.name)
            if sequence <= self._last.get(peer, sequence - 1):
                self._apply(peer)
        check_sequence(sequence, new.last if new else self._last.get(peer), peer)
        body = self._bodies.get(key)
        size = self._size_of(key) if body is None else len(body)
        if new is None:
            new = self._new[peer] = Sequences()
        new.add(sequence, key, note, size)
        self._collect(len(note))

    @property
    def used_bytes(self) -> int:
        ((pages,),) = self._rows.query("PRAGMA page_count")
        ((free,),) = self._rows.query("PRAGMA freelist_count")
        ((size,),) = self._rows.query("PRAGMA page_size")
        return int((pages - free) * size) + self._collected_bytes

    def unacked(
        self, peer: Peer, after: int, count: int, bytes_max: int = INTEGER_MAX
    ) -> list[StoredUnacked]:
        self._write_out(peer)
        statement = (
            "SELECT sequence, key, note, envelope, unacked.checksum, body.checksum"
            " FROM unacked LEFT JOIN body USING (key)"
            " WHERE kind = ? AND name = ? AND sequence > ? ORDER BY sequence LIMIT ?"
        )
        found = self._rows.each(statement, *peer, clamped(after), clamped(max(count, 0)))
        return up_to_bytes(bytes_max, (self._whole(peer, each) for each in found))

    def _whole(self, peer: Peer, found: tuple[Any, ...]) -> StoredUnacked:
        sequence, key, note, envelope, of_row, of_body = found
        self._rows.check("unacked", *peer, sequence, key, note, of_row)
        self._rows.check("body", key, envelope, of_body)
        return StoredUnacked(sequence, key, note, envelope)

    def unacked_count(self, peer: Peer) -> int:
        self._apply(peer)
        return self._stored.get(peer, 0) + len(self._new.get(peer, ()))

    def unacked_bytes(self, peer: Peer) -> int:
        self._apply(peer)
        new = self._new.get(peer)
        return self._stored_bytes.get(peer, 0) + (0 if new is None else new.size)

    def oldest(self, peer: Peer, count: int) -> list[tuple[int, int]]:
        self._write_out(peer)
        return self._rows.query(
            "SELECT sequence, length(envelope) + length(note) FROM unacked JOIN body USING (key)"
            " WHERE kind = ? AND name = ? ORDER BY sequence LIMIT ?",
            *(*peer, clamped(max(count, 0))),
        )

    def take_out(self, peer: Peer, sequence: int) -> None:
        self._write_out(peer)
        if peer not in self._stored:
            return
        self._remove_unacked(peer, "sequence = ?", clamped(sequence))
        if peer in self._stored:
            find = "SELECT max(sequence) FROM unacked WHERE kind = ? AND name = ?"
            ((self._last[peer],),) = self._rows.query(find, *peer)

    def ack(self, peer: Peer, sequence: int) -> None:
        self._ack_new(peer, sequence)
        if sequence > self._acked.get(peer, sequence - 1) and peer in self._stored:
            self._acked[peer] = clamped(sequence)

    def forget_unacked(self, peer: Peer) -> None:
        self.ack(peer, INTEGER_MAX)

    def mark(self, name: str, value: bytes) -> None:
        check_text(name)
        self._marks[name] = value
        self._collect(len(value))

    def marked(self, name: str) -> bytes | None:
        if name in self._marks:
            return self._marks[name]
        found = self._rows.query("SELECT value, checksum FROM mark WHERE name = ?", name)
        if not found:
            return None
        ((value, checksum),) = found
        self._rows.check("mark", name, value, checksum)
        return bytes(value)

    def unmark(self, name: str) -> None:
        check_text(name)
        self._marks[name] = None

    def marks(self, prefix: str) -> dict[str, bytes]:
        check_text(prefix)
        if self._marks:
            self._flush()
        # Names with a prefix stand together, from the prefix itself on.
        statement = "SELECT name, value, checksum FROM mark WHERE name >= ? ORDER BY name"
        found = self._rows.each(statement, prefix)
        wanted = list(takewhile(lambda fact: fact[0].startswith(prefix), found))
        for row in wanted:
            self._rows.check("mark", *row)
        return {name: value for name, value, _ in wanted}

    def saw(self, id: bytes, limit: int) -> None:
        check_limit(limit)
        if not self.has_seen(id):
            self._newest += 1
            self._seen[id] = self._newest
            self._collect(len(id))
        if self._newest - limit > self._forgotten:
            self._forgotten = self._newest - limit

    def has_seen(self, id: bytes) -> bool:
        number = self._seen.get(id)
        if number is None:
            found = self._rows.query("SELECT number FROM seen WHERE id = ?", id)
            number = int(found[0][0]) if found else 0
        return number > self._forgotten

    def commit(self) -> None:
        if not self.is_dirty:
            return
        if self._rows.failure is not None:
            failure, self._rows.failure = self._rows.failure, None
            self.rollback()
            raise failure
        try:
            self._commit()
        except StoreError:
            self._rows.failure = None
            raise

    def _commit(self) -> None:
        self._flush()
        self._bodies.clear()
        self._rows.remove_unused_bodies(_spans(self._unreferenced))
        self._unreferenced.clear()
        self._rows.commit()

    def rollback(self) -> None:
        if self.is_dirty:
            self._rows.rollback()

    def close(self) -> None:
        self._file.close()

    def _reload(self) -> None:
        """Forget what was collected, and learn the little that is kept in memory from the file."""
        self._bodies: dict[int, bytes] = {}
        self._new: dict[Peer, Sequences] = {}
        self._marks: dict[str, bytes | None] = {}
        self._seen: dict[bytes, int] = {}
        self._unreferenced: set[int] = set()
        self._acked: dict[Peer, int] = {}
        self._collected_bytes = 0
        self._stored: dict[Peer, int] = {}
        self._stored_bytes: dict[Peer, int] = {}
        self._last: dict[Peer, int] = {}
        execute = self._file.connection.execute
        for kind, name, count, last, size in execute(
            "SELECT kind, name, count(*), max(sequence), sum(length(note) + length(envelope))"
            " FROM unacked JOIN body USING (key) GROUP BY kind, name"
        ):
            self._stored[Peer(kind, name)] = count
            self._stored_bytes[Peer(kind, name)] = size
            self._last[Peer(kind, name)] = last
        ((self._key,),) = execute("SELECT coalesce(max(key), 0) FROM body")
        ((self._newest,),) = execute("SELECT coalesce(max(number), 0) FROM seen")
        self._forgotten = 0

    def _size_of(self, key: int) -> int:
        """The bytes of a publication that is in the file."""
        check_number(key)
        found = self._rows.query("SELECT length(envelope) FROM body WHERE key = ?", key)
        if not found:
            raise no_publication(key)
        return int(found[0][0])

    def _write_out(self, peer: Peer) -> None:
        """Bring the file to where the peer is."""
        self._apply(peer)
        if peer in self._new:
            self._flush()

    def _ack_new(self, peer: Peer, sequence: int) -> None:
        new = self._new.get(peer)
        if new is None:
            return
        keys = new.remove_to(sequence)
        self._unreferenced.update(key for key in keys if key not in self._bodies)
        if not new:
            del self._new[peer]

    def _apply(self, peer: Peer) -> None:
        """Remove what a peer has acknowledged from the file; put off until here, to do it once."""
        sequence = self._acked.pop(peer, None)
        if sequence is not None:
            self._ack_stored(peer, sequence)

    def _apply_all(self) -> None:
        for peer in list(self._acked):
            self._apply(peer)

    def _ack_stored(self, peer: Peer, sequence: int) -> None:
        if peer in self._stored:
            self._remove_unacked(peer, "sequence <= ?", sequence)

    def _remove_unacked(self, peer: Peer, which: str, sequence: int) -> None:
        removed = self._rows.remove(
            "unacked",
            f"kind = ? AND name = ? AND {which}",
            *(*peer, sequence),
            also="key, length(note)"
            " + (SELECT length(envelope) FROM body WHERE body.key = unacked.key)",
        )
        self._unreferenced.update(key for _, key, _ in removed)
        self._stored[peer] -= len(removed)
        self._stored_bytes[peer] -= sum(size for _, _, size in removed)
        if not self._stored[peer]:
            del self._stored[peer], self._stored_bytes[peer], self._last[peer]

    def _collect(self, size: int) -> None:
        self._collected_bytes += size + _BYTES_PER_ROW
        if self._collected_bytes > _COLLECTED_BYTES_MAX:
            self._flush()

    def _flush(self) -> None:
        """Hand what was collected to SQLite, in the transaction that is open.

        A body that no peer needs yet stays behind: it may never be needed.
        """
        self._collected_bytes = 0
        self._apply_all()
        self._flush_unacked()
        self._rows.replace_marks(self._marks)
        self._marks.clear()
        self._flush_seen()

    def _flush_unacked(self) -> None:
        queued: list[tuple[object, ...]] = []
        bodies: dict[int, bytes] = {}
        for peer, new in self._new.items():
            begins = rows.of_peer(peer.kind.encode(), peer.name.encode())
            for sequence, key, note in new.after(-INTEGER_MAX - 2, len(new)):
                checksum = rows.of_queued(begins, sequence, key, note)
                queued.append((*peer, sequence, key, note, checksum))
                if key in self._bodies:
                    bodies[key] = self._bodies[key]
        checked = [(key, body, rows.of_body(key, body)) for key, body in bodies.items()]
        self._rows.insert("body", checked)
        self._rows.insert("unacked", queued)
        for key in bodies:
            del self._bodies[key]
        for peer, new in self._new.items():
            self._stored[peer] = self._stored.get(peer, 0) + len(new)
            self._stored_bytes[peer] = self._stored_bytes.get(peer, 0) + new.size
            self._last[peer] = new.numbers[-1]
        self._new.clear()

    def _flush_seen(self) -> None:
        if self._forgotten:
            self._rows.remove("seen", "number <= ?", self._forgotten)
        kept = [
            (number, id, rows.of_seen(number, id))
            for id, number in self._seen.items()
            if number > self._forgotten
        ]
        self._rows.insert("seen", kept)
        self._seen.clear()


def _spans(keys: Iterable[int]) -> list[tuple[int, int]]:
    """The first and last of each row of keys without a gap: most were kept one after another."""
    spans: list[tuple[int, int]] = []
    for key in sorted(keys):
        if spans and spans[-1][1] == key - 1:
            spans[-1] = spans[-1][0], key
        else:
            spans.append((key, key))
    return spans
