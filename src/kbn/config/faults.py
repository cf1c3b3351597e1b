"""Faults: why plain data is not of a type, at the innermost place of each.

`msgspec.convert` says yes or no, and stops at the first fault. When it says no, this module asks it
about the parts, and the parts of those, until it knows every value that is wrong and its path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import msgspec

from kbn.config import forms
from kbn.config.closest import or_one_of
from kbn.config.problems import Path


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with the value at a path, or with its key."""

    path: Path
    reason: str
    of_key: bool = False


def faults(data: Any, type: Any, path: Path = ()) -> Iterator[Fault]:
    """All that is wrong; nothing when the data is of the type."""
    try:
        msgspec.convert(data, type)
        return
    except msgspec.ValidationError:
        pass
    found = False
    for fault in _inner(data, type, path):
        found = True
        yield fault
    if not found:
        yield Fault(path, _reason(data, type))


def _inner(data: Any, type: Any, path: Path) -> Iterator[Fault]:
    if isinstance(data, dict):
        yield from _of_mapping(data, type, path)
    elif isinstance(data, list) and _has(type, list, tuple):
        for number, each in enumerate(data):
            yield from faults(each, forms.inside(type, number), (*path, number))


def _of_mapping(data: dict[Any, Any], type: Any, path: Path) -> Iterator[Fault]:
    for member in forms.members(type):
        plain = forms.unannotated(member)
        if forms.is_form(plain):
            yield from _of_form(data, plain, path)
        elif get_origin(plain) is dict:
            for key, value in data.items():
                for fault in faults(key, get_args(plain)[0], path):
                    yield Fault((*path, str(key)), f"as a name, {fault.reason}", of_key=True)
                yield from faults(value, get_args(plain)[1], (*path, str(key)))


def _of_form(data: dict[Any, Any], form: Any, path: Path) -> Iterator[Fault]:
    known = forms.fields(form)
    for name, value in data.items():
        if name in known:
            yield from faults(value, known[name].type, (*path, name))
        else:
            reason = "unknown key" + or_one_of(str(name), known)
            yield Fault((*path, str(name)), reason, of_key=True)
    for name, field in known.items():
        if field.required and name not in data:
            yield Fault((*path, name), f"is missing; expected {forms.described(field.type)}")


def _reason(data: Any, type: Any) -> str:
    """What to say about one value that is wrong."""
    choices = [
        each
        for member in forms.members(type)
        if get_origin(forms.unannotated(member)) is Literal
        for each in get_args(forms.unannotated(member))
    ]
    if choices and isinstance(data, str):
        return f"{data!r:.60} is unknown{or_one_of(data, choices)}"
    if choices and len(forms.scalars(type)) == 1:
        return f"expected {', '.join(choices)}, not {_shown(data)}"
    longest = max((_length_max(each) for each in forms.members(type)), default=0)
    if isinstance(data, str) and 0 < longest < len(data):
        return f"longer than {longest} characters; at most that many are allowed"
    return f"expected {forms.described(type)}, not {_shown(data)}{_quoting(data, type)}"


def _length_max(type: Any) -> int:
    found = forms.meta(type)
    return 0 if found is None or forms.unannotated(type) is not str else found.max_length or 0


def _has(type: Any, *origins: Any) -> bool:
    return any(get_origin(forms.unannotated(each)) in origins for each in forms.members(type))


def _shown(data: Any) -> str:
    return "nothing" if data is None else f"{data!r:.60}"


def _quoting(data: Any, type: Any) -> str:
    """YAML reads `no` as false and `12` as a number."""
    expects_text = any(forms.unannotated(each) is str for each in forms.members(type))
    return "; put it in quotes" if expects_text and isinstance(data, bool | int | float) else ""
