"""The routing table: who wants what, and who is to be told of it.

One matcher holds the subscriptions of all clients and the announcements of all neighbours,
each under the peer it came from. Each neighbour's announcements are kept beside it, fed with
everything but the neighbour's own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from weakref import WeakSet

from kbn.broker.announcements import Announcements
from kbn.broker.filter_index import FilterIndex
from kbn.broker.messages import Announce, Peer
from kbn.broker.wanted import Key, Listing, Wanted
from kbn.broker.work import CHANGED, CONSTRAINT, ELEMENT, FILTER
from kbn.filters import Filter, Notification, Subscription, UnknownTerm, bag_elements
from kbn.matching import Matcher, Meter, Poset
from kbn.ontology import Ontology

ToTell = tuple[str, Announce]
Untold = tuple[str, Announcements, Iterator[Announce | None]]

LITTER_BYTES_MAX = 1 << 22
"""Constants of removed subscriptions take so much, and twice those in use; then they are gone."""


class Register:
    """Filters under keys, and which neighbours are told of them: each of all but its own.

    With `by_equality` it knows quickly which of them may intersect another.
    """

    def __init__(self, *, by_equality: bool = False) -> None:
        self.by_equality = FilterIndex() if by_equality else None
        self._entries: dict[Key, Subscription] = {}
        self._told: dict[str, Announcements] = {}
        # What neighbours are still to be told of, by whose it is, in its order.
        self._untold: dict[Peer, deque[Untold]] = {}
        self._unfinished: dict[str, Announcements] = {}
        self._spent = 0  # on telling neighbours, as far as it was counted
        # Neighbours that are not told of each other's (see `broker_move.py`).
        self.apart: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    @property
    def entries(self) -> Mapping[Key, Subscription]:
        return self._entries

    def add(self, key: Key, subscription: Subscription) -> None:
        """Enter one; neighbours are to be told, step by step: `tell_next`."""
        self._entries[key] = subscription
        if self.by_equality is not None:
            self.by_equality.add(key, subscription)
        self._tell_of(lambda each: each.adding(key, subscription), key[0])

    def remove(self, key: Key) -> None:
        """Take one out, if it is there; neighbours are to be told, likewise."""
        subscription = self._entries.pop(key, None)
        if subscription is None:
            return
        if self.by_equality is not None:
            self.by_equality.remove(key, subscription)
        self._tell_of(lambda each: each.removing(key), key[0])

    def _tell_of(
        self, change: Callable[[Announcements], Iterator[Announce | None]], source: Peer
    ) -> None:
        untold = [(name, each, change(each)) for name, each in self._others(source)]
        if untold:
            self._untold.setdefault(source, deque()).extend(untold)

    def has_untold(self, source: Peer) -> bool:
        """Whether neighbours are to be told of something that is this peer's."""
        return source in self._untold

    def tell_next(self, source: Peer) -> ToTell | None:
        """Do a step of telling one neighbour of what is a peer's; whom to tell what."""
        name, announcements, steps = self._untold[source][0]
        if self._told.get(name) is announcements:
            for announce in steps:
                if announcements.has_more:
                    self._unfinished[name] = announcements
                return None if announce is None else (name, announce)
        self._untold[source].popleft()
        if not self._untold[source]:
            del self._untold[source]
        return None

    def tell_all(self, source: Peer) -> list[ToTell]:
        """Do all of these steps at once."""
        found = []
        while self.has_untold(source):
            to_tell = self.tell_next(source)
            if to_tell is not None:
                found.append(to_tell)
        return found

    @property
    def has_more(self) -> bool:
        """Whether a change moved very many filters, and is not over: `go_on`."""
        return bool(self._unfinished)

    def go_on(self) -> ToTell | None:
        """Do another part of a change; whom to tell what."""
        name, announcements = self._unfinished.popitem()
        if self._told.get(name) is not announcements:
            return None
        announce = announcements.go_on()
        if announcements.has_more:
            self._unfinished[name] = announcements
        return None if announce is None else (name, announce)

    def take_spent(self) -> int:
        """What was spent on telling since the last time, in units of work."""
        before, self._spent = self._spent, self._spent_so_far()
        return max(0, self._spent - before)

    def _spent_so_far(self) -> int:
        return sum(each.spent for each in self._told.values())

    @property
    def is_renewing(self) -> bool:
        """Whether an index is being made anew: `renew`."""
        return any(each.is_renewing for each in self._told.values())

    def renew(self) -> int:
        """Do a step of that; about how many microseconds it took."""
        for each in self._told.values():
            if each.is_renewing:
                return each.renew()
        return 0

    def join(self, name: str, announcements: Announcements) -> None:
        """A neighbour joins that is to be told."""
        for _ in self.joining(name, announcements):
            pass

    def joining(self, name: str, announcements: Announcements) -> Iterator[ToTell | None]:
        """A neighbour joins, in steps: each gives what it must be told, if anything.

        What is entered and taken out between the steps is told as always.
        """
        self._told[name] = announcements
        for key in list(self._entries):
            subscription = self._entries.get(key)
            if subscription is None or key in announcements or not self._is_for(name, key):
                continue
            if self._told.get(name) is not announcements:
                return
            yield from self._steps(name, announcements, announcements.adding(key, subscription))

    def _steps(
        self, name: str, announcements: Announcements, steps: Iterator[Announce | None]
    ) -> Iterator[ToTell | None]:
        for announce in steps:
            if announcements.has_more:
                self._unfinished[name] = announcements
            yield None if announce is None else (name, announce)

    @property
    def told_names(self) -> list[str]:
        """The neighbours that are told."""
        return list(self._told)

    def told(self, name: str) -> Announcements | None:
        """What a neighbour is told, if it is told anything."""
        return self._told.get(name)

    def leave(self, name: str) -> None:
        """A neighbour is to be told nothing more."""
        announcements = self._told.pop(name, None)
        if announcements is not None:
            announcements.stop()

    def reconsidering(
        self, name: str, changed: Subscription | None = None
    ) -> Iterator[ToTell | None]:
        """What a neighbour must be told now that what its gate goes by has changed; in steps.

        If one advertisement has changed, only those are looked at that may intersect it.
        """
        announcements = self._told.get(name)
        if announcements is None:
            return
        keys: Iterable[Key] = list(self._entries)
        if changed is not None and self.by_equality is not None:
            index = self.by_equality
            keys = dict.fromkeys(
                key for each in changed.filters for key, _ in index.candidates(each)
            )
        for key in keys:
            yield None
            if self._told.get(name) is not announcements:
                return
            subscription = self._entries.get(key)
            if subscription is not None and self._is_for(name, key):
                steps = announcements.reconsidering(key, subscription)
                yield from self._steps(name, announcements, steps)

    def _others(self, source: Peer) -> Iterable[tuple[str, Announcements]]:
        if source.kind == "client":
            return self._told.items()
        return (
            (name, a)
            for name, a in self._told.items()
            if name != source.name and not (name in self.apart and source.name in self.apart)
        )

    def _is_for(self, name: str, key: Key) -> bool:
        """Whether a neighbour is to be told of what has this key."""
        kind, source = key[0]
        is_apart = name in self.apart and source in self.apart
        return kind == "client" or (source != name and not is_apart)


def entering(subscription: Subscription) -> int:
    """What it costs to enter a subscription into an index."""
    filters = (
        FILTER + CONSTRAINT * len(each) + ELEMENT * bag_elements(each)
        for each in subscription.filters
    )
    return CHANGED + sum(filters)


class RoutingTable(Register):
    """The subscriptions a broker knows, by key: the peer they are from, and its number for them.

    With `keeps_roots` the covering order of the whole table is kept too, for whoever wants to see
    it; routing needs only what each neighbour is told.
    """

    def __init__(
        self,
        ontology: Ontology | None = None,
        *,
        keeps_roots: bool = False,
        by_equality: bool = False,
    ) -> None:
        super().__init__(by_equality=by_equality)
        self.ontology = ontology
        self._matcher = Matcher(ontology, in_parts=True)
        self._poset = Poset(ontology, in_parts=True) if keeps_roots else None
        self._fresh: Matcher | None = None  # being made, to take the place of the other
        self._made_bytes = self._removed = self._versions = 0
        self._wanting: dict[int, list[Key]] = {}
        self._listings: WeakSet[Listing] = WeakSet()

    @property
    def keeps_roots(self) -> bool:
        return self._poset is not None

    @property
    def roots(self) -> tuple[Filter, ...] | None:
        """The filters that no other covers, where they are kept."""
        return None if self._poset is None else self._poset.roots

    @property
    def filter_count(self) -> int:
        """The number of distinct filters."""
        return self._matcher.group_count

    def add(self, key: Key, subscription: Subscription) -> None:
        """Enter a subscription; neighbours are to be told. An error changes nothing."""
        self._matcher.add(subscription, key)
        if self._fresh is not None:
            self._fresh.add(subscription, key)
        self._wanting.clear()
        if self._poset is not None:
            self._poset.add(subscription, key)
        super().add(key, subscription)

    def remove(self, key: Key) -> None:
        """Take a subscription out, if it is there; neighbours are to be told."""
        if key in self._entries:
            self._matcher.remove(key)
            self._removed += 1
            if self._fresh is not None and key in self._fresh:
                self._fresh.remove(key)
            self._wanting.clear()
            for listing in self._listings:
                listing.wanted.leave_out(key)
            if self._poset is not None:
                self._poset.remove(key)
        super().remove(key)

    def cost_of(self, subscription: Subscription) -> int:
        """What it costs to enter a subscription, besides telling neighbours; in units of work."""
        times = 1 + (self._fresh is not None) + (self._poset is not None)
        return times * entering(subscription)

    @property
    def has_more(self) -> bool:
        """`Register.has_more`."""
        return super().has_more or (self._poset is not None and self._poset.has_more)

    def go_on(self) -> ToTell | None:
        """`Register.go_on`."""
        if self._poset is not None and self._poset.has_more:
            self._poset.go_on()
        return super().go_on() if super().has_more else None

    def _spent_so_far(self) -> int:
        return super()._spent_so_far() + (0 if self._poset is None else self._poset.spent)

    @property
    def is_renewing(self) -> bool:
        """`Register.is_renewing`."""
        return any(each.is_renewing for each in self._indexes()) or super().is_renewing

    def renew(self) -> int:
        """`Register.renew`."""
        for each in self._indexes():
            if each.is_renewing:
                self._wanting.clear()
                return each.renew()
        return super().renew()

    def _indexes(self) -> Iterator[Matcher | Poset]:
        yield self._matcher
        if self._fresh is not None:
            yield self._fresh
        if self._poset is not None:
            yield self._poset

    @property
    def version(self) -> int:
        """Another one after each change."""
        return self._versions + self._matcher.version

    @property
    def is_littered(self) -> bool:
        """Whether what is left of removed subscriptions takes too much room: have it made anew."""
        return (
            self._fresh is None
            and 2 * self._removed > len(self)
            and self._matcher.constant_bytes > LITTER_BYTES_MAX + 2 * self._made_bytes
        )

    def making_anew(self) -> Iterator[int]:
        """Make the matcher anew, without the constants of removed subscriptions; in steps.

        Each step says what it has cost. What is entered and taken out between the steps is entered
        and taken out of both.
        """
        fresh = self._fresh = Matcher(self.ontology, in_parts=True)
        for key in list(self._entries):
            subscription = self._entries.get(key)
            if subscription is not None and key not in fresh:
                fresh.add(subscription, key)
                yield entering(subscription)
        self._versions += self._matcher.version + 1
        self._matcher, self._fresh = fresh, None
        self._made_bytes, self._removed = fresh.constant_bytes, 0
        self._wanting.clear()
        for listing in list(self._listings):
            listing.begin_again(fresh)

    def unknown_terms(self, notification: Notification, at_most: int) -> tuple[UnknownTerm, ...]:
        """The terms of a notification that nobody can make sense of; see `Matcher`."""
        return self._matcher.unknown_terms(notification, at_most=at_most)

    def match(self, notification: Notification) -> Wanted:
        """Who wants it."""
        wanted = self._wanted(self._matcher.match(notification).group_ids.tolist(), inf)
        assert wanted is not None
        return wanted

    def match_many(self, notifications: Sequence[Notification]) -> list[Wanted]:
        """Who wants each of them."""
        found = self._matcher.match_groups(notifications)
        return [wanted for groups in found if (wanted := self._wanted(groups, inf)) is not None]

    def match_up_to(self, most: int, notification: Notification) -> Wanted | None:
        """Who wants it; None when more than so many subscriptions do, which are not listed then."""
        return self._wanted(self._matcher.match(notification).group_ids.tolist(), most)

    def match_many_up_to(
        self, most: int, notifications: Sequence[Notification]
    ) -> list[Wanted | None]:
        """Who wants each of them; None where that would list more than so many in all."""
        found = []
        for groups in self._matcher.match_groups(notifications):
            wanted = self._wanted(groups, most)
            if wanted is not None:
                most -= sum(map(len, wanted.clients.values()))
            found.append(wanted)
        return found

    def match_in_parts(self, notification: Notification, meter: Meter) -> Listing:
        """Find out who wants it in parts, after a meter ran out, or where very many do."""
        listing = Listing(notification, self._matcher.match_in_parts(notification, meter))
        self._listings.add(listing)
        return listing

    def _wanted(self, groups: list[int], most: float) -> Wanted | None:
        wanted = Wanted(set(), {})
        for group in groups:
            keys = self._wanting.get(group)
            if keys is None:
                if self._matcher.size_of_group(group) > most:
                    return None
                keys = self._look_up(group)
            most -= len(keys)
            if most < 0:
                return None
            wanted.enter(keys)
        return wanted

    def _look_up(self, group: int) -> list[Key]:
        """Whose subscriptions have the filter of a group; remembered until the table changes."""
        found = self._wanting[group] = self._matcher.keys_of_groups([group])
        return found
