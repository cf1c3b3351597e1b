"""The MIB: objects come by reports, change by reports, go, and outlive the process."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbn.broker.store import StoreError
from kbn.errors import InvalidInputError, LimitError
from kbn.management.mib import Mib
from kbn.management.reports import (
    KINDS,
    BrokerInfo,
    BrokerMedoid,
    BrokerUtilisation,
    Departure,
    MedoidGroup,
    NotificationReport,
    PublisherInfo,
    Report,
    SubscriberInfo,
)
from kbn.management.schema import FIELDS
from kbn.management.table import MARKS_MAX

ROOT = Path(__file__).parent.parent.parent


def everything(mib: Mib) -> dict[str, list[dict[str, Any]]]:
    return {kind: [each.to_json() for each in mib.objects(kind)] for kind in KINDS}


def info(name: str = "ann", broker: str = "east", medoid: str | None = "ex:Tea") -> SubscriberInfo:
    return SubscriberInfo(name, broker, medoid, 0.5, 2)


# Reports.


def test_the_first_report_makes_an_object_and_later_ones_change_it() -> None:
    mib = Mib()
    ann = mib.apply(info(), 1.0)
    assert ann is not None
    mib.apply(NotificationReport.of("ann", "east", {1: 6, 4: 2, 7: 1}, {"paul": 9}), 2.0)
    mib.apply(SubscriberInfo("ann", "east", None, 0.0, 0), 3.0)
    assert mib.count("subscriber") == 1
    assert (ann.medoid, ann.subscriptions, ann.notifications) == ("", 0, 9)
    assert ann.histogram == {1: 6, 4: 2, 7: 1} and ann.publishers == {"paul": 9}
    assert ann.mean_hops == pytest.approx(7 / 3)
    assert (ann.first_seen_at, ann.reported_at, ann.seen_at) == (1.0, 2.0, 3.0)


def test_reports_of_a_broker_add_up_whichever_comes_first() -> None:
    given = [
        BrokerInfo("east", "kbn://east:7431", "north", ("north", "south")),
        BrokerMedoid(
            "east", "ex:Tea", 1.5, 7, (MedoidGroup("a", 0.5, 5), MedoidGroup("b", 0.1, 2))
        ),
        BrokerUtilisation("east", 7, 9, 100, 50, 0.25, 2**40),
    ]
    forwards, backwards = Mib(), Mib()
    for report in given:
        forwards.apply(report, 1.0)
    for report in reversed(given):
        backwards.apply(report, 1.0)
    assert everything(forwards) == everything(backwards)
    east = forwards.get("broker", "east")
    assert east is not None
    assert (east.parent, east.links, east.memory) == ("north", ["north", "south"], 2**40)
    assert east.groups[0] == {"medoid": "a", "spread": 0.5, "subscribers": 5}
    assert east.smaller_group == "b"


def test_no_group_is_the_smaller_one_of_equals_or_of_one() -> None:
    mib = Mib()
    for groups in ((MedoidGroup("a", 0, 3), MedoidGroup("b", 0, 3)), (MedoidGroup("a", 0, 3),), ()):
        east = mib.apply(BrokerMedoid("east", None, 0.0, 3, groups), 1.0)
        assert east is not None and east.smaller_group == ""


def test_a_notification_report_may_come_first_and_does_not_say_where_somebody_is_later() -> None:
    mib = Mib()
    ann = mib.apply(NotificationReport.of("ann", "east", {1: 1}, {}), 1.0)
    assert ann is not None and ann.broker == "east"
    mib.apply(info(broker="west"), 2.0)
    mib.apply(NotificationReport.of("ann", "east", {1: 2}, {}), 3.0)
    assert (ann.broker, ann.notifications) == ("west", 2)


def test_who_is_gone_is_removed_but_not_by_late_news_from_where_it_was() -> None:
    mib = Mib()
    ann = mib.apply(info(broker="west"), 1.0)
    assert mib.apply(Departure("subscriber", "ann", "east"), 2.0) is not None
    assert mib.count("subscriber") == 1
    assert mib.apply(Departure("subscriber", "ann", "west"), 3.0) is None
    assert mib.get("subscriber", "ann") is None
    with pytest.raises(InvalidInputError, match="'ann' is gone"):
        assert ann is not None and ann.broker
    assert mib.apply(Departure("subscriber", "ann", "west"), 4.0) is None  # never heard of
    mib.apply(info(), 5.0)
    assert mib.apply(Departure("subscriber", "ann"), 6.0) is None and mib.count("subscriber") == 0


def test_who_comes_back_starts_anew() -> None:
    mib = Mib()
    mib.apply(info(), 1.0)
    mib.mark("subscriber", "ann", "misplaced")
    mib.apply(Departure("subscriber", "ann"), 2.0)
    ann = mib.apply(NotificationReport.of("ann", "", {}, {}), 3.0)
    assert ann is not None
    assert (ann.first_seen_at, ann.medoid, ann.marks) == (3.0, "", frozenset())


def test_where_a_client_was_told_to_go_is_kept_and_moves_are_counted() -> None:
    mib = Mib()
    ann = mib.apply(info(broker="east"), 1.0)
    assert ann is not None
    mib.placed("subscriber", "ann", "east", 2.0)
    assert (ann.placed_on, ann.placed_at, ann.moves) == ("east", 2.0, 0)
    mib.placed("subscriber", "ann", "west", 3.0)
    assert (ann.placed_on, ann.placed_at, ann.moves) == ("west", 3.0, 1)
    assert mib.placed("subscriber", "bob", "west", 3.0) is None
    mib.apply(BrokerInfo("east", "kbn://east"), 4.0)
    with pytest.raises(InvalidInputError, match="not placed"):
        mib.placed("broker", "east", "west", 5.0)


@pytest.mark.parametrize(
    "report",
    [
        SubscriberInfo("", "east", None, 0.0, 1),
        SubscriberInfo("ann", "east", None, float("nan"), 1),
        SubscriberInfo("ann", "east", None, 0.0, -1),
        SubscriberInfo("ann", "east", None, 0.0, 2**63),
        SubscriberInfo("ann", "\ud800", None, 0.0, 1),
        SubscriberInfo("\ud800", "east", None, 0.0, 1),
        BrokerUtilisation("east", 0, 0, 0, 0, float("inf"), 0),
        BrokerMedoid("east", None, 0.0, 1, (MedoidGroup("a", float("nan"), 1),)),
    ],
)
def test_what_cannot_be_kept_is_refused_and_changes_nothing(report: Report) -> None:
    mib = Mib()
    mib.apply(info("bob"), 1.0)
    before = everything(mib)
    with pytest.raises(InvalidInputError):
        mib.apply(report, 2.0)
    assert everything(mib) == before
    mib.check_invariants()


def test_an_object_has_the_fields_of_its_kind_and_no_others() -> None:
    mib = Mib()
    ann = mib.apply(info(), 1.0)
    assert ann is not None
    assert list(ann.to_json()) == ["name", *FIELDS["subscriber"]]
    with pytest.raises(AttributeError, match="no field 'load'"):
        assert ann.load


# Marks.


def test_marks_are_set_taken_away_and_may_be_one_objects_alone() -> None:
    mib = Mib()
    for name in ("ann", "bob"):
        mib.apply(info(name), 1.0)
        mib.mark("subscriber", name, "late")
    mib.mark("subscriber", "bob", "widest", only=True)
    mib.mark("subscriber", "ann", "widest", only=True)
    ann, bob = mib.get("subscriber", "ann"), mib.get("subscriber", "bob")
    assert ann is not None and bob is not None
    assert ann.marks == {"late", "widest"} and bob.marks == {"late"}
    mib.unmark("subscriber", "ann", "late")
    mib.unmark("subscriber", "ann", "never heard of")
    mib.mark("subscriber", "nobody", "late")
    assert ann.marks == {"widest"}
    assert mib.select("subscriber", "'late' in subscriber.marks") == ["bob"]


def test_a_mark_that_nobody_carries_makes_room_for_another() -> None:
    mib = Mib()
    mib.apply(info(), 1.0)
    mib.apply(BrokerInfo("east", ""), 1.0)
    for number in range(MARKS_MAX):
        mib.mark(
            "broker" if number % 2 else "subscriber", "east" if number % 2 else "ann", str(number)
        )
    with pytest.raises(LimitError, match="64 marks"):
        mib.mark("subscriber", "ann", "one more")
    mib.unmark("broker", "east", "7")
    mib.mark("subscriber", "ann", "one more")
    ann, east = mib.get("subscriber", "ann"), mib.get("broker", "east")
    assert ann is not None and east is not None
    assert "one more" in ann.marks and "7" not in ann.marks | east.marks


# The file.


names = st.sampled_from(["ann", "bob", "cy", "dan'); --", "é", "東京"])
brokers = st.sampled_from(["east", "west", "north"])
texts = st.none() | st.sampled_from(["ex:Tea", "ex:Cat", "https://x/#Ä"])
counts = st.integers(0, 2**63 - 1)
small = st.integers(0, 9)
numbers = st.floats(0, 1e6)
histograms = st.dictionaries(st.integers(0, 20), small, max_size=4)
reports: st.SearchStrategy[Report] = st.one_of(
    st.builds(BrokerInfo, brokers, st.text(max_size=5), st.none() | brokers),
    st.builds(
        BrokerMedoid,
        brokers,
        texts,
        numbers,
        counts,
        st.lists(st.builds(MedoidGroup, brokers, numbers, small), max_size=3).map(tuple),
    ),
    st.builds(BrokerUtilisation, brokers, *[counts] * 4, numbers, counts),
    st.builds(SubscriberInfo, names, brokers, texts, numbers, counts),
    st.builds(
        NotificationReport.of, names, brokers, histograms, st.dictionaries(names, small, max_size=3)
    ),
    st.builds(PublisherInfo, names, st.none() | brokers, texts, numbers),
    st.builds(Departure, st.sampled_from(KINDS), names | brokers, st.none() | brokers),
)
steps = st.one_of(
    reports,
    st.tuples(st.just("mark"), st.sampled_from(KINDS), names | brokers, st.sampled_from("xyz")),
    st.tuples(st.just("unmark"), st.sampled_from(KINDS), names | brokers, st.sampled_from("xyz")),
    st.tuples(st.just("placed"), st.sampled_from(KINDS[1:]), names, brokers),
    st.just("commit"),
)


def take(mib: Mib, step: Any, now: float) -> None:
    match step:
        case "commit":
            mib.commit()
        case ("mark", kind, name, mark):
            mib.mark(kind, name, mark)
        case ("unmark", kind, name, mark):
            mib.unmark(kind, name, mark)
        case ("placed", kind, name, broker):
            mib.placed(kind, name, broker, now)
        case _:
            mib.apply(step, now)


@given(taken=st.lists(steps, max_size=30))
def test_what_was_committed_is_there_after_reopening(
    taken: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("mib") / "mib.db"
    with Mib(path) as mib:
        for now, step in enumerate(taken):
            take(mib, step, float(now))
        mib.check_invariants()
        mib.commit()
        assert mib.changed == 0
        before = everything(mib)
        with Mib(path, read_only=True) as beside:
            assert everything(beside) == before
    with Mib(path) as again:
        again.check_invariants()
        assert everything(again) == before


@given(taken=st.lists(reports, max_size=30))
@settings(max_examples=15)
def test_the_same_reports_make_the_same_objects_with_and_without_a_file(
    taken: list[Report], tmp_path_factory: pytest.TempPathFactory
) -> None:
    memory = Mib()
    with Mib(tmp_path_factory.mktemp("mib") / "mib.db") as mib:
        for now, report in enumerate(taken):
            take(mib, report, float(now))
            take(memory, report, float(now))
        assert everything(mib) == everything(memory)


def test_what_was_not_committed_is_lost_and_nothing_else(tmp_path: Path) -> None:
    mib = Mib(tmp_path / "mib.db")
    mib.apply(info("ann"), 1.0)
    assert mib.commit() == 1 and mib.commit() == 0
    mib.apply(info("bob"), 2.0)
    mib.apply(Departure("subscriber", "ann"), 3.0)
    mib.close()
    with Mib(tmp_path / "mib.db") as again:
        assert [each.name for each in again.objects("subscriber")] == ["ann"]


KILLED = """
import os, sys
from kbn.management.mib import Mib
from kbn.management.reports import SubscriberInfo
mib = Mib(sys.argv[1])
for number in range(1000):
    mib.apply(SubscriberInfo(f"s{number}", "east", None, 0.0, 1), 1.0)
mib.commit()
for number in range(1000):
    mib.apply(SubscriberInfo(f"s{number}", "west", None, 0.0, 1), 2.0)
print("committed", flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_process_that_is_killed_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "mib.db"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "committed\n", done.stderr
    with Mib(path, read_only=True) as mib:
        assert mib.count_by("subscriber", "broker") == {"east": 1000}
    with Mib(path) as mib:
        assert mib.count_by("subscriber", "broker") == {"east": 1000}


def test_one_process_changes_a_file_and_others_look_at_its_last_commit(tmp_path: Path) -> None:
    path = tmp_path / "mib.db"
    with Mib(path) as mib:
        mib.apply(info("ann"), 1.0)
        mib.commit()
        mib.apply(info("bob"), 2.0)
        with pytest.raises(StoreError, match="another policy server"):
            Mib(path)
        with Mib(path, read_only=True) as beside:
            assert beside.count("subscriber") == 1
            with pytest.raises(InvalidInputError, match="looked at"):
                beside.apply(info("cy"), 3.0)
        mib.commit()
    with Mib(path) as again:
        assert again.count("subscriber") == 2


def test_files_of_others_and_damaged_ones_are_refused_and_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match="not the MIB"):
        Mib(text)
    assert text.read_bytes() == b"not a database" * 100
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(StoreError, match="a database, but not the MIB"):
        Mib(other)
    with pytest.raises(StoreError, match="no such file"):
        Mib(tmp_path / "nothing.db", read_only=True)
    with pytest.raises(StoreError, match="folder that exists"):
        Mib(tmp_path / "no folder" / "mib.db")
    with pytest.raises(StoreError, match="is it a file"):
        Mib(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"text.db", "other.db"}


def test_a_file_whose_values_are_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mib.db"
    with Mib(path) as mib:
        mib.apply(info(), 1.0)
        mib.commit()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE subscriber SET marks = '{'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="damaged"):
        Mib(path)
    with pytest.raises(StoreError, match="damaged"):  # and the lock was let go
        Mib(path)


def test_a_file_of_the_version_before_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "mib.db"
    with closing(Mib(path)) as mib:
        mib.apply(SubscriberInfo("ann", "east", "ex:Tea", 0.0, 1), 1.0)
        mib.apply(BrokerInfo("east", "kbn://east:7", None, (), 7), 1.0)
        mib.commit()
    with closing(sqlite3.connect(path)) as connection:  # as it was before these were reported
        connection.execute("ALTER TABLE subscriber DROP COLUMN texts")
        connection.execute("ALTER TABLE broker DROP COLUMN port")
        connection.execute("PRAGMA user_version = 2")
        connection.commit()
    with closing(Mib(path)) as mib:
        ann, east = mib.get("subscriber", "ann"), mib.get("broker", "east")
        assert ann is not None and (ann.medoid, ann.texts) == ("ex:Tea", [])
        assert east is not None and (east.address, east.port) == ("kbn://east:7", 0)
        mib.apply(SubscriberInfo("ann", "east", "ex:Tea", 0.0, 1, ("x > 3",)), 2.0)
        mib.commit()
    with closing(Mib(path)) as mib:
        ann = mib.get("subscriber", "ann")
        assert ann is not None and ann.texts == ["x > 3"]


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mib.db"
    Mib(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="version 99"):
        Mib(path)


def test_many_objects_come_and_go(tmp_path: Path) -> None:
    with Mib(tmp_path / "mib.db") as mib:
        for number in range(2_000):
            mib.apply(info(f"s{number}", f"b{number % 7}"), float(number))
        mib.commit()
        for number in range(0, 2_000, 2):
            mib.apply(Departure("subscriber", f"s{number}"), 0.0)
        mib.check_invariants()
        mib.commit()
        left = sorted(f"s{number}" for number in range(1, 2_000, 2))
        assert [each.name for each in mib.objects("subscriber")] == left
        assert sum(mib.count_by("subscriber", "broker").values()) == 1_000
    with Mib(tmp_path / "mib.db") as again:
        found = {each.name: each.broker for each in again.objects("subscriber")}
        assert found == {f"s{n}": f"b{n % 7}" for n in range(1, 2_000, 2)}


# Two brokers tell of a subscriber that moves.

FROM_OLD: list[Report] = [info("ann", "east"), Departure("subscriber", "ann", "east")]
FROM_NEW: list[Report] = [info("ann", "west"), info("ann", "west")]


@pytest.mark.parametrize("is_told_to", [True, False])
@pytest.mark.parametrize("places", list(combinations(range(4), 2)), ids=str)
def test_one_who_moves_is_at_the_new_broker_in_whatever_order_both_tell_of_it(
    places: tuple[int, int], is_told_to: bool
) -> None:
    mib, old, new = Mib(), iter(FROM_OLD), iter(FROM_NEW)
    mib.apply(info("ann", "east"), 0.0)
    if is_told_to:
        mib.placed("subscriber", "ann", "west", 1.0)
    for number in range(4):
        mib.apply(next(old) if number in places else next(new), 2.0 + number)
    ann = mib.get("subscriber", "ann")
    assert ann is not None and ann.broker == "west"
    mib.apply(Departure("subscriber", "ann", "west"), 9.0)
    assert mib.get("subscriber", "ann") is None


def test_recipients_are_the_subscribers_with_notifications() -> None:
    mib = Mib()
    mib.apply(SubscriberInfo("ann", "east", "ex:Tea", 0.5, 2), now=1.0)
    mib.apply(NotificationReport.of("ann", "east", {1: 2}, {"bob": 2}), now=2.0)
    mib.apply(SubscriberInfo("carol", "east", "ex:Tea", 0.5, 2), now=3.0)
    mib.apply(NotificationReport.of("dave", "west", {3: 1}, {}), now=4.0)
    mib.placed("subscriber", "ann", "west", now=5.0)
    found = {each.name: each for each in mib.recipients()}
    assert found.keys() == {"ann", "dave"}
    for name, hearer in found.items():
        same = mib.get("subscriber", name)
        assert same is not None
        for field in ("broker", "placed_on", "placed_at", "medoid", "publishers"):
            assert getattr(hearer, field) == getattr(same, field), field
