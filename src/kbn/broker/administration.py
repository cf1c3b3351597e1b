"""Administration: what a manager asks of a broker, and what the broker answers.

Requests travel in `AdminRequest`, results in `AdminReply`. Whoever makes a request that cannot be
meant is told at once, by an `InvalidInputError`; `Permission` says who may make requests at all.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, convert

from kbn.broker.broker_status import BrokerStatus
from kbn.broker.fields import Name, NameOrNone, Seconds, Text
from kbn.errors import InvalidInputError

ReportKind = Literal["info", "subscribers", "hops", "medoids", "utilisation"]
Level = Literal["none", "rdfs", "rl", "el", "dl"]
GROUPS_MAX = 100


class AdminMessage(Struct, frozen=True, tag_field="kind", tag=True):
    """What every request and result is."""


# Requests.


class GetStatus(AdminMessage, frozen=True, tag="get-status"):
    """What a person wants to know of the broker; answered with `BrokerStatus`."""


class MoveClients(AdminMessage, frozen=True, tag="move-clients"):
    """Send clients to another broker; all subscribers, unless some are named."""

    broker: NameOrNone
    url: Text
    clients: tuple[Name, ...] | None = None

    def __post_init__(self) -> None:
        if not self.broker or not self.url:
            raise InvalidInputError("to move clients, name another broker and its url")
        check_names(self.clients)


class MoveBroker(AdminMessage, frozen=True, tag="move-broker"):
    """Move the broker, with all that hangs on it, to the broker at `url`.

    `leaving` names the neighbour to leave; it may be left out when there is only one. The outcome
    is in the status.
    """

    url: Text
    leaving: Name | None = None


class Unlink(AdminMessage, frozen=True, tag="unlink"):
    """Drop a neighbour, and what it has not acknowledged.

    One that was never met is named by its url. One that is `retired` does not come back: what it
    has not acknowledged goes once more to everybody who wants it now, for its clients may be among
    them.
    """

    broker: Text
    retired: bool = False


class LoadOntology(AdminMessage, frozen=True, tag="load-ontology"):
    """Load an ontology from files on the broker's machine; clients are told when it is in use."""

    paths: tuple[Text, ...]
    reasoning: Level = "rdfs"

    def __post_init__(self) -> None:
        if not self.paths:
            raise InvalidInputError("to load an ontology, give its paths: a list of files")


class CollectHops(AdminMessage, frozen=True, tag="collect-hops"):
    """Ask subscribers how far their notifications came: now, and then every so many seconds.

    Those who come later are asked too, unless `every_s` is 0. `clients` names some.
    """

    every_s: Seconds = 0.0
    clients: tuple[Name, ...] | None = None

    def __post_init__(self) -> None:
        check_interval(self.every_s)
        check_names(self.clients)


class Report(AdminMessage, frozen=True, tag="report"):
    """Report to the trigger broker: now, and then every so many seconds if that is not 0.

    `groups` says into how many the subscribers of a broker are put for its medoids; `clients` names
    those whose medoids or hops are wanted: otherwise everybody's are. `texts` says whether reports
    on subscribers have the texts of their subscriptions from now on; None: as before.
    """

    what: ReportKind
    every_s: Seconds = 0.0
    groups: int | None = None
    clients: tuple[Name, ...] | None = None
    texts: bool | None = None

    def __post_init__(self) -> None:
        if self.what not in ReportKind.__args__:  # type: ignore[attr-defined]
            known = ", ".join(ReportKind.__args__)  # type: ignore[attr-defined]
            raise InvalidInputError(f"a broker reports {known}, not {self.what!r}")
        check_interval(self.every_s)
        check_names(self.clients)
        groups = self.groups
        if groups is not None and (type(groups) is not int or not 1 <= groups <= GROUPS_MAX):
            raise InvalidInputError(f"'groups' is a number from 1 to {GROUPS_MAX}, not {groups!r}")


AdminBody: TypeAlias = (
    GetStatus | MoveClients | MoveBroker | Unlink | LoadOntology | CollectHops | Report
)


# Results.


class Status(AdminMessage, frozen=True, tag="status"):
    status: BrokerStatus


class MovingClients(AdminMessage, frozen=True, tag="moving-clients"):
    """So many clients were told to go."""

    count: int


class MovingBroker(AdminMessage, frozen=True, tag="moving-broker"):
    """The move away from a neighbour has begun."""

    leaving: str


class Unlinking(AdminMessage, frozen=True, tag="unlinking"):
    broker: str


class LoadingOntology(AdminMessage, frozen=True, tag="loading-ontology"):
    paths: tuple[str, ...]


class CollectingHops(AdminMessage, frozen=True, tag="collecting-hops"):
    """So many clients were asked."""

    count: int


class Reporting(AdminMessage, frozen=True, tag="reporting"):
    what: ReportKind


AdminResult: TypeAlias = (
    Status | MovingClients | MovingBroker | Unlinking | LoadingOntology | CollectingHops | Reporting
)


def status_of(facts: dict[str, object]) -> BrokerStatus:
    """The status that a broker's parts have told."""
    return convert(facts, BrokerStatus)


def check_interval(every_s: float) -> None:
    """Refuse what is no number of seconds."""
    if isinstance(every_s, bool) or not isinstance(every_s, int | float) or not every_s >= 0:
        raise InvalidInputError(f"'every_s' is a number of seconds, not {every_s!r}")


def check_names(names: tuple[str, ...] | None) -> None:
    """Refuse what is no list of the names of clients."""
    if names is not None and not (
        isinstance(names, tuple) and all(isinstance(name, str) for name in names)
    ):
        raise InvalidInputError(f"'clients' is a tuple of names, not {names!r:.100}")
