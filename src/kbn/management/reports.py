"""Reports: what brokers, subscribers and publishers tell whoever manages them.

A report is declared once, as a struct. Its fields are the attributes of the notification that
carries it through the trigger broker (`message_form.py`; the names follow the thesis' Code Examples
3 to 7) and the columns of the MIB (`schema.py`). The field that has the name of the report's `kind`
names the object that the report is about. `derived` lists properties that are columns, too, and
`unkept` fields that are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from msgspec import Meta, Struct, field

from kbn.filters import Notification
from kbn.management import message_form
from kbn.management.message_form import ManagementMessage

Kind: TypeAlias = Literal["broker", "subscriber", "publisher"]
KINDS: tuple[Kind, ...] = ("broker", "subscriber", "publisher")
COUNT_MAX = 2**63 - 1
Count: TypeAlias = Annotated[int, Meta(ge=0, le=COUNT_MAX)]


class BrokerInfo(ManagementMessage, frozen=True):
    """A broker is there, listens at `address` and hangs below `parent`; None: below nobody.

    `links` names the brokers it is connected to; `port` is that of the address, 0 if it has none.
    """

    broker: str = field(name="brokerId")
    address: str
    parent: str | None = None
    links: tuple[str, ...] = ()
    port: Count = 0

    individual: ClassVar[str] = "broker_info"
    type: ClassVar[str] = "BrokerInfo"
    kind: ClassVar[Kind] = "broker"
    derived: ClassVar[tuple[str, ...]] = ()

    @property
    def name(self) -> str:
        return self.broker


class MedoidGroup(Struct, frozen=True, array_like=True):
    """Subscribers of one broker that are alike, and what they are about."""

    medoid: str
    spread: float
    subscribers: Count


class BrokerMedoid(ManagementMessage, frozen=True):
    """What a broker's subscribers are about: as a whole, and in groups, the largest first.

    Where the broker is, it says too: an observer of medoids need not know anything else.
    """

    broker: str = field(name="brokerId")
    medoid: str | None
    spread: float
    subscribers: Count
    groups: tuple[MedoidGroup, ...] = ()
    address: str = ""
    port: Count = 0
    parent: str | None = None

    individual: ClassVar[str] = "broker_medoid"
    type: ClassVar[str] = "BrokerMedoid"
    kind: ClassVar[Kind] = "broker"
    derived: ClassVar[tuple[str, ...]] = ("smaller_group",)
    unkept: ClassVar[tuple[str, ...]] = ("address", "port", "parent")

    @property
    def name(self) -> str:
        return self.broker

    @property
    def smaller_group(self) -> str:
        """The medoid of the smallest of several groups; '' when two are as small as each other."""
        by_size = sorted(self.groups, key=lambda group: group.subscribers)
        if len(by_size) < 2 or by_size[0].subscribers == by_size[1].subscribers:
            return ""
        return by_size[0].medoid


class BrokerUtilisation(ManagementMessage, frozen=True):
    """How much a broker has to do; `published` and `delivered` count since it started.

    `load` is the share of its time that it was busy since the last report.
    """

    broker: str = field(name="brokerId")
    subscribers: Count
    subscriptions: Count
    published: Count
    delivered: Count
    load: float
    memory: Count

    individual: ClassVar[str] = "broker_utilisation"
    type: ClassVar[str] = "BrokerUtilisation"
    kind: ClassVar[Kind] = "broker"
    derived: ClassVar[tuple[str, ...]] = ()

    @property
    def name(self) -> str:
        return self.broker


class SubscriberInfo(ManagementMessage, frozen=True):
    """A subscriber is at a broker with so many subscriptions, and what they are about.

    `texts` are the subscriptions themselves, as far as they were asked for and are not too long.
    """

    subscriber: str = field(name="subscriberId")
    broker: str = field(name="currentBroker")
    medoid: str | None
    spread: float
    subscriptions: Count
    texts: tuple[str, ...] = field(name="subscription", default=())

    individual: ClassVar[str] = "subscriber_info"
    type: ClassVar[str] = "SubscriberInfo"
    kind: ClassVar[Kind] = "subscriber"
    derived: ClassVar[tuple[str, ...]] = ()

    @property
    def name(self) -> str:
        return self.subscriber


class NotificationReport(ManagementMessage, frozen=True):
    """How many brokers the notifications passed that a subscriber had since it came to its broker.

    `histogram` counts them by hops, `publishers` by who published them: the most frequent ones.
    """

    subscriber: str = field(name="subscriberId")
    broker: str = field(name="currentBroker")
    mean_hops: float = field(name="meanHops")
    hops_deviation: float = field(name="standardDeviation")
    histogram: dict[int, Count] = field(default_factory=dict)
    publishers: dict[str, Count] = field(default_factory=dict)

    individual: ClassVar[str] = "notification_report"
    type: ClassVar[str] = "NotificationReport"
    kind: ClassVar[Kind] = "subscriber"
    derived: ClassVar[tuple[str, ...]] = ("notifications",)

    @property
    def name(self) -> str:
        return self.subscriber

    @property
    def notifications(self) -> int:
        """How many notifications the report is about."""
        return sum(self.histogram.values())

    @classmethod
    def of(
        cls,
        subscriber: str,
        broker: str,
        histogram: Mapping[int, int],
        publishers: Mapping[str, int],
    ) -> Self:
        """The report on such a histogram.

        >>> report = NotificationReport.of("ann", "east", {1: 6, 4: 2, 7: 1}, {})
        >>> round(report.mean_hops, 2), round(report.hops_deviation, 2)
        (2.33, 2.05)
        """
        count = sum(histogram.values())
        mean = sum(hops * times for hops, times in histogram.items()) / count if count else 0.0
        squares = sum((hops - mean) ** 2 * times for hops, times in histogram.items())
        deviation = sqrt(squares / count) if count else 0.0
        by_hops = dict(sorted(histogram.items()))
        return cls(subscriber, broker, mean, deviation, by_hops, dict(publishers))


class MisplacedReport(NotificationReport, frozen=True):
    """A subscriber says the same of itself, because it finds that these are too many hops."""

    individual: ClassVar[str] = "misplaced_report"
    type: ClassVar[str] = "MisplacedReport"


class PublisherInfo(ManagementMessage, frozen=True):
    """A publisher, what it publishes about, and the broker it is at; None: at none yet."""

    publisher: str = field(name="publisherId")
    broker: str | None = field(name="currentBroker")
    medoid: str | None
    spread: float

    individual: ClassVar[str] = "publisher_info"
    type: ClassVar[str] = "PublisherInfo"
    kind: ClassVar[Kind] = "publisher"
    derived: ClassVar[tuple[str, ...]] = ()

    @property
    def name(self) -> str:
        return self.publisher


class Departure(ManagementMessage, frozen=True):
    """An object is not at a broker any more; for a broker that stops, `broker` is None."""

    kind: Kind = field(name="about")
    name: str = field(name="objectId")
    broker: str | None = field(name="currentBroker", default=None)

    individual: ClassVar[str] = "departure"
    type: ClassVar[str] = "Departure"


StateReport: TypeAlias = (
    BrokerInfo
    | BrokerMedoid
    | BrokerUtilisation
    | SubscriberInfo
    | NotificationReport
    | MisplacedReport
    | PublisherInfo
)
"""What says how an object is: each field is a column of the MIB."""
Report: TypeAlias = StateReport | Departure

STATE_REPORTS: tuple[type[StateReport], ...] = (
    BrokerInfo,
    BrokerMedoid,
    BrokerUtilisation,
    SubscriberInfo,
    NotificationReport,
    MisplacedReport,
    PublisherInfo,
)
_BY_INDIVIDUAL: dict[str, type[ManagementMessage]] = {
    each.individual: each for each in (*STATE_REPORTS, Departure)
}

to_notification = message_form.to_notification


def from_notification(notification: Notification) -> Report:
    """The report that a notification carries; InvalidInputError when it carries none.

    >>> ann = SubscriberInfo("ann", "east", None, 0.0, 2)
    >>> from_notification(to_notification(ann)) == ann
    True
    """
    return message_form.from_notification(notification, _BY_INDIVIDUAL)  # type: ignore[return-value]
