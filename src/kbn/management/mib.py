"""The MIB: what a policy server knows of the brokers, publishers and subscribers of an overlay.

Each of them is one managed object. The first report that names it makes the object, later reports
change it, in whatever order they come, and a departure removes it. With a path, the MIB is also
kept in a file: `commit` writes the changes since the last commit in one transaction, so a process
that is killed loses only what came after its last commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from kbn.errors import InvalidInputError
from kbn.management.conditions import Condition
from kbn.management.expressions import Overlay, Rows
from kbn.management.managed_object import ManagedObject
from kbn.management.mib_file import MibFile
from kbn.management.reports import Departure, NotificationReport, Report, SubscriberInfo
from kbn.management.schema import KINDS, FieldType, Kind, values_of
from kbn.management.sightings import Sightings
from kbn.management.table import Array, MarkNames, Pool, Table, check_text

_COUNTS = msgspec.json.Decoder(dict[str, int])


class Recipient(NamedTuple):
    """A subscriber that received notifications, and how many from each publisher."""

    name: str
    broker: str
    placed_on: str
    placed_at: float
    medoid: str
    publishers: Mapping[str, int]


class Mib:
    """Managed objects by kind and name, in memory and, with a path, in a file.

    One process at a time may change a file; with `read_only` it is looked at, also while another
    process changes it, as of its last commit.

    >>> mib = Mib()
    >>> ann = mib.apply(SubscriberInfo("ann", "east", "ex:Tea", 0.5, 2), now=10.0)
    >>> ann.broker, ann.seen_at, mib.count("subscriber")
    ('east', 10.0, 1)
    """

    def __init__(self, path: str | Path | None = None, *, read_only: bool = False) -> None:
        pool, self._marks = Pool(), MarkNames()
        self._tables: dict[Kind, Table] = {kind: Table(kind, pool, self._marks) for kind in KINDS}
        self._changed: dict[Kind, set[str]] = {kind: set() for kind in KINDS}
        self._texts: dict[str, str] = {}
        self._new_texts: dict[str, str] = {}
        self._sightings = Sightings()
        self._read_only = read_only
        self._file = None if path is None else MibFile(path, read_only=read_only)
        if self._file is not None:
            try:
                self._file.load(self._tables)
                self._texts = self._file.texts()
            except BaseException:
                self._file.close()
                raise

    # Changing.

    def apply(self, report: Report, now: float) -> ManagedObject | None:
        """Apply a report; the object it is about, or None when that is gone.

        A departure from a broker where the object is no longer changes nothing: the client moved,
        and the report of its arrival came first. A client that was told to go elsewhere is on its
        way when it departs, and at no broker.
        """
        table = self._tables[report.kind]
        if isinstance(report, Departure):
            return self._apply_departure(table, report)
        known = table.rows.get(report.name)
        values = values_of(report)
        if isinstance(report, NotificationReport):
            # `SubscriberInfo` says where a subscriber is; this may come late from where it was.
            if known is not None and table.get(known, "broker"):
                del values["broker"]
            values["reported_at"] = now
        if isinstance(report, SubscriberInfo) and known is not None:
            self._sightings.arrived(report.name, report.broker, table.get(known, "broker"))
        if known is None:
            values["first_seen_at"] = now
        values["seen_at"] = now
        self._put(table, report.name, values)
        return ManagedObject(table, report.name)

    def placed(self, kind: Kind, name: str, broker: str, now: float) -> ManagedObject | None:
        """Note that a client was told to go to a broker; None when there is no such client."""
        found = self.get(kind, name)
        if found is None:
            return None
        if "placed_on" not in self._tables[kind].fields:
            raise InvalidInputError(f"a {kind} is not placed on a broker")
        moves = found.moves + (broker != found.broker)
        values = {
            "placed_on": broker,
            "placed_for": found.medoid,
            "placed_at": now,
            "moves": moves,
        }
        self._put(self._tables[kind], name, values)
        return found

    def not_placed(self, kind: Kind, name: str) -> None:
        """Note that a client could not be told where to go after all."""
        if name in self._tables[kind].rows:
            self._put(self._tables[kind], name, {"placed_on": "", "placed_for": ""})

    def forget_silent(self, kind: Kind, before: float) -> list[str]:
        """Forget the objects of a kind not heard of since `before`; returns their names."""
        table = self._tables[kind]
        names = sorted(table.names[table.column("seen_at") < before].tolist())
        for name in names:
            self._remove(table, name)
        return names

    def mark(self, kind: Kind, name: str, mark: str, *, only: bool = False) -> None:
        """Mark an object; with `only`, it becomes the only one of its kind with that mark."""
        check_text(mark)
        table = self._tables[kind]
        if name not in table.rows:
            return
        bit = self._marks.add(mark, self._bits_in_use)
        if only:
            for other in table.names[_with_bit(table, bit)]:
                self.unmark(kind, other, mark)
        self._set_mark(table, name, bit, True)

    def unmark(self, kind: Kind, name: str, mark: str) -> None:
        """Take a mark away; nothing happens when the object does not carry it."""
        bit = self._marks.bit(mark)
        if bit is not None and name in self._tables[kind].rows:
            self._set_mark(self._tables[kind], name, bit, False)

    def keep_text(self, name: str, text: str) -> None:
        """Keep a text beside the objects, such as the plan in force."""
        self._require_writable()
        if self._texts.get(name) != text:
            self._texts[name] = self._new_texts[name] = text

    def kept_text(self, name: str) -> str | None:
        """The text that was kept under a name."""
        return self._texts.get(name)

    def unmark_all(self, kind: Kind, mark: str) -> None:
        """Take a mark away from every object of a kind."""
        bit = self._marks.bit(mark)
        if bit is not None:
            table = self._tables[kind]
            for name in table.names[_with_bit(table, bit)].tolist():
                self._set_mark(table, name, bit, False)

    # Asking.

    def get(self, kind: Kind, name: str) -> ManagedObject | None:
        table = self._tables[kind]
        return ManagedObject(table, name) if name in table.rows else None

    def count(self, kind: Kind) -> int:
        return len(self._tables[kind])

    def count_by(self, kind: Kind, field: str) -> dict[str, int]:
        """The number of objects of a kind with each text in a field; empty texts are left out.

        >>> mib = Mib()
        >>> for name in ("ann", "bob"):
        ...     _ = mib.apply(SubscriberInfo(name, "east", None, 0.0, 1), now=0.0)
        >>> mib.count_by("subscriber", "broker"), mib.count_by("subscriber", "medoid")
        ({'east': 2}, {})
        """
        table = self._tables[kind]
        if table.fields.get(field) is not FieldType.TEXT:
            raise InvalidInputError(f"a {kind} has no text {field!r} to count by")
        counts = np.bincount(table.column(field), minlength=1)
        counts[0] = 0
        return {table.pool.texts[code]: int(counts[code]) for code in np.flatnonzero(counts)}

    def names(self, kind: Kind) -> list[str]:
        """The names of all objects of a kind, in order."""
        return sorted(self._tables[kind].rows)

    def objects(self, kind: Kind) -> Iterator[ManagedObject]:
        """All objects of a kind, in the order of their names."""
        table = self._tables[kind]
        return (ManagedObject(table, name) for name in self.names(kind))

    def recipients(self) -> Iterator[Recipient]:
        """The subscribers that received notifications; faster than reading the fields of each."""
        table = self._tables["subscriber"]
        rows = np.flatnonzero(table.column("notifications"))
        names = table.names[rows].tolist()
        fields = ("broker", "placed_on", "placed_at", "medoid")
        columns = [table.taken(field, rows) for field in fields]
        publishers = map(_COUNTS.decode, (text or "{}" for text in table.taken("publishers", rows)))
        return map(Recipient, names, *columns, publishers)

    def overlay(self, clusters: int = 0) -> Overlay:
        """What conditions may ask about the overlay as a whole."""
        broker, subscriber, publisher = (self.count(kind) for kind in KINDS)
        return Overlay(broker, subscriber, publisher, clusters)

    def rows(
        self, kind: Kind, now: float = 0.0, overlay: Overlay | None = None, name: str | None = None
    ) -> Rows:
        """The objects of a kind, or one of them, as a condition reads them."""
        table = self._tables[kind]
        which = slice(0, len(table))
        if name is not None:
            which = slice(table.rows[name], table.rows[name] + 1)
        return Rows(table, which, now, overlay or self.overlay())

    def select(
        self, kind: Kind, condition: Condition | str, now: float = 0.0, clusters: int = 0
    ) -> list[str]:
        """The names of the objects for which a condition holds, in order."""
        if isinstance(condition, str):
            condition = Condition.parse(condition, kind)
        rows = self.rows(kind, now, self.overlay(clusters))
        return sorted(rows.names[condition.holds(rows)].tolist())

    def size_bytes(self) -> int:
        """The memory of the objects, without what they share; slow."""
        return sum(table.size_bytes() for table in self._tables.values())

    # Keeping.

    @property
    def changed(self) -> int:
        """How many objects have changed since the last commit."""
        return sum(map(len, self._changed.values()))

    def commit(self) -> int:
        """Write what has changed since the last commit; returns the number of objects written."""
        count = self.changed
        if self._file is not None and (count or self._new_texts):
            self._file.write(self._tables, self._changed, self._new_texts)
        self._new_texts.clear()
        for names in self._changed.values():
            names.clear()
        return count

    def close(self) -> None:
        """Close the file, which holds what was committed."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Mib:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def check_invariants(self) -> None:
        for table in self._tables.values():
            table.check_invariants()

    def _apply_departure(self, table: Table, report: Departure) -> ManagedObject | None:
        row = table.rows.get(report.name)
        if row is None:
            return None
        stays = (
            None if report.broker is None else self._stays(table, row, report.name, report.broker)
        )
        if stays is None:
            self._remove(table, report.name)
            return None
        if stays:
            self._put(table, report.name, stays)
        return ManagedObject(table, report.name)

    def _stays(self, table: Table, row: int, name: str, left: str) -> dict[str, Any] | None:
        """What changes for an object that left a broker and is not gone; None when it is gone."""
        if table.kind == "broker":
            return None
        at, to = table.get(row, "broker"), table.get(row, "placed_on")
        now_at = self._sightings.departed(name, left, at) if table.kind == "subscriber" else at
        changes = {"broker": now_at} if now_at != at else {}
        if now_at and now_at != left:
            # If it was told to go to the broker it left, it was there before anybody reported it.
            return {**changes, "placed_on": ""} if to == left else changes
        if to and to != left:  # it was told to go there, and is on its way
            return {**changes, "broker": ""}
        return None

    def _remove(self, table: Table, name: str) -> None:
        self._require_writable()
        table.remove(name)
        if table.kind == "subscriber":
            self._sightings.forget(name)
        self._mark_changed(table, name)

    def _put(self, table: Table, name: str, values: dict[str, Any]) -> None:
        self._require_writable()
        row = table.rows.get(name)
        is_new = row is None
        row = table.add(name) if row is None else row
        try:
            table.put(row, values)
        except InvalidInputError:
            if is_new:
                table.remove(name)
            raise
        self._mark_changed(table, name)

    def _set_mark(self, table: Table, name: str, bit: int, wanted: bool) -> None:
        self._require_writable()
        table.set_bits(table.rows[name], bit, wanted)
        self._mark_changed(table, name)

    def _bits_in_use(self) -> int:
        in_use = 0
        for table in self._tables.values():
            in_use |= table.bits_in_use()
        return in_use

    def _mark_changed(self, table: Table, name: str) -> None:
        if self._file is not None:
            self._changed[table.kind].add(name)

    def _require_writable(self) -> None:
        if self._read_only:
            raise InvalidInputError("this MIB is open to be looked at, not to be changed")


def _with_bit(table: Table, bit: int) -> Array:
    carrying: Array = (table.column("marks") & np.uint64(1 << bit)) != 0
    return carrying
