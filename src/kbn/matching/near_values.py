"""Near values: which of the operands that `near` was asked for a value is near to.

Numbers and times are here only inside composites and negations: in a filter they are ranges. For
each family the operands stand together, and a value is compared with all of them at once: with
ranges by two comparisons, with strings of a fitting length by a library's loop, with terms by one
search outwards from the value that goes as far as anybody asks.

Strings may be very many. They stand in runs, and a meter counts run by run.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from kbn.filters import Family, Near, near_range, value_family
from kbn.matching.groups import Array
from kbn.matching.metering import current
from kbn.ontology import FAR, Ontology, Term

RUN_MAX = 4_096
"""Strings that are compared together."""
TEXTS_PER_UNIT = 6
TERMS_PER_UNIT = 40
OPERANDS_PER_UNIT = 100


class _Run:
    """Some strings of one length, how many edits each allows, and its token."""

    __slots__ = ("edits", "most", "texts", "tokens")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.edits: list[int] = []
        self.tokens: list[int] = []
        self.most = 0

    def add(self, text: str, edits: int, token: int) -> None:
        self.texts.append(text)
        self.edits.append(edits)
        self.tokens.append(token)
        self.most = max(self.most, edits)

    def hits(self, value: str) -> list[int]:
        apart = cdist(
            [value],
            self.texts,
            scorer=Levenshtein.distance,
            score_cutoff=self.most,
            dtype=np.uint8,
        )[0]
        near = np.flatnonzero(apart <= np.array(self.edits, np.uint8))
        return [self.tokens[place] for place in near.tolist()]


class NearValues:
    """The operands of `near`, by family, and the tokens of those who asked."""

    def __init__(self, ontology: Ontology) -> None:
        self._ontology = ontology
        self._ranges: dict[Family, list[tuple[Any, Any, int]]] = {}
        self._runs: dict[int, list[_Run]] = {}
        self._edits_max = 0
        self._terms: dict[str, list[tuple[int, int, int]]] = {}
        self._term_arrays: dict[str, Array] = {}
        self._strangers: dict[tuple[str, str], list[int]] = {}
        self._farthest: dict[str, int] = {}

    def register(self, near: Near, operand: Any, token: int) -> None:
        """From now on `token` is hit by the values that are near the operand."""
        if isinstance(operand, Term):
            self._register_term(near, operand, token)
        elif isinstance(operand, str):
            runs = self._runs.setdefault(len(operand), [])
            if not runs or len(runs[-1].texts) == RUN_MAX:
                runs.append(_Run())
            runs[-1].add(operand, int(near.tolerance), token)
            self._edits_max = max(self._edits_max, runs[-1].most)
        else:
            family = value_family(operand)
            self._ranges.setdefault(family, []).append((*near_range(near, operand), token))

    def _register_term(self, near: Near, operand: Term, token: int) -> None:
        kind = operand.kind
        number = self._ontology.steps(kind).number(operand.iri)
        if number is None:
            self._strangers.setdefault((kind, operand.iri), []).append(token)
            return
        steps = int(near.tolerance)
        self._terms.setdefault(kind, []).append((number, steps, token))
        self._term_arrays.pop(kind, None)
        self._farthest[kind] = max(self._farthest.get(kind, 0), steps)

    def cost(self, value: Any) -> int:
        """About what it takes to find what a value hits; strings are counted while they are."""
        if isinstance(value, str):
            return 1
        if isinstance(value, Term):
            asked = len(self._terms.get(value.kind, ()))
            passed = len(self._ontology.steps(value.kind)) if asked else 0
            return 1 + passed // TERMS_PER_UNIT + asked // OPERANDS_PER_UNIT
        return 1 + len(self._ranges.get(value_family(value), ())) // OPERANDS_PER_UNIT

    def hits(self, value: Any) -> list[int]:
        """The tokens that a value hits; a term has a kind."""
        if isinstance(value, Term):
            return self._hits_of_term(value)
        if isinstance(value, str):
            return self._hits_of_string(value)
        if type(value) not in (int, float, datetime):
            return []
        ranges = self._ranges.get(value_family(value), ())
        return [token for low, high, token in ranges if low <= value <= high]

    def _hits_of_string(self, value: str) -> list[int]:
        found: list[int] = []
        meter, reach = current(), self._edits_max
        for length in range(max(len(value) - reach, 0), len(value) + reach + 1):
            for number, run in enumerate(self._runs.get(length, ())):
                if meter is None:
                    found += run.hits(value)
                else:
                    name = (self, value, length, number, len(run.texts))
                    cost = 1 + len(run.texts) // TEXTS_PER_UNIT
                    found += meter.ask(name, cost, lambda run=run: run.hits(value))  # type: ignore[misc]
        return found

    def _hits_of_term(self, value: Term) -> list[int]:
        found = list(self._strangers.get((value.kind, value.iri), ()))
        asked = self._terms.get(value.kind)
        if not asked:
            return found
        steps = self._ontology.steps(value.kind)
        distances = steps.from_term(value.iri, self._farthest[value.kind])
        if distances is None:
            return found
        arrays = self._term_arrays.get(value.kind)
        if arrays is None:
            arrays = self._term_arrays[value.kind] = np.array(asked, np.int64).T.copy()
        numbers, reaches, tokens = arrays
        apart = distances[numbers]
        found += tokens[(apart <= reaches) & (apart != FAR)].tolist()
        return found
