"""The JSON form: both ways, and every refusal names the place."""

from __future__ import annotations

import json
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.filters.small_worlds import random_constraint, random_value

from kbn.errors import InvalidInputError, KbnError, LimitError
from kbn.filters import Bag, Constraint, Filter, Notification, Subscription
from kbn.filters.json_form import constraint_from_json, value_from_json, value_to_json
from kbn.filters.parsing import parse


def test_a_subscription_reads_as_any_of_all() -> None:
    made = parse('category #>/@> {class(<urn:t>)} and not name * "x" or n any')
    assert made.to_json() == {
        "any": [
            {
                "all": [
                    {"attribute": "category", "op": "#>/@>", "value": [{"class": "urn:t"}]},
                    {"attribute": "name", "op": "*", "value": "x", "not": True},
                ]
            },
            {"all": [{"attribute": "n", "op": "any"}]},
        ]
    }
    assert Subscription.from_json(made.to_json()) == made
    assert Subscription.from_json(json.dumps(made.to_json()).encode()) == made


def test_shorter_ways_to_write_a_subscription() -> None:
    constraint = {"attribute": "a", "op": "lt", "value": 3}
    for data in ({"any": [{"all": [constraint]}]}, {"all": [constraint]}, [constraint]):
        assert Subscription.from_json(data) == parse("a < 3")
    assert Subscription.from_json([]) == parse("true")
    assert constraint_from_json({**constraint, "not": True}) == Constraint("a", ">=", 3)


def test_a_notification_may_come_with_or_without_its_envelope() -> None:
    plain = {"a": 1, "tags": ["x", "x"], "kind": {"class": "urn:c"}}
    assert Notification.from_json(plain) == Notification.from_json({"attributes": plain})
    full = {"attributes": plain, "id": "7", "publisher": "me", "time": "2026-01-01T00:00:00Z"}
    made = Notification.from_json(full)
    assert made.to_json() == full and made.id == "7"


@given(st.integers(0, 2**48))
@settings(max_examples=400)
def test_everything_comes_back_as_it_went_out(seed: int) -> None:
    random = Random(seed)
    value = random_value(random)
    wire = msgspec.json.encode(value_to_json(value))
    assert value_from_json(msgspec.json.decode(wire)) == value
    made = Subscription(
        Filter(random_constraint(random) for _ in range(n)) for n in (random.randrange(4), 2)
    )
    assert Subscription.from_json(msgspec.json.encode(made.to_json())) == made
    assert Filter.from_json(json.dumps(made.filters[0].to_json())) == made.filters[0]
    seen = Notification({"x": value, "attributes": value, "time": 1}, id="i")
    assert Notification.from_json(json.dumps(seen.to_json())) == seen


def test_numbers_keep_their_type() -> None:
    for number in (1, 1.0, -0.5, 2**63 - 1, float("inf")):
        wire = json.loads(json.dumps(value_to_json(number)))
        assert type(value_from_json(wire)) is type(number)
    assert value_from_json({"float": 1}) == 1.0 and type(value_from_json({"float": 1})) is float


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (3, "$"),
        ("{", "not JSON"),
        ("[NaN]", "not JSON"),
        ({}, "$"),
        ({"any": {}}, "$.any"),
        ({"any": []}, "$"),
        ({"any": [{"all": [], "x": 1}]}, "$.any[0]"),
        ({"any": [], "all": []}, "$"),
        ({"all": [3]}, "$.all[0]"),
        ({"all": [{"op": "="}]}, "$.all[0]"),
        ([{"attribute": 3, "op": "=", "value": 1}], "$[0].attribute"),
        ([{"attribute": "a", "op": "=="}], "$[0].op"),
        ([{"attribute": "a", "op": 3}], "$[0].op"),
        ([{"attribute": "a", "op": "=", "value": None}], "$[0].value"),
        ([{"attribute": "a", "op": "=", "value": 1, "colour": 1}], "$[0]"),
        ([{"attribute": "a", "op": "=", "value": 1, "not": 1}], "$[0].not"),
        ([{"attribute": "a", "op": "any", "not": True}], "$[0].not"),
        ([{"attribute": "a", "op": "<", "value": True}], "$[0]"),
        ([{"attribute": "a", "op": "=", "value": {"claas": "c"}}], "$[0].value"),
        ([{"attribute": "a", "op": "=", "value": {"class": 3}}], "$[0].value.class"),
        ([{"attribute": "a", "op": "=", "value": {"class": ""}}], "$[0].value.class"),
        ([{"attribute": "a", "op": "=", "value": {"time": "noon"}}], "$[0].value.time"),
        ([{"attribute": "a", "op": "=", "value": {"time": "2026-01-01"}}], "$[0].value.time"),
        ([{"attribute": "a", "op": "=", "value": {"bytes": "!"}}], "$[0].value.bytes"),
        ([{"attribute": "a", "op": "=", "value": {"float": "x"}}], "$[0].value.float"),
        ([{"attribute": "a", "op": "=", "value": [1, [2, {"class": 3}]]}], "value[1][1].class"),
        ([{"attribute": "a", "op": "=", "value": 2**70}], "$[0].value"),
        ([{"attribute": "", "op": "=", "value": 1}], "$[0]"),
    ],
)
def test_refusals_name_the_place(data: object, path: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Subscription.from_json(data)
    assert path in str(caught.value)


def test_a_bad_notification_is_refused() -> None:
    for data in (3, [], {"a": None}, {"a": {"x": 1}}, {"attributes": {}, "time": 3}, {"": 1}):
        with pytest.raises(InvalidInputError):
            Notification.from_json(data)
    for data in ({"a": {"property": "p", "individual": "i"}}, {3: 1}, {"attributes": {}, "id": 3}):
        with pytest.raises(InvalidInputError):
            Notification.from_json(data)


def test_deep_json_is_a_limit() -> None:
    with pytest.raises(LimitError):
        Notification.from_json('{"a": ' + "[" * 20 + "]" * 20 + "}")
    with pytest.raises(LimitError) as caught:
        Notification.from_json("[" * 100_000)
    assert caught.value.maximum == 16


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["any", "all", "attribute", "op", "value", "not", "class", "time", "float", "id",
                 "bytes", "property", "individual", "attributes", "x", "@id", "@type", "@context",
                 "@value", "@list", "@graph", "specversion", "source", "type", "data", "@vocab"]
            ),
            inner | st.sampled_from(["=", "#>/@>", "1.0", "any", "@id", "@vocab", "x:y", "@type"]),
            max_size=5,
        )
    ),
    max_leaves=20,
)  # fmt: skip


@given(json_data)
@settings(max_examples=250)
def test_the_decoders_never_crash(data: object) -> None:
    from kbn.filters.cloudevents import from_cloudevent
    from kbn.filters.jsonld import from_jsonld

    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t"}
    for read, given_data in (
        (Subscription.from_json, data),
        (Notification.from_json, data),
        (Filter.from_json, data),
        (constraint_from_json, data),
        (value_from_json, data),
        (from_jsonld, data),
        (from_jsonld, {"@context": data, "x": data}),
        (from_cloudevent, data),
        (from_cloudevent, {**event, "data": data}),
        (from_cloudevent, {**event, "data": data, "datacontenttype": "application/ld+json"}),
    ):
        try:
            read(given_data)
        except KbnError as error:
            assert str(error)


def test_bags_of_relations_go_both_ways() -> None:
    made = parse("x #>/@* {[<p>, <i>]}")
    assert Subscription.from_json(made.to_json()) == made
    assert value_to_json(Bag(True, 1)) == [True, 1]
