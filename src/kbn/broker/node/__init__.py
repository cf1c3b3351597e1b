"""The pure node around a broker: connections, admission, links, known peers, limits."""

from __future__ import annotations

from kbn.broker.node import effects, events, notes
from kbn.broker.node.node import Node
from kbn.broker.node.settings import LinkTo, NodeSettings, Role, ServerLimits

__all__ = [
    "LinkTo",
    "Node",
    "NodeSettings",
    "Role",
    "ServerLimits",
    "effects",
    "events",
    "notes",
]
