"""An observer: what a policy server does with an overlay, by the trigger broker's word alone.

Reports say where everybody is; the notes of the policy server that acts say where it has told them
to be, by which plan, and why. An observer is one more subscriber, and manages nothing. It depends
on no policy server in particular: when one dies and another takes over, it reads on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kbn.errors import InvalidInputError
from kbn.filters import Notification, Subscription
from kbn.management import instructions, reports
from kbn.management.action_log import LogEntry
from kbn.management.instructions import DecisionNote, PlacementNote, PlanNote
from kbn.management.message_form import individual_in, overlay_in, published_at
from kbn.management.reports import (
    BrokerInfo,
    Departure,
    Kind,
    PublisherInfo,
    Report,
    SubscriberInfo,
)
from kbn.management.senders import Sender, check_sender
from kbn.management.sightings import Sightings
from kbn.management.terms import MAIN

OBSERVED = ("Report", "ServerNote")
PLACEMENTS_MAX = 5_000_000
"""Of more than so many brokers and clients, those that came last are not followed."""
_NOTES = (PlacementNote, PlanNote, DecisionNote)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where somebody is, as reported, and where it was last told to be; '' where that is not known.

    For a broker, it is below whom.
    """

    at: str = ""
    told: str = ""


News: TypeAlias = LogEntry | PlacementNote | PlanNote
Key: TypeAlias = tuple[Kind, str]


class Observer:
    """Follows one overlay; `placements` has everybody, `plan` is the text of the plan in force.

    >>> observer = Observer()
    >>> told = PlacementNote("subscriber", "ann", "east", before="root")
    >>> said = instructions.to_notification(told, 7.0)
    >>> observer.received(said, Sender("policy-server", manages=True), 7.0) == told
    True
    >>> observer.placements
    {('subscriber', 'ann'): Placement(at='', told='east')}
    """

    def __init__(self, overlay: str = MAIN) -> None:
        self._overlay = overlay
        self._sightings = Sightings()
        self.placements: dict[Key, Placement] = {}
        self.plan: str | None = None
        self.unreadable = 0

    @property
    def wanted(self) -> Subscription:
        """What to subscribe to at the trigger broker."""
        return instructions.of_types(*OBSERVED, overlay=self._overlay)

    def received(self, notification: Notification, sender: Sender, now: float) -> News | None:
        """Take in a notification; what it says of a policy server's doing, None for a report.

        What cannot be read, or is not the sender's to say, is counted and dropped.
        """
        if overlay_in(notification) != self._overlay:
            return None
        try:
            return self._received(notification, sender, now)
        except InvalidInputError:
            self.unreadable += 1
            return None

    def _received(self, notification: Notification, sender: Sender, now: float) -> News | None:
        note = instructions.from_notification(notification)
        if isinstance(note, _NOTES):
            check_sender(note, sender, self._overlay)
            return self._noted(note, published_at(notification) or now)
        if individual_in(notification) not in instructions.INDIVIDUALS:
            report = reports.from_notification(notification)
            check_sender(report, sender, self._overlay)
            self._reported(report)
        return None

    def _noted(self, note: PlacementNote | PlanNote | DecisionNote, at: float) -> News:
        if isinstance(note, DecisionNote):
            return note.entry(at)
        if isinstance(note, PlanNote):
            self.plan = note.text
        else:
            self._put((note.kind, note.name), told=note.broker)
        return note

    def _reported(self, report: Report) -> None:
        key = (report.kind, report.name)
        if isinstance(report, SubscriberInfo):
            known = self.placements.get(key, Placement())
            self._sightings.arrived(report.name, report.broker, known.at)
            self._put(key, at=report.broker)
        elif isinstance(report, PublisherInfo):
            self._put(key, at=report.broker or "")
        elif isinstance(report, BrokerInfo):
            self._put(key, at=report.parent or "")
        elif isinstance(report, Departure):
            self._departed(key, report)

    def _departed(self, key: Key, departure: Departure) -> None:
        known = self.placements.get(key)
        if known is None:
            return
        if departure.kind != "subscriber" or departure.broker is None:
            del self.placements[key]
            return
        at = self._sightings.departed(departure.name, departure.broker, known.at)
        if at != departure.broker:
            self._put(key, at=at)
        elif known.told and known.told != departure.broker:
            self._put(key, at="")  # on its way
        else:
            del self.placements[key]

    def _put(self, key: Key, *, at: str | None = None, told: str | None = None) -> None:
        if key not in self.placements and len(self.placements) >= PLACEMENTS_MAX:
            return
        known = self.placements.get(key, Placement())
        at, told = known.at if at is None else at, known.told if told is None else told
        self.placements[key] = Placement(at, told)
