"""Help as a person reads it: in a terminal of 80 columns."""

from __future__ import annotations

import re
from functools import cache

import pytest
from typer.testing import CliRunner

from kbn.cli.app import app

WIDTH = 80


@cache
def help_of(*command: str) -> str:
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": str(WIDTH)})
    assert result.exit_code == 0, result.output
    return result.output


def listed(text: str) -> list[tuple[str, str]]:
    """The commands that a help lists, each with what is said of it."""
    _, _, commands = text.partition("Commands:\n")
    return re.findall(r"^  ([a-z][a-z-]+) +(.*)$", commands, re.MULTILINE)


def all_commands() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [()]
    for name, _ in listed(help_of()):
        found += [(name,), *((name, below) for below, _ in listed(help_of(name)))]
    return found


@pytest.mark.parametrize("command", all_commands(), ids=" ".join)
def test_help_fits_into_eighty_columns(command: tuple[str, ...]) -> None:
    text = help_of(*command)
    assert [line for line in text.splitlines() if len(line) > WIDTH] == []


@pytest.mark.parametrize("command", all_commands(), ids=" ".join)
def test_what_is_said_of_a_command_in_a_list_is_not_cut_short(command: tuple[str, ...]) -> None:
    assert [said for _, said in listed(help_of(*command)) if said.endswith("...")] == []
