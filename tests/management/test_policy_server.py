"""The policy server: what it makes of reports that are late, broken or hostile, and of outages."""

from __future__ import annotations

from typing import Any

import pytest

from kbn import data
from kbn.broker.administration import MoveClients
from kbn.filters import Notification
from kbn.management import instructions, reports
from kbn.management.assignments import AWAY_AFTER_S, STABLE_FOR_S, Assignments
from kbn.management.engine import Decision, PolicyEngine
from kbn.management.instructions import PlacementNote, PlanNote, PolicyServerInfo
from kbn.management.mib import Mib
from kbn.management.outcomes import Announce, Effect, Instruct
from kbn.management.policies import PolicySet
from kbn.management.policy_server import ASK_EVERY_S, FORGET_AFTER_S, PolicyServer
from kbn.management.reports import (
    BrokerInfo,
    BrokerMedoid,
    BrokerUtilisation,
    Departure,
    Kind,
    NotificationReport,
    PublisherInfo,
    Report,
    SubscriberInfo,
)
from kbn.management.senders import Sender
from kbn.ontology import Ontology
from kbn.placement import Plan, plan

HERE = data.namespace("animals")
BROKERS = ("root", "east", "west")
LINKS = {"root": ("east", "west"), "east": ("root",), "west": ("root",)}


@pytest.fixture(scope="module")
def animals() -> Ontology:
    return Ontology.load(data.path("animals"))


def make(ontology: Ontology, fixed: Plan | None = None, name: str = "one") -> PolicyServer:
    engine = PolicyEngine(Mib(), PolicySet.shipped())
    return PolicyServer(name, engine, Assignments(ontology, fixed), load_max=3.0)


def tell(
    server: PolicyServer, report: Report, now: float, sender: str | None = None
) -> list[Effect]:
    """Publish a report, as the one that it is about unless a sender is named."""
    teller = report.broker if isinstance(report, SubscriberInfo | NotificationReport) else None
    name = sender or teller or report.name
    return server.received(reports.to_notification(report), Sender(name), now)


def tell_of_brokers(server: PolicyServer, now: float) -> None:
    for broker in BROKERS:
        parent = None if broker == "root" else "root"
        tell(server, BrokerInfo(broker, f"kbn://{broker}:1", parent, LINKS[broker]), now)


def begin(server: PolicyServer) -> Plan:
    """Have all brokers told of, and the plan made."""
    server.connected(0.0)
    tell_of_brokers(server, 0.0)
    server.tick(STABLE_FOR_S)
    assert server.assignments.plan is not None
    return server.assignments.plan


def moved(effects: list[Effect]) -> list[str]:
    """Who is to go where."""
    told = (each.request for each in effects if isinstance(each, Instruct))
    moves = (each for each in told if isinstance(each, MoveClients))
    return [f"{(each.clients or ('everybody',))[0]} to {each.broker}" for each in moves]


def test_a_server_starts_from_a_mib_with_placed_publishers_before_it_knows_any_broker(
    animals: Ontology,
) -> None:
    server = make(animals)
    mib = server.engine.mib
    for name in ("ann", "bob"):
        mib.apply(PublisherInfo(name, "east", HERE + "Cats", 0.0), now=0.0)
        mib.placed("publisher", name, "east", now=0.0)
    mib.apply(SubscriberInfo("cyd", "west", HERE + "Cats", 0.0, 1), now=0.0)
    mib.apply(NotificationReport.of("cyd", "west", {7: 90}, {"ann": 45, "bob": 45}), now=0.0)
    decisions = [Decision("p", "recluster", {}, "publisher", name, 0.0) for name in ("ann", "bob")]
    outcomes = [server.actions.carry_out(each, 100.0) for each in decisions]
    outcomes += server.actions.flush(200.0)
    assert [each.status for each in outcomes][2:] == ["unchanged", "unchanged"]
    assert server.tick(300.0) is not None


# Hostile and broken reports: any client of the trigger broker can publish one.

LARGEST = 2**63 - 1
REFUSED_BY_THE_MIB = [
    BrokerInfo("", "kbn://nobody:1"),
    SubscriberInfo("", "east", None, 0.0, 1),
    SubscriberInfo("ann", "east", None, float("inf"), 1),
    NotificationReport("ann", "east", 1.0, 0.0, {1: LARGEST, 2: LARGEST}),
    PublisherInfo("bob", "east", None, float("-inf")),
]


@pytest.mark.parametrize("report", REFUSED_BY_THE_MIB, ids=lambda report: report.type)
@pytest.mark.parametrize("name", ["one", "two"])
def test_what_the_mib_refuses_is_counted_and_stops_nothing(
    report: Report, name: str, animals: Ontology
) -> None:
    server = make(animals, name=name)
    begin(server)
    info = instructions.to_notification(PolicyServerInfo("one"))
    server.received(info, Sender("one", manages=True), 2.0)  # "two" stands by
    assert tell(server, report, 2.0) == [] and server.unreadable == 1
    server.tick(2.0)
    server.tick(2.0 + STABLE_FOR_S)
    assert server.assignments.plan is not None and server.assignments.plan.brokers == BROKERS
    assert not server.engine.mib.count("subscriber") and not server.engine.mib.count("publisher")


FORGED: list[Report] = [
    BrokerInfo("east", "kbn://mallory:1", "root", ("root",)),
    BrokerMedoid("east", HERE + "Dogs", 9.0, 5),
    BrokerUtilisation("east", 1, 1, 1, 1, 1.0, 1),
    SubscriberInfo("ann", "east", HERE + "Cats", 0.0, 1),
    NotificationReport.of("ann", "west", {7: 90}, {"bob": 90}),
    PublisherInfo("bob", "east", HERE + "Dogs", 0.0),
    Departure("broker", "east"),
    Departure("subscriber", "ann", "west"),
    Departure("subscriber", "ann"),
    Departure("publisher", "bob"),
]


@pytest.mark.parametrize("report", FORGED, ids=lambda report: f"{report.individual}-{report.name}")
@pytest.mark.parametrize("sender", ["mallory", "ann"])
def test_a_forged_report_moves_nobody(report: Report, sender: str, animals: Ontology) -> None:
    server = make(animals)
    home = begin(server).broker_for(HERE + "Cats")
    tell(server, SubscriberInfo("ann", str(home), HERE + "Cats", 0.0, 1), 2.0)
    tell(server, PublisherInfo("bob", str(home), HERE + "Cats", 0.0), 2.0)

    def known() -> list[dict[str, Any]]:
        kinds: tuple[Kind, ...] = ("broker", "subscriber", "publisher")
        return [each.to_json() for kind in kinds for each in server.engine.mib.objects(kind)]

    before = known()
    assert tell(server, report, 3.0, sender) == []
    assert known() == before and server.unreadable == 1
    assert f"not {sender}'s" in list(server.engine.log)[-1].detail


@pytest.mark.parametrize(
    ("note", "sender"),
    [
        (PolicyServerInfo("aaa"), Sender("aaa")),
        (PolicyServerInfo("aaa"), Sender("bob", manages=True)),
        (PlacementNote("subscriber", "ann", "west"), Sender("two")),
        (PlanNote("{}"), Sender("two")),
    ],
    ids=str,
)
def test_nobody_without_the_right_speaks_for_a_policy_server(
    note: PolicyServerInfo | PlacementNote | PlanNote, sender: Sender, animals: Ontology
) -> None:
    server = make(animals)
    begin(server)
    assert server.received(instructions.to_notification(note), sender, 2.0) == []
    assert server.acts(2.0) and server.unreadable == 1


def test_what_is_told_of_a_broken_report_is_short(animals: Ontology) -> None:
    server = make(animals)
    server.received(
        Notification({"message": "x" * 100_000, "overlayId": "main"}), Sender("ann"), 0.0
    )
    [entry] = server.engine.log
    assert len(entry.detail) < 400


# A move, told of by two brokers.


def test_one_who_was_reclustered_is_not_pulled_back_by_late_news(animals: Ontology) -> None:
    """Re-clustering asks the old broker for its subscriber, and the answer may come after it."""
    server = make(animals)
    assignments = begin(server)
    home = assignments.broker_for(HERE + "Cats")
    there = next(each for each in BROKERS if each != home)
    ann = SubscriberInfo("ann", str(home), HERE + "Cats", 0.0, 1)
    tell(server, ann, 2.0)
    tell(server, PublisherInfo("bob", there, HERE + "Dogs", 0.0), 2.0)
    tell(server, NotificationReport.of("ann", str(home), {3: 20}, {"bob": 20}), 20.0)
    assert moved(server.tick(20.2)) == [f"ann to {there}"]
    assert moved(tell(server, ann, 20.3)) == []
    after = SubscriberInfo("ann", there, HERE + "Cats", 0.0, 1)
    for now in (20.5, 40.0, 330.0):
        assert moved(tell(server, after, now)) == []
    found = server.engine.mib.get("subscriber", "ann")
    assert found is not None and (found.broker, found.placed_on) == (there, there)
    assert "reassigned" in found.marks


def test_one_who_never_came_to_its_partners_is_placed_again(animals: Ontology) -> None:
    server = make(animals)
    home = begin(server).broker_for(HERE + "Cats")
    there, third = (each for each in BROKERS if each != home)
    ann = SubscriberInfo("ann", third, HERE + "Cats", 0.0, 1)
    tell(server, ann, 2.0)
    server.engine.mib.placed("subscriber", "ann", there, 10.0)
    server.engine.mib.mark("subscriber", "ann", "reassigned")
    assert moved(tell(server, ann, 30.0)) == []
    assert moved(tell(server, ann, 100.0)) == [f"ann to {home}"]


@pytest.mark.parametrize("gap_s", [0.0, 2.5])
@pytest.mark.parametrize("first", ["ann", "bob"])
def test_two_who_hear_each_other_do_not_exchange_places(
    first: str, gap_s: float, animals: Ontology
) -> None:
    server = make(animals)
    begin(server)
    tell(server, SubscriberInfo("ann", "west", None, 0.0, 1), 2.0)
    tell(server, PublisherInfo("bob", "east", None, 0.0), 2.0)
    tell(server, NotificationReport.of("ann", "west", {3: 5}, {"bob": 5}), 2.0)
    kinds: dict[str, Kind] = {"ann": "subscriber", "bob": "publisher"}
    going = 0
    for number, name in enumerate(sorted(kinds, key=lambda name: name != first)):
        now = 20.0 + number * gap_s
        server.actions.carry_out(Decision("p", "recluster", {}, kinds[name], name, now), now)
        if gap_s or number:
            outcomes = server.actions.flush(now)
            going += sum(len(each.effects) for each in outcomes)
    assert going == 1


# Other policy servers, and outages.


def test_a_server_that_joins_is_told_at_once_that_it_is_not_alone(animals: Ontology) -> None:
    one = make(animals)
    two = Sender("two", manages=True)
    joins = instructions.to_notification(PolicyServerInfo("two"))
    here = Announce(PolicyServerInfo("one"))
    assert one.received(joins, two, 0.5) == [here]
    assert one.received(joins, two, 2.5) == [], "it knows by now"


def test_nobody_is_forgotten_because_the_trigger_broker_was_away(animals: Ontology) -> None:
    server = make(animals)
    assignments = begin(server)
    ann = SubscriberInfo("ann", "root", None, 0.0, 1)
    tell(server, ann, 2.0)
    back = 2.0 + FORGET_AFTER_S + ASK_EVERY_S
    server.connected(back)
    assert server.engine.mib.get("subscriber", "ann") is not None
    tell(server, BrokerInfo("root", "kbn://root:1", None, LINKS["root"]), back + 0.5)
    server.tick(back + 0.5 + STABLE_FOR_S)
    assert server.assignments.plan == assignments, "the others may yet say that they are there"


def test_a_broker_that_is_gone_for_good_is_forgotten(animals: Ontology) -> None:
    server = make(animals)
    begin(server)
    for now in range(0, int(FORGET_AFTER_S + 2 * ASK_EVERY_S), int(AWAY_AFTER_S)):
        tell(server, BrokerInfo("root", "kbn://root:1"), float(now))
        server.tick(float(now))
    assert server.engine.mib.names("broker") == ["root"]


# The plan.


def test_a_given_plan_stays_however_the_load_is(animals: Ontology) -> None:
    given = plan(animals, BROKERS)
    server = make(animals, given)
    crowd(server)
    server.tick(100.0)
    assert server.assignments.plan == given


def test_a_spare_broker_does_not_keep_others_from_sharing_clusters(animals: Ontology) -> None:
    server = make(animals)
    server.assignments.spare.add("a spare one")  # and the nearest that could help
    tell(server, BrokerInfo("a spare one", "kbn://spare:1", "root", ("root",)), 0.0)
    crowd(server)
    server.tick(100.0)
    assert server.assignments.plan is not None
    assert server.assignments.plan.clusters[0].brokers == ("root", "east")


def crowd(server: PolicyServer) -> None:
    """All subscribers want the same."""
    subject = begin(server).clusters[0].key
    for number in range(12):
        tell(server, SubscriberInfo(f"s{number}", "root", subject, 0.0, 1), 2.0)


def test_nobody_is_sent_to_its_partners_at_a_spare_broker(animals: Ontology) -> None:
    server = make(animals)
    server.assignments.spare.add("east")
    begin(server)
    ann = SubscriberInfo("ann", "west", None, 0.0, 1)
    tell(server, ann, 2.0)
    tell(server, PublisherInfo("bob", "east", None, 0.0), 2.0)
    tell(server, NotificationReport.of("ann", "west", {3: 20}, {"bob": 20}), 20.0)
    assert moved(server.tick(25.0)) == []
