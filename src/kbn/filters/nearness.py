"""Nearness: how far a value may be from an operand for `near` to accept it.

    numbers       the difference: `price near(5) 20` is `price >= 15 and price <= 25`
    times         the difference in seconds
    strings       the edit distance: how many characters are inserted, deleted or replaced
    terms         the steps between them in the ontology (see `kbn.ontology.steps`)

A filter holds a range instead of `near` on a number or a time: one meaning has one spelling, and an
index knows what to do with ranges. Inside composites, and negated, the operator stays.

Each of these is a metric: it is symmetric, zero for what is equal, and the way round is never
shorter. That is why `near(s) b` covers `near(t) a` when a and b are at most s - t apart.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from rapidfuzz.distance import Levenshtein

from kbn.errors import InvalidInputError, LimitError
from kbn.filters.operators import Near, Operator
from kbn.filters.values import INT_MAX, INT_MIN, Operand, Value
from kbn.filters.vocabulary import Vocabulary
from kbn.ontology import STEPS_MAX, Term

__all__ = [
    "EDITS_MAX",
    "NEAR_TEXT_MAX",
    "are_apart",
    "as_bounds",
    "check_near",
    "is_near",
    "is_range",
    "near_distance",
    "near_implies",
    "near_range",
]

EDITS_MAX = 16
NEAR_TEXT_MAX = 256
"""Characters of a string that is asked for by nearness: it is for names, not for texts."""
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)


def is_range(operand: Operand | None) -> bool:
    """Whether what is near the operand is a range: of numbers, or of times.

    >>> is_range(20), is_range("Dublin")
    (True, False)
    """
    return type(operand) in (int, float, datetime)


def near_range(near: Near, operand: Any) -> tuple[Any, Any]:
    """The least and the greatest value that is near a number or a time.

    >>> from kbn.filters.operators import Near
    >>> near_range(Near(5), 20)
    (15, 25)
    """
    tolerance = near.tolerance
    if type(operand) is datetime:
        return _moved(operand, -tolerance), _moved(operand, tolerance)
    # A float next to a large integer may lie beyond it: the operand itself is always near.
    low, high = min(operand - tolerance, operand), max(operand + tolerance, operand)
    return _within_64_bits(low), _within_64_bits(high)


def is_near(near: Near, x: Any, v: Any, ontology: Vocabulary) -> bool:
    """Whether x is near v, for two values of a family that `near` takes."""
    if is_range(v):
        low, high = near_range(near, v)
        return bool(low <= x <= high)
    return near_distance(x, v, cast(int, near.tolerance), ontology) is not None


def near_distance(x: str | Term, v: str | Term, most: int, ontology: Vocabulary) -> int | None:
    """How far two strings, or two terms of one kind, are apart; None if more than `most`.

    >>> from kbn.filters.vocabulary import NO_ONTOLOGY
    >>> near_distance("Dubln", "Dublin", 2, NO_ONTOLOGY)
    1
    """
    if isinstance(x, str) and isinstance(v, str):
        if abs(len(x) - len(v)) > most:
            return None
        found = Levenshtein.distance(x, v, score_cutoff=most)
        return found if found <= most else None
    assert isinstance(x, Term) and isinstance(v, Term)
    if x.iri == v.iri:
        return 0
    return None if x.kind == "term" else ontology.steps_to(x.kind, x.iri, [v.iri], most)[0]


def check_near(near: Near, operand: Value) -> Value:
    """The operand, if it can be asked for with this tolerance."""
    if is_range(operand):
        return operand
    if not isinstance(operand, (str, Term)):
        raise InvalidInputError(
            f"{near.symbol} takes a number, a time, a string or a term, not {operand!r}"[:200]
        )
    what, most = ("edits", EDITS_MAX) if isinstance(operand, str) else ("steps", STEPS_MAX)
    if type(near.tolerance) is not int:
        raise InvalidInputError(f"near counts {what} here, so it takes a whole number: near(2)")
    if near.tolerance > most:
        raise LimitError(
            f"near({near.tolerance}): the limit is {most} {what}", limit=what, maximum=most
        )
    if isinstance(operand, str) and len(operand) > NEAR_TEXT_MAX:
        raise LimitError(
            f"near against a string of {len(operand)} characters; the limit is {NEAR_TEXT_MAX}",
            limit="characters under near",
            maximum=NEAR_TEXT_MAX,
        )
    return operand


def near_implies(premise: Near, a: Any, conclusion: Near, b: Any, ontology: Vocabulary) -> bool:
    """Whether what is near a is near b, too: exact for ranges, by the way round for the others."""
    if is_range(a):
        (low, high), (least, greatest) = near_range(premise, a), near_range(conclusion, b)
        return bool(least <= low and high <= greatest)
    spare = cast(int, conclusion.tolerance) - cast(int, premise.tolerance)
    return spare >= 0 and near_distance(a, b, spare, ontology) is not None


def are_apart(first: Near, a: Any, second: Near, b: Any, ontology: Vocabulary) -> bool:
    """Whether it is certain that no value is near both."""
    if is_range(a):
        (low, high), (least, greatest) = near_range(first, a), near_range(second, b)
        return bool(high < least or greatest < low)
    reach = cast(int, first.tolerance) + cast(int, second.tolerance)
    return near_distance(a, b, reach, ontology) is None


def as_bounds(near: Near, operand: Any) -> tuple[tuple[Operator, Any], tuple[Operator, Any]]:
    """The two orders that say the same of a number or a time."""
    low, high = near_range(near, operand)
    return (Operator.GE, low), (Operator.LE, high)


def _within_64_bits(bound: int | float) -> int | float:
    return min(max(bound, INT_MIN), INT_MAX) if type(bound) is int else bound


def _moved(time: datetime, seconds: float) -> datetime:
    try:
        return time + timedelta(seconds=seconds)
    except OverflowError:
        return _EARLIEST if seconds < 0 else _LATEST
