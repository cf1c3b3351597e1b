"""Liveness: which brokers of an overlay are dead, by their silence and their neighbours' word.

Every broker says every few seconds that it lives, and which of its neighbours it does not reach: a
*sign*. A report on one's own links is a report on oneself, so it can be believed.

A broker is dead when it is silent for a while and each neighbour has lost it, or is dead itself.
One that is silent while a neighbour reaches it cannot reach the trigger broker, and lives. One that
all its neighbours have lost and that gives signs is cut off, and lives. The dead one is dead until
it is heard of again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import inf
from typing import ClassVar

from msgspec import field

from kbn.filters import Notification
from kbn.management import message_form
from kbn.management.message_form import ManagementMessage, individual_in

SIGN_EVERY_S = 1.0
"""How often a broker gives a sign."""
DEAD_AFTER_S = 4.0
"""One that was not heard of for so long is silent; its clients wait as long before they go."""


class BrokerSign(ManagementMessage, frozen=True):
    """A broker lives, and does not reach the neighbours `lost`."""

    broker: str = field(name="brokerId")
    lost: tuple[str, ...] = field(name="lostLinks", default=())

    individual: ClassVar[str] = "broker_sign"


def is_sign(notification: Notification) -> bool:
    """Whether a notification is to carry a sign."""
    return individual_in(notification) == BrokerSign.individual


def from_notification(notification: Notification) -> BrokerSign:
    """The sign that a notification carries; InvalidInputError when it cannot be read.

    >>> from_notification(message_form.to_notification(BrokerSign("east", ("root",))))
    BrokerSign(broker='east', lost=('root',))
    """
    return message_form.from_notification(notification, {BrokerSign.individual: BrokerSign})


class Liveness:
    """Who lives and who is dead, of brokers that are linked as `look` is told.

    >>> liveness, links = Liveness(), {"east": ("root",), "root": ("east",)}
    >>> for broker in links:
    ...     liveness.heard_of(broker, 0.0)
    >>> liveness.signed(BrokerSign("root", ("east",)), 5.0)
    >>> liveness.look(links, 5.0), liveness.dead
    (True, frozenset({'east'}))
    >>> liveness.heard_of("east", 6.0)
    >>> liveness.look(links, 6.0), liveness.dead
    (True, frozenset())
    """

    def __init__(self) -> None:
        self.dead: frozenset[str] = frozenset()
        self._heard_at: dict[str, float] = {}
        self._lost: dict[str, frozenset[str]] = {}

    def resume(self, dead: Iterable[str]) -> None:
        """These were dead when we last knew."""
        self.dead = frozenset(dead)
        self._heard_at.update(dict.fromkeys(self.dead, -inf))

    def heard_of(self, broker: str, now: float) -> None:
        """A broker has told something of itself."""
        self._heard_at[broker] = now

    def signed(self, sign: BrokerSign, now: float) -> None:
        """A broker gave a sign."""
        self.heard_of(sign.broker, now)
        self._lost[sign.broker] = frozenset(sign.lost)

    def forget(self, broker: str) -> None:
        """A broker has ended, or is not counted any more."""
        self.dead -= {broker}
        self._heard_at.pop(broker, None)
        self._lost.pop(broker, None)

    def listen_again(self, now: float) -> None:
        """Nobody could be heard until now: give each broker its time."""
        for broker in self._heard_at:
            if broker not in self.dead:
                self._heard_at[broker] = now

    def look(self, links: Mapping[str, Iterable[str]], now: float) -> bool:
        """See who is dead, of those that `links` names; whether that is news."""
        silent = {each for each in links if self._is_silent(each, now)}
        dead = {each for each in self.dead if self._is_silent(each, now)}
        neighbours = _mutual(links)
        while newly := {each for each in silent - dead if self._is_lost(each, neighbours, dead)}:
            dead |= newly
        before, self.dead = self.dead, frozenset(dead)
        return self.dead != before

    def _is_silent(self, broker: str, now: float) -> bool:
        heard_at = self._heard_at.setdefault(broker, now)
        return now - heard_at >= DEAD_AFTER_S

    def _is_lost(
        self, broker: str, neighbours: Mapping[str, Collection[str]], dead: Collection[str]
    ) -> bool:
        others = neighbours[broker]
        return bool(others) and all(
            other in dead or broker in self._lost.get(other, ()) for other in others
        )


def _mutual(links: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """Who is beside whom, as both say: nobody can make himself a witness."""
    said = {one: set(others) for one, others in links.items()}
    return {one: {each for each in said[one] if one in said.get(each, ())} for one in said}
