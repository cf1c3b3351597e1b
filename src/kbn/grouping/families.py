"""Attribute families: more than 16 attributes, as if there were 16.

The clusters of `Groups` are made of combinations of at most 16 things, for all combinations have a
place in its tables. With more attributes, several share one: a *family*. A publisher that has one
attribute of a family counts as having the family, and so does who wants one. Whoever wants Φ and
gets it from a publisher of Ψ ⊇ Φ is still in a cluster that the publisher sends to, for the
families of Φ are among those of Ψ: nothing is lost. What it costs are false positives: who wants
Φ gets what has the families of Φ without its attributes.

- *hashed* families depend on nothing but the name, so all agree on them without knowing each other;
- *learned* families put attributes together that the same publishers have. Joining two families
  costs those who want the one what publishers of the other alone send. The two for which that is
  least are joined, until 16 are left.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kbn.errors import InvalidInputError
from kbn.grouping.combinations import (
    ATTRIBUTES_MAX,
    Advertisement,
    Attributes,
    Combination,
    attributes_of,
)

FAMILIES_MAX = ATTRIBUTES_MAX


def hashed(name: str, count: int = FAMILIES_MAX) -> int:
    """The family of an attribute, by its name alone.

    >>> hashed("price") == hashed("price")
    True
    """
    return zlib.crc32(name.encode()) % count


def hashed_families(names: Iterable[str], count: int = FAMILIES_MAX) -> dict[str, int]:
    """The families of these attributes, by their names alone.

    >>> hashed_families(["city", "price"], count=2)
    {'city': 0, 'price': 1}
    """
    return {name: hashed(name, count) for name in sorted(names)}


def learned_families(
    advertised: Mapping[frozenset[str], int],
    wanted: Mapping[frozenset[str], int],
    count: int = FAMILIES_MAX,
) -> dict[str, int]:
    """Families of attributes that the same publishers have.

    `advertised` is how many publishers have each set of attributes, `wanted` how many subscribers.

    >>> learned_families({frozenset("ab"): 9, frozenset("cd"): 1}, {}, count=2)
    {'a': 0, 'b': 0, 'c': 1, 'd': 1}
    """
    names = sorted(frozenset().union(*advertised, *wanted))
    if len(names) <= count:
        return {name: place for place, name in enumerate(names)}
    place_of = {name: place for place, name in enumerate(names)}
    has = np.zeros((len(names), len(advertised)), bool)
    for kind, attributes in enumerate(advertised):
        has[[place_of[name] for name in attributes], kind] = True
    weight = np.ones(len(names))
    for combination, subscribers in wanted.items():
        weight[[place_of[name] for name in combination]] += subscribers
    publishers = np.array(list(advertised.values()), float)
    members = _joined(has, weight, publishers, count)
    return {
        names[place]: family for family, places in enumerate(members) for place in sorted(places)
    }


def _joined(has: Any, weight: Any, publishers: Any, count: int) -> list[list[int]]:
    """Join rows until `count` are left; the places in each, by their least."""
    members = [[place] for place in range(len(has))]
    has, weight = has.copy(), weight.copy()
    cost = np.full((len(has), len(has)), np.inf)
    for row in range(len(has)):
        cost[row] = _costs(row, has, weight, publishers)
    cost[np.tril_indices(len(has))] = np.inf
    left = len(has)
    while left > count:
        one, other = divmod(int(np.argmin(cost)), len(has))
        members[one] += members[other]
        members[other] = []
        has[one] |= has[other]
        weight[one] += weight[other]
        cost[other, :] = cost[:, other] = np.inf
        there = np.array([bool(each) for each in members])
        there[one] = False
        again = np.where(there, _costs(one, has, weight, publishers), np.inf)
        cost[one, one + 1 :] = again[one + 1 :]
        cost[:one, one] = again[:one]
        left -= 1
    return [sorted(places) for places in members if places]


def _costs(row: int, has: Any, weight: Any, publishers: Any) -> Any:
    """What joining a row with each other would cost: who gets what only the other's publish."""
    sending = has @ publishers
    both = (has & has[row]) @ publishers
    return weight[row] * (sending - both) + weight * (sending[row] - both)


class Families:
    """Attributes by family: sets of names outside, bit masks of families inside.

    While it `is_open`, attributes may be added: each gets a family of its own as long as there are
    any, and then the one of its hash. It has the methods of `Attributes`.

    >>> families = Families({"city": 0, "price": 1, "size": 1})
    >>> families.mask(["city", "size"], "ann") == families.mask(["city", "price"], "bob") == 3
    True
    >>> sorted(families.combination(3))
    ['city', 'price|size']
    """

    def __init__(self, of: Mapping[str, int] | None = None, *, is_open: bool = False) -> None:
        self._family = dict(of or {})
        self._is_open = is_open
        self._members: list[list[str]] = [[] for _ in range(FAMILIES_MAX)]
        for name, family in self._family.items():
            self._members[family].append(name)

    def __len__(self) -> int:
        """How many families there can be."""
        return FAMILIES_MAX

    @property
    def names(self) -> tuple[str, ...]:
        """All attributes."""
        return tuple(sorted(self._family))

    @property
    def is_exact(self) -> bool:
        """Whether each attribute has a family of its own."""
        return len(self._family) == sum(bool(names) for names in self._members)

    def as_mapping(self) -> dict[str, int]:
        """The family of each attribute."""
        return dict(self._family)

    def add(self, names: Iterable[str]) -> None:
        """Make attributes known; a family that is not open keeps to those it has."""
        for name in sorted(frozenset(names) - self._family.keys()) if self._is_open else ():
            unused = next((f for f, members in enumerate(self._members) if not members), None)
            family = hashed(name) if unused is None else unused
            self._family[name] = family
            self._members[family].append(name)

    def mask(self, combination: Advertisement, what: str) -> int:
        """The mask of the families of a combination; `what` says in an error whose it is."""
        wanted = attributes_of(combination)
        if not wanted:
            raise InvalidInputError(f"{what} has no attribute")
        unknown = sorted(wanted - self._family.keys())
        if unknown:
            raise InvalidInputError(
                f"{what} has the attribute {unknown[0]!r}, and there are only "
                f"{', '.join(self.names) or 'none'}"
            )
        found = 0
        for name in wanted:
            found |= 1 << self._family[name]
        return found

    def combination(self, mask: int) -> Combination:
        """The families a mask stands for, each by the names in it."""
        return frozenset(
            "|".join(sorted(names))
            for family, names in enumerate(self._members)
            if mask >> family & 1
        )


def known_attributes(
    names: Iterable[str] | None, families: Mapping[str, int] | None
) -> Attributes | Families:
    """Ω for `Groups`: exact up to 16 attributes, by family beyond; open if nobody knows it yet."""
    if families is not None:
        for name, family in families.items():
            if not 0 <= family < FAMILIES_MAX:
                raise InvalidInputError(
                    f"a family is a number from 0 to {FAMILIES_MAX - 1}, not {family!r} ({name!r})"
                )
        return Families(families, is_open=names is None)
    if names is None:
        return Families(is_open=True)
    given = attributes_of(names)
    return Attributes(given) if len(given) <= FAMILIES_MAX else Families(hashed_families(given))
