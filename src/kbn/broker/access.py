"""Who may do what: permissions.

An authorizer decides from a client's name and token what it may do. Attributes name what it may
publish and subscribe to; `manage` allows instructions to the broker itself (moving clients, say),
`block` to have publishers wait when the client is slow. `limits.py` says how much it may use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from kbn.broker.limits import LimitsGiven
from kbn.errors import KbnError
from kbn.filters import Subscription


class NotAllowedError(KbnError):
    """A client asked for what it may not do."""


class NotConnectedError(KbnError):
    """A client is not attached: it must send `Connect` (again) before anything else."""


@dataclass(frozen=True, slots=True)
class Permission:
    """What one client may do; None allows any attribute.

    `limits` has those that are other than everybody's.
    """

    publish: frozenset[str] | None = None
    subscribe: frozenset[str] | None = None
    manage: bool = True
    block: bool = True
    limits: LimitsGiven = field(default_factory=LimitsGiven, hash=False)

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

    def check_block(self) -> None:
        if not self.block:
            raise NotAllowedError(
                "you may not stop publishers when you are slow: it takes the right `block`, or "
                "connect with when_slow='drop'"
            )


class Authorizer(Protocol):
    """Decides what a client may do; None when it may not come in."""

    def admit(self, name: str, token: str) -> Permission | None: ...


class AllowAll:
    """Everybody may do everything: for trying out, and behind other means of protection."""

    def admit(self, name: str, token: str) -> Permission | None:
        return Permission()


def _check(verb: str, allowed: frozenset[str] | None, attributes: Iterable[str]) -> None:
    if allowed is None:
        return
    for name in attributes:
        if name not in allowed:
            known = ", ".join(sorted(allowed)) or "none"
            raise NotAllowedError(f"you may not {verb} {name!r}: your attributes are {known}")
