"""What commands print: tables for people, JSON for programs.

Results go to stdout and nothing else does; progress and remarks go to stderr, so a pipe or a
redirection gets the results alone. Colour and width follow the terminal (and NO_COLOR, COLUMNS).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbn.errors import InvalidInputError

if TYPE_CHECKING:
    from rich.console import Console

# A pipe has no width of its own; a table narrower than this folds its cells too soon.
PIPE_WIDTH = 120

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def print_json(data: object) -> None:
    """Print `data` as one JSON document, indented, in UTF-8."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False, default=str))


def print_json_line(data: object) -> None:
    """Print `data` as one line of JSON, for results that come in a stream."""
    typer.echo(json.dumps(data, ensure_ascii=False, default=str))


def console(*, stderr: bool = False) -> Console:
    """A Rich console for stdout or stderr, wide enough when it writes to a pipe."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False, soft_wrap=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made = Console(stderr=stderr, highlight=False, width=PIPE_WIDTH)
    return made


def remark(text: str) -> None:
    """Say something that is not a result, on stderr."""
    typer.echo(text, err=True)


def require_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to, before the work whose result it is to hold."""
    if not folder.is_dir():
        raise InvalidInputError(f"{folder}: there is no such folder")
    if not os.access(folder, os.W_OK):
        raise InvalidInputError(f"{folder}: cannot be written to")


def write_json(data: object, file: Path) -> None:
    """Keep `data` in a file as one JSON document, and say so on stderr."""
    text = json.dumps(data, indent=2, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")
    remark(f"written to {file}")


def remark_on_compiling(*, with_covering: bool = False) -> None:
    """Say so when the matching that follows has to compile its kernels first."""
    from kbn.matching import kernels

    if not kernels.are_compiled(with_covering=with_covering):
        seconds = 40 if with_covering else 20
        remark(f"compiling the matching kernels, once per machine (about {seconds} s)…")


def remark_on_compiling_placement() -> None:
    """Say so when the medoids that follow have to compile their kernels first."""
    from kbn.placement import kernels

    if not kernels.are_compiled():
        remark("compiling the placement kernels, once per machine (about 10 s)…")


def remark_on_compiling_grouping() -> None:
    """Say so when the publisher groups that follow have to compile their kernels first."""
    from kbn.grouping import kernels

    if not kernels.are_compiled():
        remark("compiling the grouping kernels, once per machine (about 10 s)…")


def print_table(
    rows: Iterable[Sequence[str]], *, columns: Sequence[str], title: str | None = None
) -> None:
    """Print rows of plain text under their column names."""
    from kbn.cli.tables import tables

    screen = console()
    if title is not None:
        screen.print(title, markup=False, style="italic")
    for number, table in enumerate(tables(rows, columns, screen.width)):
        if number:
            screen.print()
        screen.print(table)


def print_text(text: str) -> None:
    """Print a text, wrapped between words."""
    console().print(text, markup=False, highlight=False)


def local_time(epoch_s: float) -> str:
    """A moment as people read it: local time, to the second, with the offset from UTC.

    >>> local_time(0.0)[2:4], len(local_time(1e9))
    ('70', 25)
    """
    return datetime.fromtimestamp(epoch_s).astimezone().isoformat(sep=" ", timespec="seconds")


def print_facts(facts: Mapping[str, object]) -> None:
    """Print names and values, one pair a line, values aligned; empty values are left out.

    A value that is longer than the terminal is wide goes on below itself; a pipe gets it whole.
    """
    shown = {name: value for name, value in facts.items() if value not in (None, "", (), [])}
    indent = max((len(name) for name in shown), default=0) + 2
    for name, value in shown.items():
        lines = [str(line) for line in value] if isinstance(value, list | tuple) else [str(value)]
        wrapped = [part for line in lines for part in _wrapped(line, indent)]
        typer.echo(f"{name:<{indent}}{wrapped[0]}")
        for line in wrapped[1:]:
            typer.echo(f"{'':<{indent}}{line}")


def _wrapped(line: str, indent: int) -> list[str]:
    """The line in parts that fit a terminal beside the indent; words are not broken."""
    from textwrap import wrap

    if not (sys.stdout.isatty() or "COLUMNS" in os.environ):
        return [line]
    width = max(1, console().width - indent)
    if len(line) <= width:
        return [line]
    return wrap(line, width, break_long_words=False, break_on_hyphens=False) or [line]


@contextmanager
def progress(wanted: bool = True) -> Iterator[Callable[[str, int, int], None]]:
    """A function (what, done, total) that shows on stderr how far a long job is.

    A total of 0 means that nobody knows how much there is. Nothing is shown in a pipe or when
    `wanted` is false, and the line is gone when the job is done.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    screen = console(stderr=True)
    if not (wanted and screen.is_terminal):
        yield lambda what, done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        yield show
