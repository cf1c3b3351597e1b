"""The reasons `kbn demo` gives, one operator at a time."""

from __future__ import annotations

import pytest

from kbn import Bag, Notification, Ontology, Subscription
from kbn.filters import Operator
from kbn.filters.operators import BAG_OPERATORS
from kbn.filters.why import WORDS, match_reasons

EMPTY = Ontology.empty()


def why(text: str, **attributes: object) -> list[str]:
    return match_reasons(Subscription.parse(text), Notification(attributes), EMPTY)


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("x any", 3, "x: 3 is there"),
        ("x = 3", 3, "x: 3 is 3"),
        ("x >= 3", 4, "x: 4 is at least 3"),
        ('x *< "fish"', "goldfish", 'x: "goldfish" ends with "fish"'),
        ("x #> {1, 2}", Bag(1, 2, 3), "x: has 1, 2"),
        ("x #< {1, 2}", Bag(1), "x: is within 1, 2"),
        ("x #= {}", Bag(), "x: is nothing"),
        ("x #>/< {5}", Bag(9, 4), "x: 4 is less than 5"),
        ("x #</< {5, 9}", Bag(7), "x: 7 is less than 9"),
        ('not (x * "z")', "abc", 'x: not ("abc" * "z")'),
    ],
)
def test_a_reason_reads_as_a_sentence(text: str, value: object, said: str) -> None:
    assert why(text, x=value) == [said]


def test_only_the_filter_that_matched_is_explained() -> None:
    assert why("x = 1 or x = 2", x=2) == ["x: 2 is 2"]


def test_what_does_not_match_has_no_reason() -> None:
    assert why("x = 1", x=2) == []


def test_every_operator_has_words() -> None:
    assert set(Operator) - BAG_OPERATORS - {Operator.EXISTS} == set(WORDS)
