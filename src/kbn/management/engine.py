"""The policy engine: reports and the time go in, decisions come out.

A report changes the MIB, and policies are evaluated for its object only; a policy with `choose`
compares all objects. A timer evaluates all objects at once, by columns: a condition over a million
takes milliseconds. Nothing here talks to anybody: whoever has the engine carries out its decisions.
It carries out `mark`, `unmark` and `log` itself, because they are about the MIB and the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from pathlib import Path
from typing import Any, cast

import numpy as np

from kbn.errors import KbnError, LimitError
from kbn.management.action_log import ActionLog, LogEntry, Status
from kbn.management.expressions import Overlay, Rows
from kbn.management.managed_object import ManagedObject
from kbn.management.mib import Mib
from kbn.management.policies import Action, Policy, PolicySet
from kbn.management.policy_file import filled
from kbn.management.rate import Limiter
from kbn.management.reports import Departure, Report
from kbn.management.schema import Kind

AT_ONCE_MAX = 10_000
"""A policy does something for so many objects at one evaluation; the others wait for the next."""
_LOG_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Decision:
    """An action that a policy decided on.

    `name` is None when it is about nobody in particular: all brokers, or the whole overlay.
    """

    policy: str
    action: str
    parameters: Mapping[str, Any]
    kind: Kind
    name: str | None
    at: float


class PolicyState:
    """The state of one policy: when it is due, and what it did lately."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.limiter = None if policy.at_most is None else Limiter(policy.at_most)
        self.due: float | None = None  # None: at once
        self.done_at: dict[str | None, float] = {}
        self._forget_above = 1_000
        self.waiting: list[str] = []  # meant by the policy, and too many for one evaluation
        self.suppressed = 0
        self.suppressed_since: float | None = None
        self.suppressed_ever = 0

    @property
    def log_every_s(self) -> float:
        return self.policy.at_most.period_s if self.policy.at_most else _LOG_EVERY_S

    def is_due(self, now: float) -> bool:
        """Whether its timer has run out."""
        every_s = self.policy.every_s
        if every_s is None or not self.policy.enabled:
            return False
        # A clock that was set back must not put it off for longer than usual.
        return self.due is None or now >= self.due or now < self.due - every_s

    def schedule(self, now: float) -> None:
        """Set the timer again."""
        assert self.policy.every_s is not None
        self.due = now + self.policy.every_s

    def may_do(self, name: str | None, now: float) -> bool:
        """Whether it was long enough ago that it was done to that object."""
        after = self.policy.again_after_s
        at = self.done_at.get(name)
        return after is None or at is None or not 0 <= now - at < after

    def note_done(self, name: str | None, now: float) -> None:
        if self.policy.again_after_s is not None:
            self.done_at[name] = now

    def forget_old(self, now: float) -> None:
        # Once in a while, so that it costs little for each that is forgotten.
        if len(self.done_at) > self._forget_above:
            kept = {name: at for name, at in self.done_at.items() if not self.may_do(name, now)}
            self.done_at, self._forget_above = kept, 2 * len(kept) + 1_000

    def suppress(self, count: int, now: float) -> None:
        if count:
            self.suppressed += count
            self.suppressed_ever += count
            if self.suppressed_since is None:
                self.suppressed_since = now


class Evaluation:
    """One report or one tick: what is decided in it, so that nothing contradicts itself."""

    def __init__(self, now: float, overlay: Overlay) -> None:
        self.now = now
        self.overlay = overlay
        self.decisions: list[Decision] = []
        self._by: dict[tuple[str, Kind | None, str | None], str] = {}

    def claim(self, action: Action, policy: Policy, kind: Kind, name: str | None) -> str:
        """Claim the object for this policy; the policy that claimed it before, or ''."""
        family = action.family
        if family is None:
            return ""
        first = self._by.setdefault((family, kind, name), policy.name)
        return "" if first == policy.name else first


class PolicyEngine:
    """Policies over a MIB.

    `clusters` is how many clusters there are, for conditions that ask `overlay.clusters`: whoever
    knows sets it. `log` says what each policy decided, did, suppressed or had overridden.
    """

    def __init__(
        self, mib: Mib, policies: PolicySet | Iterable[Policy] = (), *, clusters: int = 0
    ) -> None:
        self._mib = mib
        self.clusters = clusters
        self.log = ActionLog()
        self._states: list[PolicyState] = []
        self._by_report: dict[str, list[PolicyState]] = {}
        self.policies = PolicySet()
        self.use(policies if isinstance(policies, PolicySet) else PolicySet(tuple(policies)))

    def use(self, policies: PolicySet) -> None:
        """Go by these from now on. Those that stay as they were keep their timers and rates."""
        before = {state.policy.name: state for state in self._states}
        self._states = []
        for policy in policies:
            known = before.get(policy.name)
            same = known is not None and known.policy == policy
            self._states.append(known if known is not None and same else PolicyState(policy))
        self.policies = policies
        self._by_report = {}
        for state in self._states:
            if state.policy.enabled:
                for type in state.policy.reports:
                    self._by_report.setdefault(type, []).append(state)

    def reload(self, paths: str | Path | Iterable[str | Path], now: float) -> KbnError | None:
        """Go by the policies of these files from now on; what is wrong with them, if anything.

        In that case the policies before stay in force.
        """
        try:
            policies = PolicySet.load(paths)
        except KbnError as problem:
            self.log.add(LogEntry(now, "", "reload", None, None, Status.FAILED, str(problem)))
            return problem
        self.use(policies)
        self.log.add(
            LogEntry(now, "", "reload", None, None, Status.DONE, f"policies: {len(policies)}")
        )
        return None

    def reported(self, report: Report, now: float) -> list[Decision]:
        """Take a report into the MIB; what policies make of it."""
        was_there = self._mib.get(report.kind, report.name) is not None
        found = self._mib.apply(report, now)
        if isinstance(report, Departure) and (found is not None or not was_there):
            return []  # it is elsewhere, or was never heard of
        evaluation = Evaluation(now, self._mib.overlay(self.clusters))
        for state in self._by_report.get(report.type, ()):
            self._evaluate_for(state, report, evaluation)
        self._log_suppressed(now)
        return evaluation.decisions

    def happened(self, type: str, now: float) -> list[Decision]:
        """What policies make of an event that no report tells of, such as a change of the plan."""
        evaluation = Evaluation(now, self._mib.overlay(self.clusters))
        for state in self._by_report.get(type, ()):
            self._evaluate_all(state, evaluation)
        return evaluation.decisions

    @property
    def mib(self) -> Mib:
        return self._mib

    def tick(self, now: float) -> list[Decision]:
        """What policies decide that were due by now."""
        evaluation = Evaluation(now, self._mib.overlay(self.clusters))
        for state in self._states:
            # Those who wait come first: else the first names would always be served before them.
            if state.waiting:
                self._resume_waiting(state, evaluation)
            elif state.is_due(now):
                state.schedule(now)
                self._evaluate_all(state, evaluation)
        for state in self._states:
            state.forget_old(now)
        self._log_suppressed(now)
        return evaluation.decisions

    @property
    def suppressed(self) -> dict[str, int]:
        """How many objects each policy has passed over, ever, because of its rate."""
        return {each.policy.name: each.suppressed_ever for each in self._states}

    def record(self, decision: Decision, status: Status, detail: str = "") -> None:
        """Write into the log what came of a decision."""
        about = (decision.action, decision.kind, decision.name)
        self.log.add(LogEntry(decision.at, decision.policy, *about, status, detail))

    # Evaluating.

    def _evaluate_for(self, state: PolicyState, report: Report, evaluation: Evaluation) -> None:
        policy = state.policy
        if policy.of is not None and policy.of != report.kind:
            return
        if policy.choose is not None:
            self._evaluate_all(state, evaluation)
        elif self._holds_for(policy, report, evaluation):
            self._apply(state, report.kind, [report.name], evaluation)

    def _holds_for(self, policy: Policy, report: Report, evaluation: Evaluation) -> bool:
        if policy.when is None:
            return True
        if not policy.when.reads_object:
            rows = Rows(None, slice(0, 1), evaluation.now, evaluation.overlay)
        elif isinstance(report, Departure):
            return False
        else:
            rows = self._mib.rows(report.kind, evaluation.now, evaluation.overlay, report.name)
        return bool(policy.when.holds(rows)[0])

    def _evaluate_all(self, state: PolicyState, evaluation: Evaluation) -> None:
        policy = state.policy
        names = self._all_for(policy, evaluation)
        self._apply(state, policy.of or "broker", names, evaluation)

    def _all_for(self, policy: Policy, evaluation: Evaluation) -> list[Any]:
        """The names of all objects that a policy means now; [None] for the overlay.

        No names, and an entry in the log, when its condition costs more than a condition may.
        """
        try:
            return self._meant_by(policy, evaluation)
        except LimitError as error:
            about = (policy.name, "evaluate", policy.of, None)
            self.log.add(LogEntry(evaluation.now, *about, Status.FAILED, str(error)))
            return []

    def _meant_by(self, policy: Policy, evaluation: Evaluation) -> list[Any]:
        now, overlay = evaluation.now, evaluation.overlay
        if policy.of is None:
            rows = Rows(None, slice(0, 1), now, overlay)
            return [None] if policy.when is None or policy.when.holds(rows)[0] else []
        rows = self._mib.rows(policy.of, now, overlay)
        if policy.when is not None:
            rows = rows.subset(policy.when.holds(rows))
        if policy.choose is None:
            return list(rows.names.tolist())
        values = policy.choose.quantity.values(rows)
        if not policy.choose.is_highest:
            values = -values
        if not len(values) or np.isnan(values).all():
            return []
        return [min(rows.names[values == np.nanmax(values)].tolist())]

    def _resume_waiting(self, state: PolicyState, evaluation: Evaluation) -> None:
        """Apply a policy to those who had to wait, if it still means them."""
        waiting, state.waiting = state.waiting, []
        kind = state.policy.of
        if not waiting or kind is None:
            return
        meant = set(self._all_for(state.policy, evaluation))
        still = [name for name in dict.fromkeys(waiting) if name in meant]
        self._apply(state, kind, still, evaluation)

    # Applying.

    def _apply(
        self, state: PolicyState, kind: Kind, names: list[str] | list[None], evaluation: Evaluation
    ) -> None:
        """Do a policy's actions for the named, in the order of their names, as its rate allows."""
        now = evaluation.now
        willing = [name for name in names if state.may_do(name, now)]
        free = len(willing)
        if state.limiter is not None:
            free = min(free, state.limiter.free(now))
        chosen: list[Any] = willing[:free]
        if len(willing) > 1:
            chosen = nsmallest(free, cast("list[str]", willing))
        state.suppress(len(willing) - len(chosen), now)
        state.waiting += chosen[AT_ONCE_MAX:]
        chosen = chosen[:AT_ONCE_MAX]
        done = 0
        for name in chosen:
            if self._apply_to(state.policy, kind, name, evaluation):
                state.note_done(name, now)
                done += 1
        if state.limiter is not None:
            state.limiter.take(done, now)

    def _apply_to(
        self, policy: Policy, kind: Kind, name: str | None, evaluation: Evaluation
    ) -> bool:
        """Whether any of its actions was done, not overridden."""
        any_done = False
        for action in policy.do:
            other = evaluation.claim(action, policy, kind, name)
            if other:
                status, detail = Status.OVERRIDDEN, f"by {other}"
            else:
                any_done = True
                status, detail = self._carry_out(action, policy, kind, name, evaluation)
            about = (policy.name, action.name, kind, name)
            self.log.add(LogEntry(evaluation.now, *about, status, detail))
        return any_done

    def _carry_out(
        self, action: Action, policy: Policy, kind: Kind, name: str | None, evaluation: Evaluation
    ) -> tuple[Status, str]:
        """Do what the engine does itself, and decide what others do; what came of it."""
        given = action.parameters
        try:
            match action.name:
                case "mark":
                    assert name is not None
                    self._mib.mark(kind, name, given["mark"], only=given.get("only", False))
                    return Status.DONE, f"marked {given['mark']}"
                case "unmark":
                    assert name is not None
                    self._mib.unmark(kind, name, given["mark"])
                    return Status.DONE, f"unmarked {given['mark']}"
                case "log":
                    found = None if name is None else self._mib.get(kind, name)
                    return Status.DONE, _filled(given["message"], found, evaluation)
        except LimitError as error:
            return Status.FAILED, str(error)
        decision = Decision(policy.name, action.name, given, kind, name, evaluation.now)
        evaluation.decisions.append(decision)
        return Status.DECIDED, ""

    def _log_suppressed(self, now: float) -> None:
        for state in self._states:
            since = state.suppressed_since
            if since is not None and not 0 <= now - since < state.log_every_s:
                about = (state.policy.name, "", state.policy.of, None)
                detail = f"at most {state.policy.at_most}"
                self.log.add(LogEntry(now, *about, Status.SUPPRESSED, detail, state.suppressed))
                state.suppressed, state.suppressed_since = 0, None


def _filled(message: str, found: ManagedObject | None, evaluation: Evaluation) -> str:
    """A message with values for what stands in braces."""

    def value(field: str) -> Any:
        owner, _, name = field.partition(".")
        if owner == "overlay":
            return getattr(evaluation.overlay, name)
        if owner == "now":
            return evaluation.now
        return "" if found is None else getattr(found, name)

    return filled(message, lambda field: _shown(value(field)))


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(sorted(value) if isinstance(value, frozenset) else value)
