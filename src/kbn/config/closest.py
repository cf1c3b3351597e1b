"""Close names, for the end of a message about one that is unknown."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

from kbn import wording

LESS_CLOSE_MAX = 0.1
"""How much less alike than the closest a name may be, and still be named beside it."""
LISTED_MAX = 16


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """The known names close to `given`, as the end of a message; empty when none is close.

    >>> did_you_mean("prot", ["port", "peers"])
    "; did you mean 'port'?"
    >>> did_you_mean("x", ["port", "peers"])
    ''
    """
    return wording.did_you_mean(map(repr, close_names(given, known)))


def close_names(given: str, known: Iterable[str]) -> list[str]:
    """The known names that were probably meant, best first, at most three.

    >>> close_names("epoch", ["epoch_s", "epoch_ms", "iso"])
    ['epoch_s', 'epoch_ms']
    """
    close = get_close_matches(given, list(known), n=wording.SUGGESTIONS_MAX)
    least = _likeness(given, close[0]) - LESS_CLOSE_MAX if close else 0.0
    return [name for name in close if _likeness(given, name) >= least]


def or_one_of(given: str, known: Iterable[str]) -> str:
    """`did_you_mean`, or the list of what is allowed when no name is close.

    >>> or_one_of("x", ["port", "peers"])
    '; use port or peers'
    """
    names = list(known)
    return did_you_mean(given, names) or f"; use {listed(names)}"


def listed(names: Iterable[str]) -> str:
    """Names as a compact list.

    >>> listed(["a", "b", "c"])
    'a, b or c'
    """
    several = list(names)
    if len(several) > LISTED_MAX:
        return ", ".join(several[:LISTED_MAX]) + ", …"
    return " or ".join(filter(None, (", ".join(several[:-1]), *several[-1:]))) or "nothing"


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, other, one).ratio()
