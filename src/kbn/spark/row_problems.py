"""What is wrong with rows of notifications: found before they are matched, told row by row.

A row that cannot be matched (no id, no attributes or none that can be read, an IRI or a time that
is none) is *left out*, and never stops the rows beside it. A row with a term that the ontology does
not know, or a class where subscriptions ask for individuals, is matched, and told: mostly it is a
mistake, because of which nobody gets the notification. Only attributes that some subscription asks
about are looked at; so a value is looked at once, however many rows have it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kbn.errors import InvalidInputError, KbnError
from kbn.filters import TermCheck, UnknownTerm, terms_named_in
from kbn.matching import NO_ATTRIBUTES, AttributeColumn, StoreView, unreadable_rows
from kbn.spark.io import record_text
from kbn.wording import counted

if TYPE_CHECKING:
    from kbn.spark.match_job import RowLayout

UnknownTermsChoice = Literal["tell", "leave_out", "refuse", "ignore"]
BadRowsChoice = Literal["leave_out", "refuse"]

KNOWN_MAX = 100_000
"""Texts that are remembered before the memory starts afresh."""
OF_A_ROW_MAX = 16
"""So many problems of one row are told."""
SUGGESTIONS_MAX = 100
SUGGESTED_AMONG_MAX = 4_000
"""For so many terms of a job the closest ones are looked for, in an ontology of so many terms."""
RECORD_CHARACTERS_MAX = 1_000
LOGGED_MAX = 5
"""So many problems of a task are in the log of its worker; of the others, how many."""

_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)
_LATEST = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)

_log = logging.getLogger("kbn.spark")


class Finding(NamedTuple):
    """What is wrong with a value, wherever it stands."""

    reason: str
    is_bad: bool
    """Whether no row that has it can be matched."""


class Problem(NamedTuple):
    """What is wrong with one row."""

    notification: Any
    attribute: str | None
    reason: str
    record: str
    left_out: bool

    def __str__(self) -> str:
        what = "is not matched" if self.left_out else "is matched"
        which = "a row without an id" if self.notification is None else repr(self.notification)
        return f"{which} {what}: {self.reason}"


class Sound(NamedTuple):
    """The rows of a batch that can be matched, their attributes, and what is wrong with others."""

    rows: pa.RecordBatch
    table: pa.Table
    problems: list[Problem]


class RowCheck:
    """Looks at the rows of one task before they are matched; remembers what it found of a text."""

    def __init__(
        self,
        view: StoreView,
        layout: RowLayout,
        unknown_terms: UnknownTermsChoice = "tell",
        *,
        of_all_shards: bool = True,
    ) -> None:
        self._version = view.version
        self._view = view
        self._layout = layout
        self._unknown = unknown_terms
        self._terms = TermCheck(view.ontology)
        self._of_all_shards = of_all_shards
        self._known: dict[tuple[str, str], dict[str, tuple[Finding, ...]]] = {}
        self._remembered = 0
        self._suggestions = SUGGESTIONS_MAX

    def is_of(self, view: StoreView) -> bool:
        """Whether what is remembered holds for a view."""
        return view is self._view and view.version == self._version

    def sound(self, batch: pa.RecordBatch, wanted: set[str]) -> Sound:
        """The rows without what cannot be matched, and what is wrong with the others."""
        problems: list[Problem] = []
        ids = batch.column(self._layout.id)
        if ids.null_count:
            found = dict.fromkeys(_places(pc.is_null(ids)), "it has no id")
            batch = self._without(batch, found, problems)
        if self._layout.kind == "struct" and batch.column("attributes").null_count:
            missing = _places(pc.is_null(batch.column("attributes")))
            batch = self._without(batch, dict.fromkeys(missing, NO_ATTRIBUTES), problems)
        try:
            table = self._layout.table(batch, wanted)
        except InvalidInputError:
            if self._layout.kind != "json":
                raise
            unreadable = unreadable_rows(batch.column("attributes"), wanted)
            batch = self._without(batch, unreadable, problems)
            table = self._layout.table(batch, wanted)
        return self._looked_at(batch, table, problems)

    def _looked_at(self, batch: pa.RecordBatch, table: pa.Table, problems: list[Problem]) -> Sound:
        """The rows without those that have a value that is none."""
        found: dict[int, dict[tuple[str, Finding], None]] = {}
        for place, name in enumerate(table.column_names):
            for row, each in self._of_column(table.field(place), table.column(place)):
                of_row = found.setdefault(row, {})
                if len(of_row) < OF_A_ROW_MAX:
                    of_row[name, each] = None
        if not found:
            return Sound(batch, table, problems)
        gone = []
        for row in sorted(found):
            left_out = self._unknown == "leave_out" or any(each.is_bad for _, each in found[row])
            shown, id = self._record(batch, row), batch.column(self._layout.id)[row].as_py()
            problems += [Problem(id, n, e.reason, shown, left_out) for n, e in found[row]]
            if left_out:
                gone.append(row)
        if not gone:
            return Sound(batch, table, problems)
        kept = _all_but(gone, batch.num_rows)
        return Sound(batch.take(kept), table.take(kept).combine_chunks(), problems)

    def _of_column(self, field: pa.Field, column: pa.ChunkedArray) -> Iterator[tuple[int, Finding]]:
        """What is wrong with the cells of a column, and in which rows."""
        kind = ((field.metadata or {}).get(b"kbn") or b"").decode()
        cells, owners = _elements(column)
        findings: dict[Any, tuple[Finding, ...]]
        if pa.types.is_timestamp(cells.type):
            bad = _timeless(cells)
            findings = {None: (Finding(f"{field.name}: the time is beyond the year 9999", True),)}
            places = _places(bad) if bad is not None else []
        elif kind:
            found = self._of_texts(field.name, kind, pc.unique(cells).to_pylist())
            if not found:
                return
            findings, places = found, _places(pc.is_in(cells, pa.array(list(found), cells.type)))
        else:
            return
        for place in places:
            row = place if owners is None else owners[place].as_py()
            for each in findings[cells[place].as_py() if kind else None]:
                yield row, each

    def _of_texts(
        self, attribute: str, kind: str, texts: Iterable[str | None]
    ) -> dict[Any, tuple[Finding, ...]]:
        """Those among the texts with which something is wrong, and what it is."""
        known = self._known.setdefault((attribute, kind), {})
        found: dict[Any, tuple[Finding, ...]] = {}
        for text in texts:
            if text is None:
                continue
            findings = known.get(text)
            if findings is None:
                if self._remembered >= KNOWN_MAX:
                    self._known, self._remembered, known = {(attribute, kind): {}}, 0, {}
                    self._known[attribute, kind] = known
                findings = known[text] = tuple(self._findings(attribute, kind, text))
                self._remembered += 1
            if findings:
                found[text] = findings
        return found

    def _findings(self, attribute: str, kind: str, text: str) -> Iterator[Finding]:
        try:
            value = _value(attribute, kind, text)
        except InvalidInputError as error:
            yield Finding(f"{attribute}: {str(error).removeprefix(f'{attribute}: ')}", True)
            return
        if self._unknown == "ignore" or self._terms.is_idle:
            return
        named = [(attribute, term) for term in terms_named_in(value)]
        found = list(self._terms.unknown_among(named))
        if self._of_all_shards:
            found += self._view.unsuited_terms(named)
        for each in dict.fromkeys(found):
            yield Finding(self._sentence(each), False)

    def _sentence(self, unknown: UnknownTerm) -> str:
        """What is wrong; with what may have been meant, for the first ones."""
        ontology = self._view.ontology
        assert ontology is not None
        terms = len(ontology.classes) + len(ontology.properties) + len(ontology.individuals)
        if terms > SUGGESTED_AMONG_MAX or not self._suggestions or unknown.wanted:
            return str(unknown)
        self._suggestions -= 1
        return str(unknown.error(ontology))

    def _without(
        self, batch: pa.RecordBatch, reasons: dict[int, str], problems: list[Problem]
    ) -> pa.RecordBatch:
        """The batch without some rows, which are problems now."""
        ids = batch.column(self._layout.id)
        problems += [
            Problem(ids[row].as_py(), None, reason, self._record(batch, row), True)
            for row, reason in reasons.items()
        ]
        return batch.take(_all_but(reasons, batch.num_rows))

    def _record(self, batch: pa.RecordBatch, row: int) -> str:
        """The row as it is shown."""
        if self._layout.kind == "columns":
            shown = {name: _cell(batch.column(name), row) for name in batch.schema.names}
        else:
            shown = _cell(batch.column("attributes"), row)
        text = shown if isinstance(shown, str) else record_text(shown or {})
        return text[:RECORD_CHARACTERS_MAX]


@dataclass
class Told:
    """What one task says of its rows, in the log of its worker."""

    bad_rows: BadRowsChoice = "leave_out"
    unknown_terms: UnknownTermsChoice = "tell"
    problems: int = 0
    left_out: int = 0
    _logged: set[str] = field(default_factory=set)

    def tell(self, problems: list[Problem]) -> None:
        """Log the first ones; KbnError for one that is to be refused."""
        for each in problems:
            refused = self.bad_rows if each.left_out else self.unknown_terms
            if refused == "refuse":
                raise KbnError(f"notification {each.notification!r}: {each.reason}: {each.record}")
            self.problems += 1
            self.left_out += each.left_out
            if each.reason not in self._logged and len(self._logged) < LOGGED_MAX:
                self._logged.add(each.reason)
                _log.warning("notification %s", each)

    def end(self) -> None:
        """Log how many there were, if there was more than was logged."""
        if self.problems > len(self._logged):
            _log.warning(
                "%s of notifications in this task, %d of them left out: kbn.spark.problems has all",
                counted(self.problems, "problem"), self.left_out,
            )  # fmt: skip


def _value(attribute: str, kind: str, text: str) -> Any:
    column = AttributeColumn(
        pa.field(attribute, pa.string(), metadata={"kbn": kind}),
        pa.chunked_array([pa.array([text], pa.string())]),
    )
    return column.value(0)


def _elements(column: pa.ChunkedArray) -> tuple[pa.Array, pa.Array | None]:
    """The cells of a column, out of their lists, and the row of each where there are lists."""
    cells = column.combine_chunks()
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.chunk(0) if cells.num_chunks else pa.array([], cells.type)
    owners = None
    while pa.types.is_list(cells.type) or pa.types.is_large_list(cells.type):
        parents = pc.list_parent_indices(cells)
        owners = parents if owners is None else owners.take(parents)
        cells = pc.list_flatten(cells)
    return cells, owners


def _timeless(cells: pa.Array) -> pa.Array | None:
    """Which times Python cannot hold; None when it can hold all."""
    numbers = cells.cast(pa.timestamp("us", cells.type.tz), safe=False).cast(pa.int64())
    limits = (pa.scalar(time, pa.timestamp("us", "UTC")) for time in (_EARLIEST, _LATEST))
    earliest, latest = (time.cast(pa.int64()) for time in limits)
    bad = pc.or_(pc.less(numbers, earliest), pc.greater(numbers, latest))
    return bad if pc.any(bad).as_py() else None


def _cell(column: pa.Array, row: int) -> Any:
    try:
        return column[row].as_py()
    except (ValueError, OverflowError):
        return column.slice(row, 1).to_string()


def _places(mask: pa.Array) -> list[int]:
    found: list[int] = pc.indices_nonzero(mask).to_pylist()
    return found


def _all_but(gone: Iterable[int], rows: int) -> pa.Array:
    left_out = set(gone)
    return pa.array([row for row in range(rows) if row not in left_out], pa.int64())
