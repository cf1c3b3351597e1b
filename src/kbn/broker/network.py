"""The network behind a broker's clients, as their requests see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kbn.broker.client_session import ClientSession
from kbn.broker.messages import Envelope, Peer, Reaching
from kbn.filters import Notification


@dataclass(frozen=True, slots=True)
class Network:
    """What a client's request needs of the broker beyond its clients: who it is, to route a
    notification, to know that there is room for a durable one (a `LimitError` says that there is
    none), and to be called when all that was said before has arrived everywhere; to do something
    in steps, and to have delivered at once what is on its way to a client.
    """

    name: str
    epoch: int
    keeps_order: Callable[[], bool]
    publish: Callable[[Envelope, Notification, ClientSession], None]
    check_room: Callable[[bytes, Notification], None]
    begin_wave: Callable[[Callable[[], None], Reaching], None]
    begin_chore: Callable[[Iterator[None], Peer], None]
    deliver_to: Callable[[str], None]
