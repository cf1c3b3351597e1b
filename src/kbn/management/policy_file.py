"""The YAML files of policies, checked: whatever they say wrong is told by file and line.

All that is wrong is told at once, and then nothing is read: see `policies` for what can stand in
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

from kbn.errors import MissingDependencyError
from kbn.management import reports, terms
from kbn.management.conditions import Condition, ConditionError, Quantity
from kbn.management.policies import (
    ACTIONS,
    Action,
    ActionType,
    Choice,
    ParameterType,
    Policy,
    PolicyError,
    Problem,
)
from kbn.management.rate import Rate
from kbn.management.schema import FIELDS, KINDS, OVERLAY, Kind

KEYS = (
    *("name", "description", "enabled", "on", "every", "of", "when", "choose", "do"),
    *("at_most", "again_after"),
)
PLANNERS = ("taxonomic", "traffic")
EVERY_S_MIN = 0.1
PERIOD_S_MAX = 366 * 86_400.0
PER_PERIOD_MAX = 1_000_000
TEXT_LENGTH_MAX = 1_000

_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3_600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_RATE = re.compile(r"(\d+)\s+per\s+(?:(\d+(?:\.\d+)?)\s*)?([a-z]+)")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")

# What happens at a policy server itself: policies are then asked about all objects of a kind.
EVENTS = ("PlanChange",)

# The kinds of objects that each type of report is about.
_ABOUT: Mapping[str, tuple[Kind, ...]] = {
    each.type: KINDS if each is reports.Departure else (cast(Any, each).kind,)
    for each in (
        *(reports.BrokerInfo, reports.BrokerMedoid, reports.BrokerUtilisation),
        *(reports.SubscriberInfo, reports.NotificationReport, reports.PublisherInfo),
        reports.Departure,
    )
} | dict.fromkeys(EVENTS, KINDS)
T = TypeVar("T")


def read_policies(paths: Iterable[Path]) -> list[Policy]:
    """The policies of files, and of the YAML files of folders; PolicyError tells all problems."""
    problems: list[Problem] = []
    found: list[Policy] = []
    for path in paths:
        try:
            for file in _files(path):
                found += _Reading(file, problems).policies(_composed(file))
        except PolicyError as error:
            problems += error.problems
    problems += _said_twice(found)
    if problems:
        raise PolicyError(sorted(problems, key=lambda each: (each.path, each.line)))
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


class _Wrong(Exception):
    """One value cannot be read; the problem is noted, and reading goes on after it."""


class _Reading:
    """Reads one file. Data is a tree of YAML's nodes: those know their lines."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self._path = path
        self._problems = problems

    def policies(self, root: Any) -> list[Policy]:
        try:
            given = self._mapping(root, "the file", ("policies",))
            if "policies" not in given:
                self._fail(root, "policies is missing: a list of policies")
            if given["policies"].id != "sequence":
                self._fail(given["policies"], "policies: expected a list, each with - name: …")
        except _Wrong:
            return []
        read = (self._maybe_policy(node) for node in given["policies"].value)
        return [policy for policy in read if policy is not None]

    def _maybe_policy(self, node: Any) -> Policy | None:
        before = len(self._problems)
        try:
            policy = self._policy(node)
        except _Wrong:
            return None
        return policy if len(self._problems) == before else None

    def _policy(self, node: Any) -> Policy:
        given = self._mapping(node, "a policy", KEYS)
        name = self._tried(given, "name", self._name, "")
        if "name" not in given:
            self._note(node, "a policy has a name")
        if ("on" in given) == ("every" in given):
            self._fail(node, f"{name or 'a policy'}: say either `on: …` or `every: …`")
        on = self._tried(given, "on", self._class, None)
        if "on" in given and on is None and "of" not in given:
            raise _Wrong  # of which kind it is nobody can tell, so the rest would look wrong too
        types: frozenset[str] = _below(on) if on else frozenset()
        of = self._of(given, types)
        when = self._tried(given, "when", lambda each: self._condition(each, of, types), None)
        if "do" not in given:
            self._note(node, f"{name or 'a policy'}: do is missing: what shall be done?")
        return Policy(
            name=name,
            description=self._tried(given, "description", self._text, ""),
            enabled=self._tried(given, "enabled", self._flag, True),
            on=on,
            every_s=self._tried(given, "every", self._every, None),
            of=of,
            when=when,
            choose=self._tried(given, "choose", lambda each: self._choice(each, of), None),
            do=self._tried(given, "do", lambda each: self._actions(each, of), ()),
            at_most=self._tried(given, "at_most", self._rate, None),
            again_after_s=self._tried(given, "again_after", self._duration, None),
            reports=types,
            path=str(self._path),
            line=_line(node),
        )

    # The parts of a policy.

    def _class(self, node: Any) -> str:
        given = self._text(node)
        known = [iri.removeprefix(terms.NAMESPACE) for iri in terms.ontology().classes]
        if given not in known:
            guess = _guess(given, [name for name in known if _below(name)])
            self._fail(node, f"the management ontology has no class {given!r}{guess}")
        if not _below(given):
            self._fail(node, f"nobody reports a {given}: name a class of reports")
        return given

    def _of(self, given: Mapping[str, Any], types: frozenset[str]) -> Kind | None:
        """The kind of objects; said, or the only one that such reports are about."""
        about = {kind for type in types for kind in _ABOUT[type]}
        if "of" not in given:
            return about.pop() if len(about) == 1 else None
        of = self._tried(given, "of", self._kind, None)
        if about and of is not None and of not in about:
            self._note(given["of"], f"no such report is about a {of}")
        return of

    def _kind(self, node: Any) -> Kind:
        return cast(Kind, self._one_of(node, KINDS))

    def _condition(self, node: Any, of: Kind | None, types: frozenset[str]) -> Condition:
        condition = self._expression(node, lambda text: Condition.parse(text, of))
        if condition.reads_object and types == {reports.Departure.type}:
            self._fail(node, "who departed has no fields any more: ask only about the overlay")
        return condition

    def _choice(self, node: Any, of: Kind | None) -> Choice:
        given = self._mapping(node, "choose", ("highest", "lowest"))
        if len(given) != 1:
            self._fail(node, "choose: say {highest: …} or {lowest: …}")
        if of is None:
            self._fail(node, "choose: say of which kind of objects, with `of: …`")
        ((which, inner),) = given.items()
        quantity = self._expression(inner, lambda text: Quantity.parse(text, of))
        return Choice(quantity, which == "highest")

    def _expression(self, node: Any, parse: Callable[[str], T]) -> T:
        text = self._text(node, length_max=None)
        try:
            return parse(text)
        except ConditionError as error:
            line, column = _line(node), None
            if node.style in (None, '"', "'") and node.start_mark.line == node.end_mark.line:
                column = node.start_mark.column + error.column + (node.style is not None)
            where = "" if column else f"in line {error.line}, column {error.column} of it: "
            self._problems.append(Problem(str(self._path), line, where + error.reason, column))
            raise _Wrong from None

    def _actions(self, node: Any, of: Kind | None) -> tuple[Action, ...]:
        nodes = node.value if node.id == "sequence" else [node]
        if not nodes:
            self._fail(node, "do: there is nothing to do")
        return tuple(self._action(each, of) for each in nodes)

    def _action(self, node: Any, of: Kind | None) -> Action:
        given: dict[str, Any] = {"action": node}
        if node.id == "mapping":
            given = self._mapping(node, "an action", None)
        if "action" not in given:
            self._fail(node, "an action is a name, or {action: name, …} with its parameters")
        name = self._one_of(given.pop("action"), tuple(ACTIONS))
        type = ACTIONS[name]
        if type.needs and of not in type.needs:
            kinds = " or ".join(type.needs)
            there = f"it is of {of}s" if of else "it has no `of`"
            self._fail(node, f"{name} is for a {kinds}, and the policy is not: {there}")
        return Action(name, self._parameters(node, name, type, given, of))

    def _parameters(
        self, node: Any, action: str, type: ActionType, given: dict[str, Any], of: Kind | None
    ) -> dict[str, Any]:
        known = {**type.required, **type.optional}
        for name in given:
            if name not in known:
                there = f"; there are {', '.join(known)}" if known else "; it has none"
                reason = f"{action} has no parameter {name!r}{_guess(name, known) or there}"
                self._fail(given[name], reason)
        for name in type.required:
            if name not in given:
                self._fail(node, f"{action} needs {name}: {type.required[name]}")
        return {name: self._parameter(inner, known[name], of) for name, inner in given.items()}

    def _parameter(self, node: Any, type: ParameterType, of: Kind | None) -> Any:
        match type:
            case ParameterType.DURATION:
                return self._duration(node)
            case ParameterType.COUNT:
                return int(self._number(node, type, whole=True))
            case ParameterType.NUMBER:
                return self._number(node, type, whole=False)
            case ParameterType.FLAG:
                return self._flag(node)
            case ParameterType.PLANNER:
                return self._one_of(node, PLANNERS)
            case ParameterType.TEXT:
                return self._text(node)
            case ParameterType.MESSAGE:
                return self._message(node, of)

    def _message(self, node: Any, of: Kind | None) -> str:
        message = self._text(node)
        known = [f"overlay.{each}" for each in OVERLAY] + ["now"]
        if of is not None:
            known += [f"{of}.{each}" for each in ("name", *FIELDS[of])]
        for each in message_fields(message):
            if each not in known:
                self._fail(node, f"{{{each}}} stands for nothing here{_guess(each, known)}")
        return message

    # Values.

    def _tried(self, given: Mapping[str, Any], key: str, read: Callable[[Any], T], default: T) -> T:
        """A value that may be missing; one that is wrong is noted, and the others still read."""
        node = given.get(key)
        if node is None:
            return default
        try:
            return read(node)
        except _Wrong:
            return default

    def _mapping(self, node: Any, what: str, known: tuple[str, ...] | None) -> dict[str, Any]:
        if node.id != "mapping":
            expected = "its parameters" if known is None else ", ".join(known)
            self._fail(node, f"{what}: expected {expected}")
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = self._text(key)
            if name in found:
                self._note(key, f"{what}: {name!r} stands twice")
            elif known is not None and name not in known:
                hint = _guess(name, known) or f"; there are {', '.join(known)}"
                self._note(key, f"{what}: unknown key {name!r}{hint}")
            else:
                found[name] = value
        return found

    def _text(self, node: Any, length_max: int | None = TEXT_LENGTH_MAX) -> str:
        is_null = node.tag == "tag:yaml.org,2002:null"
        if node.id != "scalar" or is_null or not node.value.strip():
            self._fail(node, "expected a text")
        text = str(node.value)
        if length_max is not None and len(text) > length_max:
            self._fail(node, f"longer than {length_max} characters")
        return text

    def _name(self, node: Any) -> str:
        name = self._text(node)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            self._fail(node, f"{name!r} is no name: letters, digits and - _ . only")
        return name

    def _one_of(self, node: Any, known: tuple[str, ...]) -> str:
        text = self._text(node)
        if text not in known:
            hint = _guess(text, known) or f"; there are {', '.join(known)}"
            self._fail(node, f"{text!r} is unknown{hint}")
        return text

    def _flag(self, node: Any) -> bool:
        if node.id != "scalar" or node.tag != "tag:yaml.org,2002:bool":
            self._fail(node, "expected true or false")
        return str(node.value).lower() in ("true", "yes", "on")

    def _number(self, node: Any, type: ParameterType, *, whole: bool) -> float:
        text = self._text(node)
        if not re.fullmatch(r"\d{1,9}" if whole else r"\d{1,9}(\.\d{1,9})?", text) or not float(
            text
        ):
            self._fail(node, f"{text!r} is not {type}")
        return float(text)

    def _duration(self, node: Any) -> float:
        text = self._text(node)
        found = _DURATION.fullmatch(text)
        if found is None or found[2] not in _UNITS:
            self._fail(node, f"{text!r} is no time: write 500 ms, 30 s, 2 min, 1 h or 1 d")
        return self._bounded(node, float(found[1]) * _UNITS[found[2]])

    def _every(self, node: Any) -> float:
        seconds = self._duration(node)
        if seconds < EVERY_S_MIN:
            self._fail(node, f"more often than every {EVERY_S_MIN:g} s")
        return seconds

    def _rate(self, node: Any) -> Rate:
        text = self._text(node)
        found = _RATE.fullmatch(text)
        if found is None or found[3] not in _UNITS:
            self._fail(node, f"{text!r} is no rate: write 100 per minute, or 5 per 30 s")
        count = int(found[1])
        if not 1 <= count <= PER_PERIOD_MAX:
            self._fail(node, f"expected a number from 1 to {PER_PERIOD_MAX}")
        return Rate(count, self._bounded(node, float(found[2] or 1) * _UNITS[found[3]]))

    def _bounded(self, node: Any, seconds: float) -> float:
        if not 0 < seconds <= PERIOD_S_MAX:
            self._fail(node, "expected a time above 0 and of at most 366 d")
        return seconds

    def _note(self, node: Any, reason: str) -> None:
        self._problems.append(Problem(str(self._path), _line(node), reason))

    def _fail(self, node: Any, reason: str) -> NoReturn:
        self._note(node, reason)
        raise _Wrong


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml"))
    if not found:
        raise PolicyError([Problem(str(path), 1, "a folder without any file of policies (*.yaml)")])
    return found


def _composed(path: Path) -> Any:
    """The file as a tree of nodes."""
    try:
        import yaml
    except ImportError:
        raise MissingDependencyError("a file of policies", extra="management") from None
    line, reason = 1, "empty, and should hold policies"
    try:
        root = yaml.compose(path.read_text(encoding="utf-8-sig"), yaml.SafeLoader)
        if root is not None:
            return root
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        reason = "not UTF-8 text"
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        reason = f"not YAML: {getattr(error, 'problem', None) or error}"
    raise PolicyError([Problem(str(path), line, reason)])


def _said_twice(policies: Iterable[Policy]) -> list[Problem]:
    first: dict[str, Policy] = {}
    problems = []
    for policy in policies:
        before = first.setdefault(policy.name, policy)
        if before is not policy:
            where = f"{before.path}, line {before.line}"
            reason = f"there is a policy {policy.name!r} already: {where}"
            problems.append(Problem(policy.path, policy.line, reason))
    return problems


def _below(name: str) -> frozenset[str]:
    """The types of report that are of that class of the management ontology."""
    ontology, start = terms.ontology(), terms.NAMESPACE
    return frozenset(each for each in _ABOUT if ontology.is_subclass(start + each, start + name))


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _guess(given: str, known: Iterable[str]) -> str:
    close = get_close_matches(given, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
