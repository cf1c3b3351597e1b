"""Reports and instructions: what is told is what is heard, and what is no report is refused."""

from __future__ import annotations

import msgspec
import pytest

from kbn.errors import InvalidInputError
from kbn.filters import Notification
from kbn.management import instructions, reports, terms
from kbn.management.action_log import Status
from kbn.management.instructions import (
    DecisionNote,
    PlacementNote,
    PlacePublisher,
    PlanNote,
    PolicyServerInfo,
    RequestInfo,
    RequestPublisherMedoids,
)
from kbn.management.reports import (
    BrokerInfo,
    BrokerMedoid,
    BrokerUtilisation,
    Departure,
    MedoidGroup,
    NotificationReport,
    PublisherInfo,
    SubscriberInfo,
)
from kbn.management.schema import FIELDS

REPORTS = [
    BrokerInfo("east", "kbn://127.0.0.1:1", "root", ("root", "far")),
    BrokerInfo("root", "kbn://127.0.0.1:2"),
    BrokerMedoid("east", "ex:Tea", 70.7, 3, (MedoidGroup("ex:Tea", 1.5, 2),)),
    BrokerMedoid("east", None, 0.0, 0),
    BrokerUtilisation("east", 1, 2, 3, 4, 0.5, 6),
    SubscriberInfo("ann", "east", None, 0.0, 1),
    SubscriberInfo("ann", "east", "ex:Tea", 2.5, 7),
    SubscriberInfo("ann", "east", "ex:Tea", 2.5, 2, ('x = "a, b"', "y > 3")),
    BrokerInfo("far", "kbn://127.0.0.1:7421", "root", ("root",), 7421),
    BrokerMedoid("east", None, 0.0, 0, (), "kbn://127.0.0.1:1", 1, "root"),
    NotificationReport.of("ann", "east", {1: 6, 4: 2, 7: 1}, {"bob": 9}),
    PublisherInfo("bob", None, "ex:Tea", 0.0),
    PublisherInfo("bob", "east", None, 0.0),
    Departure("subscriber", "ann", "east"),
    Departure("broker", "east"),
    Departure("publisher", "bob"),
]
INSTRUCTIONS = [
    PlacePublisher("bob", "east", "kbn://127.0.0.1:1"),
    RequestPublisherMedoids(),
    RequestInfo(),
    PolicyServerInfo("one"),
    PlacementNote("subscriber", "ann", "east", is_reassigned=True),
    PlacementNote("publisher", "bob", "east"),
    PlanNote('{"brokers": []}'),
    DecisionNote("one", "p", "log", Status.DONE, None, None, "a detail", 3),
    DecisionNote("one", "", "place-subscriber", Status.FAILED, "subscriber", "ann"),
    PlacementNote("broker", "east", "root", before="west"),
]


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.type)
def test_a_report_comes_back_from_its_notification(report: reports.Report) -> None:
    assert reports.from_notification(reports.to_notification(report)) == report


@pytest.mark.parametrize("instruction", INSTRUCTIONS, ids=lambda one: type(one).__name__)
def test_so_does_an_instruction(instruction: instructions.Instruction) -> None:
    notification = instructions.to_notification(instruction)
    assert instructions.from_notification(notification) == instruction


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.type)
def test_a_subscription_to_a_class_has_the_reports_below_it(report: reports.Report) -> None:
    """The thesis' Code Examples 1 and 2: a manager subscribes to a class of messages."""
    ontology = terms.ontology()
    notification = reports.to_notification(report)

    def hears(name: str) -> bool:
        return instructions.of_type(name).matches(notification, ontology)

    assert hears("Report") and hears(report.type)
    assert hears("BrokerMessage") == isinstance(
        report, BrokerInfo | BrokerMedoid | BrokerUtilisation
    )
    assert not hears("Instruction")


def test_the_report_of_the_thesis_has_its_mean_and_deviation() -> None:
    """Code Example 7: six over one hop, two over four, one over seven."""
    report = NotificationReport.of("ann", "east", {1: 6, 4: 2, 7: 1}, {})
    assert report.mean_hops == pytest.approx(21 / 9)
    assert report.hops_deviation == pytest.approx((38 / 9) ** 0.5)
    assert NotificationReport.of("ann", "east", {}, {}).mean_hops == 0


BAD = [
    Notification({"price": 5}),
    Notification({"message": "broker_info"}),
    Notification({"message": terms.type_of("place_publisher")}),
    Notification({"message": terms.type_of("broker_info")}),
    Notification({"message": terms.type_of("broker_info"), "brokerId": 5, "address": "x"}),
    Notification(
        {
            "message": terms.type_of("notification_report"), "subscriberId": "a",
            "currentBroker": "b", "meanHops": 1.0, "standardDeviation": 0.0,
            "histogram": "no JSON", "publishers": "{}",
        }
    ),
    Notification({"message": terms.type_of("departure"), "about": "cat", "catId": "c"}),
]  # fmt: skip


@pytest.mark.parametrize("notification", BAD, ids=range(len(BAD)))
def test_what_is_no_report_is_refused(notification: Notification) -> None:
    with pytest.raises(InvalidInputError):
        reports.from_notification(notification)


BROKEN_JSON = [
    ("histogram", "[]"),
    ("histogram", '{"1": Infinity}'),
    ("histogram", '{"1": -2}'),
    ("histogram", '{"1": 1.5}'),
    ("histogram", '{"near": 1}'),
    ("publishers", '{"bob": 1' + "0" * 400 + "}"),
    ("publishers", "[" * 100_000),
    ("meanHops", float("inf")),
    ("subscriberId", 7),
]


@pytest.mark.parametrize(("field", "value"), BROKEN_JSON, ids=lambda it: str(it)[:20])
def test_whatever_stands_in_a_report_it_is_read_or_refused(field: str, value: object) -> None:
    told = reports.to_notification(NotificationReport.of("ann", "east", {1: 6}, {"bob": 6}))
    broken = Notification({**dict(told), field: value})
    try:
        read = reports.from_notification(broken)
    except InvalidInputError as error:
        assert len(str(error)) < 400
    else:
        assert field == "meanHops", read


@pytest.mark.parametrize("report", reports.STATE_REPORTS, ids=lambda report: report.type)
def test_every_field_of_a_report_is_a_column_of_the_mib(report: type[reports.StateReport]) -> None:
    names = {field.name for field in msgspec.structs.fields(report)} - {report.kind}
    assert names | set(report.derived) <= FIELDS[report.kind].keys()


@pytest.mark.parametrize("report", [*reports.STATE_REPORTS, reports.Departure], ids=str)
def test_every_attribute_of_a_report_is_a_property_of_the_ontology(report: type) -> None:
    known = terms.ontology().properties
    for field in msgspec.structs.fields(report):
        assert terms.NAMESPACE + field.encode_name in known
