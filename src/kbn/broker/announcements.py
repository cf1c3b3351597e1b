"""Announcements: what one neighbour is told of everybody else's filters, and no more than needed.

All filters but the neighbour's own are kept in covering order; its uncovered ones, the roots, are
what it is told. Each announced root has a number, so that it can be withdrawn. With a `gate` only
those subscriptions take part that it lets through: where advertisements are used, those that some
advertisement of the neighbour's side may satisfy.

A subscription comes and goes filter by filter: each is a step, and what there is to tell after it
is told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Literal

from kbn.broker.messages import Announce
from kbn.broker.work import TOLD, TOLD_CONSTRAINT, TOLD_ELEMENT, UNTOLD
from kbn.filters import Filter, Subscription, bag_elements
from kbn.matching import Poset, PosetChange
from kbn.ontology import Ontology

AT_ONCE = 32  # filters told together

Gate = Callable[[Subscription], bool]
Part = tuple[int, int]
"""A filter of a subscription: its key in the poset, and what it costs to take it out."""


class Announcements:
    """The filters one neighbour is told, as subscriptions come and go."""

    def __init__(
        self,
        ontology: Ontology | None,
        what: Literal["interest", "advertisement"] = "interest",
        gate: Gate | None = None,
    ) -> None:
        self._what = what
        self._poset = Poset(ontology, in_parts=True)
        self.gate = gate
        self._parts: dict[Hashable, list[Part]] = {}
        self._next_part = 1
        self._numbers: dict[Filter, int] = {}
        self._next = 1
        self._spent = 0

    @property
    def filters(self) -> tuple[Filter, ...]:
        """What the neighbour has been told: no filter here covers another."""
        return tuple(self._numbers)

    def adding(self, key: Hashable, subscription: Subscription) -> Iterator[Announce | None]:
        """Take one more into account; after each step, what to tell the neighbour, if anything.

        It ends early when the subscription is taken out again meanwhile.
        """
        if key in self._parts or (self.gate is not None and not self.gate(subscription)):
            return
        parts = self._parts[key] = list[Part]()
        for filter in subscription.filters:
            if self._parts.get(key) is not parts:
                return
            units = TOLD + TOLD_CONSTRAINT * len(filter) + TOLD_ELEMENT * bag_elements(filter)
            self._spent += units
            part = self._next_part
            self._next_part += 1
            parts.append((part, units // UNTOLD))
            yield self._told(self._poset.add(filter, part))

    def removing(self, key: Hashable) -> Iterator[Announce | None]:
        """Take one out of account, if it is there; likewise."""
        for part, units in self._parts.pop(key, ()):
            self._spent += units
            yield self._told(self._poset.remove(part))

    def reconsidering(self, key: Hashable, subscription: Subscription) -> Iterator[Announce | None]:
        """Ask the gate again about one, after what it goes by has changed."""
        passes = self.gate is None or self.gate(subscription)
        if passes != (key in self._parts):
            yield from self.adding(key, subscription) if passes else self.removing(key)

    @property
    def has_more(self) -> bool:
        """Whether a change moved very many filters, and is not over: `go_on`."""
        return self._poset.has_more

    def go_on(self) -> Announce | None:
        """Do another part of a change; what to tell the neighbour, if anything."""
        return self._told(self._poset.go_on())

    def stop(self) -> None:
        """The neighbour is told nothing more."""
        self._poset.stop()

    @property
    def spent(self) -> int:
        """What was spent so far, in units of work: on proofs, and besides."""
        return self._spent + self._poset.spent

    @property
    def is_renewing(self) -> bool:
        """Whether the index behind it is being made anew: `renew`."""
        return self._poset.is_renewing

    def renew(self) -> int:
        """Do a step of that; about how many microseconds it took."""
        return self._poset.renew()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._parts

    def everything(self) -> Iterator[Announce]:
        """All of it, for a neighbour that knows nothing, in parts.

        What changes between two parts is told as any change is: what was dropped is left out of
        the parts that follow.
        """
        filters = list(self._numbers)
        for start in range(0, len(filters), AT_ONCE):
            part = [
                (filter, self._numbers[filter])
                for filter in filters[start : start + AT_ONCE]
                if filter in self._numbers
            ]
            if part:
                yield self._announce(part, ())

    def _told(self, change: PosetChange) -> Announce | None:
        if not change:
            return None
        added = []
        for filter in change.send:
            self._numbers[filter] = self._next
            added.append((filter, self._next))
            self._next += 1
        return self._announce(added, [self._numbers.pop(filter) for filter in change.withdraw])

    def _announce(self, added: Iterable[tuple[Filter, int]], dropped: Iterable[int]) -> Announce:
        add = tuple((number, filter_text(filter)) for filter, number in added)
        return Announce(self._what, add, tuple(dropped))


def filter_text(filter: Filter) -> str:
    """A filter's JSON, as brokers pass it on."""
    return json.dumps(filter.to_json(), separators=(",", ":"), ensure_ascii=False)
