"""Words that many messages share: counts with their noun, suggestions for a misspelled name."""

from __future__ import annotations

from collections.abc import Iterable

SUGGESTIONS_MAX = 3
"""A message suggests at most so many names: more is a list nobody reads."""


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


def did_you_mean(names: Iterable[str]) -> str:
    """The end of a message that suggests names, best first; empty when there are none.

    >>> did_you_mean(["bags", "hops"])
    '; did you mean bags or hops?'
    >>> did_you_mean([])
    ''
    """
    first = list(names)[:SUGGESTIONS_MAX]
    return f"; did you mean {' or '.join(first)}?" if first else ""
