"""A client's conversation with one broker."""

from __future__ import annotations

from typing import Literal

from kbn.broker.client.inbox import Inbox
from kbn.broker.client.requests import Requests
from kbn.broker.messages import Peer


class BrokerSession:
    """What the client knows of its conversation with one broker."""

    __slots__ = ("broker", "granted", "inbox", "known_epoch", "peer", "requests", "state")

    def __init__(self, broker: str, inbox: Inbox, requests: Requests) -> None:
        self.broker = broker
        self.peer = Peer("broker", broker)
        self.inbox = inbox
        self.requests = requests
        self.state: Literal["away", "connecting", "attached"] = "away"
        self.granted = 0  # how much may be published, when the connection began
        self.known_epoch = 0  # the epoch of the broker that was told our subscriptions
