"""The policy server: reports and the time go in, instructions come out.

It takes each report into the MIB and asks its policies; what they decide becomes instructions
(`actions.py`), to a broker itself or through the trigger broker. It opens no connection: its shell
carries instructions out and tells how that went.

Several policy servers may share an overlay. Each says every few seconds that it is there; the one
whose name comes first acts, and the others keep their MIB and stand by. Two who act for a moment do
no harm: an instruction given twice is carried out once. While nobody acts, brokers and clients go
on where they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from kbn.errors import KbnError
from kbn.filters import Notification, Subscription
from kbn.management import instructions, liveness, reports
from kbn.management.action_log import LogEntry, Status
from kbn.management.actions import LOAD_MAX, Actions
from kbn.management.assignments import Assignments
from kbn.management.engine import Decision, PolicyEngine
from kbn.management.instructions import (
    DecisionNote,
    PlacementNote,
    PlanNote,
    PolicyServerInfo,
    RequestInfo,
)
from kbn.management.liveness import Liveness
from kbn.management.message_form import overlay_in
from kbn.management.outcomes import Announce, Effect, Instruct, Outcome
from kbn.management.reclustering import REASSIGNED
from kbn.management.reports import KINDS, BrokerInfo, Departure, Kind, Report
from kbn.management.senders import Sender, check_sender
from kbn.management.terms import MAIN
from kbn.management.wanted import AMONG_SERVERS, wanted_types
from kbn.placement import MapSettings

BEAT_S = 2.0
"""How often a policy server says that it is there."""
SILENT_S = 3 * BEAT_S + 1.0
"""Another that was not heard of for so long is gone."""
PLAN = "plan"
"""The name under which the MIB keeps the plan."""
READ = "read"
"""What the log calls the reading of notifications."""
DEAD = "dead"
"""The mark of brokers that are silent, and that their neighbours have lost."""
ASK_EVERY_S = 300.0
"""How often everybody is asked who they are, in case a report was lost."""
FORGET_AFTER_S = 1000.0
"""One nobody has told of for so long is forgotten: it was asked for three times."""


class PolicyServer:
    """One policy server of an overlay; `name` tells it from others that share the overlay.

    Its engine's log tells what was decided and what came of it. The one that acts publishes that,
    the plan and every placement, so that anybody can follow (`Observer`).
    """

    def __init__(
        self,
        name: str,
        engine: PolicyEngine,
        assignments: Assignments,
        load_max: float = LOAD_MAX,
        *,
        overlay: str = MAIN,
        settings: MapSettings | None = None,
    ) -> None:
        self.name = name
        self.overlay = overlay
        self.engine = engine
        self.assignments = assignments
        self.actions = Actions(engine.mib, assignments, load_max, settings)
        self.unreadable = 0
        self._others: dict[str, float] = {}
        self._acted = False
        self._beat_at: float | None = None
        self._asked_at = 0.0
        self._since: float | None = None
        self._told = 0
        self._published = 0
        self._liveness = Liveness()
        self._resume()

    @property
    def wanted(self) -> Subscription:
        """What to subscribe to at the trigger broker; it changes with the policies."""
        types = (*wanted_types(self.engine.policies), *AMONG_SERVERS)
        return instructions.of_types(*types, overlay=self.overlay)

    def acts(self, now: float) -> bool:
        """Whether it is this one's turn to act."""
        self._others = {n: at for n, at in self._others.items() if now - at <= SILENT_S}
        return all(self.name < other for other in self._others)

    def connected(self, now: float) -> list[Effect]:
        """The trigger broker is there (again): ask everybody who they are, and tell the plan."""
        self._beat_at = None
        self._asked_at = now - ASK_EVERY_S
        # While nothing could be heard, nobody was silent.
        self._since = None
        self.assignments.listen_again(now)
        self._liveness.listen_again(now)
        return [*self._tell_plan(now), *self.tick(now)]

    def received(self, notification: Notification, sender: Sender, now: float) -> list[Effect]:
        """A notification came from the trigger broker.

        What is no report, or not the sender's to report, is counted and dropped; what is about
        another overlay is dropped.
        """
        if overlay_in(notification) != self.overlay:
            return []
        return self._and_log(self._received(notification, sender, now), now)

    def _received(self, notification: Notification, sender: Sender, now: float) -> list[Effect]:
        other = instructions.from_notification(notification)
        try:
            if isinstance(other, PolicyServerInfo):
                check_sender(other, sender, self.overlay)
                return self._met(other, now)
            if isinstance(other, PlacementNote | PlanNote):
                check_sender(other, sender, self.overlay)
                self._learn(other, now)
                return []
            if liveness.is_sign(notification):
                sign = liveness.from_notification(notification)
                check_sender(sign, sender, self.overlay)
                if sign.broker in self.assignments.said_links:
                    self._liveness.signed(sign, now)
                return []
            report = reports.from_notification(notification)
            check_sender(report, sender, self.overlay)
            return self.reported(report, now)
        except KbnError as error:
            self.unreadable += 1
            self._failed(now, READ, None, str(error))
            return []

    def _met(self, other: PolicyServerInfo, now: float) -> list[Effect]:
        """Another is there; one that has just come is told at once that it is not alone."""
        if other.server == self.name:
            return []
        is_new = other.server not in self._others
        self._others[other.server] = now
        here = Announce(PolicyServerInfo(self.name))
        return [here, *self._tell_plan(now)] if is_new else []

    def _learn(self, note: PlacementNote | PlanNote, now: float) -> None:
        """Stand by: know what the one that acts has done, to go on from there."""
        if self.acts(now):
            return
        if isinstance(note, PlanNote):
            self.assignments.resume(note.text)
            self.engine.mib.keep_text(PLAN, note.text)
        elif note.kind != "broker":
            self.engine.mib.placed(note.kind, note.name, note.broker, now)
            mark = self.engine.mib.mark if note.is_reassigned else self.engine.mib.unmark
            mark(note.kind, note.name, REASSIGNED)

    def _tell_plan(self, now: float) -> list[Effect]:
        """Keep the plan, and tell those that stand by."""
        if self.assignments.plan is None or not self.acts(now):
            return []
        text = self.assignments.text()
        self.engine.mib.keep_text(PLAN, text)
        return [Announce(PlanNote(text))]

    def _resume(self) -> None:
        """Go on with the plan, and who was dead, as the MIB had it when it was last written."""
        brokers = self.engine.mib.objects("broker")
        self._liveness.resume(each.name for each in brokers if DEAD in each.marks)
        self.assignments.dead = self._liveness.dead
        text = self.engine.mib.kept_text(PLAN)
        if text is not None:
            try:
                self.assignments.resume(text)
            except KbnError as error:
                self._failed(0.0, "resume", None, str(error))

    def reported(self, report: Report, now: float) -> list[Effect]:
        """Take in a report, and do what policies make of it."""
        decisions: list[Decision] = []
        if self.acts(now):
            decisions = self.engine.reported(report, now)
        else:
            self.engine.mib.apply(report, now)
        # After the MIB, which refuses what cannot be.
        self._look_at_brokers(report, now)
        return self._carry_out(decisions, now)

    def tick(self, now: float) -> list[Effect]:
        """Do what is due by the clock."""
        return self._and_log(self._tick(now), now)

    def _tick(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if self._beat_at is None or now - self._beat_at >= BEAT_S:
            self._beat_at = now
            effects.append(Announce(PolicyServerInfo(self.name)))
        if now - self._asked_at >= ASK_EVERY_S:
            self._asked_at = now
            self._forget_silent(now)
            effects.append(Announce(RequestInfo()))
        plan_changed = self.assignments.look(now) | self._look_for_dead(now)
        self.engine.clusters = self.assignments.clusters
        acts, acted = self.acts(now), self._acted
        self._acted = acts
        if not acts:
            return effects
        if plan_changed or not acted:
            effects += self._tell_plan(now)
            effects += self._carry_out(self.engine.happened("PlanChange", now), now)
        effects += self._carry_out(self.engine.tick(now), now)
        return effects + self._done(self.actions.flush(now), now)

    def refused(self, instruct: Instruct, reason: str, now: float) -> None:
        """A broker did not carry out an instruction, or did not get it."""
        self.actions.failed(instruct)
        self._failed(now, instruct.what, instruct.broker, reason)

    def _forget_silent(self, now: float) -> None:
        """Forget those who went without a word, once there was time to hear of everybody."""
        self._since = now if self._since is None else self._since
        if now - self._since >= FORGET_AFTER_S:
            for kind in KINDS:
                for name in self.engine.mib.forget_silent(kind, now - FORGET_AFTER_S):
                    if kind == "broker":
                        self._liveness.forget(name)
                    self.engine.log.add(
                        LogEntry(now, "", "forget", kind, name, Status.DONE, "was silent")
                    )

    def _look_at_brokers(self, report: Report, now: float) -> None:
        if isinstance(report, BrokerInfo):
            self.assignments.heard_of(report.broker, report.parent, report.links, now)
            self._liveness.heard_of(report.broker, now)
        elif isinstance(report, Departure) and report.kind == "broker":
            self.assignments.lost(report.name, now)
            self._liveness.forget(report.name)

    def _look_for_dead(self, now: float) -> bool:
        """Place nobody at brokers that are dead; whether others are dead than before."""
        before = self._liveness.dead
        if not self._liveness.look(self.assignments.said_links, now):
            return False
        dead = self.assignments.dead = self._liveness.dead
        for name in sorted(before ^ dead):
            is_dead = name in dead
            mark = self.engine.mib.mark if is_dead else self.engine.mib.unmark
            mark("broker", name, DEAD)
            detail = "dead: silent, and lost to its neighbours" if is_dead else "alive again"
            self.engine.log.add(LogEntry(now, "", "look", "broker", name, Status.DONE, detail))
        return True

    def _carry_out(self, decisions: Iterable[Decision], now: float) -> list[Effect]:
        effects = self._done((self.actions.carry_out(each, now) for each in decisions), now)
        if self.actions.plan_changed:
            self.actions.plan_changed = False
            effects += self._tell_plan(now)
            effects += self._carry_out(self.engine.happened("PlanChange", now), now)
        return effects

    def news(self) -> list[LogEntry]:
        """What came of decisions, and what else was logged, since this was last asked."""
        log = self.engine.log
        found = [entry for entry in log.since(self._told) if entry.status is not Status.DECIDED]
        self._told = log.written
        return found

    def _and_log(self, effects: list[Effect], now: float) -> list[Effect]:
        """These effects, and what the log has had since, for observers, if this server acts."""
        log = self.engine.log
        new, self._published = log.since(self._published), log.written
        if not new or not self.acts(now):
            return effects
        # Not what could not be read: whoever sends that would have us send as much.
        told = (each for each in new if each.status is not Status.DECIDED and each.action != READ)
        return effects + [Announce(DecisionNote.of(self.name, entry)) for entry in told]

    def _done(self, outcomes: Iterable[Outcome], now: float) -> list[Effect]:
        effects: list[Effect] = []
        for outcome in outcomes:
            self.engine.record(outcome.decision, outcome.status, outcome.detail)
            # The note first: who follows the notes never sees a client move that none announced.
            effects += (Announce(note) for note in outcome.placed)
            effects += outcome.effects
        return effects

    def _failed(self, now: float, action: str, broker: str | None, reason: str) -> None:
        kind: Kind | None = None if broker is None else "broker"
        self.engine.log.add(LogEntry(now, "", action, kind, broker, Status.FAILED, reason))
