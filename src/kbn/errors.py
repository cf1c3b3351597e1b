"""Every error kbn raises on purpose, arranged by who can act on it.

An exception from outside this tree is a bug of ours. Each error carries its facts as attributes, so
that a program can act on them, and says in its message what is wrong, where, and what to do next.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kbn.wording import did_you_mean


class KbnError(Exception):
    """The root of everything kbn raises on purpose.

    Comes whole through pickling: an error in a worker process is told in the one that asked.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[KbnError], args: tuple[Any, ...], facts: dict[str, Any]) -> KbnError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(facts)
    return error


class InvalidInputError(KbnError, ValueError):
    """The caller passed something that cannot mean anything; nothing was changed."""


class LimitError(InvalidInputError):
    """The input is well formed but larger or deeper than the stated limit.

    `limit` names the bound and `maximum` is its value.
    """

    def __init__(self, message: str, *, limit: str, maximum: int) -> None:
        super().__init__(message)
        self.limit = limit
        self.maximum = maximum


class FilterSyntaxError(InvalidInputError):
    """The text of a filter or subscription does not follow the grammar.

    `text` is the whole input, `position` the offset of the first character that does not fit,
    `expected` what could have stood there. The message shows the line with a caret under it.
    """

    def __init__(
        self, reason: str, *, text: str, position: int, expected: tuple[str, ...] = ()
    ) -> None:
        self.reason = reason
        self.text = text
        self.position = position
        self.expected = expected
        super().__init__(self._render())

    def _render(self) -> str:
        position = min(max(self.position, 0), len(self.text))
        line_start = self.text.rfind("\n", 0, position) + 1
        line_end = self.text.find("\n", position)
        line = self.text[line_start : line_end if line_end >= 0 else len(self.text)]
        column = position - line_start
        number = self.text.count("\n", 0, line_start) + 1
        first = max(0, column - 60)
        shown = line[first : first + 120]
        caret = " " * (column - first) + "^"
        message = f"line {number}, column {column + 1}: {self.reason}\n  {shown}\n  {caret}"
        if self.expected:
            message += "\n  expected " + ", ".join(self.expected)
        return message


class UnknownTermError(InvalidInputError):
    """A subscription names a term the ontology does not define.

    `term` is the IRI as given, `closest` the nearest names the ontology does define, best first.
    `labels` are those of the closest that say more than the name.
    """

    def __init__(
        self,
        term: str,
        *,
        closest: tuple[str, ...] = (),
        kind: str = "term",
        reason: str = "",
        labels: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.term = term
        self.closest = closest
        self.kind = kind
        message = reason or f"the ontology defines no {kind} <{term}>"
        shown = (
            f"<{name}> ({labels[name]})" if name in labels else f"<{name}>" for name in closest
        )
        super().__init__(message + did_you_mean(shown))


class OntologyError(KbnError):
    """An ontology cannot be read, is inconsistent, or asks for what the chosen level cannot give.

    `path` and `line` say where when that is known (several files by commas), `explanation` lists
    the details (for instance the unsatisfiable classes), one string each; the message shows the
    first of them, a line each.
    """

    SHOWN_MAX = 20

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        line: int | None = None,
        explanation: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self.line = line
        self.explanation = explanation
        where = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        lines = [where + message, *explanation[: self.SHOWN_MAX]]
        if len(explanation) > self.SHOWN_MAX:
            lines.append(f"… and {len(explanation) - self.SHOWN_MAX} more")
        super().__init__("\n  ".join(lines))


class RemotePeerError(KbnError):
    """Another broker or a client does what it must not: nobody here can act but drop it.

    `peer` names it when that is known.
    """

    def __init__(self, message: str, *, peer: str = "") -> None:
        self.peer = peer
        super().__init__(f"{peer}: {message}" if peer else message)


class TransportError(KbnError):
    """A broker cannot be reached, or the connection to it was lost: try again later."""


class MissingDependencyError(KbnError):
    """An optional part of kbn is needed and not installed; the message names the extra."""

    def __init__(self, feature: str, *, extra: str) -> None:
        self.extra = extra
        super().__init__(f"{feature} needs an optional part: pip install 'kbn[{extra}]'")
