"""Who may do what: permissions.

An authorizer decides from a client's name and token what it may do. Attributes name what it may
publish and subscribe to; `manage` allows instructions to the broker itself (moving clients, say),
`block` to have publishers wait when the client is slow. `limits.py` says how much it may use.
`access_rules.py` is the authorizer that an access file describes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from kbn.broker.limits import LimitsGiven
from kbn.errors import KbnError
from kbn.filters import Subscription

KnownBy: TypeAlias = Literal["proof", "claim", "shared", "trust"]
"""What the name of a client rests on.

`proof`: a token of its own, or a certificate, that the authorizer has checked. `claim`: nothing; a
name belongs to whoever first uses it with a token. `shared`: a token that others have, too.
`trust`: nothing is checked here, of anybody.
"""


class NotAllowedError(KbnError):
    """A client asked for what it may not do."""


class NotConnectedError(KbnError):
    """A client is not attached: it must send `Connect` (again) before anything else."""


@dataclass(frozen=True, slots=True)
class Permission:
    """What one client may do; None allows any attribute.

    `subscribe` names the attributes that it may ask for and is shown. With `block` its publishers
    may be stopped when it is slow; with `ontologies` a manager may have ontologies loaded.
    `limits` has those that are other than everybody's. `known_by` says what its name rests on.
    """

    publish: frozenset[str] | None = None
    subscribe: frozenset[str] | None = None
    manage: bool = True
    block: bool = True
    ontologies: bool = True
    limits: LimitsGiven = field(default_factory=LimitsGiven, hash=False)
    known_by: KnownBy = "proof"

    def check_publish(self, attributes: Iterable[str]) -> None:
        if self.publish is not None:
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

    def check_ontologies(self) -> None:
        if not self.ontologies:
            raise NotAllowedError("you may not load ontologies: it takes the right `ontologies`")

    def check_block(self) -> None:
        if not self.block:
            raise NotAllowedError(
                "you may not stop publishers when you are slow: it takes the right `block`, or "
                "connect with when_slow='drop'"
            )


class Authorizer(Protocol):
    """Decides who may come in as a client, and what each may do.

    Two more methods are looked for. `admit_broker(name, token)` says whether a broker may be a
    neighbour: without it, none may. `permission_of(name)` says what a client of that name may do
    once it is admitted, or None when nobody of that name is: without it, a client that is away
    keeps what it had until it comes back.
    """

    def admit(self, name: str, token: str) -> Permission | None:
        """What a client may do; None when it may not come in."""


class AllowAll:
    """Everybody may do everything: for trying out, and behind other means of protection."""

    def admit(self, name: str, token: str) -> Permission | None:
        return Permission(known_by="trust")

    def admit_broker(self, name: str, token: str) -> bool:
        # A subclass that chooses among clients must say itself which brokers it takes.
        return type(self).admit is AllowAll.admit


def admits_broker(authorizer: Authorizer, name: str, token: str) -> bool:
    """Whether a broker may be a neighbour; not where the authorizer knows of clients only.

    >>> class Clients:
    ...     def admit(self, name, token):
    ...         return Permission()
    >>> admits_broker(AllowAll(), "east", ""), admits_broker(Clients(), "east", "")
    (True, False)
    """
    admits = getattr(authorizer, "admit_broker", None)
    return admits is not None and bool(admits(name, token))


def _check(verb: str, allowed: frozenset[str], attributes: Iterable[str]) -> None:
    for name in attributes:
        if name not in allowed:
            raise NotAllowedError(f"you may not {verb} {name!r}: {_told(verb, allowed)}")


def _told(verb: str, allowed: frozenset[str]) -> str:
    if not allowed:
        return f"you may not {verb} anything"
    return f"your attributes are {', '.join(sorted(allowed))}"
