"""Every example in the documentation runs, and prints what the page says it prints.

A page is one test: its blocks run in order, in one folder of their own.

- ```python blocks share one namespace. A block with `>>>` is checked like a docstring.
- ```console blocks: every line that starts with `$ kbn` (also `$ cat`, `$ echo`, `$ sh`) is run,
  and the lines below it must appear in its output, in order. Spaces do not count; `...` or `…`
  stands for anything, within a line or for any number of lines. Other commands (`make`, `git`) are
  not run.
- Any other block is only text; use ```text or ```sh for what cannot run here.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    if re.search(r"^```(python|console)\s*$", path.read_text(encoding="utf-8"), re.MULTILINE)
)
RUNNABLE = ("kbn", "cat", "echo", "ls", "sh")
# Pages that start brokers, engines and reasoners by the dozen.
MANY_PROCESSES = (
    "docs/how-to/look-after-a-store.md",
    "docs/how-to/run-an-overlay.md",
    "docs/how-to/secure-an-overlay.md",
    "docs/reference/access-file.md",
    "docs/reference/benchmarks.md",
    "docs/tutorial/ontology-engineer.md",
    "docs/tutorial/operator.md",
    "docs/tutorial/researcher.md",
)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
TIME_LIMIT_S = 300


def blocks(text: str) -> Iterator[tuple[str, int, str]]:
    """The language, the line and the text of each block that runs."""
    pattern = re.compile(r"^```(python|console)\s*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
    for found in pattern.finditer(text):
        yield found[1], text.count("\n", 0, found.start()) + 1, found[2]


def starts_spark(page: Path) -> bool:
    blocks_of = blocks(page.read_text(encoding="utf-8"))
    return any("kbn.spark" in text for language, _, text in blocks_of if language == "python")


def marks(page: Path) -> list[pytest.MarkDecorator]:
    needs_java = starts_spark(page) or "kbn pipeline" in page.read_text(encoding="utf-8")
    # Each such page has a JVM to start and takes minutes; tests/spark has the same calls.
    takes_minutes = starts_spark(page) or page.relative_to(ROOT).as_posix() in MANY_PROCESSES
    slow = [pytest.mark.slow] if takes_minutes else []
    return [*([pytest.mark.java] if needs_java else []), *slow]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.relative_to(ROOT).as_posix(), marks=marks(page)) for page in PAGES],
)
def test_the_examples_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if starts_spark(page):
        # A JVM stays in the folder it was started in: such a page gets one of its own.
        beside = [str(ROOT / "src"), str(ROOT)]
        done = subprocess.run(
            [sys.executable, "-m", "tests.test_docs", str(page)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(beside)},
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-6000:]
        return
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path)


def run_page(page: Path, folder: Path) -> None:
    namespace: dict[str, object] = {"__name__": "__page__"}
    for language, line, text in blocks(page.read_text(encoding="utf-8")):
        where = f"{page.name}:{line}"
        if language == "console":
            run_console(text, where, folder)
        elif ">>>" in text:
            run_session(text, where, line, namespace)
        else:
            # Blank lines put errors on the line of the page they stand on.
            exec(compile("\n" * line + text, str(page), "exec"), namespace)


def run_session(text: str, where: str, line: int, namespace: dict[str, object]) -> None:
    test = doctest.DocTestParser().get_doctest(text, namespace, where, where, line)
    test.globs = namespace
    told: list[str] = []
    failed = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=told.append, clear_globs=False)
    assert failed.failed == 0, "".join(told)


def run_console(text: str, where: str, folder: Path) -> None:
    for command, expected in commands(text):
        if command.split()[0] not in RUNNABLE:
            continue
        output = run(command, folder)
        missing = first_missing_line(expected, output)
        assert missing is None, f"{where}: $ {command}\nnot there: {missing}\n--- output\n{output}"


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command with the lines shown below it; a here-document belongs to its command."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        taken = 1
        if here := re.search(r"<<\s*'?(\w+)'?", lines[0]):
            taken = lines.index(here[1]) + 1
        while lines[taken - 1].endswith("\\"):
            taken += 1
        yield "\n".join(lines[:taken]), lines[taken:]


def run(command: str, folder: Path) -> str:
    beside_python = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": beside_python + os.pathsep + os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "COLUMNS": "120",
        "NO_COLOR": "1",
    }
    script = f'kbn() {{ "{sys.executable}" -m kbn "$@"; }}\n{command}'
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    return done.stdout


def first_missing_line(expected: list[str], output: str) -> str | None:
    """The first expected line that does not follow those before it in the output."""
    remaining = iter([squeezed(line) for line in output.splitlines()])
    for line in expected:
        wanted = squeezed(line)
        if wanted in ("", "...", "…"):
            continue
        parts = re.split(r"\.\.\.|…", wanted)
        pattern = re.compile(".*".join(re.escape(part.strip()) for part in parts))
        if not any(pattern.search(candidate) for candidate in remaining):
            return line
    return None


def squeezed(line: str) -> str:
    return " ".join(line.split())


def test_the_collector_finds_blocks_commands_and_missing_lines() -> None:
    page = "# t\n```python\nx = 1\n```\n\n```console\n$ kbn demo\nann\n$ make test\n```\n"
    assert [(language, line) for language, line, _ in blocks(page)] == [
        ("python", 2),
        ("console", 6),
    ]
    assert list(commands("$ kbn demo\nann\n$ cat > f <<'E'\nx\nE\n")) == [
        ("kbn demo", ["ann"]),
        ("cat > f <<'E'\nx\nE", []),
    ]
    assert first_missing_line(["a  b", "...", "c … e"], "a b\nx\nc d e\n") is None
    assert first_missing_line(["c", "a"], "a\nc\n") == "a"


if __name__ == "__main__":
    run_page(Path(sys.argv[1]), Path.cwd())
