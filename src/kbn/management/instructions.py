"""Instructions: what a policy server says through the trigger broker.

To publishers, addressed by their ids, and to whoever listens: brokers, and other policy servers.
What is for one broker it tells that broker itself.
"""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar, TypeAlias

from msgspec import field

from kbn.errors import InvalidInputError
from kbn.filters import Constraint, Filter, Notification, Subscription
from kbn.management import message_form
from kbn.management.message_form import ManagementMessage
from kbn.management.reports import Kind
from kbn.management.terms import MESSAGE, NAMESPACE, TO
from kbn.ontology import Class


class PlacePublisher(ManagementMessage, frozen=True):
    """Publish at that broker from now on."""

    publisher: str = field(name=TO)
    broker: str = field(name="brokerId")
    url: str = field(name="address")

    individual: ClassVar[str] = "place_publisher"


class RequestPublisherMedoids(ManagementMessage, frozen=True):
    """Publishers, say what you publish about."""

    individual: ClassVar[str] = "request_publisher_medoids"


class RequestInfo(ManagementMessage, frozen=True):
    """Brokers and publishers, say who you are and who is attached to you."""

    individual: ClassVar[str] = "request_info"


class PolicyServerInfo(ManagementMessage, frozen=True):
    """A policy server is there; the one whose name comes first acts, the others stand by."""

    server: str = field(name="serverId")

    individual: ClassVar[str] = "policy_server_info"


class PlacementNote(ManagementMessage, frozen=True):
    """The server that acts has told a client to go to a broker; others are to know."""

    kind: Kind = field(name="about")
    name: str = field(name="objectId")
    broker: str = field(name="currentBroker")
    is_reassigned: bool = field(name="isReassigned", default=False)

    individual: ClassVar[str] = "placement_note"


class PlanNote(ManagementMessage, frozen=True):
    """The server that acts goes by this plan: `text` is as `Assignments.text` has it."""

    text: str = field(name="plan")

    individual: ClassVar[str] = "plan_note"


Instruction: TypeAlias = (
    PlacePublisher
    | RequestPublisherMedoids
    | RequestInfo
    | PolicyServerInfo
    | PlacementNote
    | PlanNote
)
_BY_INDIVIDUAL: dict[str, type[ManagementMessage]] = {
    each.individual: each
    for each in (
        *(PlacePublisher, RequestPublisherMedoids, RequestInfo),
        *(PolicyServerInfo, PlacementNote, PlanNote),
    )
}

to_notification = message_form.to_notification


def from_notification(notification: Notification) -> Instruction | None:
    """The instruction that a notification carries; None for any other, and for a broken one.

    >>> from_notification(to_notification(PlanNote("{}")))
    PlanNote(text='{}')
    """
    with suppress(InvalidInputError):
        return message_form.from_notification(notification, _BY_INDIVIDUAL)  # type: ignore[return-value]
    return None


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
