"""Explaining: why a subscription of a client accepts a notification, or why it does not.

A client is told of its own subscriptions, or of one that it may have, and of a notification that it
hands in: nothing that it has not said itself, besides what the ontology holds. It is done a
constraint at a time, turn by turn, and the answer is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.json import encode

from kbn.broker.client_publishing import ClientPublishing
from kbn.broker.client_session import ClientSession
from kbn.broker.interests import Interests
from kbn.broker.messages import Explain, Explained, Peer, TermNote, VerdictNote
from kbn.broker.outbox import Outbox
from kbn.broker.unknown_terms import FOUND_MAX, cut
from kbn.errors import InvalidInputError
from kbn.filters import (
    Bag,
    Constraint,
    Notification,
    Subscription,
    constraint_to_json,
    unknown_terms,
    verdict,
)
from kbn.matching import costs_of
from kbn.ontology import Ontology

EXPLAINED_COST = 40  # units of work for a constraint, besides what it takes to ask it
SPELT_COST = 3  # for a pair of elements that are explained
ANSWER_BYTES_MAX = 1 << 18
"""An answer that is longer has no links from there on, and sentences that are cut."""
CUT_CHARACTERS = 80

ReadSubscription = Callable[[ClientSession, str, bool], Subscription]


class ClientExplaining:
    """Answers what the clients of one broker ask about matches."""

    def __init__(
        self,
        outbox: Outbox,
        interests: Interests,
        publishing: ClientPublishing,
        read: ReadSubscription,
        begin_chore: Callable[[Iterator[None], Peer], None],
    ) -> None:
        self._outbox = outbox
        self._interests = interests
        self._publishing = publishing
        self._read = read
        self._begin_chore = begin_chore

    def explain(self, message: Explain, session: ClientSession) -> None:
        """Begin to explain; a KbnError when that may not be."""
        notification = self._publishing.read(message.content, session)
        subscription = self._subscription(message, session)
        chore = self._explaining(message.request, notification, subscription, session)
        self._begin_chore(chore, session.peer)

    def _subscription(self, message: Explain, session: ClientSession) -> Subscription:
        if message.subscription:
            known = session.subscriptions.get(message.subscription)
            if known is None:
                raise InvalidInputError(f"you have no subscription {message.subscription}")
            return known
        read = self._read(session, message.text, message.is_text)
        session.limits.check_subscription(read, 0)
        session.permission.check_subscribe(read)
        return read

    def _explaining(
        self,
        request: int,
        notification: Notification,
        subscription: Subscription,
        session: ClientSession,
    ) -> Iterator[None]:
        epoch = session.epoch
        answer = _Answer(self._interests.table.ontology or Ontology.empty())
        for each in subscription.filters:
            answer.begin_filter()
            for constraint in each.constraints:
                self._outbox.work.done += _cost(constraint, notification)
                answer.add(constraint, notification)
                yield
        if session.is_connected and session.epoch == epoch:
            unknown = _unknown(notification, answer.ontology)
            self._outbox.send(session.peer, Explained(request, answer.filters(), unknown))


class _Answer:
    """The verdicts so far, as they are sent."""

    def __init__(self, ontology: Ontology) -> None:
        self.ontology = ontology
        self._filters: list[list[VerdictNote]] = []
        self._bytes = 0

    def begin_filter(self) -> None:
        self._filters.append([])

    def add(self, constraint: Constraint, notification: Notification) -> None:
        said = verdict(constraint, notification.attributes.get(constraint.attribute), self.ontology)
        text = encode(constraint_to_json(constraint)).decode()
        reason, links = cut(said.reason, 2_000), said.links
        size = len(text) + len(reason) + sum(len(part) for link in links for part in link)
        if self._bytes + size > ANSWER_BYTES_MAX:
            reason, links = cut(reason, CUT_CHARACTERS), ()
            size = len(text) + len(reason)
        self._bytes += size
        self._filters[-1].append(VerdictNote(text, said.accepted, reason, links))

    def filters(self) -> tuple[tuple[VerdictNote, ...], ...]:
        return tuple(map(tuple, self._filters))


def _unknown(notification: Notification, ontology: Ontology) -> tuple[TermNote, ...]:
    found = unknown_terms(notification, ontology, FOUND_MAX)
    return tuple(
        TermNote(each.attribute, each.term.kind, cut(each.term.iri), cut(str(each)), each.known_as)
        for each in found[: FOUND_MAX // 2]
    )


def _cost(constraint: Constraint, notification: Notification) -> int:
    """About what it takes to explain one constraint."""
    value, operand = notification.attributes.get(constraint.attribute), constraint.operand
    if value is None:
        return EXPLAINED_COST
    cost = EXPLAINED_COST + costs_of(value)(constraint.operator, operand)
    if isinstance(value, Bag) and isinstance(operand, Bag):
        cost += SPELT_COST * min(len(value), 64) * min(len(operand), 64)
    return cost
