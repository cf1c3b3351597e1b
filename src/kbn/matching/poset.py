"""The poset of subscriptions: which filters cover which, and so which a broker must pass on.

Distinct filters are *entries*. Each entry hangs below one that covers it, or is a **root**; no root
covers another. The roots are what the rest of the network must be told: everything else follows
from them. A filter that is equivalent to a root is that root's entry, represented by the first that
came; among what hangs below, only equal filters are sure to be one.

Adding g asks two questions of the index of what is or was a root (`root_index.py`): *which of them
covers g?* and, if none does, *which roots does g cover?* So what a covered filter costs does not
grow with their number, which is why g hangs below a root, and not below the most specific filter of
all that cover it. A root of one constraint covers every filter with a constraint that implies it:
such constraints are remembered with their root, their *shelter*, and nothing need be asked again.

Removing an entry hangs its children one level up; below a root there is none, so they are asked
the two questions anew, those of few constraints first: they are likely to cover the others. An
entry's filter follows from its parent's by a proof, so whatever was sent upstream before always
covers what is stored: nothing is lost in between.

**In parts.** One filter may cover very many roots, or very many may hang below one that goes. Both
may be done a part at a time: a filter is a root before all that it covers are roots no more, and
one that goes stays a root until the last below it hangs elsewhere. So what was told upstream covers
what is stored at every moment; for a while it is only more than need be told. For the same reason a
proof that would take too long may be given up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from math import inf

from kbn.errors import InvalidInputError
from kbn.filters import Constraint, Filter, Subscription, covers, resolve_terms
from kbn.matching.bulk_covering import Settled
from kbn.matching.bulk_load import checked_key
from kbn.matching.covering import Implications, bytes_of_all
from kbn.matching.memos import Memo
from kbn.matching.plain_filters import is_plain_filter
from kbn.matching.root_index import RootIndex
from kbn.ontology import Ontology

SURELY_ENCODED = 8
"""Constraints so few that no bags make their code too long: what resolves can be indexed."""
ASKED_MAX = 1024
"""In parts: how often the oracle is asked for one answer that takes no parts."""
PROOFS_MAX = 5_000
"""In parts: what is spent on proofs in one part, in units of about a microsecond."""
ORPHANS_AT_ONCE = 8
LISTED_AT_ONCE = 8192
# About what it takes to hang a root below another, and to find out where an orphan hangs; in us.
DEMOTED, HUNG = 60, 300


@dataclass(frozen=True, slots=True)
class PosetChange:
    """What to tell upstream: first subscribe to `send`, then unsubscribe from `withdraw`."""

    send: tuple[Filter, ...] = ()
    withdraw: tuple[Filter, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.send or self.withdraw)


NOTHING_TO_TELL = PosetChange()
"""What most additions give: a filter that is covered changes nothing upstream."""


@dataclass(slots=True)
class _Entry:
    """A filter, the number of subscriptions with it, and its place; most have no children."""

    filter: Filter
    users: int = 0
    parent: int | None = None
    children: set[int] | None = None


class Poset:
    """Subscriptions under keys, kept in covering order as they come and go.

    With `in_parts` a change that moves very many filters is begun, and `go_on` goes on with it; no
    root covers another when nothing is left to do, but for filters so many or so large that too
    much would have to be asked. For one thread at a time.

    >>> poset = Poset()
    >>> poset.add(Subscription.parse("price < 10"), "ann").send
    (Filter([Constraint('price', Operator.LT, 10)]),)
    >>> change = poset.add(Subscription.parse("price < 20"), "bob")
    >>> [str(f) for f in change.send], [str(f) for f in change.withdraw]
    (['price < 20'], ['price < 10'])
    >>> [str(root) for root in poset.roots]
    ['price < 20']
    """

    def __init__(self, ontology: Ontology | None = None, *, in_parts: bool = False) -> None:
        self._ontology = ontology
        self._in_parts = in_parts
        self._implications = Implications(ontology, PROOFS_MAX if in_parts else inf)
        if in_parts:
            self._implications.memory.keep_small()
        asked_max = ASKED_MAX if in_parts else inf
        self._index = RootIndex(ontology, self._implications, asked_max, in_parts=in_parts)
        self._unfinished: deque[Iterator[None]] = deque()
        self._spent = 0
        self._leaving: set[int] = set()  # roots that nobody asks for, with entries below them
        self._entries: dict[int, _Entry] = {}
        self._entry_of: dict[Filter, int] = {}
        self._entries_of_key: dict[Hashable, tuple[int, ...]] = {}
        self._roots: dict[int, None] = {}
        # A constraint that implies the only one of some root, and that root (or one that was).
        self._shelters: Memo[Constraint, int] = Memo(self._implications.memory)
        self._next = 0
        # What a constraint resolves to; None where that is the constraint itself.
        self._resolutions: Memo[Constraint, Constraint | None] = Memo(self._implications.memory)
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
        """The number of distinct filters; those equivalent to a root count as one with it."""
        return len(self._entries)

    def add(self, subscription: Subscription | Filter | str, key: Hashable) -> PosetChange:
        """Store a subscription; says what must be told upstream. An error changes nothing."""
        if checked_key(key) in self._entries_of_key:
            raise InvalidInputError(f"the key {key!r} is in use: remove it first")
        self._implications.begin()
        filters = [self._checked(filter) for filter in self._index.held.filters_of(subscription)]
        entries = tuple([self._entry_for(filter) for filter in filters])
        if len(entries) > 1:
            entries = tuple(dict.fromkeys(entries))
        for entry in entries:
            self._entries[entry].users += 1
        self._entries_of_key[key] = entries
        return self._change()

    def add_many(
        self, subscriptions: Iterable[tuple[Subscription | Filter | str, Hashable]]
    ) -> PosetChange:
        """Store (subscription, key) pairs in bulk, all or none; says what must be told upstream."""
        for steps in self._unfinished:
            deque(steps, maxlen=0)
        self._unfinished.clear()
        filters_of: dict[Hashable, list[Filter]] = {}
        for subscription, key in subscriptions:
            if checked_key(key) in self._entries_of_key or key in filters_of:
                raise InvalidInputError(f"the key {key!r} is in use: remove it first")
            filters_of[key] = [
                self._resolved(filter) for filter in self._index.held.filters_of(subscription)
            ]
        found = self._enter_many(dict.fromkeys(f for part in filters_of.values() for f in part))
        for key, filters in filters_of.items():
            entries = tuple(dict.fromkeys([found[filter] for filter in filters]))
            for entry in entries:
                self._entries[entry].users += 1
            self._entries_of_key[key] = entries
        return self._change()

    def remove(self, key: Hashable) -> PosetChange:
        """Forget a subscription; says what must be told upstream."""
        entries = self._entries_of_key.pop(checked_key(key), None)
        if entries is None:
            raise InvalidInputError(f"no subscription has the key {key!r}")
        self._implications.begin()
        for entry in entries:
            self._entries[entry].users -= 1
            if not self._entries[entry].users:
                self._delete(entry)
        return self._change()

    @property
    def has_more(self) -> bool:
        """Whether a change was begun and is not over: `go_on`."""
        return bool(self._unfinished)

    def go_on(self) -> PosetChange:
        """Do another part of what was begun; says what must be told upstream.

        >>> poset = Poset(in_parts=True)
        >>> for n in range(200): assert poset.add(f"price = {n}", n)
        >>> len(poset.add("price any", "all").withdraw), poset.has_more
        (128, True)
        >>> while poset.has_more: change = poset.go_on()
        >>> [str(root) for root in poset.roots]
        ['price any']
        """
        steps = self._unfinished.popleft()
        self._implications.begin()
        for _ in steps:
            self._unfinished.append(steps)
            break
        return self._change()

    def stop(self) -> None:
        """Leave undone what was begun: nobody will ask any more."""
        self._unfinished.clear()  # its steps know this, and would keep it

    @property
    def spent(self) -> int:
        """What was spent so far, in units of about a microsecond: on proofs, and on moving filters
        because another came or went.
        """
        return self._implications.spent + self._spent

    @property
    def is_renewing(self) -> bool:
        """Whether the index of the roots is being made anew: `renew`."""
        return self._index.held.is_renewing

    def renew(self) -> int:
        """Do a step of making the index anew; about how many microseconds it took."""
        return self._index.held.renew()

    def _start(self, steps: Iterator[None]) -> None:
        """Do all of it; in parts, the first of it."""
        for _ in steps:
            if self._in_parts:
                self._unfinished.append(steps)
                return

    def check_invariants(self) -> None:
        """Every entry follows from its parent, and no root from another (slow; for tests)."""
        self._index.check_invariants()
        for number, entry in self._entries.items():
            assert (entry.parent is None) == (number in self._roots)
            if entry.parent is not None:
                parent = self._entries[entry.parent]
                assert parent.children is not None and number in parent.children
                assert covers(parent.filter, entry.filter, self._ontology)
            assert all(self._entries[child].parent == number for child in entry.children or ())
        for one in self.roots:
            assert not any(o is not one and covers(o, one, self._ontology) for o in self.roots)

    def _checked(self, filter: Filter) -> Filter:
        """The filter with its terms resolved, refused here if at all: before any is entered."""
        if filter in self._entry_of:
            return filter
        resolved = self._resolved(filter)
        if len(resolved) > SURELY_ENCODED or self._shelter(resolved) is None:
            self._index.code_of(resolved)
        return resolved

    def _entry_for(self, filter: Filter) -> int:
        """The entry of a filter or of a root equivalent to it, made and hung when there is none."""
        known = self._entry_of.get(filter)
        if known is not None:
            if known in self._leaving:
                self._leaving.discard(known)
                self._start(self._demoting(known))
            return known
        coverer = self._coverer(filter)
        if coverer is not None and self._implications.covers(filter, self._entries[coverer].filter):
            return coverer
        number = self._new_entry(filter)
        self._hang(number, coverer)
        return number

    def _enter_many(self, filters: Iterable[Filter]) -> dict[Filter, int]:
        """The entry of each filter; plain ones are made in bulk, the others one by one."""
        found = {f: self._entry_of[f] for f in filters if f in self._entry_of}
        plain, others = list[Filter](), list[Filter]()
        for filter in filters:
            if filter not in found:
                (plain if is_plain_filter(filter) else others).append(filter)
        for filter in others:
            self._index.code_of(filter)  # refused here if at all: before any is entered
        bulk = self._index.in_bulk(plain)
        had_roots = bool(self._roots)
        for run in bulk.runs(self._index.entries_of, self._coverer):
            roots = self._take_run(run, plain, found)
            if had_roots:
                self._put_covered_below(roots)
            self._index.add_many(
                list(roots.values()), list(roots), [bulk.code(place) for place in run.roots()]
            )
        for filter in sorted(others, key=len):
            found[filter] = self._entry_for(filter)
        return found

    def _take_run(
        self, run: Settled, filters: list[Filter], found: dict[Filter, int]
    ) -> dict[Filter, int]:
        """Make the entries of a run, and hang those that are covered; the others are new roots."""
        roots: dict[Filter, int] = {}
        for place, coverer, other in zip(run.places, run.coverers, run.in_run, strict=True):
            filter = filters[place]
            if other is not None:
                coverer = found[filters[other]]
            if coverer is None:
                roots[filter] = found[filter] = self._new_entry(filter)
            elif self._implications.covers(filter, self._entries[coverer].filter):
                found[filter] = coverer
            else:
                found[filter] = self._new_entry(filter)
                self._put_below(found[filter], coverer)
        for filter, number in roots.items():
            self._roots[number] = None
            self._moved[filter] = self._moved.get(filter, 0) + 1
        return roots

    def _put_covered_below(self, roots: dict[Filter, int]) -> None:
        """Hang older roots below the new ones that cover them."""
        for filter, number in roots.items():
            for part in self._index.covered(filter):
                for older in part:
                    self._leave_roots(older)
                    self._put_below(older, number)

    def _new_entry(self, filter: Filter) -> int:
        number = self._next
        self._next += 1
        self._entries[number] = _Entry(filter)
        self._entry_of[filter] = number
        return number

    def _coverer(self, filter: Filter, orphan: int | None = None) -> int | None:
        """An entry that covers the filter, if there is one: a root, or one that was.

        None that hangs below `orphan`, whose filter it is, when that is to be hung anew.
        """
        shelter = self._shelter(filter)
        if shelter is not None:
            return shelter
        for entry in self._index.covering(filter):
            if entry not in self._leaving and not self._is_below(entry, orphan):
                self._remember_shelter(filter, entry)
                return entry
        return None

    def _shelter(self, filter: Filter) -> int | None:
        """A root that covers the filter, if one is remembered."""
        for constraint in filter.constraints:
            shelter = self._shelters.get(constraint)
            if shelter is not None and shelter in self._roots and shelter not in self._leaving:
                return shelter
        return None

    def _remember_shelter(self, filter: Filter, root: int) -> None:
        constraints = self._entries[root].filter.constraints
        if len(constraints) != 1 or root not in self._roots:
            return
        for constraint in filter.constraints:
            if constraint.attribute == constraints[0].attribute and self._implications.implies(
                constraint, constraints[0]
            ):
                self._shelters.remember(constraint, root, bytes_of_all((constraint,)))

    def _hang(self, number: int, coverer: int | None) -> None:
        """Put an entry that hangs nowhere below the one that covers it, or among the roots."""
        if coverer is not None:
            self._put_below(number, coverer)
            return
        steps = self._demoting(number)
        next(steps, None)
        self._join_roots(number)
        self._start(steps)

    def _demoting(self, number: int) -> Iterator[None]:
        """Put the roots below an entry that its filter covers; in parts."""
        for part in self._index.covered(self._entries[number].filter):
            if number not in self._entries or number in self._leaving:
                return  # it went meanwhile
            for root in part:
                if root != number and root in self._roots and not self._is_below(number, root):
                    self._spent += DEMOTED
                    self._leave_roots(root)
                    self._put_below(root, number)
            yield

    def _is_below(self, entry: int | None, ancestor: int | None) -> bool:
        while entry is not None and ancestor is not None:
            if entry == ancestor:
                return True
            entry = self._entries[entry].parent
        return False

    def _put_below(self, number: int, parent: int) -> None:
        self._entries[number].parent = parent
        above = self._entries[parent]
        if above.children is None:
            above.children = set()
        above.children.add(number)

    def _resolved(self, filter: Filter) -> Filter:
        """The filter with its bare terms given their kinds; a constraint is resolved once."""
        if self._ontology is None:
            return filter
        constraints = [self._resolve(constraint) for constraint in filter.constraints]
        same = all(a is b for a, b in zip(constraints, filter.constraints, strict=True))
        return filter if same else Filter(constraints)

    def _resolve(self, constraint: Constraint) -> Constraint:
        try:
            known = self._resolutions[constraint]
        except KeyError:
            resolved = resolve_terms(constraint, self._ontology)
            known = None if resolved == constraint else resolved
            self._resolutions.remember(constraint, known, 2 * bytes_of_all((constraint,)))
        return constraint if known is None else known

    def _delete(self, number: int) -> None:
        """Take out an entry that nobody asks for; what hangs below it hangs elsewhere before."""
        entry = self._entries[number]
        if entry.parent is None and entry.children:
            self._leaving.add(number)
            self._start(self._dissolving(number))
        else:
            self._take_out(number)

    def _dissolving(self, number: int) -> Iterator[None]:
        """Hang what is below an entry elsewhere, those of few constraints first; in parts."""
        entries = self._entries
        children = entries[number].children
        while children:  # more than were listed, when one of those went
            by_size: dict[int, list[int]] = {}
            for place, child in enumerate(sorted(children), 1):
                if place % LISTED_AT_ONCE == 0:
                    yield
                if child in children:
                    by_size.setdefault(len(entries[child].filter), []).append(child)
            orphans = [orphan for size in sorted(by_size) for orphan in by_size[size]]
            for place, orphan in enumerate(orphans, 1):
                if number not in self._leaving:
                    return  # somebody asks for it again
                if orphan in children:
                    children.discard(orphan)
                    entries[orphan].parent = None
                    self._spent += HUNG
                    self._hang(orphan, self._coverer(entries[orphan].filter, orphan))
                if place % ORPHANS_AT_ONCE == 0:
                    yield
        if number in self._leaving:
            self._leaving.discard(number)
            self._take_out(number)

    def _take_out(self, number: int) -> None:
        entry = self._entries[number]
        children = entry.children or set()
        if entry.parent is None:
            assert not children
            self._leave_roots(number)
        else:
            above = self._entries[entry.parent].children
            assert above is not None
            above.discard(number)
            above |= children
        self._index.remove(number)
        del self._entries[number], self._entry_of[entry.filter]
        for child in children:
            self._entries[child].parent = entry.parent

    def _join_roots(self, number: int) -> None:
        filter = self._entries[number].filter
        self._roots[number] = None
        self._index.add(number, filter)
        self._moved[filter] = self._moved.get(filter, 0) + 1

    def _leave_roots(self, number: int) -> None:
        filter = self._entries[number].filter
        del self._roots[number]
        self._index.demote(number)
        self._moved[filter] = self._moved.get(filter, 0) - 1

    def _change(self) -> PosetChange:
        if not self._moved:
            return NOTHING_TO_TELL
        moved, self._moved = self._moved, {}
        return PosetChange(
            send=tuple(filter for filter, by in moved.items() if by > 0),
            withdraw=tuple(filter for filter, by in moved.items() if by < 0),
        )
