"""Errors carry their facts, also from one process to another."""

from __future__ import annotations

import pickle

import pytest

from kbn.errors import (
    FilterSyntaxError,
    InvalidInputError,
    KbnError,
    LimitError,
    MissingDependencyError,
    OntologyError,
    UnknownTermError,
)


@pytest.mark.parametrize(
    "error",
    [
        KbnError("what"),
        InvalidInputError("what"),
        LimitError("too much", limit="size", maximum=3),
        FilterSyntaxError("odd", text="a = ", position=4, expected=("a number",)),
        UnknownTermError("urn:x#A", closest=("urn:x#B",), kind="class"),
        OntologyError("bad", path="x.ttl", line=3, explanation=("because",)),
        MissingDependencyError("reasoning", extra="dl"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_whole_through_pickling(error: KbnError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_input_errors_are_value_errors() -> None:
    assert issubclass(InvalidInputError, ValueError)
    assert issubclass(UnknownTermError, InvalidInputError)
