"""The terms that subscriptions and notifications name."""

from __future__ import annotations

from kbn.filters import Bag, Notification, Subscription
from kbn.filters.mentions import terms_named_in
from kbn.ontology import Class, Individual, Property


def iris(text: str) -> list[str]:
    named = terms_named_in(Subscription.parse(text, {"t": "urn:t#"}))
    return sorted(term.iri.removeprefix("urn:t#") for term in named)


def test_operands_are_named_those_of_negations_too() -> None:
    assert iris("x @> t:A and not y @= t:B and z = 3 and w any") == ["A", "B"]


def test_bags_are_opened_and_repeats_count() -> None:
    assert iris('x #> {t:A, t:A, "A", {t:B, {t:A}}}') == ["A", "A", "A", "B"]


def test_a_relation_names_its_property_and_its_individual() -> None:
    assert iris("x @* [t:p, t:i]") == ["i", "p"]


def test_what_stands_outside_an_or_is_in_each_filter() -> None:
    assert iris("x @> t:A and (y @> t:B or z @> t:C)") == ["A", "A", "B", "C"]
    assert iris("x @> t:A or x @> t:A") == ["A"]


def test_a_notification_names_the_terms_of_its_values() -> None:
    one, two, three = Class("urn:t#A"), Individual("urn:t#i"), Property("urn:t#p")
    named = terms_named_in(Notification({"x": one, "y": Bag(two, one, Bag(three), 7), "z": "t"}))
    assert sorted(named) == sorted([one, two, one, three])
    assert terms_named_in(Notification({})) == []


def test_a_value_alone_can_be_asked() -> None:
    assert terms_named_in(Bag(Class("urn:t#A"), 3)) == [Class("urn:t#A")]
    assert terms_named_in("urn:t#A") == []
