"""Residual questions: whether the residual constraints of candidates hold.

What trie and slabs leave open about a group are its residual constraints. Kernels answer most of
them for many rows together; the others are asked here, each once for a notification however many
groups have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kbn.filters import Bag, Constraint, accepts, value_key
from kbn.matching.codes import Encoder
from kbn.matching.groups import Array, Groups
from kbn.matching.kernels.nested import HOLDS, UNKNOWN
from kbn.matching.metering import costs_of, current
from kbn.matching.nested_bags import NestedColumn
from kbn.matching.residual_constraints import ResidualEvaluator

GROUPS_MAX = 200_000  # whose residual constraints are remembered


class ResidualQuestions:
    """Asks the residual constraints of `groups`; remembers which ones a group has."""

    def __init__(self, groups: Groups, encoder: Encoder, evaluator: ResidualEvaluator) -> None:
        self.groups = groups
        self._encoder = encoder
        self._ontology = encoder.table.ontology
        self._evaluator = evaluator
        self._of_group: dict[int, tuple[int, ...]] = {}

    def kept(self, found: Array, attributes: Mapping[str, Any]) -> Array:
        """The groups among findings (see `kernels/code.py`) whose residual constraints hold."""
        memo: dict[int, bool] = {}
        kept = [
            group
            for group, remains in zip((found >> 1).tolist(), (found & 1).tolist(), strict=True)
            if not remains or self.satisfies(group, attributes.get, memo)
        ]
        return np.array(kept, np.int64)

    def satisfies(self, group: int, value_of: Callable[[str], Any], memo: dict[int, bool]) -> bool:
        """Whether the group's residual constraints accept the values; `memo` keeps answers."""
        for residual in self._residuals_of(group):
            held = memo.get(residual)
            if held is None:
                held = memo[residual] = self._asked(residual, value_of)
            if not held:
                return False
        return True

    def nested_answers(
        self,
        candidates: Sequence[tuple[int, int]],
        first: int,
        nested: Callable[[str], NestedColumn | None],
    ) -> dict[int, dict[int, bool]]:
        """What kernels tell of residual constraints on bags within bags: for `satisfies`, by row.

        Candidates are rows and groups; row 0 is row `first` of the columns.
        """
        asked: dict[int, dict[int, None]] = {}
        for row, group in candidates:
            for residual in self._residuals_of(group):
                asked.setdefault(residual, {})[row] = None
        memos: dict[int, dict[int, bool]] = {}
        for residual, rows in asked.items():
            constraint = self._encoder.residuals[residual]
            check = self._evaluator.nested(constraint)
            column = None if check is None else nested(constraint.attribute)
            if check is None or column is None:
                continue
            places = np.fromiter(rows, np.int64, len(rows))
            places = places[column.is_read[places + first]]
            answers = check.decide(column, places + first)
            for row, answer in zip(places.tolist(), answers.tolist(), strict=True):
                if answer != UNKNOWN:
                    memos.setdefault(row, {})[residual] = answer == HOLDS
        return memos

    def _asked(self, residual: int, value_of: Callable[[str], Any]) -> bool:
        """Whether a residual constraint holds, counted where somebody counts."""
        constraint, meter = self._encoder.residuals[residual], current()
        if meter is None:
            return self._holds(constraint, value_of)
        value = value_of(constraint.attribute)
        return meter.ask(
            (self._encoder, residual, value_key(value)),
            costs_of(value)(constraint.operator, constraint.operand),
            lambda: self._holds(constraint, value_of),
        )

    def _holds(self, constraint: Constraint, value_of: Callable[[str], Any]) -> bool:
        value = value_of(constraint.attribute)
        if value is None:
            return False
        if isinstance(value, Bag):
            return self._evaluator.accepts(constraint, value)
        return accepts(constraint, value, self._ontology)

    def _residuals_of(self, group: int) -> tuple[int, ...]:
        """The residual constraints in a group's code."""
        found = self._of_group.get(group)
        if found is None:
            words = self.groups.words(group).tolist()
            header = words[0]
            first = 1 + (header & 0xFFFFF) + (header >> 20 & 0x3FFF)
            found = tuple(words[first : first + (header >> 34 & 0x3FFF)])
            if len(self._of_group) >= GROUPS_MAX:
                self._of_group.clear()
            self._of_group[group] = found
        return found
