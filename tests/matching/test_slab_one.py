"""One call through the slabs finds what asking every filter finds."""

from __future__ import annotations

import pytest

from kbn import Matcher
from kbn.lab.measuring import rows_as_notifications
from kbn.lab.workloads import workload
from kbn.matching import LinearScan


@pytest.mark.parametrize("name", ["wide", "w20", "ranges", "u20"])
def test_also_where_no_filter_has_a_check_of_its_own(name: str) -> None:
    made = workload(name)
    matcher, scan = Matcher(made.ontology), LinearScan(made.ontology)
    for chunk in made.subscriptions(300, 3):
        matcher.add_many(chunk)
        for subscription, key in chunk:
            scan.add(subscription, key)
    for notification in rows_as_notifications(made.notifications(20, 3), 20):
        assert sorted(matcher.match(notification)) == sorted(scan.match(notification))
