"""Threads may share a matcher: their calls take turns, and every answer is right."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kbn.filters import Notification, Subscription
from kbn.matching import LinearScan, Matcher


@pytest.fixture(autouse=True)
def switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_readers_and_a_writer_do_not_disturb_each_other() -> None:
    matcher, oracle = Matcher(), LinearScan()
    for n in range(300):
        subscription = Subscription.parse(f"a >= {n % 7} and a < {n % 7 + n % 5} and b != {n % 3}")
        matcher.add(subscription, n)
        oracle.add(subscription, n)
    snapshot = matcher.snapshot()
    notifications = [Notification({"a": n % 9, "b": n % 4}) for n in range(60)]
    expected = [oracle.match(notification) for notification in notifications]

    def read(engine: Matcher) -> list[set[object]]:
        return [set(engine.match(notification)) for notification in notifications]

    def write() -> None:
        for n in range(300):
            matcher.add(Subscription.parse(f"c = {n}"), f"new {n}")

    with ThreadPoolExecutor(4) as threads:
        readers = [threads.submit(read, snapshot) for _ in range(3)]
        threads.submit(write).result()
        assert all(reader.result() == expected for reader in readers)
        # The new ones ask for another attribute: the answers of the changed matcher are the same.
        assert all(
            r.result() == expected for r in [threads.submit(read, matcher) for _ in range(4)]
        )
