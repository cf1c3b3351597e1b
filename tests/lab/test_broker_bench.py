"""The broker's benchmark runs, at a size that takes no time, and measures what it says."""

from __future__ import annotations

import shutil

import pytest

from kbn import InvalidInputError
from kbn.lab.overlay import move_bench
from kbn.lab.overlay.broker_bench import Settings, run


def test_every_notification_reaches_one_subscriber_and_is_timed() -> None:
    report = run(Settings(subscribers=(5,), loaded=200, notifications=500))
    ours = [row for row in report.rows if row.broker == "kbn_broker"]
    assert [(row.subscribers, row.subscriptions) for row in ours] == [(5, 5), (100, 200)]
    for row in report.rows:
        assert row.per_second > 0
        assert 0 < row.p50_ms <= row.p99_ms
    assert len(report.rows) == (4 if shutil.which("mosquitto") else 2)


def test_numbers_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="positive"):
        Settings(subscribers=(0,))


@pytest.mark.slow
def test_subscribers_move_between_processes_and_nothing_is_lost_doubled_or_disordered() -> None:
    report = move_bench.run(move_bench.Settings(subscribers=12, rate=400))
    assert [row.how for row in report.rows] == ["with their broker", "one by one"]
    for row in report.rows:
        assert row.published > 0
        assert (row.lost, row.doubled, row.disordered) == (0, 0, 0)
