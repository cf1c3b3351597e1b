"""Words that many messages share: counts with their noun, suggestions for a misspelled name."""

from __future__ import annotations

import re
from collections.abc import Iterable

SUGGESTIONS_MAX = 3
"""A message suggests at most so many names: more is a list nobody reads."""
LIKENESS_MIN = 0.6
LESS_CLOSE_MAX = 0.1
"""How much less alike than the closest a name may be, and still be named beside it."""
BEGINNING_MIN = 3
"""A beginning of so many letters is enough to guess the name."""
LONGEST = 200
"""What has more letters is no misspelled name; comparing it would take long."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number and its noun, in the singular for one.

    The plural is the regular one of English unless it is given.

    >>> counted(1, "policy"), counted(2, "policy"), counted(1200, "match"), counted(0, "table")
    ('1 policy', '2 policies', '1,200 matches', '0 tables')
    >>> counted(3, "person", "people")
    '3 people'
    """
    return f"{count:,} {noun if count == 1 else plural or plural_of(noun)}"


def plural_of(noun: str) -> str:
    """The regular English plural.

    >>> plural_of("day"), plural_of("query"), plural_of("hop"), plural_of("match")
    ('days', 'queries', 'hops', 'matches')
    """
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def close_names(given: str, known: Iterable[str], least: float = LIKENESS_MIN) -> list[str]:
    """The known names that were probably meant, best first, at most three.

    Dashes before a name do not make options alike. A name that begins with `given` was meant.

    >>> close_names("epoch", ["epoch_s", "epoch_ms", "iso"])
    ['epoch_s', 'epoch_ms']
    >>> close_names("--nope", ["--name", "--peer"]), close_names("--pots", ["--port", "--host"])
    ([], ['--port'])
    >>> close_names("dynamic", ["mobility", "dynamic-clustering"])
    ['dynamic-clustering']
    """
    if len(given) > LONGEST:
        return []
    likeness = {name: _likeness(given.lstrip("-"), name.lstrip("-")) for name in known}
    best = max(likeness.values(), default=0.0)
    close = [name for name, like in likeness.items() if like >= max(least, best - LESS_CLOSE_MAX)]
    return sorted(close, key=lambda name: -likeness[name])[:SUGGESTIONS_MAX]


def _likeness(given: str, name: str) -> float:
    """From 0 to 1: how much of the letters, in their order, two names share.

    A beginning counts as the whole, and so do the same letters in another order.
    """
    from difflib import SequenceMatcher

    is_beginning = len(given) >= BEGINNING_MIN and name.startswith(given)
    if is_beginning or (given and sorted(given) == sorted(name)):
        return 1.0
    return SequenceMatcher(None, name, given).ratio()


def did_you_mean(names: Iterable[str]) -> str:
    """The end of a message that suggests names, best first; empty when there are none.

    >>> did_you_mean(["bags", "hops"])
    '; did you mean bags or hops?'
    >>> did_you_mean([])
    ''
    """
    first = list(names)[:SUGGESTIONS_MAX]
    return f"; did you mean {' or '.join(first)}?" if first else ""


def in_order(name: str) -> list[tuple[int, str]]:
    """The key to sort names by as people do, with their numbers as numbers.

    >>> sorted(["figure-5.10", "figure-5.2"], key=in_order)
    ['figure-5.2', 'figure-5.10']
    """
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]
