"""Outcomes: what came of a decision, and what has to be sent for it."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from kbn.broker import administration
from kbn.errors import InvalidInputError
from kbn.management.action_log import Status
from kbn.management.engine import Decision
from kbn.management.instructions import PlacementNote, PlacePublisher
from kbn.management.managed_object import ManagedObject
from kbn.management.message_form import ManagementMessage
from kbn.management.mib import Mib


class Instruct(NamedTuple):
    """Tell a broker, which listens at `url`, to do something."""

    broker: str
    url: str
    request: administration.MoveClients | administration.MoveBroker | administration.Report

    @property
    def what(self) -> str:
        """The kind of the request, for people."""
        return str(self.request.__struct_config__.tag)


class Announce(NamedTuple):
    """Publish at the trigger broker."""

    message: ManagementMessage


Effect: TypeAlias = Instruct | Announce


class Outcome(NamedTuple):
    """What came of a decision, what is to be done for it, and who was placed where.

    `detail` says it in words, for people.
    """

    decision: Decision
    status: Status
    detail: str = ""
    effects: tuple[Effect, ...] = ()
    placed: tuple[PlacementNote, ...] = ()


def send_client(client: ManagedObject, to: str, mib: Mib) -> Effect:
    """What tells a client to go to another broker."""
    url = url_of(to, mib)
    if client.kind == "publisher":
        return Announce(PlacePublisher(client.name, to, url))
    move = administration.MoveClients(to, url, (client.name,))
    return Instruct(client.broker, url_of(client.broker, mib), move)


def url_of(broker: str, mib: Mib) -> str:
    """Where a broker listens; InvalidInputError when it has not said so."""
    found = mib.get("broker", broker)
    if found is None or not found.address:
        raise InvalidInputError(f"the broker {broker!r} has not said where it listens")
    return str(found.address)
