"""A trial: would a broker with these rules allow that?

A broker of its own is asked, so the answer is that of the code which decides in earnest: tokens,
rights, limits, what a durable client needs. Nothing is told to anybody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kbn.broker.access import NotAllowedError, Permission
from kbn.broker.access_rules import AccessRules
from kbn.broker.administration import AdminBody, LoadOntology
from kbn.broker.broker import Broker
from kbn.broker.messages import Advertise, Connect, Peer, Publish, Refused, Subscribe
from kbn.broker.store import MemoryStore
from kbn.ontology import Ontology

TrialRequest = Publish | Subscribe | Advertise | AdminBody | None
"""What a client would ask for; None: nothing but to come in."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks; without a token it is taken for whom it says it is."""

    name: str
    token: str | None = None
    durable: bool = False
    when_slow: Literal["drop", "block"] = "drop"


def refusal(
    rules: AccessRules, caller: Caller, request: TrialRequest, ontology: Ontology | None = None
) -> str | None:
    """Why a broker would refuse the request of a client; None when it would not.

    The broker has the usual limits, and this ontology.

    >>> from kbn.broker.access_rules import Entry
    >>> rules = AccessRules({"ann": Entry(Permission(subscribe=frozenset({"price"})))})
    >>> refusal(rules, Caller("ann"), Subscribe(1, "price < 5", True)) is None
    True
    >>> refusal(rules, Caller("ann"), Subscribe(1, "weight < 5", True))
    "you may not subscribe to 'weight': your attributes are price"
    """
    believed = rules if caller.token is not None else _Believed(rules)
    broker = Broker("trial", authorizer=believed, store=MemoryStore(), ontology=ontology)
    shown = "its own" if caller.token is None else caller.token
    connect = Connect(
        caller.name, 1, token=shown, durable=caller.durable, when_slow=caller.when_slow
    )
    if (refused := _said(broker, connect, caller)) is not None or request is None:
        return refused
    if isinstance(request, Publish | Subscribe | Advertise):
        return _said(broker, request, caller)
    return _objection(broker.clients[caller.name].permission, request)


def refusal_of_broker(rules: AccessRules, caller: Caller) -> str | None:
    """Why a broker would not be taken as a neighbour; None when it would be."""
    if not rules.knows_broker(caller.name):
        known = ", ".join(rules.brokers) or "none"
        return f"broker {caller.name!r} is not admitted: it is not under `brokers` ({known})"
    if caller.token is not None and not rules.admit_broker(caller.name, caller.token):
        return f"broker {caller.name!r} is not admitted: check its token"
    return None


class _Believed:
    """The rules, for whoever has the right token."""

    def __init__(self, rules: AccessRules) -> None:
        self._rules = rules

    def admit(self, name: str, token: str) -> Permission | None:
        return self._rules.permission_of(name)


def _said(
    broker: Broker, message: Connect | Publish | Subscribe | Advertise, caller: Caller
) -> str | None:
    sent = broker.receive(message, Peer("client", caller.name), 0.0)
    reasons = [each.message.reason for each in sent if isinstance(each.message, Refused)]
    return reasons[0] if reasons else None


def _objection(permission: Permission, body: AdminBody) -> str | None:
    try:
        permission.check_manage()
        if isinstance(body, LoadOntology):
            permission.check_ontologies()
    except NotAllowedError as error:
        return str(error)
    return None
