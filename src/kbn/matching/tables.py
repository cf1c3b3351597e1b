"""Tables: notifications as an Arrow table that `Matcher.match_batch` takes (see `columns.py`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from kbn.errors import InvalidInputError
from kbn.filters import Bag, Family, Notification, value_family, value_to_json
from kbn.matching.columns import TERM_KIND_METADATA
from kbn.ontology import Term

_TYPES: dict[Family, tuple[pa.DataType, str]] = {
    Family.BOOL: (pa.bool_(), ""),
    Family.STRING: (pa.string(), ""),
    Family.BYTES: (pa.binary(), ""),
    Family.TIME: (pa.timestamp("us", "UTC"), ""),
    Family.CLASS: (pa.string(), "class"),
    Family.PROPERTY: (pa.string(), "property"),
    Family.INDIVIDUAL: (pa.string(), "individual"),
    Family.TERM: (pa.string(), "term"),
}


def notification_table(notifications: Iterable[Notification | Mapping[str, Any]]) -> pa.Table:
    """A row per notification, a column per attribute; null where a notification lacks it.

    >>> notification_table([{"a": 1}, {"a": 2, "b": ["x"]}]).schema.names
    ['a', 'b']
    """
    if not isinstance(notifications, Iterable) or isinstance(notifications, (str, Mapping)):
        raise InvalidInputError(f"give notifications to put in rows, not {notifications!r}"[:200])
    rows = [n if isinstance(n, Notification) else Notification(n) for n in notifications]
    names = dict.fromkeys(name for row in rows for name in row.attributes)
    columns = [_column(name, [row.attributes.get(name) for row in rows]) for name in names]
    if not columns:
        # A table without columns has no rows: one that nobody has set keeps their number.
        return pa.table({"_": pa.nulls(len(rows))})
    schema = pa.schema([field for field, _ in columns])
    return pa.table([array for _, array in columns], schema=schema)


def _column(name: str, values: list[Any]) -> tuple[pa.Field, pa.Array]:
    """One attribute's column: typed where its values agree on a type, else in JSON form."""
    types = {_arrow_type(value) for value in values if value is not None}
    common = types.pop() if len(types) == 1 else None
    if common is not None:
        type_, kind = common
        plain = [None if value is None else _plain(value) for value in values]
        metadata = {TERM_KIND_METADATA: kind.encode()} if kind else None
        return pa.field(name, type_, metadata=metadata), pa.array(plain, type_)
    texts = [None if value is None else json.dumps(value_to_json(value)) for value in values]
    return pa.field(name, pa.string(), metadata={TERM_KIND_METADATA: b"json"}), pa.array(
        texts, pa.string()
    )


def _arrow_type(value: Any) -> tuple[pa.DataType, str] | None:
    """The Arrow type and kind that hold a value, None when only JSON does."""
    if isinstance(value, Bag):
        types = {_arrow_type(element) for element in value}
        common = types.pop() if len(types) == 1 else None
        if common is None or pa.types.is_list(common[0]):
            return None
        return pa.list_(common[0]), common[1]
    if value_family(value) is Family.NUMBER:
        return (pa.int64() if isinstance(value, int) else pa.float64()), ""
    return _TYPES[value_family(value)]


def _plain(value: Any) -> Any:
    if isinstance(value, Bag):
        return [_plain(element) for element in value]
    return value.iri if isinstance(value, Term) else value
