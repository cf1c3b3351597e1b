"""What a policy server subscribes to: what its policies can make use of, and no more.

Who is there and where is always wanted: the plan and every placement depend on it. The rest is
wanted when an enabled policy is about it: it is asked on such a report, its condition reads a field
that only such a report has, or its action asks for such reports or goes by what they say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from kbn.management.policies import Policy
from kbn.management.reports import KINDS, STATE_REPORTS
from kbn.management.schema import columns_of

ALWAYS = ("BrokerInfo", "SubscriberInfo", "PublisherInfo", "Departure")
"""Reports without which nobody can be placed."""
AMONG_SERVERS = ("PolicyServerInfo", "PlacementNote", "PlanNote", "BrokerSign")

_HOPS, _MEDOIDS, _LOAD = "NotificationReport", "BrokerMedoid", "BrokerUtilisation"
_BY_ACTION: Mapping[str, str] = {
    "recluster": _HOPS,
    "replan": _HOPS,
    "cluster-brokers": _HOPS,
    "split-broker": _MEDOIDS,
    "request-notification-reports": _HOPS,
    "request-broker-medoids": _MEDOIDS,
    "request-utilisation": _LOAD,
}
_FIELD = re.compile(rf"\b({'|'.join(KINDS)})\.(\w+)")


def wanted_types(policies: Iterable[Policy]) -> tuple[str, ...]:
    """The classes of management messages that policies have use for, in the order of their names.

    >>> wanted_types([])
    ('BrokerInfo', 'Departure', 'PublisherInfo', 'SubscriberInfo')
    """
    found = {*ALWAYS}
    for policy in policies:
        if policy.enabled:
            found |= policy.reports & {each.type for each in STATE_REPORTS}
            found |= {_BY_ACTION[each.name] for each in policy.do if each.name in _BY_ACTION}
            for text in _texts(policy):
                found.update(_reports_with(text))
    return tuple(sorted(found))


def _texts(policy: Policy) -> Iterator[str]:
    """Where a policy may name fields."""
    if policy.when is not None:
        yield policy.when.text
    if policy.choose is not None:
        yield policy.choose.quantity.text
    for action in policy.do:
        yield str(action.parameters.get("message", ""))


def _reports_with(text: str) -> Iterator[str]:
    """The reports that have a field that a text names."""
    for kind, field in _FIELD.findall(text):
        for report in STATE_REPORTS:
            if report.kind == kind and field in columns_of(report) and report.type not in ALWAYS:
                yield report.type
