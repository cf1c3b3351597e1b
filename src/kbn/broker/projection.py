"""Projection: what a client that is held to some attributes is shown of a notification."""

from __future__ import annotations

from functools import lru_cache

from kbn.broker import content

CACHED_BYTES_MAX = 4096
CACHED = 256


def projected(encoded: bytes, shown: frozenset[str]) -> bytes | None:
    """A content with these attributes only; None when it has none of them.

    >>> whole = content.encode({"title": "Tea", "price": 5})
    >>> dict(content.decode(projected(whole, frozenset({"title"}))))
    {'title': 'Tea'}
    >>> projected(whole, frozenset({"colour"})) is None
    True
    """
    if len(encoded) <= CACHED_BYTES_MAX:
        return _small(encoded, shown)
    return _projected(encoded, shown)


def _projected(encoded: bytes, shown: frozenset[str]) -> bytes | None:
    attributes = content.decode(encoded)
    left = {name: value for name, value in attributes.items() if name in shown}
    if len(left) == len(attributes):
        return encoded
    return content.encode(left) if left else None


# One notification often goes to many clients with the same rights.
_small = lru_cache(CACHED)(_projected)
