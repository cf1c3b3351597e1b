"""What a file of policies may say: its form, and the times and rates that are written as texts.

What actions there are, and their parameters, is declared in `policies`; each has a form made from
that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kbn.config import AS_WRITTEN, Form
from kbn.management.policies import ACTIONS, ParameterType
from kbn.management.schema import Kind

TEXT_LENGTH_MAX = 1_000

_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3_600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
}
_UNIT = f"({'|'.join(_UNITS)})"
_DURATION = rf"^(\d+(?:\.\d+)?)\s*{_UNIT}\Z"
_RATE = rf"^(\d+)\s+per\s+(?:(\d+(?:\.\d+)?)\s*)?{_UNIT}\Z"


def _text(description: str, pattern: str, length_max: int | None = TEXT_LENGTH_MAX) -> Meta:
    return Meta(pattern=pattern, max_length=length_max, description=description, extra=AS_WRITTEN)


PolicyName = Annotated[
    str, _text("a name: letters, digits and - _ . only", r"^[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
]
Duration = Annotated[str, _text("a time such as 500 ms, 30 s, 2 min, 1 h or 1 d", _DURATION)]
RateText = Annotated[str, _text("a rate such as 100 per minute or 5 per 30 s", _RATE)]
Line = Annotated[str, _text("a text", r"\S")]
Expression = Annotated[str, _text("a text", r"\S", None)]
Count = Annotated[
    int, Meta(ge=1, le=999_999_999, description=ParameterType.COUNT.value, extra=AS_WRITTEN)
]
Number = Annotated[
    float, Meta(gt=0, le=1e9, description=ParameterType.NUMBER.value, extra=AS_WRITTEN)
]
if TYPE_CHECKING:
    Name = str
else:
    Name = Literal[tuple(ACTIONS)]
ActionName = Annotated[Name, Meta(description="the name of an action")]


class ActionHead(msgspec.Struct, frozen=True):
    """An action with parameters: its name says which form the whole has, see `ACTION_FORMS`."""

    action: ActionName


class ChoiceForm(Form, frozen=True):
    """Only the one with the highest or lowest value."""

    highest: Expression | None = None
    lowest: Expression | None = None


Actions = Annotated[list[ActionName | ActionHead], Meta(min_length=1, description="a list")]


class PolicyForm(Form, frozen=True):
    """One policy. All of it may be unset: what is right is read although something is wrong."""

    name: PolicyName | UnsetType = UNSET
    description: Line | UnsetType = UNSET
    enabled: bool = True
    on: Line | UnsetType = UNSET
    every: Duration | UnsetType = UNSET
    of: Kind | UnsetType = UNSET
    when: Expression | UnsetType = UNSET
    choose: ChoiceForm | UnsetType = UNSET
    do: ActionName | ActionHead | Actions | UnsetType = UNSET
    at_most: RateText | UnsetType = UNSET
    again_after: Duration | UnsetType = UNSET


class PoliciesForm(Form, frozen=True):
    """The whole file; each of the policies is a `PolicyForm`."""

    policies: Annotated[list[Any], Meta(description="a list of policies, each with - name: …")]


_PARAMETERS: dict[ParameterType, Any] = {
    ParameterType.DURATION: Duration,
    ParameterType.COUNT: Count,
    ParameterType.NUMBER: Number,
    ParameterType.FLAG: bool,
    ParameterType.PLANNER: Literal["taxonomic", "traffic", "balanced", "topic", "rendezvous"],
    ParameterType.TEXT: Line,
    ParameterType.MESSAGE: Line,
}

ACTION_FORMS: dict[str, type[msgspec.Struct]] = {
    name: msgspec.defstruct(
        name,
        [
            ("action", str),
            *((each, _PARAMETERS[kind]) for each, kind in type.required.items()),
            *((each, _PARAMETERS[kind] | UnsetType, UNSET) for each, kind in type.optional.items()),
        ],
        forbid_unknown_fields=True,
    )
    for name, type in ACTIONS.items()
}
"""The form of each action with its parameters, by the name of the action."""


def seconds(duration: str) -> float:
    """The seconds of a `Duration`.

    >>> seconds("1.5 min")
    90.0
    """
    found = re.match(_DURATION, duration)
    assert found is not None, duration
    return float(found[1]) * _UNITS[found[2]]


def count_and_seconds(rate: str) -> tuple[int, float]:
    """How many of a `RateText`, and in how many seconds.

    >>> count_and_seconds("5 per 30 s")
    (5, 30.0)
    """
    found = re.match(_RATE, rate)
    assert found is not None, rate
    return int(found[1]), float(found[2] or 1) * _UNITS[found[3]]
