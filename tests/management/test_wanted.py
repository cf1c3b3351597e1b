"""What a policy server subscribes to follows from its policies."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbn.management.policies import PolicySet
from kbn.management.wanted import ALWAYS, wanted_types

OFF = "{name: a, enabled: false, on: BrokerMedoid, do: {action: log, message: x}}"


@pytest.mark.parametrize(
    ("policy", "more"),
    [
        ("{name: a, on: BrokerMedoid, do: {action: log, message: x}}", {"BrokerMedoid"}),
        (OFF, set()),
        ("{name: a, on: SubscriberInfo, do: place-subscriber}", set()),
        ("{name: a, every: 1 s, do: request-utilisation}", {"BrokerUtilisation"}),
        ("{name: a, every: 1 s, of: publisher, do: recluster}", {"NotificationReport"}),
        ("{name: a, every: 1 s, of: broker, do: split-broker}", {"BrokerMedoid"}),
        (
            "{name: a, every: 1 s, of: broker, when: broker.load > 0.5, "
            "do: {action: mark, mark: m}}",
            {"BrokerUtilisation"},
        ),
        (
            "{name: a, every: 1 s, of: broker, choose: {highest: broker.spread}, "
            "do: {action: mark, mark: m}}",
            {"BrokerMedoid"},
        ),
        (
            "{name: a, on: SubscriberInfo, do: {action: log, message: 'h {subscriber.mean_hops}'}}",
            {"NotificationReport", "MisplacedReport"},
        ),
        (
            "{name: a, on: SubscriberMessage, do: {action: log, message: x}}",
            {"NotificationReport", "MisplacedReport"},
        ),
    ],
)
def test_a_policy_makes_a_report_wanted(policy: str, more: set[str], tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"policies: [{policy}]")
    assert set(wanted_types(PolicySet.load(file))) == {*ALWAYS, *more}


def test_the_shipped_policies_want_everything_they_ask_for() -> None:
    found = set(wanted_types(PolicySet.shipped()))
    hops = {"NotificationReport", "MisplacedReport"}
    assert found == {*ALWAYS, "BrokerMedoid", "BrokerUtilisation", *hops}
