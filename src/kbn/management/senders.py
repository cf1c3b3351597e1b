"""Senders: who published a management message, and whether it is believed.

Anybody at the trigger broker can publish anything. The broker says who did: it stamps each
notification with the name of the client, which its access rules have checked, and with whether that
client has the right `manage`. So a report is believed from the one that it is about, and what
policy servers say from those who may manage.
"""

from __future__ import annotations

from typing import NamedTuple

from kbn.errors import InvalidInputError
from kbn.management.instructions import (
    DecisionNote,
    PlacementNote,
    PlacePublisher,
    PlanNote,
    PolicyServerInfo,
)
from kbn.management.message_form import ManagementMessage
from kbn.management.reports import (
    Departure,
    MisplacedReport,
    NotificationReport,
    PublisherInfo,
    SubscriberInfo,
)
from kbn.management.terms import MAIN, name_at_trigger

_OF_MANAGERS = (PlacePublisher, PolicyServerInfo, PlacementNote, PlanNote, DecisionNote)


class Sender(NamedTuple):
    """A client of the trigger broker; `manages`: it has the right to."""

    name: str
    manages: bool = False


def check_sender(message: ManagementMessage, sender: Sender, overlay: str = MAIN) -> None:
    """Raise `InvalidInputError` for a message that is not the sender's to publish.

    >>> ann = SubscriberInfo("ann", "east", None, 0.0, 2)
    >>> check_sender(ann, Sender("east"))
    >>> check_sender(ann, Sender("mallory"))
    Traceback (most recent call last):
    ...
    kbn.errors.InvalidInputError: a subscriber_info is east's to send, not mallory's
    """
    if isinstance(message, _OF_MANAGERS):
        _check_manages(message, sender)
    about = _teller(message)
    if about is not None and name_at_trigger(about, overlay) != sender.name:
        raise InvalidInputError(
            f"a {message.individual} is {about or 'nobody'}'s to send, not {sender.name}'s"
        )


def _check_manages(message: ManagementMessage, sender: Sender) -> None:
    if not sender.manages:
        raise InvalidInputError(
            f"a {message.individual} takes the right `manage`, which {sender.name} does not have"
        )


def _teller(message: ManagementMessage) -> str | None:
    """Who can know; None for what any manager may say."""
    match message:
        case MisplacedReport():
            return message.subscriber
        case SubscriberInfo() | NotificationReport():
            return message.broker
        case PublisherInfo():
            return message.publisher
        case Departure():
            return message.broker or "" if message.kind == "subscriber" else message.name
        case PolicyServerInfo() | DecisionNote():
            return message.server
        case PlacePublisher() | PlacementNote() | PlanNote():
            return None
        case _:
            return str(getattr(message, "broker", ""))
