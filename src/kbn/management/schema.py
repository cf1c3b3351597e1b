"""What the MIB knows of each kind of managed object: names of fields, and their types.

The names are those that conditions use (`subscriber.mean_hops`), that `kbn mib` prints and that the
file's columns have. A field that nobody has reported yet is empty: '' or 0, no marks, no list.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from kbn.management.reports import KINDS, Kind

__all__ = ["FIELDS", "KINDS", "OVERLAY", "FieldType", "Kind"]


class FieldType(StrEnum):
    """How a field is kept, and what a condition may do with it."""

    TEXT = "text"  # one of few texts that many objects share: a broker, a medoid
    COUNT = "count"  # a whole number, not negative
    NUMBER = "number"  # a finite number; times are seconds
    MARKS = "marks"  # a set of names
    LIST = "list"
    MAP = "map"


_SEEN = {"seen_at": FieldType.NUMBER, "first_seen_at": FieldType.NUMBER, "marks": FieldType.MARKS}
_PLACED = {
    "placed_on": FieldType.TEXT,  # where it was last told to go
    "placed_for": FieldType.TEXT,  # the medoid it had when it was placed
    "placed_at": FieldType.NUMBER,
    "moves": FieldType.COUNT,  # how often it was told to go elsewhere
}

# Beside these every object has its `name`.
FIELDS: Mapping[Kind, Mapping[str, FieldType]] = {
    "broker": {
        "address": FieldType.TEXT,
        "parent": FieldType.TEXT,
        "links": FieldType.LIST,
        "subscribers": FieldType.COUNT,
        "subscriptions": FieldType.COUNT,
        "medoid": FieldType.TEXT,
        "spread": FieldType.NUMBER,
        "groups": FieldType.LIST,
        # The medoid of the group with the fewest subscribers; '' unless one has fewest of several.
        "smaller_group": FieldType.TEXT,
        "published": FieldType.COUNT,
        "delivered": FieldType.COUNT,
        "load": FieldType.NUMBER,
        "memory": FieldType.COUNT,
        **_SEEN,
    },
    "subscriber": {
        "broker": FieldType.TEXT,
        "medoid": FieldType.TEXT,
        "spread": FieldType.NUMBER,
        "subscriptions": FieldType.COUNT,
        "mean_hops": FieldType.NUMBER,
        "hops_deviation": FieldType.NUMBER,
        "notifications": FieldType.COUNT,
        "histogram": FieldType.MAP,
        "publishers": FieldType.MAP,
        "reported_at": FieldType.NUMBER,
        **_PLACED,
        **_SEEN,
    },
    "publisher": {
        "broker": FieldType.TEXT,
        "medoid": FieldType.TEXT,
        "spread": FieldType.NUMBER,
        **_PLACED,
        **_SEEN,
    },
}

# Whole numbers that a condition may ask of the overlay, as in `overlay.brokers >= 2`.
OVERLAY = ("brokers", "subscribers", "publishers", "clusters")
