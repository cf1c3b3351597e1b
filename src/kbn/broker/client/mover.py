"""The mover of a client: carries out what the table of its move asks for (`move.py`), and looks for
a refuge when its broker is away.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from kbn.broker.client.effects import Confirmed, Dial, Failed, HangUp, Moved
from kbn.broker.client.handover import Handover
from kbn.broker.client.move import ClientMove, MoveEvent, MoveState, MoveStep
from kbn.broker.client.publisher import Publisher
from kbn.broker.client.refuges import Refuges
from kbn.broker.client.requests import CHANGES
from kbn.broker.client.session import BrokerSession
from kbn.broker.client.sessions import BrokerSessions
from kbn.broker.client.subscriptions import Subscriptions
from kbn.broker.messages import Barrier, Redirect, Send

PATIENCE_S = 2.0
"""How long a move may hold up what is published or delivered."""


class ClientMover:
    """Moves one client between brokers; `move` says how far it is."""

    def __init__(
        self,
        move: ClientMove,
        sessions: BrokerSessions,
        publisher: Publisher,
        subscriptions: Subscriptions,
        handover: Handover,
    ) -> None:
        self.refuges = Refuges()
        self._move = move
        self._sessions = sessions
        self._publisher = publisher
        self._subscriptions = subscriptions
        self._handover = handover
        self._sent_before_join: int | None = None

    def publish(self) -> None:
        """Send what waits, up to the credit that the broker granted; nothing while moving."""
        home = self._sessions.home
        if home.state == "attached" and self._move.may_publish:
            effects = self._sessions.effects
            for publish in self._publisher.sendable():
                effects.append(Send(home.peer, publish))

    # What happens.

    def on(self, event: MoveEvent) -> None:
        """Take a step, if the table has one for this event."""
        self._do_all(self._move.on(event))

    def redirected(self, redirect: Redirect) -> None:
        """Told to go to another broker."""
        known = self._sessions.by_broker.get(redirect.broker)
        if known is not None and known.is_former:
            self._move.postpone(redirect)  # until it has let us go
        else:
            self._do_all(self._move.redirected(redirect, self._sessions.home.broker))

    def go_when_stored(self) -> None:
        """Go on once the old broker has stored what was published."""
        if self._move.state is MoveState.DRAINING and not self._publisher.has_unconfirmed:
            is_quiet = self._sent_before_join == self._publisher.sent_ever
            self.on(MoveEvent.NOTHING_SENT if is_quiet else MoveEvent.ALL_STORED)
            if self._move.is_between:
                self._sessions.send_barriers(self._sessions.other)

    def released_by(self, session: BrokerSession) -> None:
        """A broker that is not home has nothing more for us."""
        if session.is_former:
            self._sessions.hang_up(session)
            self._follow()
        else:
            self.on(MoveEvent.RELEASED)

    def leave_former(self) -> None:
        """Everything reaches us at home: former brokers may forget us."""
        for session in self._sessions.former():
            if session.awaits_join:
                session.awaits_join = False
                self._sessions.leave(session)

    # By the clock.

    def look_after_home(self, now: float) -> None:
        """Leave a broker that is away for long, for one that answers."""
        home, refuges, move = self._sessions.home, self.refuges, self._move
        if home.state == "attached":
            if refuges.is_seeking and move.is_arriving:
                self.on(MoveEvent.TURNED_AWAY)
            refuges.home_is_there()
            return
        refuges.home_is_away(now)
        stays = self._sessions.settings.stays or home.requests.has("leave")
        if stays or not refuges.is_home_lost(now):
            return
        if move.is_between and self._sessions.other.state == "attached":
            self.on(MoveEvent.HOME_LOST)
        elif move.state is MoveState.LEAVING:
            self.on(MoveEvent.LATE)
        elif not move.is_under_way or refuges.is_seeking:
            refuge = refuges.next(now, but=home.broker)
            if refuge is not None:
                self.on(MoveEvent.TURNED_AWAY)  # the last one did not answer
                self._do_all(move.redirected(refuge, home.broker))

    def look_after_move(self, now: float) -> None:
        """Wait for others no longer than can be borne."""
        if not self._move.is_bounded:
            self._move.waits_since = None
        elif self._move.waits_since is None or now < self._move.waits_since:
            self._move.waits_since = now
        elif now - self._move.waits_since >= PATIENCE_S:
            self._move.waits_since = None
            is_settling = self._move.state is MoveState.SETTLING
            if is_settling and self._sessions.other.requests.has_changed:
                self.on(MoveEvent.LATE_AND_CHANGED)
            elif self._sessions.home.state == "attached" or not is_settling:
                self.on(MoveEvent.LATE)

    # Steps.

    def _do_all(self, steps: Iterable[MoveStep]) -> None:
        for step in steps:
            self._do(step)

    def _do(self, step: MoveStep) -> None:
        match step:
            case MoveStep.DIAL:
                self._dial(self._move.target)
            case MoveStep.ASK_BARRIER:
                self._ask_join(self._sessions.other)
            case MoveStep.SWITCH:
                self._switch(self._sessions.home, self._sessions.other)
            case MoveStep.NEW_STRAND:
                self._publisher.strand += 1
                self._sessions.connect(self._sessions.home)
            case MoveStep.HANG_UP:
                self._sessions.hang_up(self._sessions.other)
            case MoveStep.TURN_BACK:
                self._turn_back(self._sessions.other)
            case MoveStep.LEAVE_BEHIND:
                self._leave_behind(self._sessions.other, awaits_join=False)
            case MoveStep.ABANDON:
                self._abandon(self._sessions.home, self._sessions.other)
            case MoveStep.DELIVER_HELD:
                self._deliver_held()
            case MoveStep.PUBLISH:
                self.publish()
            case MoveStep.FOLLOW:
                self._follow()
            case _:
                assert_never(step)

    def _follow(self) -> None:
        """Go where we were sent meanwhile."""
        postponed = self._move.take_postponed()
        if postponed is not None:
            self.redirected(postponed)

    def _dial(self, target: Redirect) -> None:
        former = self._sessions.by_broker.get(target.broker)
        if former is None:
            self._sessions.add(target.broker, target.url)
            self._sessions.effects.append(Dial(target.broker, target.url))
        else:
            former.url = target.url
            former.come_back(each.id for each in self._subscriptions)
            if former.state == "attached":
                self._sessions.connect(former)

    def _ask_join(self, session: BrokerSession) -> None:
        """Note that a barrier is to be asked for; the caller sends it, or `_admitted` does."""
        request = self._sessions.next_request("join")
        publisher = self._publisher
        self._sent_before_join = None if publisher.has_unconfirmed else publisher.sent_ever
        home = self._sessions.home
        reaching = () if session is home else (home.broker,)
        session.requests.add(request, Barrier(request.number, reaching))

    def _switch(self, old: BrokerSession, new: BrokerSession) -> None:
        """Everything now reaches the new broker too: it is home, and the old one lets us go."""
        self._sessions.home = new
        self._publisher.connected(new.granted)
        if new.told_stored != self._publisher.stored_up_to:
            self._sessions.connect(new)  # it would wait for what the old one has stored since
        old.inbox.acknowledges_each = True
        self._sessions.leave(old)
        self.leave_former()
        for request, message in old.requests.take("barrier", "admin-request"):
            self._sessions.ask(new, request, message)
        self._give_up("explain", old)  # the new one may not know how

    def _abandon(self, old: BrokerSession, new: BrokerSession) -> None:
        """Be at home at the new broker, which may not know yet what comes; the old one is lost."""
        self._sessions.home = new
        self.refuges.home_is_there()
        new.requests.holds_barriers = False
        for request, message in old.requests.take("barrier"):
            self._sessions.ask(new, request, message)
        self._give_up("admin-request", old)
        self._give_up("explain", old)
        for request, _ in old.requests.take(*CHANGES):
            if not new.requests.is_waiting(request):
                self._sessions.effects.append(Confirmed(*request))
        if self._sessions.settings.durable:
            self._leave_behind(old, awaits_join=True)
        else:
            self._sessions.hang_up(old)
        if not new.requests.has("join"):
            self._ask_join(new)

    def _give_up(self, what: str, old: BrokerSession) -> None:
        for request, _ in old.requests.take(what):
            reason = f"{old.broker} is away"
            self._sessions.effects.append(Failed(*request, "TransportError", reason))

    def _leave_behind(self, session: BrokerSession, *, awaits_join: bool) -> None:
        subscribed = [each.id for each in self._subscriptions]
        session.leave_behind(subscribed, awaits_join=awaits_join)
        if not awaits_join:
            self._sessions.leave(session)

    def _turn_back(self, session: BrokerSession) -> None:
        """Do not go there after all; a broker that keeps us is to forget us when it can."""
        keeps_us = self._sessions.settings.durable and session.known_epoch
        if not (keeps_us or session.is_late):
            self._sessions.hang_up(session)
            return
        self._leave_behind(session, awaits_join=session.is_late)
        if session.is_late and not self._sessions.home.requests.has("join"):
            self._ask_join(self._sessions.home)
            self._sessions.send_barriers(self._sessions.home)
        if session.state == "away":  # the shell may have given it up
            self._sessions.effects += [HangUp(session.broker), Dial(session.broker, session.url)]

    def _deliver_held(self) -> None:
        home = self._sessions.home
        self._handover.release_held()
        self._sessions.effects.append(Moved(home.broker))
        home.requests.holds_barriers = False
        self._sessions.send_barriers(home)
