"""Counts with their noun, and suggestions that are short enough to read."""

from __future__ import annotations

import pytest

from kbn.errors import InvalidInputError, UnknownTermError
from kbn.lab import experiment
from kbn.wording import close_names, counted, did_you_mean, plural_of


@pytest.mark.parametrize(
    ("count", "noun", "told"),
    [
        (1, "policy", "1 policy"),
        (2, "policy", "2 policies"),
        (0, "table", "0 tables"),
        (1, "table", "1 table"),
        (1_000, "match", "1,000 matches"),
        (3, "day", "3 days"),
        (2, "class", "2 classes"),
        (2, "index", "2 indexes"),
    ],
)
def test_a_count_has_the_right_form_of_its_noun(count: int, noun: str, told: str) -> None:
    assert counted(count, noun) == told


def test_an_irregular_plural_is_given() -> None:
    assert counted(1, "person", "people") == "1 person"
    assert counted(2, "person", "people") == "2 people"
    assert plural_of("bush") == "bushes"


def test_at_most_three_names_are_suggested() -> None:
    assert did_you_mean("abcde") == "; did you mean a or b or c?"
    assert did_you_mean([]) == ""
    error = UnknownTermError("urn:x", closest=tuple(f"urn:{n}" for n in range(14)))
    assert str(error).count("<urn:") == 4 and len(error.closest) == 14


def test_a_far_fetched_name_is_not_suggested() -> None:
    options = ["--name", "--peer", "--token", "--port", "--host", "--keep-roots", "--lines"]
    assert close_names("--nope", options) == []
    assert close_names("--pots", options) == ["--port"]
    assert close_names("--line", options) == ["--lines"]
    assert close_names("", options) == []


def test_only_what_is_about_as_close_as_the_closest_is_suggested() -> None:
    assert close_names("=>", ["=", ">", ">=", "<="]) == [">="]
    assert close_names("engine", ["engines", "baseline"]) == ["engines"]
    assert close_names("epoch", ["epoch_s", "epoch_ms", "iso"]) == ["epoch_s", "epoch_ms"]


def test_an_experiment_nobody_could_mean_suggests_where_to_look() -> None:
    with pytest.raises(InvalidInputError, match=r"kbn lab list names those there are$"):
        experiment.find("zzzzzz")
    with pytest.raises(InvalidInputError, match="did you mean mobility"):
        experiment.find("mobilty")
