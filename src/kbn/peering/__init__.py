"""Peering: publisher groups and delay bounds as a running system, without sockets and clocks.

`Coordinator` and `Peer` are state machines; `transport` and `simulation` run them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbn.front_door import on_first_use

if TYPE_CHECKING:
    from kbn.peering import effects, messages
    from kbn.peering.arrangement import warm_up
    from kbn.peering.coordinator import Coordinator, CoordinatorSettings
    from kbn.peering.facts import facts_of
    from kbn.peering.messages import Promise
    from kbn.peering.peer import Peer, PeerSettings
    from kbn.peering.wire import FRAME_BYTES_MAX

__all__ = [
    "FRAME_BYTES_MAX",
    "Coordinator",
    "CoordinatorSettings",
    "Peer",
    "PeerSettings",
    "Promise",
    "effects",
    "facts_of",
    "messages",
    "warm_up",
]

__getattr__ = on_first_use(
    __name__,
    {
        "Coordinator": "kbn.peering.coordinator",
        "CoordinatorSettings": "kbn.peering.coordinator",
        "FRAME_BYTES_MAX": "kbn.peering.wire",
        "Peer": "kbn.peering.peer",
        "PeerSettings": "kbn.peering.peer",
        "Promise": "kbn.peering.messages",
        "facts_of": "kbn.peering.facts",
        "warm_up": "kbn.peering.arrangement",
    },
)
