"""The poset of subscriptions: which filters cover which, and so which a broker must pass on.

Distinct filters are *entries*; filters that cover each other are one entry, represented by the
first that came. Each entry hangs below one entry that covers it, the most specific found, or is a
**root**. The roots are what the rest of the network must be told: everything else follows from
them.

Adding g asks two questions, and answers both from indexes, the oracle (`covers`) deciding last:

1. *Who covers g?* Whoever covers g accepts every witness of g (see `witness.py`), so the candidates
   are what the matching index finds for the tokens g's witnesses hit.
2. If nobody does, *which roots does g cover?* Each constraint of g must follow from one of theirs.
   The roots are posted under their *atoms* (tokens, checks, negatives; ranges by axis), and the
   candidates are those posted under some atom that implies g's most selective one.

Removing an entry hangs its children anew. An entry's filter follows from its parent's by a proof,
so whatever was sent upstream before always covers what is stored: nothing is lost in between.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from kbn.errors import InvalidInputError
from kbn.filters import Constraint, Filter, Subscription
from kbn.filters.semantics import covers, resolve
from kbn.matching.covering import MEMO_MAX, CoverQuery, Implications
from kbn.matching.matcher import Matcher, checked_key
from kbn.matching.postings import RootPostings
from kbn.ontology import Ontology


@dataclass(frozen=True, slots=True)
class Change:
    """What to tell upstream: first subscribe to `send`, then unsubscribe from `withdraw`."""

    send: tuple[Filter, ...] = ()
    withdraw: tuple[Filter, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.send or self.withdraw)


@dataclass(slots=True)
class _Entry:
    filter: Filter
    keys: set[Hashable] = field(default_factory=set)
    parent: int | None = None
    children: set[int] = field(default_factory=set)


class Poset:
    """Subscriptions under keys, kept in covering order as they come and go.

    For one thread at a time.

    >>> poset = Poset()
    >>> poset.add(Subscription.parse("price < 10"), "ann").send
    (Filter([Constraint('price', Operator.LT, 10)]),)
    >>> change = poset.add(Subscription.parse("price < 20"), "bob")
    >>> [str(f) for f in change.send], [str(f) for f in change.withdraw]
    (['price < 20'], ['price < 10'])
    >>> [str(root) for root in poset.roots]
    ['price < 20']
    """

    def __init__(self, ontology: Ontology | None = None) -> None:
        self._ontology = ontology
        self._matcher = Matcher(ontology)
        self._query = CoverQuery(self._matcher.index)
        self._implications = Implications(ontology)
        self._postings = RootPostings(
            self._matcher.index.ontology, self._implications, self._query.witness
        )
        self._entries: dict[int, _Entry] = {}
        self._entry_of: dict[Filter, int] = {}
        self._entries_of_key: dict[Hashable, tuple[int, ...]] = {}
        self._roots: dict[int, None] = {}
        self._next = 0
        self._resolutions: dict[Constraint, Constraint] = {}
        # What happened to the set of roots during one call: +1 came, -1 went, 0 both.
        self._moved: dict[Filter, int] = {}

    def __len__(self) -> int:
        """The number of subscriptions."""
        return len(self._entries_of_key)

    def __contains__(self, key: Hashable) -> bool:
        return checked_key(key) in self._entries_of_key

    @property
    def roots(self) -> tuple[Filter, ...]:
        """The filters that no other stored filter covers, in the order they came to be so."""
        return tuple(self._entries[entry].filter for entry in self._roots)

    @property
    def entry_count(self) -> int:
        """The number of distinct filters."""
        return len(self._entries)

    def add(self, subscription: Subscription | Filter | str, key: Hashable) -> Change:
        """Store a subscription; says what must be told upstream. An error changes nothing."""
        if checked_key(key) in self._entries_of_key:
            raise InvalidInputError(f"the key {key!r} is in use: remove it first")
        filters = [self._resolved(filter) for filter in self._matcher.filters_of(subscription)]
        for filter in filters:
            self._matcher.index.encoder.encode(filter.constraints)  # refuse before any is entered
        entries = tuple(dict.fromkeys(self._entry_for(filter) for filter in filters))
        for entry in entries:
            self._entries[entry].keys.add(key)
        self._entries_of_key[key] = entries
        return self._change()

    def remove(self, key: Hashable) -> Change:
        """Forget a subscription; says what must be told upstream."""
        entries = self._entries_of_key.pop(checked_key(key), None)
        if entries is None:
            raise InvalidInputError(f"no subscription has the key {key!r}")
        for entry in entries:
            self._entries[entry].keys.discard(key)
            if not self._entries[entry].keys:
                self._delete(entry)
        return self._change()

    def check_invariants(self) -> None:
        """Every entry follows from its parent, and no root from another (slow; for tests)."""
        for number, entry in self._entries.items():
            assert (entry.parent is None) == (number in self._roots)
            if entry.parent is not None:
                parent = self._entries[entry.parent]
                assert number in parent.children
                assert covers(parent.filter, entry.filter, self._ontology)
            assert all(self._entries[child].parent == number for child in entry.children)
        for one in self.roots:
            assert not any(o is not one and covers(o, one, self._ontology) for o in self.roots)

    def _entry_for(self, filter: Filter) -> int:
        """The entry of a filter or of one equivalent to it, made and hung when there is none."""
        known = self._entry_of.get(filter)
        if known is not None:
            return known
        coverers = self._coverers(filter)
        for candidate in coverers:
            if self._implications.covers(filter, self._entries[candidate].filter):
                return candidate
        number = self._next
        self._matcher.add(filter, number)
        self._next += 1
        self._entries[number] = _Entry(filter)
        self._entry_of[filter] = number
        self._hang(number, coverers)
        return number

    def _coverers(self, filter: Filter) -> list[int]:
        """The entries that cover the filter, most specific first (but for the filter itself)."""
        candidates = self._query.candidates(filter)
        found = self._entries if candidates is None else self._matcher.keys_of_groups(candidates)
        covers, entries = self._implications.covers, self._entries
        coverers = [entry for entry in found if covers(entries[entry].filter, filter)]
        coverers.sort(key=lambda entry: -len(self._entries[entry].filter))
        return coverers

    def _hang(self, number: int, coverers: list[int]) -> None:
        """Put an entry that hangs nowhere below a coverer, or among the roots."""
        entry = self._entries[number]
        for coverer in coverers:
            if not self._is_below(coverer, number):
                entry.parent = coverer
                self._entries[coverer].children.add(number)
                return
        for root in self._postings.candidates(entry.filter, self._roots):
            if root in self._roots and self._implications.covers(
                entry.filter, self._entries[root].filter
            ):
                self._leave_roots(root)
                self._entries[root].parent = number
                entry.children.add(root)
        self._join_roots(number)

    def _resolved(self, filter: Filter) -> Filter:
        """The filter with its bare terms given their kinds; a constraint is resolved once."""
        if self._ontology is None:
            return filter
        constraints = [self._resolve(constraint) for constraint in filter.constraints]
        same = all(a is b for a, b in zip(constraints, filter.constraints, strict=True))
        return filter if same else Filter(constraints)

    def _resolve(self, constraint: Constraint) -> Constraint:
        known = self._resolutions.get(constraint)
        if known is None:
            if len(self._resolutions) >= MEMO_MAX:
                self._resolutions.clear()
            known = self._resolutions[constraint] = resolve(constraint, self._ontology)
        # The caller's own object where nothing changed: equal is not the same object.
        return constraint if known == constraint else known

    def _is_below(self, entry: int | None, ancestor: int) -> bool:
        while entry is not None:
            if entry == ancestor:
                return True
            entry = self._entries[entry].parent
        return False

    def _delete(self, number: int) -> None:
        entry = self._entries[number]
        if entry.parent is None:
            self._leave_roots(number)
        else:
            self._entries[entry.parent].children.discard(number)
        self._matcher.remove(number)
        del self._entries[number], self._entry_of[entry.filter]
        for child in entry.children:
            self._entries[child].parent = entry.parent
        if entry.parent is not None:
            self._entries[entry.parent].children |= entry.children
            return
        for child in sorted(entry.children):
            self._hang(child, self._coverers(self._entries[child].filter))

    def _join_roots(self, number: int) -> None:
        filter = self._entries[number].filter
        self._roots[number] = None
        self._postings.add(number, filter)
        self._moved[filter] = self._moved.get(filter, 0) + 1

    def _leave_roots(self, number: int) -> None:
        filter = self._entries[number].filter
        del self._roots[number]
        self._postings.discard(number, filter)
        self._moved[filter] = self._moved.get(filter, 0) - 1

    def _change(self) -> Change:
        moved, self._moved = self._moved, {}
        return Change(
            send=tuple(filter for filter, by in moved.items() if by > 0),
            withdraw=tuple(filter for filter, by in moved.items() if by < 0),
        )
