"""Access rules: who may come in, as a client or as a broker, and what each may do.

A value: an access file describes one, and a change of the file makes another. A name that stands
in the rules is known by its token (or behind mutual TLS by its certificate). Anybody else is held
to `default`, where a name proves nothing: see `Permission.known_by` and `owners.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from hmac import compare_digest
from typing import Literal, TypeAlias

from kbn.broker.access import KnownBy, Permission

Section: TypeAlias = Literal["clients", "brokers", "default"]
"""Where an entry stands."""


def digest_of(token: str) -> str:
    """The SHA-256 of a token, in hexadecimal digits."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Entry:
    """What one may do who shows the token of this digest; without one, whoever uses the name."""

    permission: Permission
    token_digest: str | None = None

    def admits(self, token: str) -> bool:
        given = digest_of(token)
        # The comparison is made in any case, and takes as long for any token.
        return compare_digest(given, self.token_digest or given)


@dataclass(frozen=True, slots=True)
class AccessRules:
    """An authorizer; what stands nowhere is not allowed.

    >>> reader = Entry(Permission(publish=frozenset(), manage=False), digest_of("secret"))
    >>> rules = AccessRules({"ann": reader})
    >>> rules.admit("ann", "secret") is None, rules.admit("ann", "guess") is None
    (False, True)
    """

    clients: Mapping[str, Entry] = field(default_factory=dict)
    brokers: Mapping[str, Entry] = field(default_factory=dict)
    default: Entry | None = None

    def admit(self, name: str, token: str) -> Permission | None:
        """What a client may do; None when it may not come in. A broker may be a client, too."""
        entry = self._entry(name)
        return self.permission_of(name) if entry is not None and entry.admits(token) else None

    def admit_broker(self, name: str, token: str) -> bool:
        """Whether a broker of that name may be a neighbour: the rules must name it."""
        entry = self.brokers.get(name)
        return entry is not None and entry.admits(token)

    def permission_of(self, name: str) -> Permission | None:
        """What whoever is admitted under that name may do; None when nobody is."""
        entry = self._entry(name)
        if entry is None:
            return None
        return replace(entry.permission, known_by=self._known_by(name, entry))

    def knows_broker(self, name: str) -> bool:
        """Whether a broker of that name may come in, with the right token."""
        return name in self.brokers

    def section_of(self, name: str) -> Section | None:
        """Where the entry stands that decides about a client of that name; None: nowhere."""
        if name in self.clients:
            return "clients"
        if name in self.brokers:
            return "brokers"
        return None if self.default is None else "default"

    def _entry(self, name: str) -> Entry | None:
        return self.clients.get(name) or self.brokers.get(name) or self.default

    def _known_by(self, name: str, entry: Entry) -> KnownBy:
        if entry.token_digest is None:
            return "claim"
        return "proof" if name in self.clients or name in self.brokers else "shared"


class RulesInForce:
    """An authorizer whose rules change; a node is told by `AccessChanged` that they have."""

    def __init__(self, rules: AccessRules) -> None:
        self.rules = rules

    def admit(self, name: str, token: str) -> Permission | None:
        return self.rules.admit(name, token)

    def admit_broker(self, name: str, token: str) -> bool:
        return self.rules.admit_broker(name, token)

    def permission_of(self, name: str) -> Permission | None:
        return self.rules.permission_of(name)

    def knows_broker(self, name: str) -> bool:
        return self.rules.knows_broker(name)
