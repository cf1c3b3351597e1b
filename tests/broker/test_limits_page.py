"""The page of limits: every limit stands on it once, with the default it has."""

from __future__ import annotations

import re
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kbn.broker import BrokerLimits, ClientLimits, ServerLimits

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "limits.md"


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading."""
    section = PAGE.read_text("utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def defaults(*kinds: type[Any]) -> dict[str, Any]:
    return {each.name: each.default for kind in kinds for each in fields(kind)}


@pytest.mark.parametrize(
    ("heading", "kinds"),
    [
        ("Limits of a client", (ClientLimits,)),
        ("Limits of a broker", (BrokerLimits, ServerLimits)),
    ],
)
def test_every_limit_that_can_be_set_is_on_the_page_with_its_default(
    heading: str, kinds: tuple[type[Any], ...]
) -> None:
    found = {cells[0].strip("`"): float(cells[1].replace(",", "")) for cells in rows(heading)}
    assert found == defaults(*kinds)
    assert len(rows(heading)) == len(found)


@pytest.mark.parametrize("heading", ["Limits of a client", "Limits of a broker"])
def test_each_has_a_unit_that_fits_its_name_and_says_what_happens(heading: str) -> None:
    for name, _, unit, bounds, reached in rows(heading):
        assert bounds and reached, name
        if name.strip("`").endswith("_s"):
            assert unit == "seconds", name
        if name.strip("`").endswith("_bytes"):
            assert unit in ("bytes", "characters"), name


def test_what_cannot_be_set_has_the_value_of_its_constant() -> None:
    for what, constant, value, reached in rows("Limits that cannot be set"):
        module, _, name = constant.strip("`").rpartition(".")
        found = getattr(import_module(f"kbn.{module}"), name)
        assert found == int(value.replace(",", "")), constant
        assert what and reached


def test_the_numbers_named_in_the_text_are_limits() -> None:
    text = PAGE.read_text("utf-8").partition("## Limits of a client")[0]
    known = defaults(ClientLimits, BrokerLimits, ServerLimits)
    for name in re.findall(r"`([a-z]+(?:_[a-z]+)*)`", text):
        assert name in known or name in ("block", "limits") or name.startswith("kbn_"), name
