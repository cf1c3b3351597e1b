from __future__ import annotations

import pickle

import pytest

from kbn.errors import InvalidInputError
from kbn.ontology import Class, Individual, Property, Term


def test_terms_are_equal_only_when_kind_and_iri_are() -> None:
    assert Class("urn:a") == Class("urn:a")
    assert Class("urn:a") != Class("urn:b")
    assert len({Class("urn:a"), Individual("urn:a"), Property("urn:a"), Term("urn:a")}) == 4
    assert Term("urn:a") != Class("urn:a")


def test_terms_are_immutable() -> None:
    term = Class("urn:a")
    with pytest.raises(AttributeError):
        term.iri = "urn:b"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del term.iri


def test_terms_order_by_kind_then_iri() -> None:
    terms = [Individual("urn:a"), Property("urn:a"), Class("urn:b"), Class("urn:a"), Term("urn:z")]
    assert sorted(terms) == terms[::-1]


def test_terms_survive_pickling_with_their_hash() -> None:
    term = pickle.loads(pickle.dumps(Class("urn:a")))
    assert term == Class("urn:a")
    assert hash(term) == hash(Class("urn:a"))
    assert repr(term) == "Class('urn:a')"


@pytest.mark.parametrize("bad", ["", 3, None])
def test_an_iri_is_a_string_with_something_in_it(bad: object) -> None:
    with pytest.raises(InvalidInputError):
        Class(bad)  # type: ignore[arg-type]
