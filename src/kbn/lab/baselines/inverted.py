"""Inverted lists: the `literature` workload matched as one would by hand, in plain Python.

Each subscription is filed under one of its terms, or its journal, in a dictionary of the operator;
an article looks up what its terms are, are below or are above, and checks the rest of each
subscription found there. It knows the seven kinds of that workload and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kbn.errors import InvalidInputError
from kbn.filters import Filter, Subscription
from kbn.ontology import Ontology


class Filed(NamedTuple):
    """What is checked of a subscription that was found under a term or a journal."""

    key: Any
    second: str | None
    unwanted: str | None
    first_year: int
    last_year: int
    journal: str | None


class InvertedLists:
    """Subscriptions of the seven kinds, by operator and term."""

    def __init__(self, ontology: Ontology) -> None:
        self._ontology = ontology
        self._below: dict[str, list[Filed]] = defaultdict(list)
        self._exact: dict[str, list[Filed]] = defaultdict(list)
        self._above: dict[str, list[Filed]] = defaultdict(list)
        self._dated: dict[str, list[Filed]] = defaultdict(list)
        self._within: dict[str, list[tuple[tuple[str, ...], Filed]]] = defaultdict(list)

    def add(self, subscription: Subscription, key: Any) -> None:
        """File a subscription of one filter."""
        (only,) = subscription.filters
        terms: dict[str, Any] = {
            c.operator.symbol: c.operand for c in only.constraints if c.attribute == "terms"
        }
        unwanted = terms.pop("!#>/@>", None)
        classes = [one.iri for bag in terms.values() for one in bag.items]
        filed = _filed(only, key, classes, unwanted)
        match list(terms):
            case []:
                if filed.journal is None:
                    raise InvalidInputError("a subscription without terms needs a journal")
                self._dated[filed.journal].append(filed)
            case ["#>/@>"]:
                self._below[classes[0]].append(filed)
            case ["#>"]:
                self._exact[classes[0]].append(filed)
            case ["#>/@<"]:
                self._above[classes[0]].append(filed)
            case ["#</@>"]:
                for one in set(classes):
                    self._within[one].append((tuple(classes), filed))
            case other:
                raise InvalidInputError(f"no kind of this workload has {', '.join(other)}")

    def match(self, terms: Sequence[str], year: int, journal: str) -> list[Any]:
        """The keys of the subscriptions that accept an article."""
        ontology = self._ontology
        above = [ontology.ancestors(term) for term in terms]
        places: dict[str, set[int]] = defaultdict(set)
        for place, wider in enumerate(above):
            for one in wider:
                places[one].add(place)
        narrower = {one for term in terms for one in ontology.descendants(term)}
        found = [
            *_checked(self._below, places, places, year, journal),
            *_checked(self._exact, terms, places, year, journal),
            *_checked(self._above, narrower, places, year, journal),
            *_checked(self._dated, (journal,), places, year, journal),
        ]
        rarest = min(range(len(terms)), key=lambda n: self._filed_within(above[n]))
        candidates = {
            filed.key: (classes, filed)
            for one in above[rarest]
            for classes, filed in self._within.get(one, ())
            if len(classes) >= len(terms)
        }
        for classes, filed in candidates.values():
            if _accepts(filed, places, year, journal) and _fits(above, classes):
                found.append(filed.key)
        return found

    def _filed_within(self, classes: Iterable[str]) -> int:
        return sum(len(self._within.get(one, ())) for one in classes)


def _filed(only: Filter, key: Any, classes: list[str], unwanted: Any) -> Filed:
    bounds: Mapping[tuple[str, str], Any] = {
        (c.attribute, c.operator.symbol): c.operand for c in only.constraints
    }
    return Filed(
        key,
        classes[1] if len(classes) == 2 else None,
        None if unwanted is None else unwanted.items[0].iri,
        bounds.get(("year", ">="), 0),
        bounds.get(("year", "<="), 9999),
        bounds.get(("journal", "=")),
    )


def _checked(
    lists: Mapping[str, list[Filed]], names: Iterable[str], places: Mapping[str, set[int]],
    year: int, journal: str,
) -> Iterable[Any]:  # fmt: skip
    for name in names:
        for filed in lists.get(name, ()):
            if filed.second is not None:
                both = places.get(filed.second)
                if not both or len(places[name] | both) < 2:
                    continue
            if _accepts(filed, places, year, journal):
                yield filed.key


def _accepts(filed: Filed, places: Mapping[str, set[int]], year: int, journal: str) -> bool:
    return (
        filed.first_year <= year <= filed.last_year
        and (filed.journal is None or filed.journal == journal)
        and (filed.unwanted is None or filed.unwanted not in places)
    )


def _fits(above: Sequence[Any], classes: Sequence[str]) -> bool:
    """Whether each term can have a class above it for its own."""
    held: dict[int, int] = {}

    def serve(place: int, asked: set[int]) -> bool:
        for n, one in enumerate(classes):
            if one in above[place] and n not in asked:
                asked.add(n)
                if n not in held or serve(held[n], asked):
                    held[n] = place
                    return True
        return False

    return all(serve(place, set()) for place in range(len(above)))
