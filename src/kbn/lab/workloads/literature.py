"""Literature: articles with a bag of terms each, and seven kinds of interest in them.

The ontology is generated, the same every time: 30,000 classes, each below one to three others, four
to eight levels deep, as in a thesaurus of medicine. An article has 8 to 15 distinct terms, drawn by
Zipf's law over the classes below the roots, a year and a journal.

Of the classes that subscriptions name, half are drawn as articles draw theirs and half evenly. The
kinds, in turn:

| name      | a subscription                                              |
|-----------|-------------------------------------------------------------|
| `plain`   | `terms #>/@> {C}`                                           |
| `both`    | `terms #>/@> {C, D}`                                        |
| `within`  | `terms #</@> {3-12 upper classes}`                          |
| `exact`   | `terms #> {C}`                                              |
| `negated` | `terms #>/@> {C} and terms !#>/@> {D}`                      |
| `above`   | `terms #>/@< {C}`                                           |
| `dated`   | a range of years and a journal, nothing of the terms        |

Half of those that ask for terms ask for a range of years or a journal, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from kbn.filters import Bag, Constraint, Filter, Subscription
from kbn.lab.workloads.contract import Pair, chunks
from kbn.lab.workloads.drawing import as_table, dictionary_lists, samples
from kbn.ontology import Class, Ontology

if TYPE_CHECKING:
    import pyarrow as pa

    Generator = np.random.Generator

ROOTS = 16
NARROWED_SHARE = 0.5
YEARS = (1990, 2026)
_SUBCLASS = "<http://www.w3.org/2000/01/rdf-schema#subClassOf>"
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_CLASS = "<http://www.w3.org/2002/07/owl#Class>"


@dataclass
class Literature:
    """Articles and interests in them; `kinds` may leave out some of the seven kinds."""

    name: str = "literature"
    kinds: tuple[str, ...] = ("plain", "both", "within", "exact", "negated", "above", "dated")
    classes: int = 30_000
    upper: int = 400
    journals: int = 500

    def __post_init__(self) -> None:
        self.ontology: Ontology | None = generated_ontology(self.classes)
        self._iris = [_iri(number) for number in range(self.classes)]
        self._terms = [Class(iri) for iri in self._iris]
        self._journals = [f"journal {number:03d}" for number in range(self.journals)]
        rng = np.random.default_rng(30)
        self._by_popularity = ROOTS + rng.permutation(self.classes - ROOTS)
        self._shares = _zipf_shares(self.classes - ROOTS)
        self._journal_shares = _zipf_shares(self.journals)

    def subscriptions(self, count: int, seed: int) -> Iterator[list[Pair]]:
        rng = np.random.default_rng(seed)
        for first, size in chunks(count):
            wanted = self._interests(rng, 2 * size).reshape(size, 2).tolist()
            uppers = samples(rng, size, self.upper, 12).tolist()
            sizes = rng.integers(3, 13, size).tolist()
            extra = self._extras(rng, size)
            yield [
                (self._subscription(key, wanted[i], uppers[i][: sizes[i]], extra[i]), key)
                for i, key in enumerate(range(first, first + size))
            ]

    def notifications(self, count: int, seed: int) -> pa.Table:
        import pyarrow as pa

        rng = np.random.default_rng([seed, 1])
        sizes = rng.integers(8, 16, count)
        terms = np.concatenate([self._article(rng, int(size)) for size in sizes])
        journals = np.searchsorted(self._journal_shares, rng.random(count)).astype(np.int32)
        columns: dict[str, Any] = {
            "journal": pa.DictionaryArray.from_arrays(pa.array(journals), pa.array(self._journals)),
            "terms": dictionary_lists(np.concatenate(([0], np.cumsum(sizes))), terms, self._iris),
            "year": pa.array(rng.integers(YEARS[0], YEARS[1] + 1, count)),
        }
        return as_table(columns, {"terms": "class"})

    def _article(self, rng: Generator, size: int) -> Any:
        """So many distinct classes by Zipf's law."""
        drawn: dict[int, None] = {}
        while len(drawn) < size:
            found = np.searchsorted(self._shares, rng.random(2 * size))
            drawn.update(dict.fromkeys(found.tolist()))
        return self._by_popularity[list(drawn)[:size]]

    def _interests(self, rng: Generator, count: int) -> Any:
        """Classes that somebody asks for: half by popularity, half evenly."""
        popular = self._by_popularity[np.searchsorted(self._shares, rng.random(count))]
        even = rng.integers(0, self.classes, count)
        return np.where(rng.random(count) < 0.5, popular, even)

    def _extras(self, rng: Generator, count: int) -> list[tuple[float, int, int, str]]:
        """Per subscription: what is to be added (by chance), a range of years, a journal."""
        chance = rng.random(count).tolist()
        first = rng.integers(YEARS[0], YEARS[1] + 1, count)
        last = (first + rng.integers(0, 15, count)).tolist()
        journals = np.searchsorted(self._journal_shares, rng.random(count)).tolist()
        named = [self._journals[journal] for journal in journals]
        return list(zip(chance, first.tolist(), last, named, strict=True))

    def _subscription(
        self, key: int, wanted: list[int], uppers: list[int], extra: tuple[float, int, int, str]
    ) -> Subscription:
        kind = self.kinds[key % len(self.kinds)]
        chance, first, last, journal = extra
        years = [Constraint("year", ">=", first), Constraint("year", "<=", last)]
        if kind == "dated":
            return _all_of([*years, Constraint("journal", "=", journal)])
        terms = KINDS[kind](self._terms, wanted, uppers)
        if chance < NARROWED_SHARE / 2:
            terms += years
        elif chance < NARROWED_SHARE:
            terms.append(Constraint("journal", "=", journal))
        return _all_of(terms)


def _plain(terms: Sequence[Class], wanted: list[int], uppers: list[int]) -> list[Constraint]:
    return [Constraint("terms", "#>/@>", Bag(terms[wanted[0]]))]


def _both(terms: Sequence[Class], wanted: list[int], uppers: list[int]) -> list[Constraint]:
    return [Constraint("terms", "#>/@>", Bag(*(terms[one] for one in wanted)))]


def _within(terms: Sequence[Class], wanted: list[int], uppers: list[int]) -> list[Constraint]:
    return [Constraint("terms", "#</@>", Bag(*(terms[one] for one in uppers)))]


def _exact(terms: Sequence[Class], wanted: list[int], uppers: list[int]) -> list[Constraint]:
    return [Constraint("terms", "#>", Bag(terms[wanted[0]]))]


def _negated(terms: Sequence[Class], wanted: list[int], uppers: list[int]) -> list[Constraint]:
    unwanted = Constraint("terms", "!#>/@>", Bag(terms[wanted[1]]))
    return [*_plain(terms, wanted, uppers), unwanted]


def _above(terms: Sequence[Class], wanted: list[int], uppers: list[int]) -> list[Constraint]:
    return [Constraint("terms", "#>/@<", Bag(terms[wanted[0]]))]


KINDS: dict[str, Callable[[Sequence[Class], list[int], list[int]], list[Constraint]]] = {
    "plain": _plain,
    "both": _both,
    "within": _within,
    "exact": _exact,
    "negated": _negated,
    "above": _above,
}


@cache
def generated_ontology(classes: int) -> Ontology:
    """A hierarchy of so many classes: each but the first few has one to three wider ones."""
    rng = np.random.default_rng(13)
    lines = [f"<{_iri(number)}> {_TYPE} {_CLASS} ." for number in range(classes)]
    for number in range(ROOTS, classes):
        low, high = number // 8, max(number // 3, ROOTS)
        parents = set(rng.integers(low, high, rng.choice((1, 1, 1, 2, 2, 3))).tolist())
        lines += [f"<{_iri(number)}> {_SUBCLASS} <{_iri(parent)}> ." for parent in sorted(parents)]
    with TemporaryDirectory() as directory:
        path = Path(directory) / "literature.nt"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return Ontology.load(path)


def _iri(number: int) -> str:
    return f"urn:literature#C{number:05d}"


def _zipf_shares(count: int) -> Any:
    """Running totals of shares 1, 1/2, 1/3, … that sum up to one."""
    totals = np.cumsum(1 / np.arange(1, count + 1))
    return totals / totals[-1]


def _all_of(constraints: list[Constraint]) -> Subscription:
    return Subscription.trusted((Filter(constraints),))
