"""`import kbn` gives what the tutorial uses, says so, and nothing else."""

from __future__ import annotations

import ast
import re
import tomllib
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
