"""Faults: every value in plain data that does not fit its type, with its path.

`msgspec.convert` stops at the first fault. When it refuses some data, this module tries the parts
of the data, and the parts of those, until it knows every innermost value that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_origin

import msgspec

from kbn.config import forms
from kbn.config.closest import or_one_of
from kbn.config.problems import Path
from kbn.wording import close_names


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with the value at a path, or (`of_key`) with its key."""

    path: Path
    reason: str
    of_key: bool = False


def faults(data: Any, type: Any, *, shows_values: bool = True) -> Iterator[Fault]:
    """Every fault in the data; none when the data fits the type."""
    return _Search(shows_values).faults(data, type, ())


@dataclass(frozen=True, slots=True)
class _Search:
    """Goes from a wrong value to the wrong values inside it."""

    shows_values: bool

    def faults(self, data: Any, type: Any, path: Path) -> Iterator[Fault]:
        try:
            msgspec.convert(data, type)
            return
        except msgspec.ValidationError:
            pass
        inner = list(self._inner(data, type, path))
        yield from inner or [Fault(path, self._reason(data, type))]

    def _inner(self, data: Any, type: Any, path: Path) -> Iterator[Fault]:
        if isinstance(data, list) and _has(type, list, tuple):
            for number, each in enumerate(data):
                yield from self.faults(each, forms.inside(type, number), (*path, number))
        if not isinstance(data, dict):
            return
        for member in forms.members(type):
            plain = forms.unannotated(member)
            if forms.is_form(plain):
                yield from self._in_form(data, plain, path)
            elif get_origin(plain) is dict:
                name, inner = get_args(plain)
                yield from self._in_mapping(data, name, inner, path)

    def _in_mapping(
        self, data: dict[Any, Any], name: Any, type: Any, path: Path
    ) -> Iterator[Fault]:
        for key, value in data.items():
            for fault in self.faults(key, name, path):
                yield Fault((*path, str(key)), f"as a name, {fault.reason}", of_key=True)
            yield from self.faults(value, type, (*path, str(key)))

    def _in_form(self, data: dict[Any, Any], form: Any, path: Path) -> Iterator[Fault]:
        known = forms.fields(form)
        for name, value in data.items():
            if name in known:
                yield from self.faults(value, known[name].type, (*path, name))
            elif form.__struct_config__.forbid_unknown_fields:
                reason = "unknown key" + or_one_of(str(name), known)
                yield Fault((*path, str(name)), reason, of_key=True)
        # A misspelt key is reported once, and not as missing too.
        meant = {one for name in data if name not in known for one in close_names(str(name), known)}
        for name, field in known.items():
            if field.required and name not in data and name not in meant:
                yield Fault((*path, name), f"is missing; expected {forms.described(field.type)}")

    def _reason(self, data: Any, type: Any) -> str:
        """The message about one wrong value."""
        choices = forms.choices(type)
        if choices and isinstance(data, str):
            return f"{data!r:.60} is unknown{or_one_of(data, choices)}"
        longest = max((_length_max(each) for each in forms.members(type)), default=0)
        if isinstance(data, str) and 0 < longest < len(data):
            return f"longer than {longest} characters; at most that many are allowed"
        found, advice = self._instead_of(data), _advice_to_quote(data, type)
        return f"expected {forms.described(type)}{found}{advice}"

    def _instead_of(self, data: Any) -> str:
        if data is None:
            return ", not nothing"
        return f", not {data!r:.60}" if self.shows_values else ""


def _length_max(type: Any) -> int:
    found = forms.meta(type)
    return 0 if found is None or forms.unannotated(type) is not str else found.max_length or 0


def _has(type: Any, *origins: Any) -> bool:
    return any(get_origin(forms.unannotated(each)) in origins for each in forms.members(type))


def _advice_to_quote(data: Any, type: Any) -> str:
    """Advice for text without quotes: YAML reads `no` as false and `12` as a number."""
    expects_text = any(forms.unannotated(each) is str for each in forms.members(type))
    return "; put it in quotes" if expects_text and isinstance(data, bool | int | float) else ""
