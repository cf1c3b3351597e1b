"""Publisher groups as a running system: peers that serve each other within delay bounds.

    import kbn.groups

    async with kbn.groups.connect("kbn://localhost:7430") as peer:
        peer.advertise(["price", "city"])
        await peer.publish({"price": 5, "city": "Cork"})
        feed = peer.subscribe("price < 10", within_s=0.2, probability=0.95)

A coordinator (`kbn groups coordinate`) must run.
"""

from __future__ import annotations

from kbn.peering import Promise
from kbn.transport import GroupDelivery, GroupFeed, GroupPeer
from kbn.transport import connect_group as connect

__all__ = ["GroupDelivery", "GroupFeed", "GroupPeer", "Promise", "connect"]
