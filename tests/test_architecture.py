"""The map of the rooms stays true: imports point down, and what is declared is what is used."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from tests.walks import LINK, walks

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "kbn"

# From the top of the house down; rooms on one row do not know each other.
ROWS = [
    "cli",
    "lab",
    "spark",
    "transport simulation",
    "management peering",
    "broker",
    "matching placement grouping",
    "filters",
    "ontology",
    "config",
    "pages",
    "errors",
]
HEIGHT = {room: -depth for depth, row in enumerate(ROWS) for room in row.split()}

# The shipped ontologies are for examples and experiments: the rooms between work without them, but
# for management, whose messages are in the terms of one.
MAY_USE_DATA = {"cli", "lab", "management", "simulation"}

# What belongs to the shells: below them nobody opens a socket, rolls rng or starts Spark.
FOR_SHELLS_ONLY = {"asyncio", "random", "socket", "pyspark"}
SHELLS = {"cli", "lab", "transport", "simulation", "spark", "data"}

# Rooms, and the parts of rooms that are entered by their own front door, from their room too.
ROOMS = {f"kbn.{room}" for room in HEIGHT if room not in ("cli", "errors")} | {
    "kbn.spark.io",
    "kbn.spark.pipeline",
}
DOORS = ROOMS | {"kbn.lab.overlay", "kbn.lab.spark"}

USES_THE_LAB = {
    f"cli/{name}.py" for name in ("lab", "bench", "bench_options", "bench_reports", "demo")
}

HEAVY = {
    *("fastobo", "lark", "matplotlib", "msgspec", "numba", "numpy", "owlready2", "psutil"),
    *("pandas", "pyarrow", "pyhornedowl", "pyoxigraph", "pyspark", "rapidfuzz", "rdflib"),
    *("reasonable", "scipy", "yaml"),
}

MODULES = sorted(SOURCE.glob("*/**/*.py"))


def imported_modules(path: Path) -> Iterator[str]:
    """Every module a file imports, wherever in the file it does so."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: import from kbn by its full name"
            assert node.module is not None
            # `from kbn import x` names a room, or a name of the front door.
            yield from (
                [f"kbn.{alias.name}" for alias in node.names]
                if node.module == "kbn"
                else [node.module]
            )


def rooms_known_to(path: Path) -> set[str]:
    named = {name.split(".")[1] for name in imported_modules(path) if name.startswith("kbn.")}
    return {name for name in named if name in HEIGHT or name == "data"}


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0]


def module_id(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_imports_point_down(path: Path) -> None:
    mine = room_of(path)
    known = rooms_known_to(path) - {mine}
    if mine == "data":
        assert known <= {"errors"}, f"data may not know about {known - {'errors'}}"
        return
    if "data" in known:
        assert mine in MAY_USE_DATA, f"{mine} may not know about data"
    for theirs in known - {"data"}:
        assert HEIGHT[theirs] < HEIGHT[mine], f"{mine} may not know about {theirs}"


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_a_room_is_entered_by_its_front_door(path: Path) -> None:
    mine = ".".join(("kbn", *path.relative_to(SOURCE).with_suffix("").parts))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not rooms_entered(str(node.module), mine):
            continue
        assert node.module in DOORS, f"{node.module} is a window: import from its room's __init__"
        shown = names_shown_by(node.module)
        for alias in node.names:
            assert alias.name in shown, f"{node.module} does not show {alias.name}: see __all__"


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_only_experiments_benchmarks_and_the_demo_use_the_lab(path: Path) -> None:
    if room_of(path) == "lab" or module_id(path) in USES_THE_LAB:
        return
    # Also as text: a process may be started by the name of its module.
    assert "kbn.lab" not in path.read_text(encoding="utf-8"), "the product needs nothing of the lab"


def rooms_entered(module: str, mine: str) -> set[str]:
    """The rooms that `module` is in and `mine` is not."""
    return {
        room
        for room in ROOMS
        if f"{module}.".startswith(f"{room}.") and not f"{mine}.".startswith(f"{room}.")
    }


def names_shown_by(package: str) -> set[str]:
    door = SOURCE.joinpath(*package.split(".")[1:]) / "__init__.py"
    for node in ast.parse(door.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


@pytest.mark.parametrize("room", sorted(DOORS))
def test_a_front_door_opens_to_all_it_shows(room: str) -> None:
    package = import_module(room)
    for name in names_shown_by(room):
        assert getattr(package, name, None) is not None or import_module(f"{room}.{name}")


LAZY_DOORS = sorted(
    path
    for path in SOURCE.glob("**/__init__.py")
    if "= on_first_use(" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("path", LAZY_DOORS, ids=module_id)
def test_a_lazy_door_says_the_same_three_times(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = ".".join(("kbn", *path.parent.relative_to(SOURCE).parts))
    homes, shown = homes_of(tree), names_shown_by(package)
    # A module the door shows needs no home: Python finds it by itself.
    modules = {name for name in shown - homes.keys() if is_module(path, name)}
    checked = names_for_type_checkers(tree)
    assert {name: home for name, home in checked.items() if name not in modules} == homes
    assert shown - modules == homes.keys()


def names_for_type_checkers(tree: ast.Module) -> dict[str, str]:
    block = next(node for node in tree.body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    return {
        alias.asname or alias.name: f"{node.module}:{alias.name}"
        if alias.asname
        else str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def homes_of(tree: ast.Module) -> dict[str, str]:
    """The map from names to modules that a lazy door gives to `on_first_use`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "on_first_use":
            return dict(ast.literal_eval(node.args[1]))
    raise AssertionError("no call of on_first_use")


def is_module(door: Path, name: str) -> bool:
    return (door.parent / f"{name}.py").exists() or (door.parent / name / "__init__.py").exists()


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_only_the_shells_meet_the_world(path: Path) -> None:
    if room_of(path) in SHELLS:
        return
    met = {name.split(".")[0] for name in imported_modules(path)} & FOR_SHELLS_ONLY
    assert not met, f"{room_of(path)} may not import {met}: pass what it needs as an argument"


def test_every_room_is_on_the_map() -> None:
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert rooms <= HEIGHT.keys() | {"data"}


def test_every_library_we_import_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for extra in project["optional-dependencies"].values() for line in extra]
    lines = project["dependencies"] + extras
    declared = {_normal(re.split(r"[\[<>=~!; ]", line)[0]) for line in lines}
    used = {
        name.split(".")[0] for path in SOURCE.glob("**/*.py") for name in imported_modules(path)
    }
    third_party = used - set(sys.stdlib_module_names) - {"kbn", "__future__"}
    homes = packages_distributions()
    undeclared = {
        module
        for module in third_party
        if not {_normal(home) for home in homes.get(module, [module])} & declared
    }
    assert not undeclared, f"imported but not in pyproject.toml: {sorted(undeclared)}"


def test_every_dependency_has_its_licence_and_reason_recorded() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for extra in project["optional-dependencies"].values() for line in extra]
    recorded = (ROOT / "docs/reference/dependencies.md").read_text(encoding="utf-8")
    names = {re.split(r"[\[<>=~!; ]", line)[0] for line in project["dependencies"] + extras}
    missing = {name for name in names - {"kbn"} if f"| {name} |" not in recorded}
    assert not missing, f"not in docs/reference/dependencies.md: {sorted(missing)}"


def test_the_lock_pins_exactly_and_names_no_host() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert pins
    for pin in pins:
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.]+", pin), pin


def test_a_change_is_named_for_what_it_is_about() -> None:
    named = re.compile(r"[a-z][a-z-]*\.(added|changed|fixed|removed)\.md")
    files = [path.name for path in (ROOT / "changes").iterdir() if path.name != "README.md"]
    assert not [name for name in files if not named.fullmatch(name)]


@pytest.mark.parametrize("statement", ["import kbn", "from kbn.cli import app"])
def test_the_front_door_opens_without_anything_heavy(statement: str) -> None:
    code = f"{statement}; import sys; print(*sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {name.split(".")[0] for name in told.stdout.split()}
    assert not loaded & HEAVY


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# Walks through the code, in ARCHITECTURE.md.

WALK_MAX = 12


def test_a_publication_a_dataframe_and_a_placement_are_walked_through_in_a_few_steps() -> None:
    assert len(walks()) == 3
    for heading, steps in walks().items():
        assert len(steps) <= WALK_MAX, heading
        assert all(LINK.search(step) for step in steps), heading


LINKED = LINK.findall((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("name", "file"), LINKED, ids=[name for name, _ in LINKED])
def test_every_function_that_the_architecture_links_is_where_it_says(name: str, file: str) -> None:
    nodes: list[ast.stmt] = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
    for part in name.split("."):
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        found = next(
            (each for each in nodes if isinstance(each, kinds) and each.name == part), None
        )
        assert found is not None, f"{file} has no {name}"
        nodes = found.body
