"""Instructions: what a policy server says through the trigger broker.

To publishers, addressed by their ids, and to whoever listens: brokers, and other policy servers.
What is for one broker it tells that broker itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kbn.filters import Constraint, Filter, Notification, Subscription
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


Instruction: TypeAlias = PlacePublisher | RequestPublisherMedoids | RequestInfo | PolicyServerInfo


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
    return None


def of_type(name: str, **equal: str) -> Subscription:
    """Messages of a class of the management ontology, with fields that equal these texts.

    >>> print(of_type("BrokerMessage"))
    message @= <https://kbn.example/ontology/management#BrokerMessage>
    """
    wanted = [Constraint(MESSAGE, "@=", Class(NAMESPACE + name))]
    return Subscription(Filter([*wanted, *(Constraint(k, "=", v) for k, v in equal.items())]))
