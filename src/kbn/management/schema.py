"""What the MIB knows of each kind of managed object: the columns, and their types.

Most columns are the fields of the reports (`reports.py`): what is reported is what can be asked.
The rest is what the MIB adds itself. The names are those that conditions use
(`subscriber.mean_hops`), that `kbn mib` prints and that the file's columns have. A field that
nobody has reported yet is empty: '' or 0, no marks, no list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, get_type_hints

import msgspec
from msgspec import inspect

from kbn.management.reports import KINDS, STATE_REPORTS, Kind, StateReport

__all__ = ["FIELDS", "KINDS", "OVERLAY", "FieldType", "Kind", "columns_of", "values_of"]


class FieldType(StrEnum):
    """How a field is kept, and what a condition may do with it."""

    TEXT = "text"  # one of few texts that many objects share: a broker, a medoid
    COUNT = "count"  # a whole number, not negative
    NUMBER = "number"  # a finite number; times are seconds
    MARKS = "marks"  # a set of names
    LIST = "list"
    MAP = "map"


_TYPES: Mapping[type[inspect.Type], FieldType] = {
    inspect.StrType: FieldType.TEXT,
    inspect.IntType: FieldType.COUNT,
    inspect.FloatType: FieldType.NUMBER,
    inspect.VarTupleType: FieldType.LIST,
    inspect.DictType: FieldType.MAP,
}


@cache
def columns_of(report: type[StateReport]) -> Mapping[str, FieldType]:
    """The columns that a type of report fills.

    >>> from kbn.management import SubscriberInfo
    >>> list(columns_of(SubscriberInfo))
    ['broker', 'medoid', 'spread', 'subscriptions', 'texts']
    """
    found = {
        info.name: _field_type(info.type)
        for info in msgspec.structs.fields(report)
        if info.name != report.kind and info.name not in getattr(report, "unkept", ())
    }
    for name in report.derived:
        found[name] = _field_type(get_type_hints(getattr(report, name).fget)["return"])
    return found


def values_of(report: StateReport) -> dict[str, Any]:
    """What a report says, by column."""
    return {name: getattr(report, name) for name in columns_of(type(report))}


def _field_type(annotation: Any) -> FieldType:
    found = inspect.type_info(annotation)
    if isinstance(found, inspect.UnionType):  # of one type and None
        found = next(each for each in found.types if not isinstance(each, inspect.NoneType))
    return _TYPES[type(found)]


def _reported(kind: Kind) -> Iterator[tuple[str, FieldType]]:
    for report in STATE_REPORTS:
        if report.kind == kind:
            yield from columns_of(report).items()


_SEEN = {"seen_at": FieldType.NUMBER, "first_seen_at": FieldType.NUMBER, "marks": FieldType.MARKS}
_PLACED = {
    "placed_on": FieldType.TEXT,  # where it was last told to go
    "placed_for": FieldType.TEXT,  # the medoid it had when it was placed
    "placed_at": FieldType.NUMBER,
    "moves": FieldType.COUNT,  # how often it was told to go elsewhere
}
_ADDED: Mapping[Kind, Mapping[str, FieldType]] = {
    "broker": _SEEN,
    "subscriber": {"reported_at": FieldType.NUMBER, **_PLACED, **_SEEN},
    "publisher": {**_PLACED, **_SEEN},
}

# Beside these every object has its `name`.
FIELDS: Mapping[Kind, Mapping[str, FieldType]] = {
    kind: {**dict(_reported(kind)), **_ADDED[kind]} for kind in KINDS
}

# Whole numbers that a condition may ask of the overlay, as in `overlay.brokers >= 2`.
OVERLAY = ("brokers", "subscribers", "publishers", "clusters")
