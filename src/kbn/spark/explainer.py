"""Why pairs match, for a column of Spark: the library's verdicts, each worked out once.

What a constraint says depends on the constraint and the value alone. Pairs share both: many
subscriptions ask the same, and the same values come again. So a verdict is remembered by the two,
from batch to batch, and the column is made from the distinct sentences.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from kbn.filters import Constraint, verdict
from kbn.matching import AttributeColumn, StoreView
from kbn.ontology import Ontology

VERDICTS_MAX = 50_000
SUBSCRIPTIONS_MAX = 100_000
"""What is remembered before the memory starts afresh."""

NOT_ACCEPTED = -1

Filters = tuple[tuple[Constraint, ...], ...]


class KnownVerdicts:
    """What is known of one version of a store: its subscriptions, and reasons by number."""

    def __init__(self, view: StoreView) -> None:
        self.version = view.version
        self._ontology = view.ontology or Ontology.empty()
        self._filters: dict[Any, Filters] = {}
        self._numbers: dict[tuple[Constraint, type, Any], int] = {}
        self._places: dict[str, int] = {}
        self.reasons: list[str] = []

    def filters_of(self, view: StoreView, subscription: Any) -> Filters:
        """The constraints of a subscription, filter by filter."""
        found = self._filters.get(subscription)
        if found is None:
            if len(self._filters) >= SUBSCRIPTIONS_MAX:
                self._filters.clear()
            parts = view.subscription(subscription).filters
            found = self._filters[subscription] = tuple(each.constraints for each in parts)
        return found

    def begin_batch(self) -> None:
        """Forget the verdicts if there are many; their numbers hold until the next batch."""
        if len(self.reasons) > VERDICTS_MAX:
            self._numbers.clear()
            self._places.clear()
            self.reasons = []

    def number_of(self, constraint: Constraint, value: Any) -> int:
        """The number of the reason to accept a value; `NOT_ACCEPTED` when it is not accepted."""
        name = (constraint, value.__class__, value)
        found = self._numbers.get(name)
        if found is None:
            said = verdict(constraint, value, self._ontology)
            found = NOT_ACCEPTED
            if said.accepted:
                found = self._places.setdefault(said.reason, len(self.reasons))
                if found == len(self.reasons):
                    self.reasons.append(said.reason)
            self._numbers[name] = found
        return found


_KNOWN: WeakKeyDictionary[StoreView, KnownVerdicts] = WeakKeyDictionary()


class Explainer:
    """Says why rows of a table match subscriptions."""

    def __init__(self, view: StoreView, table: pa.Table) -> None:
        known = _KNOWN.get(view)
        if known is None or known.version != view.version:
            known = _KNOWN[view] = KnownVerdicts(view)
        known.begin_batch()
        self._known = known
        self._view = view
        self._columns = {
            name: AttributeColumn(table.field(name), table[name])
            for name in table.column_names
            if name
        }
        self._values: dict[tuple[str, int], Any] = {}

    def __call__(self, rows: Any, subscriptions: pa.Array) -> pa.Array:
        """The sentences of each pair."""
        chosen: list[int] = []
        ends = [0]
        for row, subscription in zip(rows.tolist(), subscriptions.to_pylist(), strict=True):
            chosen += self._why(row, self._known.filters_of(self._view, subscription))
            ends.append(len(chosen))
        numbers, places = np.unique(np.array(chosen, np.int64), return_inverse=True)
        reasons = pa.array([self._known.reasons[number] for number in numbers], pa.string())
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), reasons.take(pa.array(places)))

    def _why(self, row: int, filters: Filters) -> list[int]:
        """The reasons of the first filter that accepts the row, none twice."""
        number_of, values = self._known.number_of, self._values
        for constraints in filters:
            found: list[int] = []
            for constraint in constraints:
                name = (constraint.attribute, row)
                value = values[name] if name in values else self._value(*name)
                number = NOT_ACCEPTED if value is None else number_of(constraint, value)
                if number == NOT_ACCEPTED:
                    break
                found.append(number)
            else:
                return found if len(found) < 2 else list(dict.fromkeys(found))
        raise AssertionError("a pair that no filter accepts")

    def _value(self, attribute: str, row: int) -> Any:
        column = self._columns.get(attribute)
        found = self._values[attribute, row] = None if column is None else column.value(row)
        return found
