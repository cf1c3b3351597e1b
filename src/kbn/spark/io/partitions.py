"""Fields that are written in the path: `day=2026-11-15/part-0.parquet` has a field `day`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import unquote, urlsplit

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@lru_cache(maxsize=4096)
def partition_fields(source: str | None) -> Mapping[str, str]:
    """The fields in the directories just above the file; callers must not change them.

    >>> partition_fields("file:/data/x=1/old/day=2026-11-15/hour=7/part-0.csv")
    {'day': '2026-11-15', 'hour': '7'}
    """
    found: dict[str, str] = {}
    for directory in reversed(urlsplit(source or "").path.split("/")[:-1]):
        # Spark escapes the path as an address, and Hive had escaped the value before.
        name, equals, value = unquote(directory).partition("=")
        if not name or not equals:
            break
        if value and value != _NO_VALUE:
            found[unquote(name)] = unquote(value)
    return dict(reversed(found.items()))
