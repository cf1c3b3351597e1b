"""Effects: what a peer or a coordinator asks its shell to do."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from msgspec import Struct

from kbn.filters import Notification
from kbn.peering.messages import Promise


class Send(NamedTuple):
    """Send a message over a connection."""

    connection: int
    message: Struct


class Close(NamedTuple):
    """Close a connection when all is sent; the core has forgotten it already."""

    connection: int


class Dial(NamedTuple):
    """Open a connection to a URL; the core is told under `key` how that went."""

    key: str
    url: str


class Deliver(NamedTuple):
    """Hand a notification to the application, for all these subscriptions."""

    subscriptions: tuple[int, ...]
    notification: Notification
    number: int
    delay_s: float


class Told(NamedTuple):
    """How a subscription stands now."""

    promise: Promise


class Failed(NamedTuple):
    """The coordinator refuses: a subscription (by its number), an advertisement, or us."""

    about: str
    id: int
    reason: str


class Facts(NamedTuple):
    """The state of the group, as JSON."""

    json: str


class Note(NamedTuple):
    """Something for the log."""

    text: str
    is_trouble: bool = False


Effect: TypeAlias = Send | Close | Dial | Deliver | Told | Failed | Facts | Note
