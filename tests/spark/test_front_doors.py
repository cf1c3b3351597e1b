"""What the doors of the Spark room show carries an example: one that runs, or Python to copy."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from textwrap import dedent

import pytest

DOORS = ("kbn.spark", "kbn.spark.io", "kbn.spark.pipeline")


def functions() -> Iterator[tuple[str, object]]:
    for door in DOORS:
        room = import_module(door)
        for name in room.__all__:
            if inspect.isfunction(shown := getattr(room, name, None)):
                yield f"{door}.{name}", shown


@pytest.mark.parametrize("shown", [pytest.param(shown, id=name) for name, shown in functions()])
def test_every_public_function_carries_an_example(shown: object) -> None:
    told = inspect.getdoc(shown) or ""
    blocks = re.findall(r"```python\n(.*?)```", told, re.DOTALL)
    assert blocks or ">>> " in told
    for block in blocks:
        ast.parse(dedent(block))
