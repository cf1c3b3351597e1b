"""The pure node around a broker: connections, admission, links, known peers, limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbn.front_door import on_first_use

if TYPE_CHECKING:
    from kbn.broker.node import effects, events, notes
    from kbn.broker.node.node import Node
    from kbn.broker.node.settings import LinkTo, NodeSettings, ServerLimits

__all__ = [
    "LinkTo",
    "Node",
    "NodeSettings",
    "ServerLimits",
    "effects",
    "events",
    "notes",
]

__getattr__ = on_first_use(
    __name__,
    {
        "LinkTo": "kbn.broker.node.settings",
        "Node": "kbn.broker.node.node",
        "NodeSettings": "kbn.broker.node.settings",
        "ServerLimits": "kbn.broker.node.settings",
    },
)
