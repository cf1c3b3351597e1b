"""A prefix that the ontology knows is expanded wherever a term is met."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kbn import (
    Bag,
    Class,
    Individual,
    Matcher,
    Notification,
    Ontology,
    Property,
    Subscription,
    UnknownTermError,
    data,
)
from kbn.filters import Relation, matches_by_definition

ANIMALS = Ontology.load(data.path("animals"))
WANTED = {
    "below": "x @> animals:Mammal",
    "equal": "x = class(animals:Human)",
    "bag": "x #>/@> {animals:Mammal}",
    "equal bag": "x #= {class(animals:Human), 3}",
    "isa": "x @= animals:Mammal",
    "has": "x @* [animals:eats, animals:Grass]",
}


def found(value: object) -> set[str]:
    matcher = Matcher(ANIMALS)
    for key, text in WANTED.items():
        matcher.add(text, key)
    notification = Notification.from_json({"x": value})
    got = set(matcher.match(notification))
    for key, text in WANTED.items():
        subscription = Subscription.parse(text, ontology=ANIMALS)
        assert subscription.matches(notification, ANIMALS) == (key in got)
        assert matches_by_definition(subscription.filters[0], notification, ANIMALS) == (key in got)
    return got


@pytest.mark.parametrize(
    ("value", "keys"),
    [
        ({"class": "animals:Human"}, {"below", "equal"}),
        ({"term": "animals:Human"}, {"below", "equal"}),
        ({"class": ":Human"}, {"below", "equal"}),
        ([{"class": "animals:Human"}, 3], {"bag", "equal bag"}),
        ({"individual": "animals:John"}, {"isa"}),
        ({"individual": "animals:Colleen"}, {"isa", "has"}),
        ({"class": "animal:Human"}, set()),
        ({"class": "animals:Humn"}, set()),
    ],
)
def test_a_value_with_a_prefix_is_read_as_the_term_it_stands_for(
    value: object, keys: set[str]
) -> None:
    assert found(value) == keys


def test_a_subscription_in_json_may_use_prefixes() -> None:
    matcher = Matcher(ANIMALS)
    matcher.add([{"attribute": "x", "op": "@>", "value": {"class": "animals:Mammal"}}], "one")
    relation = {"property": "animals:eats", "individual": "animals:Grass"}
    matcher.add([{"attribute": "x", "op": "@*", "value": relation}], "two")
    assert set(matcher.match({"x": Class("animals:Human")})) == {"one"}
    assert set(matcher.match({"x": Individual("animals:Colleen")})) == {"two"}
    with pytest.raises(UnknownTermError, match="animals#Human"):
        matcher.add([{"attribute": "x", "op": "@>", "value": {"class": "beasts:Human"}}], "three")


def test_an_operand_of_a_plain_filter_may_use_prefixes() -> None:
    relation = Relation(Property("animals:eats"), Individual("animals:Grass"))
    subscription = Subscription.from_json(
        {
            "all": [
                {
                    "attribute": "x",
                    "op": "@*",
                    "value": {"property": "animals:eats", "individual": "animals:Grass"},
                }
            ]
        }
    )
    assert subscription.filters[0].constraints[0].operand == relation
    assert subscription.matches({"x": Individual(ANIMALS.expand("animals:Colleen"))}, ANIMALS)


def test_columns_of_terms_may_use_prefixes() -> None:
    matcher = Matcher(ANIMALS)
    matcher.add("x @> animals:Mammal", "one")
    field = pa.field("x", pa.string(), metadata={"kbn": "class"})
    table = pa.table([pa.array(["animals:Human", "animals:Grass", "x:Human"])], pa.schema([field]))
    assert matcher.match_batch(table).num_rows == 1


def test_without_an_ontology_only_the_well_known_prefixes_are_known() -> None:
    matcher = Matcher()
    matcher.add("x @> owl:Thing", "one")
    assert set(matcher.match({"x": Class("owl:Thing")})) == {"one"}
    assert set(matcher.match({"x": Bag(Class("owl:Thing"))})) == set()


def test_a_term_that_is_known_by_the_very_name_is_not_expanded(tmp_path: object) -> None:
    from pathlib import Path

    file = Path(str(tmp_path)) / "odd.ttl"
    file.write_text(
        "@prefix urn: <http://example.org/> . @prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
        "<urn:A> a owl:Class . <http://example.org/B> a owl:Class ."
    )
    ontology = Ontology.load(file, cache=False)
    assert ontology.full_iri("urn:A") == "urn:A"
    assert ontology.full_iri("urn:B") == "http://example.org/B"
