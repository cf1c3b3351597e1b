"""The walks through the code in ARCHITECTURE.md: what they say is called, and what is."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\[`([\w.]+)`\]\((src/kbn/[\w/]+\.py)\)")


def walks() -> dict[str, list[str]]:
    """The tables of ARCHITECTURE.md whose rows are numbered, by the heading above them."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif re.match(r"\| \d+ \|", line):
            found.setdefault(heading, []).append(line)
    return found


def functions(heading: str) -> list[str]:
    """The function each step of a walk names first; kernels are compiled, and cannot be watched."""
    links = (LINK.search(step) for step in walks()[heading])
    return [link[1] for link in links if link is not None and "/kernels/" not in link[2]]


@contextmanager
def watched() -> Iterator[list[str]]:
    """The functions of kbn that this thread calls inside the `with`, in their order."""
    calls: list[str] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and "/kbn/" in frame.f_code.co_filename:
            calls.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def not_called_in_turn(wanted: list[str], calls: list[str]) -> str | None:
    """The first of the wanted functions that is not called after the one before it."""
    left = iter(calls)
    return next((function for function in wanted if function not in left), None)
