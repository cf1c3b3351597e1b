"""Policies: when something is reported, or every so often, and a condition holds, do something.

They are data, read from YAML files by `policy_file`:

    policies:
      - name: place-new-subscribers
        on: SubscriberInfo                # a class of management messages, or any class above it
        of: subscriber
        when: overlay.brokers >= 2 && subscriber.medoid != ''
        do: place-subscriber
        at_most: 100 per minute
        again_after: 10 s                 # not for the same object before then

With `every: 30 s` instead of `on`, the condition is asked of all objects `of` a kind; without `of`,
of the overlay alone. `choose: {highest: broker.spread}` does it for one only: of those for which
the condition holds, the one with the highest (or lowest) value, and of equals the first by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from kbn.management.conditions import Condition, Quantity
from kbn.management.rate import Rate
from kbn.management.schema import Kind

SHIPPED = Path(__file__).parent / "policies"
"""The folder of the policies that come with kbn."""


class ParameterType(StrEnum):
    """What an action's parameter is; the values are how we call them."""

    DURATION = "a time, such as 30 s"
    COUNT = "a whole number from 1"
    NUMBER = "a number above 0"
    TEXT = "a text"
    FLAG = "true or false"
    PLANNER = "taxonomic, traffic, balanced, topic or rendezvous"
    MESSAGE = "a text, in which {subscriber.name} stands for a field"


@dataclass(frozen=True, slots=True)
class ActionType:
    """An action there is: what it may be done to, and its parameters.

    `needs` names kinds of objects; () when it needs none. `contradicts` is the family of actions of
    which only one is done to the same object at the same moment; None: any number.
    """

    needs: tuple[Kind, ...] = ()
    required: Mapping[str, ParameterType] = field(default_factory=dict)
    optional: Mapping[str, ParameterType] = field(default_factory=dict)
    contradicts: str | None = None


_ANY: tuple[Kind, ...] = ("broker", "subscriber", "publisher")
_CLIENTS: tuple[Kind, ...] = ("subscriber", "publisher")
_INTERVAL = {"interval": ParameterType.DURATION}

ACTIONS: Mapping[str, ActionType] = {
    "place-subscriber": ActionType(("subscriber",), contradicts="placement"),
    "place-publisher": ActionType(("publisher",), contradicts="placement"),
    "recluster": ActionType(_CLIENTS, contradicts="placement"),
    "move-broker": ActionType(
        ("broker",), required={"to": ParameterType.TEXT}, contradicts="placement"
    ),
    "split-broker": ActionType(("broker",), contradicts="placement"),
    "cluster-brokers": ActionType(
        optional={"neighbours_max": ParameterType.COUNT}, contradicts="placement"
    ),
    "request-notification-reports": ActionType(optional=_INTERVAL, contradicts="hops"),
    "request-broker-medoids": ActionType(
        optional={**_INTERVAL, "groups": ParameterType.COUNT}, contradicts="broker medoids"
    ),
    "request-publisher-medoids": ActionType(optional=_INTERVAL, contradicts="publisher medoids"),
    "request-utilisation": ActionType(optional=_INTERVAL, contradicts="utilisation"),
    "request-subscriptions": ActionType(
        optional={"texts": ParameterType.FLAG}, contradicts="subscriptions"
    ),
    "balance-load": ActionType(optional={"load_max": ParameterType.NUMBER}, contradicts="plan"),
    "replan": ActionType(optional={"planner": ParameterType.PLANNER}, contradicts="plan"),
    "add-broker": ActionType(contradicts="scaling"),
    "retire-broker": ActionType(("broker",), contradicts="scaling"),
    "mark": ActionType(
        _ANY, required={"mark": ParameterType.TEXT}, optional={"only": ParameterType.FLAG}
    ),
    "unmark": ActionType(_ANY, required={"mark": ParameterType.TEXT}),
    "log": ActionType(required={"message": ParameterType.MESSAGE}),
}


@dataclass(frozen=True, slots=True)
class Action:
    """One action with its parameters; times are in seconds."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def family(self) -> str | None:
        """What it may contradict: see `ActionType.contradicts`."""
        if self.name in ("mark", "unmark"):
            return f"mark {self.parameters['mark']}"
        return ACTIONS[self.name].contradicts


@dataclass(frozen=True, slots=True)
class Choice:
    """Only the one with the highest or lowest value."""

    quantity: Quantity
    is_highest: bool


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy. Equal ones do the same, wherever they stand."""

    name: str
    do: tuple[Action, ...]
    when: Condition | None = None
    of: Kind | None = None
    on: str | None = None
    every_s: float | None = None
    choose: Choice | None = None
    at_most: Rate | None = None
    again_after_s: float | None = None
    enabled: bool = True
    reports: frozenset[str] = frozenset()  # the types of report that `on` names
    description: str = field(default="", compare=False)
    path: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)

    @property
    def trigger(self) -> str:
        return f"on {self.on}" if self.on else f"every {self.every_s:g} s"


@dataclass(frozen=True, slots=True)
class PolicySet:
    """Policies in their order: of two that contradict each other, the first has its way."""

    policies: tuple[Policy, ...] = ()

    @classmethod
    def load(cls, paths: str | Path | Iterable[str | Path]) -> PolicySet:
        """The policies of files and folders, all or none: ConfigError tells what is wrong."""
        from kbn.management.policy_file import read_policies

        several = [paths] if isinstance(paths, str | Path) else list(paths)
        return cls(tuple(read_policies([Path(path) for path in several])))

    @classmethod
    def shipped(cls) -> PolicySet:
        """The policies that come with kbn."""
        return cls.load(SHIPPED)

    def __iter__(self) -> Iterator[Policy]:
        return iter(self.policies)

    def __len__(self) -> int:
        return len(self.policies)

    def __getitem__(self, name: str) -> Policy:
        """The policy of that name."""
        for policy in self.policies:
            if policy.name == name:
                return policy
        raise KeyError(name)
