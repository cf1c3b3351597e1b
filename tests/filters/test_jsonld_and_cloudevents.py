"""Notifications from and to JSON-LD and CloudEvents."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.filters.small_worlds import random_value

from kbn.errors import InvalidInputError
from kbn.filters import Bag, Notification
from kbn.filters.cloudevents import from_cloudevent, to_cloudevent
from kbn.filters.jsonld import from_jsonld, to_jsonld
from kbn.ontology.terms import Class, Individual, Property, Term

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
XSD = "http://www.w3.org/2001/XMLSchema#"


def test_a_document_with_an_inline_context() -> None:
    seen = from_jsonld(
        {
            "@context": [
                {"ex": "http://ex/", "xsd": XSD, "Episode": "ex:Episode", "id": "@id"},
                {
                    "about": {"@id": "ex:about", "@type": "@id"},
                    "category": {"@id": "ex:category", "@type": "@vocab"},
                    "aired": {"@id": "ex:aired", "@type": "xsd:dateTime"},
                    "count": {"@id": "ex:count", "@type": "xsd:integer"},
                },
            ],
            "id": "ex:episode/7",
            "@type": "Episode",
            "about": ["ex:Tea", "http://other/Pot"],
            "category": "ex:Food",
            "aired": "2026-11-15T12:00:00Z",
            "count": "12",
            "title": {"@value": "Tee", "@language": "de"},
            "tags": {"@set": ["a", "a", 1.5, True]},
            "nothing": None,
        }
    )
    assert seen == Notification(
        {
            "@type": Class("http://ex/Episode"),
            "about": Bag(Individual("http://ex/Tea"), Individual("http://other/Pot")),
            "category": Term("http://ex/Food"),
            "aired": NOON,
            "count": 12,
            "title": "Tee",
            "tags": Bag("a", "a", 1.5, True),
        },
        id="http://ex/episode/7",
    )


def test_kinds_of_term_are_told_by_type() -> None:
    owl, rdf = "http://www.w3.org/2002/07/owl#", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    seen = from_jsonld(
        {
            "a": {"@id": "urn:c", "@type": owl + "Class"},
            "b": {"@id": "urn:p", "@type": rdf + "Property"},
            "c": {"@id": "urn:i", "@type": "urn:c"},
            "d": {"@id": "urn:i"},
        }
    )
    assert [*seen.attributes.values()] == [
        Class("urn:c"),
        Property("urn:p"),
        Individual("urn:i"),
        Individual("urn:i"),
    ]


def test_names_may_be_expanded_and_contexts_kept_at_hand() -> None:
    held = {"https://ctx.example/": {"@context": {"@vocab": "http://v/", "@base": "http://b/x/"}}}
    document = {"@context": "https://ctx.example/", "@id": "y", "name": "Tea"}
    seen = from_jsonld(json.dumps(document), contexts=held, full_names=True)
    assert seen == Notification({"http://v/name": "Tea"}, id="http://b/x/y")
    one = {"@context": {"n": "urn:n"}, "@graph": [{"n": 1}]}
    assert from_jsonld(one).attributes == {"n": 1}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"@context": "https://schema.org/"}, "never fetched"),
        ({"a": {"b": 1}}, "nested"),
        ({"a": {"@id": "urn:x", "b": 1}}, "nested"),
        ({"@graph": [{}, {}]}, "one node"),
        ({"@reverse": {}}, "no place"),
        ({"@context": {"@import": "x"}}, "not supported"),
        ({"@context": {"a": {"@id": "b:c"}, "b": "a:d"}}, "circles"),
        ({"a": {"@value": "x", "@type": XSD + "integer"}}, "is no"),
        ({"a": {"@value": "2026-01-01T00:00:00", "@type": XSD + "dateTime"}}, "time zone"),
        ({"a": {"@value": "x", "@type": "urn:odd"}}, "not supported"),
        ({"@type": 3}, "non-empty string"),
        ([], "one object"),
        ({"@context": {"@base": "http://[x"}, "@id": "y"}, "not an IRI"),
    ],
)
def test_what_has_no_place_is_refused(document: object, reason: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        from_jsonld(document)
    assert reason in str(caught.value)


@given(st.integers(0, 2**48))
def test_both_forms_come_back_as_they_went_out(seed: int) -> None:
    random = Random(seed)
    seen = Notification(
        {"x": random_value(random), "y z": random_value(random), "http://a/b": 1},
        id="urn:n:1",
        publisher="urn:me",
        time=NOON,
    )
    assert from_jsonld(json.dumps(to_jsonld(seen))) == seen
    assert from_cloudevent(json.dumps(to_cloudevent(seen))) == seen
    typed = Notification({"@type": [Class("urn:a"), Class("urn:b")]})
    assert from_jsonld(to_jsonld(typed)) == typed


def test_an_event_from_elsewhere() -> None:
    event = {
        "specversion": "1.0",
        "id": "A234",
        "source": "/shop/7",
        "type": "com.example.sold",
        "subject": "tea",
        "time": "2026-11-15T13:00:00+01:00",
        "traceparent": "00-ab",
        "datacontenttype": "application/json; charset=utf-8",
        "data": {"price": 3.5, "kind": {"class": "urn:Tea"}, "tags": ["a"]},
    }
    seen = from_cloudevent(event)
    assert (seen.id, seen.publisher, seen.time) == ("A234", "/shop/7", NOON)
    assert seen.attributes == {
        "price": 3.5,
        "kind": Class("urn:Tea"),
        "tags": Bag("a"),
        "ce.type": "com.example.sold",
        "ce.subject": "tea",
        "ce.traceparent": "00-ab",
    }
    assert from_cloudevent(to_cloudevent(seen)) == seen


def test_other_kinds_of_data() -> None:
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "kbn.notification"}
    assert from_cloudevent(event).attributes == {}
    assert from_cloudevent({**event, "data_base64": "AP8="})["data"] == b"\x00\xff"
    text = {**event, "datacontenttype": "text/plain", "data": "hello"}
    assert from_cloudevent(text)["data"] == "hello"
    linked = {**event, "datacontenttype": "application/ld+json", "data": {"a": {"@id": "urn:i"}}}
    assert from_cloudevent(linked)["a"] == Individual("urn:i")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"specversion": "0.3"}, "specversion"),
        ({"id": ""}, "$.id"),
        ({"source": None}, "$.source"),
        ({"type": 3}, "$.type"),
        ({"time": "noon"}, "$.time"),
        ({"time": 3}, "$.time"),
        ({"Bad-Name": "x"}, "lower-case"),
        ({"extension": [1]}, "context attribute"),
        ({"data": {"x": None}}, "$.data.x"),
        ({"data_base64": "!"}, "base64"),
        ({"data_base64": "AA==", "data": 1}, "not both"),
    ],
)
def test_bad_events_are_refused(change: dict[str, object], reason: str) -> None:
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", **change}
    with pytest.raises(InvalidInputError) as caught:
        from_cloudevent(event)
    assert reason in str(caught.value)


def test_an_event_needs_an_id_and_a_source() -> None:
    with pytest.raises(InvalidInputError):
        to_cloudevent(Notification({}))
    made = to_cloudevent(Notification({"a": 1}), id="1", source="s")
    assert made["data"] == {"a": 1}
