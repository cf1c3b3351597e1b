"""The reasons that explanations give, one operator at a time."""

from __future__ import annotations

import pytest

from kbn import Bag, Notification, Ontology, Subscription
from kbn.filters import Operator, explain
from kbn.filters.operators import BAG_OPERATORS
from kbn.filters.why import NOT_WORDS, WORDS

EMPTY = Ontology.empty()


def why(text: str, **attributes: object) -> list[str]:
    return explain(Subscription.parse(text), Notification(attributes), EMPTY).reasons


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


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("x = 1", 2, "x: 2 is not 1"),
        ("x < 3", 3, "x: 3 is not less than 3"),
        ("x < 3", "tea", 'x: "tea" is a string, and < takes a number'),
        ('not x >* "tea"', "teapot", 'x: "teapot" starts with "tea"'),
        ("x #> {1, 2}", Bag(1, 3), "x: no element of 1, 3 is 2"),
        ("x #< {1}", Bag(1, 3), "x: 3 is not any of 1"),
        ("x #> {1, 1}", Bag(1, 2), "x: too few of 1, 2 go with 1, 1"),
        ("x #= {1}", Bag(), "x: has 0 elements, not 1"),
    ],
)
def test_a_reason_against_reads_as_a_sentence(text: str, value: object, said: str) -> None:
    assert why(text, x=value) == [said]


def test_an_attribute_that_is_missing_is_named() -> None:
    assert why("x = 1 and y = 2", y=2) == ["x: is not there"]


def test_every_filter_that_does_not_match_says_why() -> None:
    assert why("x = 1 or y = 2", x=2) == ["x: 2 is not 1", "y: is not there"]


def test_each_element_of_a_bag_is_paired_with_one_of_its_own() -> None:
    said = why("x #>/< {9, 5}", x=Bag(4, 7))
    assert said == ["x: 7 is less than 9, 4 is less than 5"]


def test_every_operator_has_words() -> None:
    assert set(Operator) - BAG_OPERATORS - {Operator.EXISTS} == set(WORDS) == set(NOT_WORDS)
