"""Management: the overlay arranges itself, by its own means.

Brokers and publishers publish *reports* to a trigger broker, an ordinary broker that runs on the
management ontology. A policy server subscribes to them, keeps what it knows in the MIB, and answers
with the actions its policies call for. Nothing here opens a socket or reads a clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbn.front_door import on_first_use

if TYPE_CHECKING:
    from kbn.management.action_log import LogEntry
    from kbn.management.assignments import Assignments
    from kbn.management.broker_agent import INFO_EVERY_S, BrokerAgent
    from kbn.management.conditions import Condition
    from kbn.management.engine import PolicyEngine
    from kbn.management.instructions import PlacePublisher, RequestInfo, RequestPublisherMedoids
    from kbn.management.message_form import ManagementMessage
    from kbn.management.mib import Mib
    from kbn.management.mib_file import MibFile
    from kbn.management.observer import News, Observer, Placement
    from kbn.management.outcomes import Announce, Effect, Instruct
    from kbn.management.policies import SHIPPED, Policy, PolicySet
    from kbn.management.policy_server import PolicyServer
    from kbn.management.publisher_agent import PublisherAgent
    from kbn.management.reports import (
        BrokerInfo,
        BrokerMedoid,
        BrokerUtilisation,
        Departure,
        Kind,
        MedoidGroup,
        NotificationReport,
        PublisherInfo,
        Report,
        SubscriberInfo,
    )
    from kbn.management.schema import FIELDS
    from kbn.management.senders import Sender
    from kbn.management.subscriber_agent import SubscriberAgent

__all__ = [
    "FIELDS",
    "INFO_EVERY_S",
    "SHIPPED",
    "Announce",
    "Assignments",
    "BrokerAgent",
    "BrokerInfo",
    "BrokerMedoid",
    "BrokerUtilisation",
    "Condition",
    "Departure",
    "Effect",
    "Instruct",
    "Kind",
    "LogEntry",
    "ManagementMessage",
    "MedoidGroup",
    "Mib",
    "MibFile",
    "News",
    "NotificationReport",
    "Observer",
    "PlacePublisher",
    "Placement",
    "Policy",
    "PolicyEngine",
    "PolicyServer",
    "PolicySet",
    "PublisherAgent",
    "PublisherInfo",
    "Report",
    "RequestInfo",
    "RequestPublisherMedoids",
    "Sender",
    "SubscriberAgent",
    "SubscriberInfo",
    "instructions",
    "reports",
    "terms",
]

__getattr__ = on_first_use(
    __name__,
    {
        "Announce": "kbn.management.outcomes",
        "Assignments": "kbn.management.assignments",
        "BrokerAgent": "kbn.management.broker_agent",
        "BrokerInfo": "kbn.management.reports",
        "BrokerMedoid": "kbn.management.reports",
        "BrokerUtilisation": "kbn.management.reports",
        "Condition": "kbn.management.conditions",
        "Effect": "kbn.management.outcomes",
        "FIELDS": "kbn.management.schema",
        "Departure": "kbn.management.reports",
        "INFO_EVERY_S": "kbn.management.broker_agent",
        "Instruct": "kbn.management.outcomes",
        "Kind": "kbn.management.reports",
        "LogEntry": "kbn.management.action_log",
        "ManagementMessage": "kbn.management.message_form",
        "MedoidGroup": "kbn.management.reports",
        "Mib": "kbn.management.mib",
        "MibFile": "kbn.management.mib_file",
        "News": "kbn.management.observer",
        "NotificationReport": "kbn.management.reports",
        "Observer": "kbn.management.observer",
        "Placement": "kbn.management.observer",
        "PlacePublisher": "kbn.management.instructions",
        "Policy": "kbn.management.policies",
        "PolicyEngine": "kbn.management.engine",
        "PolicyServer": "kbn.management.policy_server",
        "PolicySet": "kbn.management.policies",
        "PublisherAgent": "kbn.management.publisher_agent",
        "PublisherInfo": "kbn.management.reports",
        "Report": "kbn.management.reports",
        "RequestInfo": "kbn.management.instructions",
        "RequestPublisherMedoids": "kbn.management.instructions",
        "SHIPPED": "kbn.management.policies",
        "Sender": "kbn.management.senders",
        "SubscriberAgent": "kbn.management.subscriber_agent",
        "SubscriberInfo": "kbn.management.reports",
    },
)
