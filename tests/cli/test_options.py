"""Options declared as the fields of a dataclass reach a command as one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
import typer

from kbn.cli.options import with_options


@dataclass(frozen=True, kw_only=True)
class Size:
    width: Annotated[int, typer.Option("--width", "-w")] = 1
    height: Annotated[int, typer.Option("--height")] = 2


@dataclass(frozen=True, kw_only=True)
class Box:
    name: Annotated[str, typer.Option("--name")]
    size: Size
    label: Annotated[list[str], typer.Option("--label")] = field(default_factory=list)


WIDE = Size(width=9)


def called_with(*arguments: str) -> dict[str, Any]:
    """What a small command is called with, for such a command line."""
    calls: list[dict[str, Any]] = []
    app = typer.Typer()

    @app.command()
    @with_options
    def small(*, word: str, box: Box, times: Annotated[int, typer.Option("--times")] = 3) -> None:
        """A command."""
        calls.append({"word": word, "box": box, "times": times})

    app(arguments, standalone_mode=False)
    return calls[0]


def test_fields_become_options_also_those_of_a_group_within() -> None:
    given = called_with("pack", "--name", "a", "-w", "5", "--label", "x", "--label", "y")
    box = Box(name="a", size=Size(width=5), label=["x", "y"])
    assert given == {"word": "pack", "box": box, "times": 3}


def test_what_is_not_given_has_the_default_of_its_field() -> None:
    assert called_with("pack", "--name", "a")["box"] == Box(name="a", size=Size())


def test_a_field_without_a_default_must_be_given() -> None:
    with pytest.raises(typer.BadParameter):
        called_with("pack")


def test_a_default_of_the_parameter_is_the_default_of_its_options() -> None:
    calls: list[Size] = []
    app = typer.Typer()

    @app.command()
    @with_options
    def small(size: Size = WIDE) -> None:
        """A command."""
        calls.append(size)

    app(["--height", "4"], standalone_mode=False)
    assert calls == [Size(width=9, height=4)]


def test_two_options_of_one_name_are_a_mistake_of_ours() -> None:
    def wrong(first: Size, second: Size) -> None:
        """A command."""

    with pytest.raises(AssertionError, match="share a name"):
        with_options(wrong)
