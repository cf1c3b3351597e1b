"""Summaries: what somebody and all below want, in as few filters as covering allows."""

from __future__ import annotations

import json
from collections.abc import Iterable

from kbn.errors import InvalidInputError
from kbn.filters import Filter, Notification, check_parts, covers, decode_json
from kbn.ontology import Ontology
from kbn.peering.messages import SUMMARY_MAX

TOKENS_MAX = 4096
EVERYTHING = Filter(())


def filter_text(given: Filter) -> str:
    """A filter as it is sent."""
    return json.dumps(given.to_json(), separators=(",", ":"), ensure_ascii=False)


def read_filter(text: str) -> Filter:
    """The filter in a message; a KbnError when it is none."""
    data = decode_json(text)
    check_parts(data, TOKENS_MAX)
    return Filter.from_json(data)


def summarised(
    filters: Iterable[Filter], ontology: Ontology | None = None, at_most: int = SUMMARY_MAX
) -> tuple[Filter, ...]:
    """Filters that accept all that these do: those that no other covers.

    When those are too many to be told, one that accepts everything: more is passed on, nothing
    lost.

    >>> from kbn.filters import Subscription
    >>> wide, narrow = (Subscription.parse(text).filters[0] for text in ("x < 9", "x < 5"))
    >>> summarised([narrow, wide, wide]) == (wide,)
    True
    """
    kept: list[Filter] = []
    for each in dict.fromkeys(filters):
        if any(covers(other, each, ontology) for other in kept):
            continue
        kept = [other for other in kept if not covers(each, other, ontology)]
        kept.append(each)
    return tuple(kept) if len(kept) <= at_most else (EVERYTHING,)


def wants(
    filters: Iterable[Filter], notification: Notification, ontology: Ontology | None = None
) -> bool:
    """Whether one of the filters accepts a notification."""
    return any(each.matches(notification, ontology) for each in filters)


def is_covered(each: Filter, by: Iterable[Filter], ontology: Ontology | None = None) -> bool:
    return any(covers(other, each, ontology) for other in by)


def check_bounds(within_s: float | None, probability: float) -> None:
    """Refuse what is no bound."""
    if within_s is not None and not 0 < within_s <= 3600:
        raise InvalidInputError(f"a bound is from above 0 to 3600 seconds, not {within_s}")
    if not 0.5 <= probability <= 1 or probability != probability:
        raise InvalidInputError(f"a probability is from 0.5 to 1, not {probability}")
