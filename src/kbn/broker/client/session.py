"""A client's conversation with one broker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from kbn.broker.client.inbox import Inbox
from kbn.broker.client.requests import Request, Requests
from kbn.broker.messages import Peer, Unsubscribe

Stream = tuple[str, int, int]


class BrokerSession:
    """What the client knows of its conversation with one broker.

    A broker that the client left without its leave is *former*: it may still have something for the
    client, and brings it *late*. `home_from` has of each stream the first number that the client
    was brought at home since: what comes after that needs no former broker. A former broker is left
    for good when everything reaches the client at home (`awaits_join`: it is not known yet).
    """

    __slots__ = (
        "awaits_join",
        "broker",
        "explains",
        "granted",
        "home_from",
        "inbox",
        "is_former",
        "is_late",
        "known_epoch",
        "peer",
        "requests",
        "state",
        "subscribed",
        "told_stored",
        "told_unknown",
        "url",
    )

    def __init__(self, broker: str, url: str, inbox: Inbox, requests: Requests) -> None:
        self.broker = broker
        self.url = url
        self.peer = Peer("broker", broker)
        self.inbox = inbox
        self.requests = requests
        self.state: Literal["away", "connecting", "attached"] = "away"
        self.explains = False  # whether it can be asked why something matches
        self.granted = 0  # how much may be published, when the connection began
        self.told_stored = 0  # of what we publish, when the connection began
        self.told_unknown = 0  # notifications with unknown terms, since the connection began
        self.known_epoch = 0  # the epoch of the broker that was told our subscriptions
        self.is_former = False
        self.is_late = False
        self.awaits_join = False
        self.home_from: dict[Stream, int] = {}
        self.subscribed: tuple[int, ...] = ()  # at a former broker

    def leave_behind(self, subscribed: Iterable[int], *, awaits_join: bool) -> None:
        """From now on it is former; what it was asked, another is."""
        self.is_former = self.is_late = True
        self.awaits_join = awaits_join
        self.subscribed = tuple(subscribed)
        self.requests = Requests()
        self.home_from = {}
        self.inbox.acknowledges_each = True

    def come_back(self, subscribed: Iterable[int]) -> None:
        """It is to be home again; what it brings is late as long as the client lives."""
        self.is_former = self.awaits_join = False
        self.requests = Requests(holds_barriers=True)
        self.home_from = {}
        self.known_epoch = 0
        self.inbox.held = []
        for id in set(self.subscribed) - set(subscribed):
            self.requests.note(Request("unsubscribe", id), Unsubscribe(id))

    def is_brought_at_home(self, stream: Stream, number: int) -> bool:
        """Whether the client gets this one, or got it, where it is at home."""
        first = self.home_from.get(stream)
        return first is not None and number >= first and self.inbox.in_order
