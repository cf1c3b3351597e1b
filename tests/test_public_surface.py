"""`import kbn` gives what the tutorial uses, says so, and nothing else."""

from __future__ import annotations

import ast
import enum
import inspect
import re
import tomllib
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path

import pytest

import kbn

ROOT = Path(__file__).parent.parent

PUBLIC = {
    *("Ontology", "Class", "Property", "Individual"),
    *("Bag", "Notification", "Filter", "Subscription"),
    *("Matcher", "Matches"),
    *("Network", "connect", "Client"),
    *("SemanticMap", "Medoid", "clusters", "Clusters", "plan", "Plan"),
    *("publisher_groups", "Groups"),
    *("KbnError", "InvalidInputError", "LimitError", "FilterSyntaxError", "UnknownTermError"),
    *("OntologyError", "RemotePeerError", "TransportError", "MissingDependencyError"),
    "__version__",
}


def test_all_is_exactly_what_is_public() -> None:
    assert set(kbn.__all__) == PUBLIC
    assert dir(kbn) == sorted(PUBLIC)
    assert list(kbn.__all__) == sorted(kbn.__all__)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(kbn, name) is not None


def test_a_star_import_gives_every_public_name() -> None:
    given: dict[str, object] = {}
    exec("from kbn import *", given)
    assert given.keys() >= PUBLIC


def test_every_public_error_is_a_kbn_error_and_every_kbn_error_is_public() -> None:
    from kbn import errors

    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, kbn.KbnError)
    }
    assert defined <= PUBLIC


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Mather"):
        _ = kbn.Mather  # type: ignore[attr-defined]


def test_type_checkers_and_the_lazy_table_agree() -> None:
    tree = ast.parse((ROOT / "src/kbn/__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == kbn._HOMES


def test_the_version_is_one_and_the_changelog_knows_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["dynamic"] == ["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", kbn.__version__)
    assert kbn.__version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_package_is_typed() -> None:
    assert (ROOT / "src/kbn/py.typed").exists()


# The doors whose functions and classes each carry an example that runs (pytest runs them).
DOORS_WITH_EXAMPLES = [
    "kbn.data",
    "kbn.filters",
    "kbn.grouping",
    "kbn.matching",
    "kbn.ontology",
    "kbn.pages",
    "kbn.placement",
]


def shown_with_example(door: str) -> Iterator[tuple[str, object]]:
    """The functions of a door, and the classes that do more than hold values."""
    room = import_module(door)
    for name in room.__all__:
        shown = getattr(room, name, None)
        if inspect.isfunction(shown) or (inspect.isclass(shown) and not is_record(shown)):
            yield name, shown


def is_record(shown: type) -> bool:
    """Whether a class holds values only: the function that makes it has the example."""
    values = (enum.Enum, tuple, BaseException)
    return is_dataclass(shown) or issubclass(shown, values)


def docstrings(shown: object) -> Iterator[str]:
    yield shown.__doc__ or ""
    if inspect.isclass(shown):
        for part in vars(shown).values():
            yield getattr(part, "__doc__", None) or ""


@pytest.mark.parametrize("door", DOORS_WITH_EXAMPLES)
def test_what_a_front_door_shows_carries_an_example(door: str) -> None:
    without = [
        name
        for name, shown in shown_with_example(door)
        if not any(">>>" in text for text in docstrings(shown))
    ]
    assert not without, f"{door}: give an example to {', '.join(without)}"
