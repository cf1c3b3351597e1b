"""The policy engine: reports and the time go in, decisions come out, and the log tells why."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbn.config import ConfigError
from kbn.management import engine as engine_module
from kbn.management.action_log import ActionLog, LogEntry, Status
from kbn.management.engine import Decision, PolicyEngine
from kbn.management.expressions import RowByRow
from kbn.management.mib import Mib
from kbn.management.policies import PolicySet
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


def engine_with(folder: Path, *policies: str, clusters: int = 1) -> PolicyEngine:
    """An engine with policies that are given in braces."""
    return PolicyEngine(Mib(), loaded(folder, *policies), clusters=clusters)


def loaded(folder: Path, *policies: str) -> PolicySet:
    path = folder / "policies.yaml"
    path.write_text("policies:\n" + "".join(f"  - {each}\n" for each in policies))
    return PolicySet.load(path)


def info(name: str = "ann", medoid: str | None = "ex:Tea", broker: str = "east") -> SubscriberInfo:
    return SubscriberInfo(name, broker, medoid, 0.5, 2)


def short(decisions: list[Decision]) -> list[tuple[str, str, str | None]]:
    return [(each.policy, each.action, each.name) for each in decisions]


def outcomes(engine: PolicyEngine) -> list[tuple[str, str | None, str, str]]:
    return [(entry.policy, entry.name, entry.status, entry.detail) for entry in engine.log]


# On a report.


def test_a_report_is_asked_about_its_own_object_only(tmp_path: Path) -> None:
    engine = engine_with(
        tmp_path,
        "{name: place, on: SubscriberInfo, when: subscriber.medoid != '', do: place-subscriber}",
    )
    assert engine.reported(info("ann", None), 1.0) == []
    decided = engine.reported(info("bob"), 2.0)
    assert decided == [Decision("place", "place-subscriber", {}, "subscriber", "bob", 2.0)]
    assert outcomes(engine) == [("place", "bob", "decided", "")]


def test_any_class_above_a_report_will_do(tmp_path: Path) -> None:
    engine = engine_with(
        tmp_path,
        "{name: any, on: Report, when: overlay.brokers >= 1, do: replan}",
        "{name: subscribers, on: SubscriberMessage, do: recluster}",
        "{name: medoids, on: MedoidMessage, of: publisher, do: place-publisher}",
    )
    assert short(engine.reported(info(), 1.0)) == [("subscribers", "recluster", "ann")]
    assert short(engine.reported(BrokerInfo("east", ""), 2.0)) == [("any", "replan", "east")]
    assert short(engine.reported(NotificationReport.of("ann", "", {}, {}), 3.0)) == [
        ("any", "replan", "ann"),
        ("subscribers", "recluster", "ann"),
    ]
    assert short(engine.reported(PublisherInfo("paul", None, None, 0.0), 4.0)) == [
        ("any", "replan", "paul"),
        ("medoids", "place-publisher", "paul"),
    ]


def test_policies_that_are_not_enabled_do_nothing(tmp_path: Path) -> None:
    engine = engine_with(
        tmp_path,
        "{name: a, on: SubscriberInfo, do: recluster, enabled: false}",
        "{name: b, every: 1 s, do: replan, enabled: false}",
    )
    assert engine.reported(info(), 1.0) == [] and engine.tick(2.0) == []


def test_the_overlay_is_asked_as_it_is_after_the_report(tmp_path: Path) -> None:
    engine = engine_with(
        tmp_path,
        "{name: first, on: BrokerInfo, when: overlay.brokers == 1, do: replan}",
        "{name: clustered, on: BrokerInfo, when: overlay.clusters == 7, do: add-broker}",
        "{name: left, on: Departure, of: broker, when: overlay.brokers == 0, do: replan}",
        "{name: read, on: Report, of: broker, when: broker.load >= 0.0, do: request-utilisation}",
    )
    assert short(engine.reported(BrokerInfo("east", ""), 1.0)) == [
        ("first", "replan", "east"),
        ("read", "request-utilisation", "east"),
    ]
    engine.clusters = 7
    assert short(engine.reported(BrokerInfo("east", ""), 2.0))[1][0] == "clustered"
    assert short(engine.reported(Departure("broker", "east"), 3.0)) == [("left", "replan", "east")]
    assert engine.reported(Departure("broker", "east"), 4.0) == []


def test_late_news_of_leaving_asks_nobody(tmp_path: Path) -> None:
    engine = engine_with(tmp_path, "{name: left, on: Departure, do: replan}")
    engine.reported(info("ann", broker="west"), 1.0)
    assert engine.reported(Departure("subscriber", "ann", "east"), 2.0) == []
    assert len(engine.reported(Departure("subscriber", "ann", "west"), 3.0)) == 1


# By the clock.


def test_a_timer_asks_all_objects_at_once_when_it_is_due(tmp_path: Path) -> None:
    engine = engine_with(
        tmp_path,
        "{name: all, every: 10 s, of: subscriber, when: subscriber.spread > 1.0, do: recluster}",
        "{name: ask, every: 30 s, when: overlay.subscribers > 0, do: request-utilisation}",
    )
    for name in ("cy", "ann", "bob"):
        engine.reported(SubscriberInfo(name, "east", None, 2.0 * (name != "bob"), 1), 1.0)
    assert short(engine.tick(5.0)) == [
        ("all", "recluster", "ann"),
        ("all", "recluster", "cy"),
        ("ask", "request-utilisation", None),
    ]
    assert engine.tick(14.9) == []
    assert len(engine.tick(15.0)) == 2
    assert short(engine.tick(90.0))[-1] == ("ask", "request-utilisation", None)
    assert engine.tick(99.9) == [] and len(engine.tick(100.0)) == 2


def test_a_clock_that_is_set_back_does_not_put_timers_off(tmp_path: Path) -> None:
    engine = engine_with(tmp_path, "{name: a, every: 10 s, do: replan}")
    assert len(engine.tick(1_000.0)) == 1
    assert len(engine.tick(5.0)) == 1
    assert engine.tick(14.9) == [] and len(engine.tick(15.0)) == 1


def test_choose_takes_the_one_with_the_highest_or_lowest_value(tmp_path: Path) -> None:
    engine = engine_with(
        tmp_path,
        "{name: most, every: 1 s, of: broker, when: broker.load > 0.0,"
        " choose: {highest: broker.load}, do: {action: mark, mark: most, only: true}}",
        "{name: least, every: 1 s, of: broker, choose: {lowest: broker.load}, do: retire-broker}",
    )
    assert engine.tick(0.0) == []
    for name, load in (("south", 0.0), ("east", 0.0), ("west", 0.5), ("north", 0.5)):
        engine.reported(BrokerUtilisation(name, 0, 0, 0, 0, load, 0), 1.0)
    assert short(engine.tick(2.0)) == [("least", "retire-broker", "east")]
    assert engine.mib.select("broker", "'most' in broker.marks") == ["north"]
    engine.reported(BrokerUtilisation("west", 0, 0, 0, 0, 0.75, 0), 3.0)
    engine.tick(4.0)
    assert engine.mib.select("broker", "'most' in broker.marks") == ["west"]


def test_a_report_may_lead_to_a_choice_among_all(tmp_path: Path) -> None:
    engine = engine_with(
        tmp_path,
        "{name: widest, on: BrokerMedoid, choose: {highest: broker.spread}, do: retire-broker}",
    )
    engine.reported(BrokerMedoid("east", None, 2.0, 3), 1.0)
    decided = engine.reported(BrokerMedoid("west", None, 1.0, 3), 2.0)
    assert short(decided) == [("widest", "retire-broker", "east")]


@given(
    loads=st.lists(st.integers(0, 5), min_size=1, max_size=8),
    bound=st.integers(0, 5),
)
def test_a_timer_means_the_same_as_asking_each_object(
    loads: list[int], bound: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = f"when: broker.subscribers >= {bound} && broker.load < 4.0, do: retire-broker"
    engine = engine_with(
        tmp_path_factory.mktemp("policies"),
        f"{{name: timer, every: 1 s, of: broker, {text}}}",
        f"{{name: report, on: BrokerUtilisation, {text}}}",
    )
    each = []
    for number, load in enumerate(loads):
        report = BrokerUtilisation(f"b{number}", load, 0, 0, 0, float(load), 0)
        each += engine.reported(report, 1.0)
    assert [one.name for one in engine.tick(2.0)] == [one.name for one in each]


# How often.


def test_a_rate_leaves_out_the_rest_and_tells_it_once_a_period(tmp_path: Path) -> None:
    engine = engine_with(
        tmp_path, "{name: place, on: SubscriberInfo, do: place-subscriber, at_most: 3 per minute}"
    )
    decided = [engine.reported(info(f"s{number}"), float(number)) for number in range(10)]
    assert [len(each) for each in decided] == [1, 1, 1] + [0] * 7
    assert engine.suppressed == {"place": 7}
    assert not any(entry.status is Status.SUPPRESSED for entry in engine.log)
    engine.tick(62.9)  # it began to suppress at 3, and tells after a minute
    assert not any(entry.status is Status.SUPPRESSED for entry in engine.log)
    engine.tick(63.0)
    (told,) = (entry for entry in engine.log if entry.status is Status.SUPPRESSED)
    assert (told.policy, told.count, told.at) == ("place", 7, 63.0)
    assert told.detail == "at most 3 per 60 s"
    assert len(engine.reported(info("s10"), 64.0)) == 1


def test_a_timer_keeps_to_the_rate_by_the_order_of_names(tmp_path: Path) -> None:
    engine = engine_with(
        tmp_path,
        "{name: all, every: 1 s, of: subscriber, do: recluster, at_most: 2 per minute,"
        " again_after: 1 h}",
    )
    for name in ("dan", "ann", "cy", "bob", "eve"):
        engine.reported(info(name), 0.0)
    assert [each.name for each in engine.tick(1.0)] == ["ann", "bob"]
    assert engine.tick(2.0) == []
    assert [each.name for each in engine.tick(61.0)] == ["cy", "dan"]
    assert [each.name for each in engine.tick(122.0)] == ["eve"]
    assert engine.tick(200.0) == []


def test_not_again_for_the_same_object_too_soon(tmp_path: Path) -> None:
    engine = engine_with(
        tmp_path, "{name: place, on: SubscriberInfo, do: place-subscriber, again_after: 10 s}"
    )
    assert len(engine.reported(info("ann"), 0.0)) == 1
    assert engine.reported(info("ann"), 9.9) == []
    assert len(engine.reported(info("bob"), 9.9)) == 1
    assert len(engine.reported(info("ann"), 10.0)) == 1
    assert engine.suppressed == {"place": 0}  # it was no rate that kept it back


def test_too_many_for_one_moment_wait_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "AT_ONCE_MAX", 2)
    engine = engine_with(
        tmp_path,
        "{name: all, every: 1 h, of: subscriber, when: subscriber.moves == 0, do: recluster}",
    )
    for name in "abcdef":
        engine.reported(info(name), 0.0)
    assert [each.name for each in engine.tick(1.0)] == ["a", "b"]
    engine.reported(Departure("subscriber", "c"), 1.5)
    engine.mib.placed("subscriber", "d", "west", 1.5)  # the condition holds no more
    assert [each.name for each in engine.tick(2.0)] == ["e", "f"]
    assert engine.tick(3.0) == []
    assert [each.name for each in engine.tick(3601.0)] == ["a", "b"]


def test_no_evaluation_decides_about_more_than_its_bound_and_nobody_waits_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timer that is due at every tick finds the same names first each time."""
    monkeypatch.setattr(engine_module, "AT_ONCE_MAX", 2)
    engine = engine_with(tmp_path, "{name: all, every: 1 s, of: subscriber, do: recluster}")
    for name in "abcde":
        engine.reported(info(name), 0.0)
    ticks = [[each.name for each in engine.tick(float(now))] for now in range(1, 7)]
    assert ticks == [["a", "b"], ["c", "d"], ["e"]] * 2


def test_what_the_engine_remembers_of_objects_does_not_grow_for_ever(tmp_path: Path) -> None:
    engine = engine_with(
        tmp_path, "{name: place, on: SubscriberInfo, do: place-subscriber, again_after: 1 s}"
    )
    for number in range(5_000):
        engine.reported(info(f"s{number}"), float(number))
        engine.tick(float(number))
    assert len(engine._states[0].done_at) < 2_000


# Contradictions.


def test_of_two_placements_in_one_moment_the_first_in_the_file_wins(tmp_path: Path) -> None:
    engine = engine_with(
        tmp_path,
        "{name: first, on: SubscriberInfo, do: recluster}",
        "{name: second, on: SubscriberInfo,"
        " do: [place-subscriber, {action: mark, mark: placed}], at_most: 1 per day}",
        "{name: third, on: SubscriberInfo, do: {action: unmark, mark: placed}}",
        "{name: fourth, on: SubscriberInfo, do: place-subscriber, again_after: 1 d}",
    )
    assert short(engine.reported(info(), 1.0)) == [("first", "recluster", "ann")]
    assert outcomes(engine) == [
        ("first", "ann", "decided", ""),
        ("second", "ann", "overridden", "by first"),
        ("second", "ann", "done", "marked placed"),
        ("third", "ann", "overridden", "by second"),
        ("fourth", "ann", "overridden", "by first"),
    ]
    ann = engine.mib.get("subscriber", "ann")
    assert ann is not None and ann.marks == {"placed"}
    # What was overridden was not done: it is neither counted nor kept back.
    engine.use(PolicySet(tuple(engine.policies)[3:]))
    assert len(engine.reported(info(), 2.0)) == 1


def test_different_objects_and_different_moments_do_not_contradict(tmp_path: Path) -> None:
    engine = engine_with(
        tmp_path,
        "{name: a, every: 1 s, of: subscriber, when: subscriber.name == 'ann', do: recluster}",
        "{name: b, every: 1 s, of: subscriber, do: place-subscriber}",
        "{name: c, every: 1 s, of: publisher, do: place-publisher}",
    )
    for name in ("ann", "bob"):
        engine.reported(info(name), 0.0)
        engine.reported(PublisherInfo(name, None, None, 0.0), 0.0)
    expected = [
        ("a", "recluster", "ann"),
        ("b", "place-subscriber", "bob"),
        ("c", "place-publisher", "ann"),
        ("c", "place-publisher", "bob"),
    ]
    assert short(engine.tick(1.0)) == expected
    assert short(engine.tick(2.0)) == expected


# What the engine does itself, and the log.


def test_messages_are_filled_in(tmp_path: Path) -> None:
    message = "{broker.name}: {broker.load} {broker.marks} {overlay.brokers} {now} {broker.links}"
    engine = engine_with(
        tmp_path, f"{{name: say, on: BrokerInfo, do: {{action: log, message: '{message}'}}}}"
    )
    engine.reported(BrokerInfo("{now}", "", None, ("west",)), 1.5)
    assert outcomes(engine) == [("say", "{now}", "done", '{now}: 0 [] 1 1.5 ["west"]')]


def test_a_condition_that_is_too_slow_is_told_and_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RowByRow, "ROWS_MAX", 1)
    engine = engine_with(
        tmp_path,
        "{name: slow, every: 1 s, of: broker, when: size(broker.links) == 0, do: retire-broker}",
        "{name: other, every: 1 s, do: replan}",
    )
    engine.reported(BrokerInfo("east", ""), 0.0)
    assert short(engine.tick(1.0))[0] == ("slow", "retire-broker", "east")
    engine.reported(BrokerInfo("west", ""), 1.0)
    assert short(engine.tick(2.0)) == [("other", "replan", None)]
    assert any("one by one" in entry.detail for entry in engine.log)


def test_what_came_of_a_decision_is_recorded_and_written_as_json(tmp_path: Path) -> None:
    engine = engine_with(tmp_path, "{name: a, on: SubscriberInfo, do: recluster}")
    (decision,) = engine.reported(info(), 1.0)
    seen = engine.log.written
    engine.record(decision, Status.DONE, "from east to west")
    assert [entry.to_json() for entry in engine.log.since(seen)] == [
        {
            "at": 1.0,
            "policy": "a",
            "action": "recluster",
            "kind": "subscriber",
            "name": "ann",
            "status": "done",
            "detail": "from east to west",
        }
    ]


def test_the_log_keeps_the_last_entries_only() -> None:
    log = ActionLog(entries_max=3)
    for number in range(5):
        log.add(LogEntry(float(number), "p", "log", None, None, Status.DONE, str(number)))
    assert [entry.detail for entry in log] == ["2", "3", "4"]
    assert log.written == 5 and len(log) == 3
    assert [entry.detail for entry in log.since(0)] == ["2", "3", "4"]
    assert [entry.detail for entry in log.since(4)] == ["4"] and log.since(5) == []


# Reloading.


def test_a_bad_file_leaves_the_policies_in_force(tmp_path: Path) -> None:
    engine = engine_with(tmp_path, "{name: a, on: SubscriberInfo, do: recluster}")
    bad = tmp_path / "bad.yaml"
    bad.write_text("policies:\n  - {name: a, on: SubscriberInfo, do: reclustr}\n")
    problem = engine.reload(bad, 1.0)
    assert isinstance(problem, ConfigError) and "bad.yaml:2: " in str(problem)
    assert len(engine.reported(info(), 2.0)) == 1
    assert next(iter(engine.log)).status is Status.FAILED


def test_policies_that_stay_as_they_were_keep_their_timers_and_rates(tmp_path: Path) -> None:
    kept = "{name: kept, on: SubscriberInfo, do: recluster, at_most: 1 per hour}"
    timer = "{name: timer, every: 1 h, do: replan}"
    changed = "{name: changed, every: 1 h, do: %s}"
    engine = engine_with(tmp_path, kept, timer, changed % "add-broker")
    assert len(engine.reported(info(), 1.0)) == 1 and len(engine.tick(1.0)) == 2
    loaded(tmp_path, timer, "{name: new, on: BrokerInfo, do: replan}", kept, changed % "replan")
    assert engine.reload(tmp_path, 2.0) is None
    assert engine.reported(info("bob"), 3.0) == []  # one an hour, reloaded or not
    assert short(engine.tick(4.0)) == [("changed", "replan", None)]
    assert len(engine.reported(BrokerInfo("east", ""), 5.0)) == 1


# The shipped ones.


def test_the_shipped_policies_place_mark_and_ask() -> None:
    engine = PolicyEngine(Mib(), PolicySet.shipped(), clusters=3)
    assert engine.reported(info(), 1.0) == []  # no broker to choose from yet
    for name in ("east", "west"):
        engine.reported(BrokerInfo(name, f"kbn://{name}"), 2.0)
    placed = ("place-new-subscribers", "place-subscriber", "ann")
    assert short(engine.reported(info(), 3.0)) == [placed]
    engine.mib.placed("subscriber", "ann", "west", 3.0)
    assert engine.reported(info(broker="west"), 20.0) == []  # there it is
    far = NotificationReport.of("ann", "west", {3: 20}, {"paul": 20})
    assert short(engine.reported(far, 21.0)) == [("misplaced-subscribers", "recluster", "ann")]
    assert engine.mib.select("subscriber", "'misplaced' in subscriber.marks") == ["ann"]
    assert engine.reported(NotificationReport.of("ann", "west", {1: 20}, {}), 22.0) == []
    assert engine.mib.select("subscriber", "'misplaced' in subscriber.marks") == []
    publisher = PublisherInfo("paul", None, "ex:Tea", 0.0)
    assert short(engine.reported(publisher, 23.0))[0][1:] == ("place-publisher", "paul")
    groups = (MedoidGroup("ex:Tea", 0.5, 5), MedoidGroup("ex:Cat", 0.5, 2))
    engine.reported(BrokerMedoid("west", "ex:Tea", 1.5, 7, groups), 24.0)
    assert "its smaller group: ex:Cat" in list(engine.log)[-1].detail
    asked = {each.action for each in engine.tick(25.0)}
    assert {
        *("request-broker-medoids", "request-publisher-medoids", "request-notification-reports"),
    } <= asked
    assert "replan" not in asked
