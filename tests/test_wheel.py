"""What is built is what a user installs: a wheel with the core dependencies only, tried as by them.

The one test that reads the network: pip fetches the core dependencies, in the versions of the lock,
from wherever it is set up to.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PATIENCE_S = 600
BUILD = """
import sys
from setuptools import build_meta
print(getattr(build_meta, sys.argv[1])(sys.argv[2]), file=sys.stderr)
"""

pytestmark = pytest.mark.slow


def built(kind: str, tree: Path, into: Path) -> Path:
    """The wheel or the source distribution of a tree of sources."""
    into.mkdir()
    told = subprocess.run(
        [sys.executable, "-c", BUILD, f"build_{kind}", str(into)],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert told.returncode == 0, told.stderr
    (made,) = into.iterdir()
    return made


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution: what a checkout has and git ignores must not be needed."""
    checkout = tmp_path_factory.mktemp("checkout")
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", checkout / "src", ignore=unwanted)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    return built("sdist", checkout, tmp_path_factory.mktemp("sdist") / "dist")


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution, as an installer without a wheel would."""
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sources) as archive:
        archive.extractall(unpacked, filter="data")
    (tree,) = unpacked.iterdir()
    return built("wheel", tree, tmp_path_factory.mktemp("wheel") / "dist")


@pytest.fixture(scope="module")
def kbn(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command `kbn` of an environment that has the wheel and its core dependencies only."""
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", environment], check=True, timeout=PATIENCE_S)
    install = [environment / "bin" / "python", "-m", "pip", "install", "-q", "--no-compile"]
    told = subprocess.run(
        [*install, "--disable-pip-version-check", "-c", ROOT / "requirements.lock", wheel],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert told.returncode == 0, told.stderr
    return environment / "bin" / "kbn"


def run(kbn: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One command, somewhere else than in the checkout, whose sources it must not see."""
    surroundings = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        [kbn, *arguments],
        cwd=folder,
        env=surroundings,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def test_the_wheel_has_every_module_and_every_file_of_data(wheel: Path) -> None:
    package = ROOT / "src" / "kbn"
    wanted = {
        f"kbn/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {Path(name).suffix for name in wanted} >= {".py", ".ttl", ".lark", ".yaml"}
    with zipfile.ZipFile(wheel) as archive:
        assert wanted - set(archive.namelist()) == set()


def test_the_newest_delta_is_installed_beside_it(wheel: Path, tmp_path: Path) -> None:
    """delta-spark 4.4.1 wants Spark 4.2: kbn leaves pip the choice."""
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed"]
    told = subprocess.run(
        [*command, "--report", report, f"{wheel}[spark]", "delta-spark==4.4.1"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert told.returncode == 0, told.stderr
    chosen = json.loads(report.read_text(encoding="utf-8"))["install"]
    named = [each["metadata"] for each in chosen]
    versions = {each["name"].lower().replace("_", "-"): each["version"] for each in named}
    assert versions["pyspark"].startswith("4.2.")
    assert versions["delta-spark"] == "4.4.1"


def test_its_metadata_has_the_readme_and_where_to_ask(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("/METADATA"))
        metadata = message_from_string(archive.read(name).decode())
    links = dict(each.split(", ") for each in metadata.get_all("Project-URL", []))
    assert links.keys() == {"Documentation", "Source", "Issues", "Changelog"}
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().lstrip().startswith("# kbn")


def test_it_tells_its_version(kbn: Path, tmp_path: Path) -> None:
    told = run(kbn, tmp_path, "--version")
    assert (told.stdout, told.stderr, told.returncode) == ("kbn 0.1.0\n", "", 0)


def test_the_quick_demo_runs_with_nothing_optional_installed(kbn: Path, tmp_path: Path) -> None:
    told = run(kbn, tmp_path, "demo", "--quick")
    assert told.returncode == 0, told.stderr
    assert told.stdout


def test_it_matches_files(kbn: Path, tmp_path: Path) -> None:
    (tmp_path / "wants.txt").write_text("ann: price < 10\nbob: price >= 10\n")
    (tmp_path / "posts.jsonl").write_text('{"price": 3}\n{"price": 30}\n')
    told = run(kbn, tmp_path, "match", "-s", "wants.txt", "-n", "posts.jsonl")
    assert told.returncode == 0, told.stderr
    assert [line.split() for line in told.stdout.splitlines()[1:]] == [["1", "ann"], ["2", "bob"]]


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("spark", "demo"),
        ("spark", "bench spark"),
        ("spark", "bench stream"),
        ("spark", "pipeline run pipeline.yaml"),
        ("dl", "ontology show animals --reasoning dl"),
        ("management", "policy check policies.yaml"),
        ("lab", "lab run bags"),
    ],
)
def test_a_missing_extra_is_one_line_that_names_it(
    kbn: Path, tmp_path: Path, extra: str, command: str
) -> None:
    (tmp_path / "pipeline.yaml").write_text("ontology: podcast\n")
    shutil.copy(ROOT / "src/kbn/management/policies/load.yaml", tmp_path / "policies.yaml")
    told = run(kbn, tmp_path, *command.split())
    assert told.returncode == 1
    assert "Traceback" not in told.stderr
    last = told.stderr.splitlines()[-1]
    assert last.startswith("error: ") and last.endswith(f"pip install 'kbn[{extra}]'")


@pytest.mark.parametrize(
    "command", ["demo", "bench spark", "pipeline run pipeline.yaml", "lab run bags"]
)
def test_without_an_extra_nothing_is_made_first(kbn: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "pipeline.yaml").write_text("ontology: podcast\n")
    told = run(kbn, tmp_path, *command.split())
    assert len(told.stderr.splitlines()) == 1
    assert {each.name for each in tmp_path.iterdir()} == {"pipeline.yaml"}
