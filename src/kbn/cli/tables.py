"""Tables for people, laid out for the width there is.

A number is never broken: a column of numbers is at least as wide as its longest one, and aligned to
the right. Text wraps into what is left. A table whose columns do not fit side by side even then is
printed in parts, one below the other, each with the first columns again, as many as tell the rows
apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

GAP = 2

# Up to this length a word of a text is not broken either.
WORD_MAX = 28

# 1,234 · -0.5 · 1e-06 · 12.3% · 4.5 MB · ×3
NUMBER = re.compile(r"×?[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?( ?(%|[kMG]?B|[mµ]?s|×))?|[-–]|nan|inf")


@dataclass(frozen=True, slots=True)
class Column:
    """A name and the cells below it."""

    name: str
    cells: tuple[str, ...]

    @property
    def is_number(self) -> bool:
        """Whether every cell that is not empty is a number, with or without a unit."""
        filled = [cell for cell in self.cells if cell]
        return bool(filled) and all(NUMBER.fullmatch(cell) for cell in filled)

    @property
    def width_max(self) -> int:
        """The width at which nothing wraps."""
        return max(_width(line) for text in (self.name, *self.cells) for line in text.split("\n"))

    @property
    def width_min(self) -> int:
        """The width below which a number, a word or the name would be broken."""
        name = max(_width(word) for word in self.name.split(" "))
        if self.is_number:
            return max(name, *(_width(cell) for cell in self.cells))
        words = (word for cell in self.cells for word in cell.split())
        return max(name, min(WORD_MAX, max(map(_width, words), default=0)))


def tables(rows: Iterable[Sequence[str]], columns: Sequence[str], width: int) -> list[Table]:
    """The rows under their column names, as tables of at most that width to print in turn."""
    listed = list(rows)
    whole = [
        Column(name, tuple(row[place] for row in listed)) for place, name in enumerate(columns)
    ]
    return [_table(part, width) for part in divided(whole, width)]


def divided(columns: Sequence[Column], width: int) -> list[list[Column]]:
    """The columns in parts that fit the width, each of which begins with the columns of the key."""
    key = _key(columns, width)
    parts = [key]
    for column in columns[len(key) :]:
        if len(parts[-1]) > len(key) and _width_min([*parts[-1], column]) > width:
            parts.append(key)
        parts[-1] = [*parts[-1], column]
    return parts


def _key(columns: Sequence[Column], width: int) -> list[Column]:
    """The first columns that tell the rows apart; one, if those would take half of the width."""
    for count in range(1, len(columns)):
        key = list(columns[:count])
        if _width_min(key) > width // 2:
            break
        rows = list(zip(*(column.cells for column in key), strict=True))
        if len(set(rows)) == len(rows):
            return key
    return list(columns[:1])


def widths(columns: Sequence[Column], width: int) -> list[int]:
    """The width of each column: what it must have; what is left goes to where most is to wrap."""
    given = [column.width_min for column in columns]
    wanted = [column.width_max for column in columns]
    for _ in range(width - _width_min(columns)):
        needy = [place for place, wants in enumerate(wanted) if given[place] < wants]
        if not needy:
            break
        given[max(needy, key=lambda place: wanted[place] / given[place])] += 1
    return given


def _width_min(columns: Sequence[Column]) -> int:
    return sum(column.width_min for column in columns) + GAP * (len(columns) - 1)


def _width(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def _table(columns: Sequence[Column], width: int) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, GAP - 1, 0, 0))
    for column, wide in zip(columns, widths(columns, width), strict=True):
        justify = "right" if column.is_number else "left"
        # Text, not str: a value such as "[red]" is data, not markup.
        made.add_column(Text(column.name), justify=justify, overflow="fold", width=wide)  # type: ignore[arg-type]
    for row in zip(*(column.cells for column in columns), strict=True):
        made.add_row(*(Text(cell) for cell in row))
    return made
