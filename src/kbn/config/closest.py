"""Close names, for the end of a message about one that is unknown."""

from __future__ import annotations

from collections.abc import Iterable

from kbn import wording

LISTED_MAX = 16


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """The known names close to `given`, as the end of a message; empty when none is close.

    >>> did_you_mean("prot", ["port", "peers"])
    "; did you mean 'port'?"
    >>> did_you_mean("x", ["port", "peers"])
    ''
    """
    return wording.did_you_mean(map(repr, wording.close_names(given, known)))


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
