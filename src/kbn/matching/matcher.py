"""The matcher: subscriptions in, notifications asked, keys out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import wraps
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from kbn.errors import InvalidInputError, KbnError
from kbn.filters import (
    Explanation,
    Notification,
    Subscription,
    TermCheck,
    UnknownTerm,
    explain,
)
from kbn.matching.bulk_load import BulkLoad, checked_key, in_chunks
from kbn.matching.indexed_subscriptions import Given, IndexedSubscriptions
from kbn.matching.matches import Matches
from kbn.matching.metering import Meter
from kbn.matching.parted_match import PartedMatch
from kbn.matching.unsuited_terms import classes_for_individuals
from kbn.ontology import Ontology, Term

if TYPE_CHECKING:
    import pyarrow as pa

P = ParamSpec("P")
R = TypeVar("R")


def _in_turn(method: Callable[Concatenate[Matcher, P], R]) -> Callable[Concatenate[Matcher, P], R]:
    """Let one thread at a time into the matcher: matching shares scratch, changes take steps."""

    @wraps(method)
    def call(matcher: Matcher, /, *given: P.args, **named: P.kwargs) -> R:
        with matcher._held.lock:
            return method(matcher, *given, **named)

    return call


class Matcher:
    """An index of subscriptions that answers which of them accept a notification.

    Agrees with `Subscription.matches` for every input, whatever was added and removed before; it is
    only faster. Threads may share one: their calls take turns.

    An index that has doubled, or lost half of what it had, is made anew by the call that finds it
    so. With `in_parts` a large one is made anew in steps: while it `is_renewing`, call `renew`.

    >>> from kbn import Matcher, Notification, Subscription
    >>> matcher = Matcher()
    >>> matcher.add(Subscription.parse('price < 20 and kind = "book"'), "ann")
    >>> matcher.add(Subscription.parse("price < 10"), "bob")
    >>> sorted(matcher.match(Notification({"price": 5, "kind": "book"})))
    ['ann', 'bob']
    >>> matcher.remove("bob")
    >>> len(matcher.match(Notification({"price": 5})))
    0
    """

    def __init__(self, ontology: Ontology | None = None, *, in_parts: bool = False) -> None:
        self._held = IndexedSubscriptions(ontology, in_parts=in_parts)
        self._terms = TermCheck(ontology)

    def __len__(self) -> int:
        """The number of subscriptions."""
        return len(self._held)

    def __contains__(self, key: Hashable) -> bool:
        return self._held.subscribers.number_of(checked_key(key)) is not None

    @property
    def ontology(self) -> Ontology | None:
        """What the terms of subscriptions and notifications mean."""
        return self._held.ontology

    @property
    def version(self) -> int:
        """How often subscriptions came or went."""
        return self._held.version

    @property
    def group_count(self) -> int:
        """The number of distinct filters."""
        return self._held.group_count

    @_in_turn
    def add(self, subscription: Given, key: Hashable) -> None:
        """Add one subscription under a key of its own.

        A text is parsed with the ontology's prefixes, unless it is a JSON form. An error leaves the
        matcher as it was.
        """
        self._held.add(subscription, key)

    @_in_turn
    def add_many(self, subscriptions: Iterable[tuple[Given, Hashable]]) -> int:
        """Add (subscription, key) pairs in bulk; returns how many. All are added, or none.

        The error of a pair that is wrong names its row, counted from 1, and its key.
        """
        self._held.before_change()
        with BulkLoad(self._held) as load:
            for rows, keys, trouble in in_chunks(subscriptions):
                load.take(rows, keys)
                if trouble is not None:
                    raise trouble
        return self._held.commit(load)

    @_in_turn
    def add_table(self, subscriptions: pa.Table) -> int:
        """Add the rows of an Arrow table in bulk; returns how many. All are added, or none.

        The table has a column `key` and a column `filter`: texts, or lists of constraints (see
        `kbn.matching.constraint_table`).
        """
        self._held.before_change()
        with BulkLoad(self._held) as load:
            load.take_table(subscriptions)
        return self._held.commit(load)

    @_in_turn
    def remove(self, key: Hashable) -> None:
        """Remove the subscription added under `key`."""
        self._held.remove(key)

    @property
    def is_renewing(self) -> bool:
        """Whether the index is being made anew, in parts."""
        return self._held.is_renewing

    @_in_turn
    def renew(self) -> int:
        """Do a step of making the index anew; about how many microseconds it took.

        >>> matcher = Matcher(in_parts=True)
        >>> for n in range(5_000): matcher.add(f"price < {n}", n)
        >>> matcher.is_renewing
        True
        >>> while matcher.is_renewing: took = matcher.renew()
        >>> len(matcher.match({"price": 10}))
        4989
        """
        return self._held.renew()

    @_in_turn
    def match(self, notification: Notification | Mapping[str, Any]) -> Matches:
        """The subscriptions that accept the notification."""
        if notification.__class__ is not Notification:
            notification = Notification(notification)
        held = self._held
        return Matches(held, held.index.find(notification.attributes), held.version)

    @_in_turn
    def match_in_parts(self, notification: Notification, meter: Meter | None = None) -> PartedMatch:
        """Begin a match that is done in parts; subscriptions may come and go in between.

        A meter that ran out of work on this notification, a moment ago, has the first part.
        """
        match = PartedMatch(self._held, notification, Meter(0) if meter is None else meter)
        self._held.begin_parted(match)
        return match

    @_in_turn
    def match_groups(self, notifications: Sequence[Notification]) -> list[list[int]]:
        """For each notification the numbers of the groups that accept it (see `keys_of_groups`);
        they hold until the next change. For many at once, where no table of them is at hand.
        """
        return self._held.index.find_many([each.attributes for each in notifications])

    @_in_turn
    def keys_of_groups(self, groups: Iterable[int]) -> list[Any]:
        """The keys of the subscriptions in some groups."""
        return self._held.keys_of_groups(groups)

    def size_of_group(self, group: int) -> int:
        """How many subscriptions are in a group."""
        return int(self._held.index.groups.alive[group])

    @_in_turn
    def match_batch(self, notifications: pa.Table, *, expand: bool = True) -> pa.Table:
        """Match a table of notifications, a row each; see `kbn.matching.batch`.

        With `expand`, one row per (notification, key); without, one per (notification, group) with
        the number of subscriptions in the group.
        """
        from kbn.matching.batch import match_table

        return match_table(self._held, notifications, expand=expand)

    @_in_turn
    def snapshot(self) -> Matcher:
        """A read-only matcher with what is added so far, whatever happens to this one.

        Costs next to nothing now; the next change to this matcher copies the arrays first.
        """
        return _matcher_of(self._held.snapshot())

    @_in_turn
    def save(self, directory: str | Path) -> None:
        """Write a snapshot that `load` maps into memory, shared by the processes of a machine."""
        from kbn.matching.snapshot import save

        try:
            save(self._held, Path(directory))
        except OSError as error:
            raise KbnError(f"the matcher cannot be saved to {directory}: {error}") from error

    @classmethod
    def load(cls, directory: str | Path, ontology: Ontology | None = None) -> Matcher:
        """Open a saved snapshot; it must have been saved with the same ontology.

        The arrays are memory-mapped. Adding or removing copies them first.
        """
        from kbn.matching.snapshot import load

        return _matcher_of(load(Path(directory), ontology))

    @_in_turn
    def subscription(self, key: Hashable) -> Subscription:
        """What was added under `key`, in the index's own normal form."""
        number = self._held.subscribers.number_of(key)
        if number is None:
            raise InvalidInputError(f"no subscription has the key {key!r}")
        return self._held.subscription(number)

    @_in_turn
    def explain(self, notification: Notification | Mapping[str, Any], key: Hashable) -> Explanation:
        """Why the subscription under `key` accepts the notification, or why it does not.

        >>> matcher = Matcher()
        >>> matcher.add("price < 10", "bob")
        >>> matcher.explain({"price": 12}, "bob").reasons
        ['price: 12 is not less than 10']
        """
        return explain(self.subscription(key), notification, self.ontology)

    def unknown_terms(
        self, notification: Notification | Mapping[str, Any], *, at_most: int | None = None
    ) -> tuple[UnknownTerm, ...]:
        """The terms of a notification that the ontology does not know as what they are used for.

        And the classes that no subscription accepts where some ask for individuals. Most often each
        is a mistake, because of which nobody gets the notification.

        >>> from kbn import Class, Ontology, data
        >>> matcher = Matcher(Ontology.load(data.path("animals")))
        >>> matcher.add("x @= animals:Mammal", "ann")
        >>> print(matcher.unknown_terms({"x": Class("animals:Cow")})[0])
        x: <animals:Cow> is a class, and subscriptions ask for an individual here (@=); @> asks ...
        """
        if self._terms.is_idle:
            return ()
        given = notification if type(notification) is Notification else Notification(notification)
        named = self._terms.terms_of(given.attributes)
        return self._unknown_among(named, at_most) if named else ()

    @_in_turn
    def _unknown_among(
        self, named: list[tuple[str, Term]], at_most: int | None
    ) -> tuple[UnknownTerm, ...]:
        unknown = self._terms.unknown_among(named)
        found = chain(unknown, classes_for_individuals([self._held.index.table], named))
        return tuple(dict.fromkeys(islice(found, at_most)))

    @property
    def constant_bytes(self) -> int:
        """About what the constants take that were ever asked for, also of what was removed."""
        return self._held.index.table.bytes

    def memory(self) -> int:
        """The bytes of the index' arrays (keys and token dictionaries not counted)."""
        return self._held.index.memory()


def subscriptions_of(matcher: Matcher) -> IndexedSubscriptions:
    """What a matcher is made of, for the rest of this room; nobody else's business."""
    return matcher._held


def _matcher_of(held: IndexedSubscriptions) -> Matcher:
    matcher = Matcher.__new__(Matcher)
    matcher._held = held
    matcher._terms = TermCheck(held.ontology)
    return matcher
