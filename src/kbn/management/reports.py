"""Reports: what brokers, subscribers and publishers tell whoever manages them.

Each is a value here and a notification on its way through the trigger broker. There its attribute
`message` is an individual of the management ontology, so that a subscription such as
`message @= mgmt:BrokerMessage` has a whole family of them; the other attributes are the fields that
ontology names. Fields follow the thesis' Code Examples 3 to 7.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, ClassVar, Literal, TypeAlias

from kbn.errors import InvalidInputError
from kbn.filters import Notification, Value
from kbn.management.terms import MESSAGE, NAMESPACE, type_of
from kbn.ontology import Term

Kind: TypeAlias = Literal["broker", "subscriber", "publisher"]
KINDS: tuple[Kind, ...] = ("broker", "subscriber", "publisher")
COUNT_MAX = 2**63 - 1
SHOWN_MAX = 200
"""Of a report that cannot be read, so many characters are told."""
# Anybody at the trigger broker can publish a report, so any JSON may stand in one.
_UNREADABLE = (
    KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker is there, listens at `address` and hangs below `parent`; None: below nobody.

    `links` names the brokers it is connected to.
    """

    broker: str
    address: str
    parent: str | None = None
    links: tuple[str, ...] = ()

    kind: ClassVar[Kind] = "broker"
    type: ClassVar[str] = "BrokerInfo"

    @property
    def name(self) -> str:
        return self.broker


@dataclass(frozen=True, slots=True)
class MedoidGroup:
    """Subscribers of one broker that are alike, and what they are about."""

    medoid: str
    spread: float
    subscribers: int


@dataclass(frozen=True, slots=True)
class BrokerMedoid:
    """What a broker's subscribers are about: as a whole, and in groups, the largest first."""

    broker: str
    medoid: str | None
    spread: float
    subscribers: int
    groups: tuple[MedoidGroup, ...] = ()

    kind: ClassVar[Kind] = "broker"
    type: ClassVar[str] = "BrokerMedoid"

    @property
    def name(self) -> str:
        return self.broker


@dataclass(frozen=True, slots=True)
class BrokerUtilisation:
    """How much a broker has to do; `published` and `delivered` count since it started.

    `load` is the share of its time that it was busy since the last report.
    """

    broker: str
    subscribers: int
    subscriptions: int
    published: int
    delivered: int
    load: float
    memory: int

    kind: ClassVar[Kind] = "broker"
    type: ClassVar[str] = "BrokerUtilisation"

    @property
    def name(self) -> str:
        return self.broker


@dataclass(frozen=True, slots=True)
class SubscriberInfo:
    """A subscriber is at a broker with so many subscriptions, and what they are about."""

    subscriber: str
    broker: str
    medoid: str | None
    spread: float
    subscriptions: int

    kind: ClassVar[Kind] = "subscriber"
    type: ClassVar[str] = "SubscriberInfo"

    @property
    def name(self) -> str:
        return self.subscriber


@dataclass(frozen=True, slots=True)
class NotificationReport:
    """How many brokers the notifications passed that a subscriber had since it came to its broker.

    `histogram` counts them by hops, `publishers` by who published them: the most frequent ones.
    """

    subscriber: str
    broker: str
    mean_hops: float
    deviation: float
    histogram: Mapping[int, int] = field(default_factory=dict)
    publishers: Mapping[str, int] = field(default_factory=dict)

    kind: ClassVar[Kind] = "subscriber"
    type: ClassVar[str] = "NotificationReport"

    @property
    def name(self) -> str:
        return self.subscriber

    @classmethod
    def of(
        cls,
        subscriber: str,
        broker: str,
        histogram: Mapping[int, int],
        publishers: Mapping[str, int],
    ) -> NotificationReport:
        """The report on such a histogram.

        >>> report = NotificationReport.of("ann", "east", {1: 6, 4: 2, 7: 1}, {})
        >>> round(report.mean_hops, 2), round(report.deviation, 2)
        (2.33, 2.05)
        """
        count = sum(histogram.values())
        mean = sum(hops * times for hops, times in histogram.items()) / count if count else 0.0
        squares = sum((hops - mean) ** 2 * times for hops, times in histogram.items())
        deviation = sqrt(squares / count) if count else 0.0
        return cls(subscriber, broker, mean, deviation, dict(histogram), dict(publishers))


@dataclass(frozen=True, slots=True)
class PublisherInfo:
    """A publisher, what it publishes about, and the broker it is at; None: at none yet."""

    publisher: str
    broker: str | None
    medoid: str | None
    spread: float

    kind: ClassVar[Kind] = "publisher"
    type: ClassVar[str] = "PublisherInfo"

    @property
    def name(self) -> str:
        return self.publisher


@dataclass(frozen=True, slots=True)
class Gone:
    """Somebody is not at a broker any more; for a broker, `broker` is None."""

    kind: Kind
    name: str
    broker: str | None = None

    type: ClassVar[str] = "Departure"


Report: TypeAlias = (
    BrokerInfo
    | BrokerMedoid
    | BrokerUtilisation
    | SubscriberInfo
    | NotificationReport
    | PublisherInfo
    | Gone
)


def to_notification(report: Report) -> Notification:
    """The report as it is published."""
    individual, write, _ = _FORMS[type(report)]
    # What is not known is left out: there is no value for it.
    fields = {name: value for name, value in write(report).items() if value is not None}
    return Notification({MESSAGE: type_of(individual), **fields})


def from_notification(notification: Notification) -> Report:
    """The report a notification is; InvalidInputError when it is none, or lacks something."""
    message = notification.get(MESSAGE)
    name = message.iri.removeprefix(NAMESPACE) if isinstance(message, Term) else ""
    found = _BY_INDIVIDUAL.get(name)
    if found is None:
        raise InvalidInputError(f"no report: its {MESSAGE!r} is {message!r:.{SHOWN_MAX}}")
    try:
        return found(_Fields(notification))
    except _UNREADABLE as error:
        raise InvalidInputError(f"{name}: cannot be read: {error!r:.{SHOWN_MAX}}") from None


class _Fields:
    """The attributes of a report, each asked for as what it must be."""

    def __init__(self, notification: Notification) -> None:
        self._given = notification

    def text(self, name: str) -> str:
        value = self._given[name]
        if not isinstance(value, str):
            raise TypeError(f"{name} is a text, not {value!r}")
        return value

    def maybe_text(self, name: str) -> str | None:
        return self.text(name) if name in self._given else None

    def number(self, name: str) -> float:
        value = self._given[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{name} is a number, not {value!r}")
        return float(value)

    def count(self, name: str) -> int:
        value = self.number(name)
        if value < 0 or value != int(value):
            raise ValueError(f"{name} counts something, and is {value!r}")
        return int(value)

    def counts(self, name: str) -> dict[str, int]:
        read = {str(key): value for key, value in json.loads(self.text(name)).items()}
        for value in read.values():
            if type(value) is not int or not 0 <= value <= COUNT_MAX:
                raise ValueError(f"{name} counts something, and has {value!r}")
        return read


def _broker_info(given: _Fields) -> BrokerInfo:
    links = tuple(str(each) for each in json.loads(given.text("links")))
    return BrokerInfo(
        given.text("brokerId"), given.text("address"), given.maybe_text("parent"), links
    )


def _broker_medoid(given: _Fields) -> BrokerMedoid:
    groups = (MedoidGroup(str(m), float(s), int(n)) for m, s, n in json.loads(given.text("groups")))
    return BrokerMedoid(
        given.text("brokerId"),
        given.maybe_text("medoid"),
        given.number("spread"),
        given.count("subscribers"),
        tuple(groups),
    )


def _broker_utilisation(given: _Fields) -> BrokerUtilisation:
    return BrokerUtilisation(
        given.text("brokerId"),
        given.count("subscribers"),
        given.count("subscriptions"),
        given.count("published"),
        given.count("delivered"),
        given.number("load"),
        given.count("memory"),
    )


def _subscriber_info(given: _Fields) -> SubscriberInfo:
    return SubscriberInfo(
        given.text("subscriberId"),
        given.text("currentBroker"),
        given.maybe_text("medoid"),
        given.number("spread"),
        given.count("subscriptions"),
    )


def _notification_report(given: _Fields) -> NotificationReport:
    histogram = {int(hops): count for hops, count in given.counts("histogram").items()}
    return NotificationReport(
        given.text("subscriberId"),
        given.text("currentBroker"),
        given.number("meanHops"),
        given.number("standardDeviation"),
        histogram,
        given.counts("publishers"),
    )


def _publisher_info(given: _Fields) -> PublisherInfo:
    return PublisherInfo(
        given.text("publisherId"),
        given.maybe_text("currentBroker"),
        given.maybe_text("medoid"),
        given.number("spread"),
    )


def _departure(given: _Fields) -> Gone:
    about = given.text("about")
    kind = next((kind for kind in KINDS if kind == about), None)
    if kind is None:
        raise ValueError(f"nobody is a {about!r}")
    return Gone(kind, given.text(f"{kind}Id"), given.maybe_text("currentBroker"))


def _broker_medoid_fields(report: BrokerMedoid) -> dict[str, Value | None]:
    groups = [[each.medoid, each.spread, each.subscribers] for each in report.groups]
    return {
        "brokerId": report.broker,
        "medoid": report.medoid,
        "spread": report.spread,
        "subscribers": report.subscribers,
        "groups": json.dumps(groups),
    }


def _notification_report_fields(report: NotificationReport) -> dict[str, Value | None]:
    return {
        "subscriberId": report.subscriber,
        "currentBroker": report.broker,
        "meanHops": report.mean_hops,
        "standardDeviation": report.deviation,
        "histogram": json.dumps({str(k): v for k, v in sorted(report.histogram.items())}),
        "publishers": json.dumps(dict(report.publishers)),
    }


_Write = Callable[[Any], dict[str, Value | None]]
_FORMS: dict[type, tuple[str, _Write, Callable[[_Fields], Report]]] = {
    BrokerInfo: (
        "broker_info",
        lambda it: {
            "brokerId": it.broker,
            "address": it.address,
            "parent": it.parent,
            "links": json.dumps(it.links),
        },
        _broker_info,
    ),
    BrokerMedoid: ("broker_medoid", _broker_medoid_fields, _broker_medoid),
    BrokerUtilisation: (
        "broker_utilisation",
        lambda it: {
            "brokerId": it.broker,
            "subscribers": it.subscribers,
            "subscriptions": it.subscriptions,
            "published": it.published,
            "delivered": it.delivered,
            "load": it.load,
            "memory": it.memory,
        },
        _broker_utilisation,
    ),
    SubscriberInfo: (
        "subscriber_info",
        lambda it: {
            "subscriberId": it.subscriber,
            "currentBroker": it.broker,
            "medoid": it.medoid,
            "spread": it.spread,
            "subscriptions": it.subscriptions,
        },
        _subscriber_info,
    ),
    NotificationReport: ("notification_report", _notification_report_fields, _notification_report),
    PublisherInfo: (
        "publisher_info",
        lambda it: {
            "publisherId": it.publisher,
            "currentBroker": it.broker,
            "medoid": it.medoid,
            "spread": it.spread,
        },
        _publisher_info,
    ),
    Gone: (
        "departure",
        lambda it: {"about": it.kind, f"{it.kind}Id": it.name, "currentBroker": it.broker},
        _departure,
    ),
}
_BY_INDIVIDUAL = {individual: read for individual, _, read in _FORMS.values()}
