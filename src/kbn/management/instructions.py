"""Instructions: what a policy server says through the trigger broker.

To publishers, addressed by their ids, and to whoever listens: brokers, and other policy servers.
What is for one broker it tells that broker itself.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, ClassVar, TypeAlias

from msgspec import Meta, field

from kbn.errors import InvalidInputError
from kbn.filters import Constraint, Filter, Notification, Subscription
from kbn.management import message_form
from kbn.management.action_log import LogEntry, Status
from kbn.management.message_form import ManagementMessage
from kbn.management.reports import COUNT_MAX, Kind
from kbn.management.terms import MAIN, MESSAGE, NAMESPACE, OVERLAY, TO
from kbn.ontology import Class

DETAIL_MAX = 1_000
"""Characters of an entry's detail that its note has."""


class PlacePublisher(ManagementMessage, frozen=True):
    """Publish at that broker from now on."""

    publisher: str = field(name=TO)
    broker: str = field(name="brokerId")
    url: str = field(name="address")

    individual: ClassVar[str] = "place_publisher"


class Recluster(ManagementMessage, frozen=True):
    """A subscriber may be misplaced: it shall say how it fares (the thesis' Code Example 23)."""

    subscriber: str = field(name="subscriberId")
    is_requested: bool = field(name="reclusterRequested", default=True)

    individual: ClassVar[str] = "recluster"


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
    """The server that acts has told a client where to be, or a broker below whom; others are to
    know. `before` is where it was, None: nowhere.
    """

    kind: Kind = field(name="about")
    name: str = field(name="objectId")
    broker: str = field(name="brokerId")
    is_reassigned: bool = field(name="isReassigned", default=False)
    before: str | None = field(name="currentBroker", default=None)

    individual: ClassVar[str] = "placement_note"


class PlanNote(ManagementMessage, frozen=True):
    """The server that acts goes by this plan: `text` is as `Assignments.text` has it."""

    text: str = field(name="plan")

    individual: ClassVar[str] = "plan_note"


class DecisionNote(ManagementMessage, frozen=True):
    """What came of a policy: an entry of the log of the server that acts, see `LogEntry`."""

    server: str = field(name="serverId")
    policy: str
    action: str
    status: Status
    kind: Kind | None = field(name="about", default=None)
    name: str | None = field(name="objectId", default=None)
    detail: str = ""
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] = 1

    individual: ClassVar[str] = "decision_note"

    @classmethod
    def of(cls, server: str, entry: LogEntry) -> DecisionNote:
        """The note on an entry of the log."""
        about = (entry.status, entry.kind, entry.name)
        detail = entry.detail[:DETAIL_MAX]
        return cls(server, entry.policy, entry.action, *about, detail, entry.count)

    def entry(self, at: float) -> LogEntry:
        """The entry that it is the note on."""
        about = (self.kind, self.name, self.status, self.detail, self.count)
        return LogEntry(at, self.policy, self.action, *about)


Instruction: TypeAlias = (
    PlacePublisher
    | Recluster
    | RequestPublisherMedoids
    | RequestInfo
    | PolicyServerInfo
    | PlacementNote
    | PlanNote
    | DecisionNote
)
_BY_INDIVIDUAL: dict[str, type[ManagementMessage]] = {
    each.individual: each
    for each in (
        *(PlacePublisher, Recluster, RequestPublisherMedoids, RequestInfo),
        *(PolicyServerInfo, PlacementNote, PlanNote, DecisionNote),
    )
}

INDIVIDUALS = frozenset(_BY_INDIVIDUAL)
"""What says that a message is an instruction or a note, and no report."""

to_notification = message_form.to_notification


def from_notification(notification: Notification) -> Instruction | None:
    """The instruction that a notification carries; None for any other, and for a broken one.

    >>> from_notification(to_notification(PlanNote("{}")))
    PlanNote(text='{}')
    """
    with suppress(InvalidInputError):
        return message_form.from_notification(notification, _BY_INDIVIDUAL)  # type: ignore[return-value]
    return None


def of_types(*names: str, overlay: str | None = MAIN) -> Subscription:
    """Messages of any of some classes of the management ontology."""
    return Subscription(each for name in names for each in of_type(name, overlay).filters)


def of_type(name: str, overlay: str | None = MAIN, **equal: str) -> Subscription:
    """Messages of a class of the management ontology, with fields that equal these texts.

    They are about the overlay of that name; None: about any.

    >>> print(of_type("BrokerMessage"))
    message @= <https://kbn.example/ontology/management#BrokerMessage> and overlayId = "main"
    """
    wanted = [Constraint(MESSAGE, "@=", Class(NAMESPACE + name))]
    equal = equal if overlay is None else {OVERLAY: overlay, **equal}
    return Subscription(Filter([*wanted, *(Constraint(k, "=", v) for k, v in equal.items())]))
