"""What is wrong in a configuration, and where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kbn.errors import InvalidInputError

Path = tuple[str | int, ...]
"""The way to a value: names of keys and numbers of items, from the root."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong; lines and columns count from 1.

    >>> print(Problem("overlay.yaml", "unknown key", ("brokers", "east", "prot"), 3))
    overlay.yaml:3: brokers.east.prot: unknown key
    """

    file: str
    reason: str
    path: Path = ()
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = ":".join(str(each) for each in (self.file, self.line, self.column) if each)
        return ": ".join(filter(None, (place, shown_path(self.path), self.reason)))


class ConfigError(InvalidInputError):
    """A configuration cannot be used: all that is wrong with it, in `problems`.

    The message shows the first of them, a line each.
    """

    SHOWN_MAX = 20

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [str(each) for each in self.problems[: self.SHOWN_MAX]]
        if len(self.problems) > self.SHOWN_MAX:
            lines.append(f"… and {len(self.problems) - self.SHOWN_MAX} more")
        super().__init__("\n".join(lines))


def shown_path(path: Path) -> str:
    """The path as people write it.

    >>> shown_path(("notifications", 0, "path"))
    'notifications[0].path'
    """
    shown = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)
    return shown.removeprefix(".")
