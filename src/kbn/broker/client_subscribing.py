"""Subscribing and advertising: what clients want to have, and what they say they will publish."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from re import compile

from kbn.broker.changes import Changes
from kbn.broker.client_answers import ClientAnswers
from kbn.broker.client_session import ClientSession
from kbn.broker.client_sessions import ClientSessions
from kbn.broker.interests import Interests
from kbn.broker.messages import Advertise, Done, Subscribe
from kbn.broker.outbox import Outbox
from kbn.broker.routing_table import entering
from kbn.broker.store import KeptClient
from kbn.broker.unknown_terms import SUGGESTED_AMONG_MAX, suggesting
from kbn.broker.wanted import Key
from kbn.broker.work import CHANGED, CHARACTERS_READ, WORD_READ
from kbn.errors import InvalidInputError, KbnError, UnknownTermError
from kbn.filters import Subscription
from kbn.ontology import suggesting_among

_WORDS = compile(r"""'[^']*'|"[^"]*"|[^\W_]+|\S""")
"""A word, a text in quotes or a sign: about what the tokens of a filter are."""


class ClientSubscribing:
    """Handles the subscriptions and the advertisements of the clients of one broker."""

    def __init__(
        self,
        outbox: Outbox,
        clients: ClientSessions,
        interests: Interests,
        answers: ClientAnswers,
        changes: Changes,
    ) -> None:
        self._outbox = outbox
        self._clients = clients
        self._interests = interests
        self._answers = answers
        self._changes = changes

    def subscriptions(self) -> dict[Key, Subscription]:
        """What all clients want now."""
        return {
            (session.peer, id): subscription
            for session in self._clients.by_name.values()
            for id, subscription in session.subscriptions.items()
        }

    def restore(self, session: ClientSession, kept: KeptClient) -> None:
        """Let a durable client have what the store has kept for it."""
        former = self._clients.former_of(kept.name)
        for id, text in kept.subscriptions.items():
            held = session.former if id in former else session.subscriptions
            try:
                held[id] = self._interests.read(text, is_text=False)
                session.count_text(id, len(text))
            except KbnError as error:
                self._clients.set_aside(kept.name, id, text, error)
        for id, subscription in session.subscriptions.items():
            # An ontology that does not know a term of it: another may.
            with suppress(KbnError), suggesting_among(0):
                self._interests.subscribe((session.peer, id), subscription)

    def subscribe(self, session: ClientSession, message: Subscribe) -> None:
        """Do what a client asks; a KbnError when it may not have it."""
        id, characters = message.id, len(message.subscription)
        subscription = self.read(session, message.subscription, message.is_text)
        key, known = (session.peer, id), session.subscriptions.get(id)
        if known == subscription:
            if key not in self._interests.table:  # restored, and the ontology did not know a term
                self._enter(key, subscription)
            return
        session.limits.check_subscription(subscription, len(session.subscriptions))
        session.limits.check_size(characters + session.subscribed_bytes)
        session.permission.check_subscribe(subscription)
        if known is not None:
            raise InvalidInputError(
                f"you have another subscription {id}: {known}; unsubscribe it first, or let the "
                "broker forget you (kbn subscribe --durable --forget, without a filter)"
            )
        self._enter(key, subscription)
        session.count_text(id, characters)
        self._clients.add_subscription(session, id, subscription)
        self._changes.of_subscriptions(session.name)

    def _enter(self, key: Key, subscription: Subscription) -> None:
        """Enter a subscription; for a term that the ontology does not know, similar ones are
        looked for where there are not too many.
        """
        try:
            with suggesting_among(SUGGESTED_AMONG_MAX):
                self._interests.subscribe(key, subscription)
        except UnknownTermError:
            self._outbox.work.done += suggesting(self._interests.table.ontology)
            raise

    def unsubscribe(self, session: ClientSession, id: int) -> None:
        """A client wants this no more, if it ever did."""
        if self._clients.remove_subscription(session, id):
            self._outbox.work.done += CHANGED
            self._interests.unsubscribe((session.peer, id))
            self._changes.of_subscriptions(session.name)

    def unsubscribing(self, session: ClientSession) -> Iterator[None]:
        """A client wants nothing any more; in steps."""
        for id in list(session.subscriptions):
            self.unsubscribe(session, id)
            yield

    def withdraw_subscription(self, session: ClientSession, id: int, error: KbnError) -> None:
        """A client may not have a subscription any more: tell it."""
        self.unsubscribe(session, id)
        self._answers.refuse(session.peer, Subscribe(id, ""), error)

    def advertise(self, session: ClientSession, message: Advertise) -> None:
        """A client says what it will publish. It is told when the whole network knows."""
        id = message.id
        advertisement = self.read(session, message.advertisement, message.is_text)
        session.permission.check_publish(
            {c.attribute for filter in advertisement.filters for c in filter}
        )
        if id not in session.advertisements:
            held = len(session.advertisements)
            session.limits.check_subscription(advertisement, held)
            self._outbox.work.done += entering(advertisement)
            session.advertisements[id] = advertisement
            self._interests.advertise((session.peer, id), advertisement)

        def in_force() -> None:
            if id not in session.advertisements:
                return  # it was withdrawn before the wave came back
            session.in_force.add(id)
            self._outbox.send(session.peer, Done("advertise", id))

        self._answers.after_wave(session, in_force)

    def unadvertise(self, session: ClientSession, id: int) -> None:
        """A client takes an advertisement back, if it had it."""
        session.in_force.discard(id)
        if session.advertisements.pop(id, None) is not None:
            self._interests.unadvertise((session.peer, id))

    def unadvertising(self, session: ClientSession) -> Iterator[None]:
        """A client advertises nothing any more; in steps."""
        for id in list(session.advertisements):
            self._outbox.work.done += CHANGED
            self.unadvertise(session, id)
            yield

    def withdraw_advertisement(self, session: ClientSession, id: int, error: KbnError) -> None:
        """A client may not publish any more what it advertised: tell it."""
        self._outbox.work.done += CHANGED
        self.unadvertise(session, id)
        self._answers.refuse(session.peer, Advertise(id, ""), error)

    def read(self, session: ClientSession, text: str, is_text: bool) -> Subscription:
        """What a client asks for, if it is not too much to read."""
        limits = session.limits
        limits.check_text(text)
        self._outbox.work.done += _reading(text, is_text, limits.tokens)
        return self._interests.read(text, is_text=is_text, tokens_max=limits.tokens)


def _reading(text: str, is_text: bool, tokens_max: int) -> int:
    """What it costs to read a subscription, of which so many tokens are looked at."""
    characters = len(text) // CHARACTERS_READ
    if not is_text:
        return characters
    words = sum(1 for _ in islice(_WORDS.finditer(text), tokens_max))
    return characters + WORD_READ * words
