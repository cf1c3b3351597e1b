"""Combinations of attributes: sets of names outside, bit masks inside.

Ω, all attributes, is in the order of the names; attribute number i is bit i. An advertisement is
what a publisher says it will send: the names of attributes, or a filter as in Siena, of which only
the attributes count here. What the filter says of their values is the business of the tree that
spreads notifications within a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kbn.errors import InvalidInputError, LimitError
from kbn.filters import Filter, Subscription

ATTRIBUTES_MAX = 16

Combination = frozenset[str]
Advertisement = Filter | Subscription | Iterable[str]


def attributes_of(advertisement: Advertisement) -> Combination:
    """The attributes an advertisement names.

    Of several filters all attributes count: a publisher that may send one of two things is
    connected wherever either is wanted, so nothing is lost, and what is in excess counts as false
    positives.

    >>> sorted(attributes_of(Subscription.parse("price < 10 and city any")))
    ['city', 'price']
    """
    if isinstance(advertisement, Filter):
        return frozenset(constraint.attribute for constraint in advertisement)
    if isinstance(advertisement, Subscription):
        return frozenset().union(*(attributes_of(part) for part in advertisement.filters))
    if isinstance(advertisement, str):
        raise InvalidInputError(
            f"attributes are a list of names, not the one string {advertisement!r}"
        )
    names = frozenset(advertisement)
    for name in names:
        if not isinstance(name, str) or not name:
            raise InvalidInputError(f"an attribute is a text that is not empty, not {name!r}")
    return names


class Attributes:
    """Ω: turns sets of names into masks and back.

    >>> Attributes(["price", "kind"]).names
    ('kind', 'price')
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(sorted(attributes_of(names)))
        if len(self.names) > ATTRIBUTES_MAX:
            raise LimitError(
                f"{len(self.names)} attributes have too many combinations; up to "
                f"{ATTRIBUTES_MAX} can be grouped at once: leave out those nobody asks for",
                limit="attributes",
                maximum=ATTRIBUTES_MAX,
            )
        self._bit = {name: 1 << place for place, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    @property
    def is_exact(self) -> bool:
        """Whether no two attributes share a bit: they never do here."""
        return True

    def add(self, names: Iterable[str]) -> None:
        """All that there are were given: none is added."""

    def mask(self, combination: Advertisement, what: str) -> int:
        """The mask of a combination; `what` says in an error whose it is."""
        wanted = attributes_of(combination)
        if not wanted:
            raise InvalidInputError(f"{what} has no attribute")
        unknown = sorted(wanted - self._bit.keys())
        if unknown:
            raise InvalidInputError(
                f"{what} has the attribute {unknown[0]!r}, and there are only "
                f"{', '.join(self.names) or 'none'}"
            )
        return sum(self._bit[name] for name in wanted)

    def combination(self, mask: int) -> Combination:
        """The combination a mask stands for."""
        return frozenset(name for name, bit in self._bit.items() if mask & bit)


def parts(mask: int) -> Iterator[int]:
    """The masks of all combinations of a publisher's attributes, itself first."""
    part = mask
    while part:
        yield part
        part = (part - 1) & mask
