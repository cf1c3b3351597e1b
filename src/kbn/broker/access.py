"""Who may do what, and how much: permissions and limits.

An authorizer decides from a client's name and token what it may do. Attributes name what it may
publish and subscribe to; `manage` allows instructions to the broker itself (moving clients, say).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from kbn.errors import KbnError, LimitError
from kbn.filters import Subscription


class NotAllowedError(KbnError):
    """A client asked for what it may not do."""


class NotConnectedError(KbnError):
    """A client is not attached: it must send `Connect` (again) before anything else."""


@dataclass(frozen=True, slots=True)
class Permission:
    """What one client may do; None allows any attribute."""

    publish: frozenset[str] | None = None
    subscribe: frozenset[str] | None = None
    manage: bool = True

    def check_publish(self, attributes: Iterable[str]) -> None:
        _check("publish", self.publish, attributes)

    def check_subscribe(self, subscription: Subscription) -> None:
        # What a filter does not name it may still match, so a client that is held to some
        # attributes must name one of them in each filter.
        if self.subscribe is None:
            return
        for filter in subscription.filters:
            names = {constraint.attribute for constraint in filter}
            _check("subscribe to", self.subscribe, names)
            if not names:
                raise NotAllowedError("you may not subscribe to everything: name an attribute")

    def check_manage(self) -> None:
        if not self.manage:
            raise NotAllowedError("you may not instruct this broker: it takes the right `manage`")


class Authorizer(Protocol):
    """Decides what a client may do; None when it may not come in."""

    def admit(self, name: str, token: str) -> Permission | None: ...


class AllowAll:
    """Everybody may do everything: for trying out, and behind other means of protection."""

    def admit(self, name: str, token: str) -> Permission | None:
        return Permission()


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client or neighbour may use of a broker."""

    content_bytes: int = 1 << 20
    subscriptions: int = 1_000_000
    constraints: int = 100
    filters: int = 64
    window: int = 100_000
    queue: int = 10_000
    publish_ahead: int = 1_000

    def check_subscription(self, subscription: Subscription, held: int) -> None:
        """Raise `LimitError` when one more subscription, or one such, is too much."""
        self._check("subscriptions per client", held + 1, self.subscriptions)
        self._check("filters per subscription", len(subscription.filters), self.filters)
        most = max(len(filter) for filter in subscription.filters)
        self._check("constraints per filter", most, self.constraints)

    def check_content(self, size: int) -> None:
        if size > self.content_bytes:
            self._check("bytes per notification", size, self.content_bytes)

    @staticmethod
    def _check(what: str, number: int, maximum: int) -> None:
        if number > maximum:
            raise LimitError(
                f"{number} {what}: the limit is {maximum}", limit=what, maximum=maximum
            )


def _check(verb: str, allowed: frozenset[str] | None, attributes: Iterable[str]) -> None:
    if allowed is None:
        return
    for name in attributes:
        if name not in allowed:
            known = ", ".join(sorted(allowed)) or "none"
            raise NotAllowedError(f"you may not {verb} {name!r}: your attributes are {known}")
