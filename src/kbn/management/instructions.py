"""Instructions: what a policy server says through the trigger broker.

To publishers, addressed by their ids, and to whoever listens: brokers, and other policy servers.
What is for one broker it tells that broker itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kbn.filters import Constraint, Filter, Notification, Subscription
from kbn.management.reports import Kind
from kbn.management.terms import MESSAGE, NAMESPACE, TO, type_of
from kbn.ontology import Class, Term


@dataclass(frozen=True, slots=True)
class PlacePublisher:
    """Publish at that broker from now on."""

    publisher: str
    broker: str
    url: str


@dataclass(frozen=True, slots=True)
class RequestPublisherMedoids:
    """Publishers, say what you publish about."""


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """Brokers and publishers, say who you are and who is attached to you."""


@dataclass(frozen=True, slots=True)
class PolicyServerInfo:
    """A policy server is there; the one whose name comes first acts, the others stand by."""

    server: str


@dataclass(frozen=True, slots=True)
class PlacementNote:
    """The server that acts has told a client to go to a broker; others are to know."""

    kind: Kind
    name: str
    broker: str
    is_reseated: bool = False


@dataclass(frozen=True, slots=True)
class PlanNote:
    """The server that acts goes by this plan: `text` is as `Assignments.text` has it."""

    text: str


Instruction: TypeAlias = (
    PlacePublisher
    | RequestPublisherMedoids
    | RequestInfo
    | PolicyServerInfo
    | PlacementNote
    | PlanNote
)


def to_notification(instruction: Instruction) -> Notification:
    """The instruction as it is published."""
    match instruction:
        case PlacePublisher(publisher, broker, url):
            fields = {TO: publisher, "brokerId": broker, "address": url}
            return Notification({MESSAGE: type_of("place_publisher"), **fields})
        case RequestPublisherMedoids():
            return Notification({MESSAGE: type_of("request_publisher_medoids")})
        case RequestInfo():
            return Notification({MESSAGE: type_of("request_info")})
        case PolicyServerInfo(server):
            return Notification({MESSAGE: type_of("policy_server_info"), "serverId": server})
        case PlacementNote(kind, name, broker, is_reseated):
            fields = {"about": kind, f"{kind}Id": name, "currentBroker": broker}
            note = {MESSAGE: type_of("placement_note"), **fields, "isReseated": is_reseated}
            return Notification(note)
        case PlanNote(text):
            return Notification({MESSAGE: type_of("plan_note"), "plan": text})


def from_notification(notification: Notification) -> Instruction | None:
    """The instruction a notification is; None for any other, and for one that lacks something."""
    message = notification.get(MESSAGE)
    name = message.iri.removeprefix(NAMESPACE) if isinstance(message, Term) else ""
    match name:
        case "place_publisher":
            given = [notification.get(each) for each in (TO, "brokerId", "address")]
            texts = [each for each in given if isinstance(each, str)]
            return PlacePublisher(*texts) if len(texts) == len(given) else None
        case "request_publisher_medoids":
            return RequestPublisherMedoids()
        case "request_info":
            return RequestInfo()
        case "policy_server_info":
            server = notification.get("serverId")
            return PolicyServerInfo(server) if isinstance(server, str) else None
        case "placement_note":
            return _placement_note(notification)
        case "plan_note":
            text = notification.get("plan")
            return PlanNote(text) if isinstance(text, str) else None
    return None


def _placement_note(notification: Notification) -> PlacementNote | None:
    about, broker = notification.get("about"), notification.get("currentBroker")
    is_reseated = notification.get("isReseated")
    for kind in _CLIENTS:
        name = notification.get(f"{kind}Id")
        if about == kind and isinstance(name, str) and isinstance(broker, str):
            return PlacementNote(kind, name, broker, is_reseated is True)
    return None


_CLIENTS: tuple[Kind, ...] = ("subscriber", "publisher")


def of_types(*names: str) -> Subscription:
    """Messages of any of some classes of the management ontology."""
    return Subscription(each for name in names for each in of_type(name).filters)


def of_type(name: str, **equal: str) -> Subscription:
    """Messages of a class of the management ontology, with fields that equal these texts.

    >>> print(of_type("BrokerMessage"))
    message @= <https://kbn.example/ontology/management#BrokerMessage>
    """
    wanted = [Constraint(MESSAGE, "@=", Class(NAMESPACE + name))]
    return Subscription(Filter([*wanted, *(Constraint(k, "=", v) for k, v in equal.items())]))
