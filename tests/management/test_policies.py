"""Files of policies: what they mean, and how whatever is wrong in them is told."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from kbn.config import ConfigError
from kbn.errors import MissingDependencyError
from kbn.management.policies import ACTIONS, SHIPPED, Action, PolicySet
from kbn.management.rate import Rate

ONE = """\
policies:
  - name: place-new-subscribers
    description: For the tests.
    on: SubscriberInfo
    of: subscriber
    when: overlay.brokers >= 2 && subscriber.medoid != ''
    do: place-subscriber
    at_most: 100 per minute
    again_after: 10 s
"""


def written(folder: Path, text: str, name: str = "policies.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def problems(folder: Path, text: str) -> list[str]:
    """What is wrong with a file, without its path."""
    path = written(folder, text)
    with pytest.raises(ConfigError) as refused:
        PolicySet.load(path)
    return [str(each).removeprefix(f"{path}:") for each in refused.value.problems]


def problem(folder: Path, policy: str) -> str:
    """What is wrong with a file of one policy, which is given in braces, on line 2."""
    (found,) = problems(folder, f"policies:\n  - {policy}\n")
    return found


# What is right.


def test_a_policy_says_when_about_whom_and_what(tmp_path: Path) -> None:
    (policy,) = PolicySet.load(written(tmp_path, ONE))
    assert policy.name == "place-new-subscribers"
    assert (policy.on, policy.of, policy.every_s) == ("SubscriberInfo", "subscriber", None)
    assert policy.when is not None and "medoid" in policy.when.text
    assert policy.do == (Action("place-subscriber"),)
    assert policy.at_most == Rate(100, 60.0) and policy.again_after_s == 10.0
    assert policy.enabled and policy.line == 2 and policy.trigger == "on SubscriberInfo"


def test_a_class_means_all_reports_below_it(tmp_path: Path) -> None:
    text = """\
policies:
  - {name: a, on: MedoidMessage, do: {action: log, message: "now {now}"}}
  - {name: b, on: SubscriberMessage, do: recluster}
  - {name: c, on: Report, of: broker, do: {action: mark, mark: seen}}
"""
    a, b, c = PolicySet.load(written(tmp_path, text))
    assert a.reports == {"BrokerMedoid", "SubscriberInfo", "PublisherInfo"} and a.of is None
    assert (
        b.reports == {"SubscriberInfo", "NotificationReport", "MisplacedReport"}
        and b.of == "subscriber"
    )
    assert {"BrokerInfo", "Departure"} <= c.reports and c.of == "broker"


def test_actions_have_parameters_and_may_be_several(tmp_path: Path) -> None:
    text = """\
policies:
  - name: a
    every: 1.5 min
    of: broker
    when: "broker.load > 0.5"
    choose: {lowest: broker.load * 2.0}
    do:
      - {action: request-notification-reports, interval: 500 ms}
      - {action: request-broker-medoids, interval: 1 h, groups: 3}
      - {action: mark, mark: busy, only: yes}
      - {action: balance-load, load_max: 1.25}
      - {action: replan, planner: traffic}
      - {action: log, message: "{broker.name} of {overlay.brokers} at {now}"}
      - retire-broker
    at_most: 5 per 30 s
    enabled: false
"""
    (policy,) = PolicySet.load(written(tmp_path, text))
    assert policy.every_s == 90.0 and not policy.enabled
    assert policy.choose is not None and not policy.choose.is_highest
    assert [dict(action.parameters) for action in policy.do] == [
        {"interval": 0.5},
        {"interval": 3600.0, "groups": 3},
        {"mark": "busy", "only": True},
        {"load_max": 1.25},
        {"planner": "traffic"},
        {"message": "{broker.name} of {overlay.brokers} at {now}"},
        {},
    ]
    assert policy.at_most == Rate(5, 30.0)


def test_files_and_folders_are_read_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("b.yml", "a.yaml"):
        written(folder, ONE.replace("place-new-subscribers", name), name)
    written(folder, "not policies", "notes.txt")
    first = written(tmp_path, ONE)
    found = PolicySet.load([first, str(folder)])
    assert [policy.name for policy in found] == ["place-new-subscribers", "a.yaml", "b.yml"]
    assert found["a.yaml"].path == str(folder / "a.yaml")
    with pytest.raises(KeyError):
        found["c"]


def test_policies_that_do_the_same_are_equal_wherever_they_stand(tmp_path: Path) -> None:
    one = PolicySet.load(written(tmp_path, ONE))
    moved = PolicySet.load(
        written(tmp_path, "# moved\n\n" + ONE.replace("For the", "In"), "b.yaml")
    )
    other = PolicySet.load(written(tmp_path, ONE.replace(">= 2", ">= 3"), "c.yaml"))
    assert one == moved and one != other


def test_the_policies_that_are_shipped_can_be_used() -> None:
    shipped = PolicySet.shipped()
    assert {
        *("place-new-subscribers", "place-publishers", "request-broker-medoids", "widest-broker"),
        *("smaller-group", "request-publisher-medoids", "request-notification-reports"),
        *("misplaced-subscribers", "not-misplaced", "load-balancing", "replan-by-traffic"),
    } <= {policy.name for policy in shipped}
    off = [policy.name for policy in shipped if not policy.enabled]
    assert off == ["split-widest-broker", "cluster-brokers", "replan-by-traffic"]
    assert all(policy.description for policy in shipped)
    assert not any(policy.when is not None and policy.when.is_slow for policy in shipped)
    assert SHIPPED.is_dir()


def test_every_action_there_is_can_be_named_in_a_file(tmp_path: Path) -> None:
    examples = {"to": "east", "mark": "m", "message": "connect"}
    for name, type in ACTIONS.items():
        of = type.needs[0] if type.needs else "broker"
        given = "".join(f", {each}: {examples[each]}" for each in type.required)
        text = f"policies: [{{name: a, every: 1 s, of: {of}, do: {{action: {name}{given}}}}}]"
        (policy,) = PolicySet.load(written(tmp_path, text))
        assert policy.do[0].name == name


# What is wrong.


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("{name: a, do: replan}", "2: policies[0]: say either `on: …` or `every: …`"),
        ("{name: a, on: Report, every: 1 s, do: replan}", "say either"),
        ("{on: Report, do: replan}", "a policy has a name"),
        (
            "{name: a b, on: Report, do: replan}",
            "policies[0].name: expected a name: letters, digits and - _ . only, not 'a b'",
        ),
        ("{name: a, on: Report}", "do is missing"),
        (
            "{name: a, on: Report, do: replan, wen: x}",
            "policies[0].wen: unknown key; did you mean 'when'?",
        ),
        ("{name: a, on: Report, do: replan, name: b}", "'name' occurs twice"),
        ("{name: a, on: BrokerInf, do: replan}", "did you mean 'BrokerInfo'?"),
        ("{name: a, on: Instruction, do: replan}", "nobody reports a Instruction"),
        ("{name: a, on: BrokerInfo, of: subscriber, do: replan}", "no such report is about"),
        ("{name: a, every: 1 s, of: subscribr, do: replan}", "did you mean 'subscriber'?"),
        ("{name: a, on: Report, do: place-subscribr}", "did you mean 'place-subscriber'?"),
        ("{name: a, on: Report, do: place-subscriber}", "is for a subscriber"),
        ("{name: a, on: BrokerInfo, do: place-subscriber}", "it is of brokers"),
        ("{name: a, on: Report, do: []}", "policies[0].do: expected the name of an action or "),
        (
            "{name: a, on: Report, do: {interval: 3 s}}",
            "policies[0].do.action: is missing; expected the name of an action",
        ),
        (
            "{name: a, on: BrokerInfo, do: mark}",
            "mark needs a parameter; write {action: mark, mark: …}",
        ),
        ("{name: a, on: BrokerInfo, do: {action: move-broker, too: b}}", "did you mean 'to'?"),
        (
            "{name: a, on: Report, do: {action: replan, planner: x}}",
            "policies[0].do.planner: 'x' is unknown; use taxonomic, traffic, balanced, topic or",
        ),
        ("{name: a, on: Report, do: {action: balance-load, load_max: -1}}", "a number above 0"),
        ("{name: a, on: Report, do: {action: request-broker-medoids, groups: 1.5}}", "whole"),
        (
            "{name: a, on: Report, do: {action: add-broker, x: 1}}",
            "policies[0].do.x: unknown key; use action",
        ),
        ("{name: a, on: BrokerInfo, do: {action: mark, mark: x, only: 3}}", "true or false"),
        ("{name: a, on: BrokerInfo, do: {action: log, message: '{x}'}}", "{x} stands for nothing"),
        (
            "{name: a, every: 30, do: replan}",
            "policies[0].every: expected a time such as 500 ms, 30 s, 2 min, 1 h or 1 d, not '30'",
        ),
        ("{name: a, every: 1 ms, do: replan}", "more often than every 0.1 s"),
        ("{name: a, every: 0 s, do: replan}", "a time above 0"),
        ("{name: a, every: 999 d, do: replan}", "at most 366 d"),
        (
            "{name: a, on: Report, do: replan, at_most: 5 a day}",
            "expected a rate such as 100 per minute or 5 per 30 s, not '5 a day'",
        ),
        ("{name: a, on: Report, do: replan, at_most: 0 per day}", "from 1 to"),
        ("{name: a, on: Report, do: replan, again_after: soon}", "expected a time such as 500 ms"),
        ("{name: a, on: Report, do: replan, enabled: maybe}", "expected true or false"),
        ("{name: a, on: Report, do: replan, choose: {highest: now}}", "say of which kind"),
        ("{name: a, on: BrokerInfo, do: replan, choose: {}}", "{highest: …} or {lowest: …}"),
        ("{name: a, on: BrokerInfo, do: replan, choose: {highest: broker.name}}", "a number"),
        ("{name: a, on: BrokerInfo, do: replan, when: broker.lod > 1}", "did you mean 'load'"),
        ("{name: a, on: Departure, of: broker, do: replan, when: broker.load > 1.0}", "departed"),
        ("{name: a, on: Report, do: replan, when: }", "expected a text"),
        ("[a]", "policies[0]: expected name, description"),
    ],
)
def test_a_policy_with_something_wrong_is_refused(tmp_path: Path, policy: str, told: str) -> None:
    found = problem(tmp_path, policy)
    assert found.startswith("2:") and told in found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "1: policies: is missing; expected a list of policies"),
        ("policies: 3", "1: policies: expected a list of policies"),
        ("policy: []", "1: policy: unknown key; did you mean 'policies'?"),
        ("- a", "1: expected policies"),
        ("policies: [\n", "2: not YAML"),
        ("a: b: c", "1: not YAML"),
    ],
)
def test_a_file_that_holds_no_policies_is_refused(tmp_path: Path, text: str, told: str) -> None:
    assert told in problems(tmp_path, text)[0]


def test_all_that_is_wrong_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    text = """\
policies:
  - name: a
    on: SubscriberInfo
    when: subscriber.mean_hop > 1.5
    do: place-subscribr
    at_most: many
  - name: b
    every: 30 s
    of: subscriber
    when: >-
      subscriber.spread > 1.0 &&
      subscriber.medoid == 3
    do: recluster
  - name: c
    every: 30 s
    do: replan
  - name: c
    every: 30 s
    do: replan
"""
    told = problems(tmp_path, text)
    where = [re.match(r"(\d+):(?:(\d+):)?", each) for each in told]
    assert [each and each.groups() for each in where] == [
        ("4", "22"),
        ("5", None),
        ("6", None),
        ("10", None),
        ("17", None),
    ]
    assert "in line 1, column 28 of it: cannot compare a text" in told[3]
    assert "there is a policy 'c' already" in told[4] and "policies.yaml:14" in told[4]


def test_one_bad_file_keeps_all_from_being_read(tmp_path: Path) -> None:
    good, bad = written(tmp_path, ONE), written(tmp_path, "policies: 3", "bad.yaml")
    with pytest.raises(ConfigError, match=r"bad\.yaml:1: "):
        PolicySet.load([good, bad])
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: cannot read the policies: No such"):
        PolicySet.load([good, tmp_path / "nowhere.yaml"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="without any file of policies"):
        PolicySet.load(tmp_path / "empty")
    (tmp_path / "latin.yaml").write_bytes(b"policies: [\xe9]")
    with pytest.raises(ConfigError, match="not UTF-8"):
        PolicySet.load(tmp_path / "latin.yaml")


def test_a_missing_library_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kbn.management import row_by_row

    row_by_row.cel.cache_clear()
    monkeypatch.setitem(sys.modules, "celpy", None)
    with pytest.raises(MissingDependencyError, match=r"kbn\[management\]"):
        PolicySet.load(written(tmp_path, ONE))
    row_by_row.cel.cache_clear()
