"""Re-clustering: clients that policies find misplaced go nearer to their partners.

A partner of a subscriber is who publishes what it hears, a partner of a publisher who hears it.
Those found misplaced are collected and looked at together (`flush`), because two can exchange
places where each alone would find no room.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from kbn.errors import KbnError
from kbn.management.action_log import Status
from kbn.management.assignments import Assignments
from kbn.management.client_counts import ClientCounts
from kbn.management.engine import Decision
from kbn.management.instructions import PlacementNote
from kbn.management.managed_object import ManagedObject
from kbn.management.mib import Mib, Recipient
from kbn.management.outcomes import Outcome, send_client
from kbn.management.reports import Kind
from kbn.placement import (
    MEAN_HOPS_MAX,
    Assignment,
    Distances,
    Move,
    mean_hops,
    propose_moves,
)

FLUSH_EVERY_S = 2.0
TOGETHER_MAX = 2000
"""So many clients are looked at together; of more, only those that were found misplaced."""
ARRIVE_S = 10.0
"""One who was told to go elsewhere less than this ago counts as being there."""
REASSIGNED = "reassigned"
"""The mark of clients who sit near their partners rather than where their medoid is at home."""


class Reclustering:
    """Collects misplaced clients and moves those that gain from it."""

    def __init__(
        self, mib: Mib, assignments: Assignments, counts: ClientCounts, load_max: float
    ) -> None:
        self._mib = mib
        self._assignments = assignments
        self._counts = counts
        self._load_max = load_max
        self._misplaced: dict[tuple[Kind, str], Decision] = {}
        self._flushed_at = 0.0

    def add(self, client: ManagedObject, decision: Decision) -> None:
        """Look at a client with the others soon."""
        self._misplaced[client.kind, client.name] = decision

    def flush(self, now: float) -> Iterator[Outcome]:
        """What comes of those found misplaced, when it is time to look at them together."""
        if not self._misplaced or now - self._flushed_at < FLUSH_EVERY_S:
            return
        self._flushed_at = now
        # Publishers first, and subscribers when these have arrived: gains suppose that those at the
        # other end stay, and subscribers that hear from everywhere would all meet in the middle.
        has_publishers = any(of == "publisher" for of, _ in self._misplaced)
        kind: Kind = "publisher" if has_publishers else "subscriber"
        named = {name: each for (of, name), each in self._misplaced.items() if of == kind}
        for name in named:
            del self._misplaced[kind, name]
        try:
            yield from self._reassign(kind, named, now)
        except KbnError as error:
            yield from (Outcome(each, Status.FAILED, str(error)) for each in named.values())

    def _reassign(self, kind: Kind, named: Mapping[str, Decision], now: float) -> Iterator[Outcome]:
        if not self._assignments.brokers:
            detail = "no broker is known yet"
            yield from (Outcome(each, Status.UNCHANGED, detail) for each in named.values())
            return
        # With all of them, as long as they are few: one who sits well may make room for another.
        few = self._mib.count(kind) <= TOGETHER_MAX
        names = [each.name for each in self._mib.objects(kind)] if few else list(named)
        assignments = list(self._assignments_of(kind, names, now))
        moves = propose_moves(
            assignments,
            self._assignments.distances,
            self._load_max,
            others=self._others(assignments, now),
        )
        going = {move.client for move in moves}
        staying = [each for each in assignments if each.client in named.keys() - going]
        for assignment in staying:
            if _is_misplaced(assignment, self._assignments.distances):
                detail = "no broker with room is nearer to its partners"
                yield Outcome(named[assignment.client], Status.UNCHANGED, detail)
        first = next(iter(named.values()))
        for move in moves:
            decision = named.get(move.client) or replace(first, name=move.client)
            yield self._carry_out(kind, move, decision, now)

    def _others(self, assignments: Iterable[Assignment], now: float) -> dict[str, float]:
        """How many clients each broker has beside these."""
        load = Counter(self._counts.by_broker(now))
        load.subtract(assignment.broker for assignment in assignments)
        return {name: float(n) for name, n in load.items() if n > 0 and self._is_known(name)}

    def _carry_out(self, kind: Kind, move: Move, decision: Decision, now: float) -> Outcome:
        client = self._mib.get(kind, move.client)
        if client is None or client.broker != move.old:
            return Outcome(decision, Status.UNCHANGED, "it is somewhere else by now")
        if {move.old, move.new} & self._assignments.dead:
            return Outcome(decision, Status.UNCHANGED, "a broker is dead")
        if move.new in self._assignments.spare:
            detail = f"{move.new} is nearer to its partners, and spare"
            return Outcome(decision, Status.UNCHANGED, detail)
        try:
            send = send_client(client, move.new, self._mib)
        except KbnError as error:
            return Outcome(decision, Status.FAILED, str(error))
        self._counts.sent(move.old, move.new)
        self._mib.placed(kind, move.client, move.new, now)
        self._mib.mark(kind, move.client, REASSIGNED)
        text = f"from {move.old} to {move.new}, {move.gain:g} hops nearer to its partners"
        note = PlacementNote(kind, move.client, move.new, is_reassigned=True, before=move.old)
        return Outcome(decision, Status.DONE, text, (send,), (note,))

    # Who is where, and what it hears from whom. Partners count where they will be: two who moved
    # towards each other would exchange places.

    def _assignments_of(self, kind: Kind, names: Iterable[str], now: float) -> Iterator[Assignment]:
        heard = self._heard_by_publisher(now) if kind == "publisher" else None
        for name in names:
            client = self._mib.get(kind, name)
            if client is None or not self._is_known(client.broker):
                continue
            if _broker_of(client, now) != client.broker:
                continue  # it is on its way
            mine = self._heard(client, now) if heard is None else heard.get(name, {})
            yield Assignment(name, client.broker, mine)

    def _heard(self, subscriber: ManagedObject, now: float) -> dict[str, float]:
        """A subscriber's notifications, by the broker of who published them."""
        heard: dict[str, float] = defaultdict(float)
        for name, count in subscriber.publishers.items():
            publisher = self._mib.get("publisher", name)
            at = "" if publisher is None else _broker_of(publisher, now)
            if self._is_known(at):
                heard[at] += count
        return heard

    def _heard_by_publisher(self, now: float) -> dict[str, dict[str, float]]:
        """Each publisher's notifications, by the broker of who had them."""
        heard: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for recipient in self._mib.recipients():
            at = _broker_of(recipient, now)
            if self._is_known(at):
                for name, count in recipient.publishers.items():
                    heard[name][at] += count
        return heard

    def _is_known(self, broker: str) -> bool:
        return broker in self._assignments.brokers


def _broker_of(client: ManagedObject | Recipient, now: float) -> str:
    """The broker where a client is, or where it goes if it was told to a moment ago."""
    is_told = client.placed_on and 0 <= now - client.placed_at < ARRIVE_S
    return str(client.placed_on if is_told else client.broker)


def _is_misplaced(assignment: Assignment, distances: Distances) -> bool:
    mean = mean_hops(assignment, distances)
    return mean is not None and mean > MEAN_HOPS_MAX
