"""The YAML files of policies, checked: whatever they say wrong is told by file, line and path.

All that is wrong is told at once, and then nothing is read: see `policies` for what can stand in
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import msgspec
from msgspec import UNSET

from kbn.config import ConfigError, Document, Place, Problem, did_you_mean
from kbn.management import reports, terms
from kbn.management.conditions import Condition, ConditionError, Quantity
from kbn.management.policies import ACTIONS, Action, Choice, ParameterType, Policy
from kbn.management.policy_form import (
    ACTION_FORMS,
    ActionHead,
    ChoiceForm,
    PoliciesForm,
    PolicyForm,
    count_and_seconds,
    seconds,
)
from kbn.management.rate import Rate
from kbn.management.schema import FIELDS, KINDS, OVERLAY, Kind

EVERY_S_MIN = 0.1
PERIOD_S_MAX = 366 * 86_400.0
PER_PERIOD_MAX = 1_000_000

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")

# What happens at a policy server itself: policies are then asked about all objects of a kind.
EVENTS = ("PlanChange",)

# The kinds of objects that each type of report is about.
_ABOUT: Mapping[str, tuple[Kind, ...]] = {
    each.type: KINDS if each is reports.Departure else (cast(Any, each).kind,)
    for each in (*reports.STATE_REPORTS, reports.Departure)
} | dict.fromkeys(EVENTS, KINDS)
T = TypeVar("T")


def read_policies(paths: Iterable[Path]) -> list[Policy]:
    """The policies of files, and of the YAML files of folders; ConfigError tells all problems."""
    problems: list[Problem] = []
    found: list[Policy] = []
    for path in paths:
        try:
            for file in _files(path):
                found += _policies(file, problems)
        except ConfigError as error:
            problems += error.problems
    problems += _said_twice(found)
    if problems:
        raise ConfigError(sorted(problems, key=lambda each: (each.file, each.line or 0)))
    return found


def message_fields(message: str) -> list[str]:
    """What stands in braces in a message.

    >>> message_fields("{broker.name} has {broker.load}")
    ['broker.name', 'broker.load']
    """
    return _PLACEHOLDER.findall(message)


def filled(message: str, value: Callable[[str], str]) -> str:
    """A message with values for what stands in braces.

    >>> filled("{broker.name} is busy", {"broker.name": "east"}.__getitem__)
    'east is busy'
    """
    return _PLACEHOLDER.sub(lambda found: value(found[1]), message)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml"))
    if not found:
        reason = "a folder without any file of policies; put *.yaml files there"
        raise ConfigError([Problem(str(path), reason)])
    return found


def _policies(file: Path, problems: list[Problem]) -> list[Policy]:
    """The policies of a file that are right; what is wrong is added to the problems."""
    root = Document.read(file, "the policies").root
    form = root.convert(PoliciesForm)
    read = [
        _Reading(root.at("policies", number), problems).policy()
        for number in range(len(form.policies))
    ]
    return [policy for policy in read if policy is not None]


class _Wrong(Exception):
    """Something cannot be read; the problem is noted, and reading goes on after it."""


class _Reading:
    """Reads one policy; notes what is wrong with it and goes on, as far as that makes sense."""

    def __init__(self, place: Place, problems: list[Problem]) -> None:
        self._place = place
        self._problems = problems

    def policy(self) -> Policy | None:
        """The policy; None when something is wrong with it."""
        before = len(self._problems)
        form, found = self._place.convert_valid_keys(PolicyForm)
        self._problems += found
        if form is None:
            return None
        try:
            policy = self._policy(form, self._place.data())
        except _Wrong:
            return None
        return policy if len(self._problems) == before else None

    def _policy(self, form: PolicyForm, given: Mapping[str, object]) -> Policy:
        self._check_keys(given)
        on = self._tried("on", form.on, self._class)
        if not _is_known("on", on, given) or not _is_known("of", form.of, given):
            raise _Wrong  # of which kind it is nobody can tell, so the rest would look wrong too
        types: frozenset[str] = _below(on) if on else frozenset()
        of = self._of(form, types)
        return Policy(
            name=form.name or "",
            description=form.description or "",
            enabled=form.enabled,
            on=on,
            every_s=self._tried("every", form.every, self._every),
            of=of,
            when=self._tried("when", form.when, lambda it, at: self._condition(it, at, of, types)),
            choose=self._tried("choose", form.choose, lambda it, at: self._choice(it, at, of)),
            do=self._tried("do", form.do, lambda it, at: self._actions(it, at, of)) or (),
            at_most=self._tried("at_most", form.at_most, self._rate),
            again_after_s=self._tried("again_after", form.again_after, self._duration),
            reports=types,
            path=self._place.document.name,
            line=self._place.line or 0,
        )

    def _check_keys(self, given: Mapping[str, object]) -> None:
        if "name" not in given:
            self._note(self._place, "a policy has a name; add one")
        if ("on" in given) == ("every" in given):
            self._fail(self._place, "say either `on: …` or `every: …`")
        if "do" not in given:
            self._note(self._place, "do is missing; say what shall be done")

    # The parts of a policy.

    def _class(self, name: str, place: Place) -> str:
        known = [iri.removeprefix(terms.NAMESPACE) for iri in terms.ontology().classes]
        if name not in known:
            guess = did_you_mean(name, [each for each in known if _below(each)])
            self._fail(place, f"the management ontology has no class {name!r:.60}{guess}")
        if not _below(name):
            self._fail(place, f"nobody reports a {name}; name a class of reports")
        return name

    def _of(self, form: PolicyForm, types: frozenset[str]) -> Kind | None:
        """The kind of objects; said, or the only one that such reports are about."""
        about = {kind for type in types for kind in _ABOUT[type]}
        if form.of is UNSET:
            return about.pop() if len(about) == 1 else None
        if about and form.of not in about:
            self._note(self._place.at("of"), f"no such report is about a {form.of}")
        return form.of

    def _condition(
        self, text: str, place: Place, of: Kind | None, types: frozenset[str]
    ) -> Condition:
        condition = self._expression(text, place, lambda each: Condition.parse(each, of))
        if condition.reads_object and types == {reports.Departure.type}:
            self._fail(place, "who departed has no fields any more; ask only about the overlay")
        return condition

    def _choice(self, form: ChoiceForm, place: Place, of: Kind | None) -> Choice:
        if (form.highest is None) == (form.lowest is None):
            self._fail(place, "say {highest: …} or {lowest: …}")
        if of is None:
            self._fail(place, "say of which kind of objects, with `of: …`")
        which = "lowest" if form.highest is None else "highest"
        text = form.highest or form.lowest or ""
        quantity = self._expression(text, place.at(which), lambda each: Quantity.parse(each, of))
        return Choice(quantity, which == "highest")

    def _expression(self, text: str, place: Place, parse: Callable[[str], T]) -> T:
        try:
            return parse(text)
        except ConditionError as error:
            start = place.column
            where = "" if start else f"in line {error.line}, column {error.column} of it: "
            column = start and start + error.column - 1
            self._problems.append(place.problem(where + error.reason, column))
            raise _Wrong from None

    def _actions(
        self, form: str | ActionHead | list[str | ActionHead], place: Place, of: Kind | None
    ) -> tuple[Action, ...]:
        if not isinstance(form, list):
            return (self._action(form, place, of),)
        return tuple(self._action(each, place.at(n), of) for n, each in enumerate(form))

    def _action(self, form: str | ActionHead, place: Place, of: Kind | None) -> Action:
        name = form if isinstance(form, str) else form.action
        type = ACTIONS[name]
        if type.needs and of not in type.needs:
            kinds = " or ".join(type.needs)
            there = f"it is of {of}s" if of else "it has no `of`"
            self._fail(place, f"{name} is for a {kinds}, and the policy is not: {there}")
        return Action(name, self._parameters(name, isinstance(form, ActionHead), place, of))

    def _parameters(
        self, action: str, are_given: bool, place: Place, of: Kind | None
    ) -> dict[str, Any]:
        type = ACTIONS[action]
        if not are_given and type.required:
            needed = ", ".join(f"{each}: …" for each in type.required)
            self._fail(place, f"{action} needs a parameter; write {{action: {action}, {needed}}}")
        if not are_given:
            return {}
        form, found = place.convert_valid_keys(ACTION_FORMS[action])
        self._problems += found
        if form is None or found:
            raise _Wrong
        known = {**type.required, **type.optional}
        given = {k: each for k, each in msgspec.structs.asdict(form).items() if each is not UNSET}
        return {
            name: self._parameter(given[name], kind, place.at(name), of)
            for name, kind in known.items()
            if name in given
        }

    def _parameter(self, value: Any, type: ParameterType, place: Place, of: Kind | None) -> Any:
        match type:
            case ParameterType.DURATION:
                return self._duration(value, place)
            case ParameterType.MESSAGE:
                return self._message(value, place, of)
            case _:
                return value

    def _message(self, message: str, place: Place, of: Kind | None) -> str:
        known = [f"overlay.{each}" for each in OVERLAY] + ["now"]
        if of is not None:
            known += [f"{of}.{each}" for each in ("name", *FIELDS[of])]
        for each in message_fields(message):
            if each not in known:
                self._fail(place, f"{{{each}}} stands for nothing here{did_you_mean(each, known)}")
        return message

    # Times and rates.

    def _duration(self, text: str, place: Place) -> float:
        return self._bounded(seconds(text), place)

    def _every(self, text: str, place: Place) -> float:
        period_s = self._duration(text, place)
        if period_s < EVERY_S_MIN:
            self._fail(place, f"more often than every {EVERY_S_MIN:g} s; write a longer time")
        return period_s

    def _rate(self, text: str, place: Place) -> Rate:
        count, period_s = count_and_seconds(text)
        if not 1 <= count <= PER_PERIOD_MAX:
            self._fail(place, f"expected a number from 1 to {PER_PERIOD_MAX}, not {count}")
        return Rate(count, self._bounded(period_s, place))

    def _bounded(self, period_s: float, place: Place) -> float:
        if not 0 < period_s <= PERIOD_S_MAX:
            self._fail(place, "expected a time above 0 and of at most 366 d")
        return period_s

    # What is wrong.

    def _tried(self, key: str, form: Any, read: Callable[[Any, Place], T]) -> T | None:
        """A value that may be unset; one that is wrong is noted, and the others are still read."""
        if form is UNSET:
            return None
        try:
            return read(form, self._place.at(key))
        except _Wrong:
            return None

    def _note(self, place: Place, reason: str) -> None:
        self._problems.append(place.problem(reason))

    def _fail(self, place: Place, reason: str) -> NoReturn:
        self._note(place, reason)
        raise _Wrong


def _is_known(key: str, value: object, given: Mapping[str, object]) -> bool:
    """Whether a key that is given has a value that is right."""
    return key not in given or value not in (None, UNSET)


def _said_twice(policies: Iterable[Policy]) -> list[Problem]:
    first: dict[str, Policy] = {}
    problems = []
    for policy in policies:
        before = first.setdefault(policy.name, policy)
        if before is not policy:
            where = f"{before.path}:{before.line}"
            reason = f"there is a policy {policy.name!r} already, at {where}; rename one"
            problems.append(Problem(policy.path, reason, line=policy.line))
    return problems


def _below(name: str) -> frozenset[str]:
    """The types of report that are of that class of the management ontology."""
    ontology, start = terms.ontology(), terms.NAMESPACE
    return frozenset(each for each in _ABOUT if ontology.is_subclass(start + each, start + name))
