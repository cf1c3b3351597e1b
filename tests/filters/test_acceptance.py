"""Acceptance: every operator, the rulings, and the worked examples of the design."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.filters.small_worlds import SmallOntology

from kbn.errors import UnknownTermError
from kbn.filters import Bag, Constraint, Filter, Notification, Relation, Subscription
from kbn.filters.evaluation import operator_accepts
from kbn.filters.operators import read_operator
from kbn.filters.term_resolution import resolve_terms
from kbn.ontology.terms import Class, Individual, Property, Term

ANIMALS = SmallOntology.stated(
    below={("human", "person"), ("person", "human"), ("human", "mammal"), ("cow", "mammal")},
    under={("grazes", "eats")},
    same={("john", "johnny")},
    typed={("john", "person"), ("colleen", "cow")},
    facts={("colleen", "grazes", "grass")},
    apart={("cow", "human")},
)
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
c, p, i = Class, Property, Individual


def holds(x: object, operator: str, v: object) -> bool:
    constraint = Constraint("x", operator, v)
    return Filter([constraint]).matches(Notification({"x": x}), ANIMALS)


@pytest.mark.parametrize(
    ("x", "operator", "v"),
    [
        (1, "any", None),
        (1, "=", 1.0),
        (True, "=", True),
        (b"x", "=", b"x"),
        (NOON, "=", NOON),
        (1, "!=", 2),
        (True, "!=", False),
        ("a", "!=", "b"),
        (c("a"), "!=", c("b")),
        (1, "<", 1.5),
        ("a", "<", "b"),
        (NOON, "<=", NOON),
        ("B", "<", "a"),
        (2**53 + 1, ">", 2.0**53),
        (3, ">", 2),
        (3, ">=", 3),
        (float("inf"), ">", 10**18),
        ("tea pot", ">*", "tea"),
        ("tea pot", "*<", "pot"),
        ("tea pot", "*", "a p"),
        ("pot", "*>", "tea pot"),
        ("", "*>", "tea"),
        ("tea", "!*", "x"),
        ("tea", "!>*", "x"),
        (c("human"), "@~", c("person")),
        (i("john"), "@~", i("johnny")),
        (p("eats"), "@~", p("eats")),
        (c("human"), "@!~", c("cow")),
        (i("who"), "@!~", i("john")),
        (c("human"), "@>", c("mammal")),
        (c("person"), "@>", c("human")),
        (c("cow"), "@>", c("cow")),
        (p("grazes"), "@>", p("eats")),
        (c("mammal"), "@<", c("cow")),
        (p("eats"), "@<", p("grazes")),
        (c("alien"), "@>", c("alien")),
        (c("mammal"), "!@>", c("cow")),
        (i("john"), "@=", c("human")),
        (i("johnny"), "@=", c("mammal")),
        (i("john"), "@!=", c("cow")),
        (i("stranger"), "@!=", c("cow")),
        (i("colleen"), "@*", [p("eats"), i("grass")]),
        (i("john"), "!@*", [p("eats"), i("grass")]),
        ([], "#=", []),
        ([1, 1, 2], "#=", [1, 2, 1]),
        ([1], "#<", [1, 1]),
        ([1, 1], "#>", [1]),
        ([1], "=", [1.0]),
        ([1], "!=", [1, 1]),
        ([1, 1], "!#=", [1]),
        ([1, 2, 3], "#=/<", [2, 3, 4]),
        (["ood", "boo"], "#</*>", ["a", "good", "book"]),
        ([[], [0, 0], [1, 2, 3, 4]], "#</#</<", [[8], [0], [1, 1, 1], [2, 3, 4, 5, 6]]),
        ([c("human"), c("cow")], "#>/@>", [c("mammal")]),
        ([1, "a", True], "#>/any", [7, 7]),
        ([i("john"), i("colleen")], "#=/@=", [c("cow"), c("mammal")]),
        ([i("colleen")], "#>/@*", [Relation(p("eats"), i("grass"))]),
        ([1, "a", NOON], "#=/<=", [NOON, "b", 1]),
        ([1, 2], "#=/!=", [2, 1]),
        ([c("human"), c("human")], "#</@~", [c("person"), c("human")]),
        (Term("human"), "@>", c("mammal")),
        (c("human"), "@>", Term("mammal")),
        (Term("nobody"), "=", Term("nobody")),
        (i("nobody"), "=", Term("nobody")),
        ([Term("human")], "#=", [c("human")]),
        ([c("nobody")], "#=", [Term("nobody")]),
        ([c("cow"), Term("human")], "#>/@>", [Term("mammal"), c("mammal")]),
    ],
)
def test_what_holds(x: object, operator: str, v: object) -> None:
    assert holds(x, operator, v)


@pytest.mark.parametrize(
    ("x", "operator", "v"),
    [
        (True, "=", 1),
        (1, "!=", "1"),
        (1, "<", "2"),
        ("a", "<", 2),
        (True, ">", 0),
        (1, "=", 2),
        (2**53 + 1, "=", 2.0**53),
        (1, "*", "a"),
        (["a"], "*", "a"),
        (b"a", "*", "a"),
        (1, "!*", "a"),
        ([1], "!=", 1),
        (c("a"), "!=", i("a")),
        (c("human"), "=", c("person")),
        (c("human"), "@~", i("human")),
        (c("mammal"), "@>", c("cow")),
        (c("human"), "@!~", c("person")),
        (i("john"), "@>", c("human")),
        (c("human"), "@=", c("mammal")),
        (i("stranger"), "@=", c("cow")),
        (c("cow"), "@!=", c("cow")),
        (i("john"), "@!=", c("human")),
        (i("john"), "@*", [p("eats"), i("grass")]),
        (c("john"), "!@*", [p("eats"), i("grass")]),
        ([1, 1], "#<", [1]),
        ([1], "#>", [1, 1]),
        ([True], "#=", [1]),
        (1, "#<", [1]),
        (1, "!#<", [1]),
        ([1, 2], "#=/<", [2, 2]),
        ([1, 1, 2], "#=/!=", [1, 1, 2]),
        ([1, 2, 9], "#=/<", [2, 3]),
        (["a"], "#</<", [5]),
        ([5, 5], "#</<", [6, "z"]),
        ([c("human")], "#>/@>", [c("mammal"), c("mammal")]),
        (c("alien"), "@>", c("mammal")),
        (i("human"), "@>", Term("mammal")),
        (Term("nobody"), "=", Term("somebody")),
    ],
)
def test_what_does_not_hold(x: object, operator: str, v: object) -> None:
    assert not holds(x, operator, v)


def test_an_absent_attribute_satisfies_nothing() -> None:
    for text in ("x any", "x != 1", "x not contains 'a'", "not x = 1", "x #> {}"):
        assert not Subscription.parse(text).matches({"y": 1})


def test_the_strict_reading_is_two_constraints() -> None:
    strict = Subscription.parse("x @> <mammal> and x @!~ <mammal>")
    assert strict.matches({"x": c("human")}, ANIMALS)
    assert not strict.matches({"x": c("mammal")}, ANIMALS)


def test_service_discovery_by_inputs_and_outputs() -> None:
    wanted = Subscription.parse(
        "inputs #</@< {class(<human>), class(<cow>)} and outputs #>/@> {class(<mammal>)}"
    )
    offered = {"inputs": [c("mammal")], "outputs": [c("cow"), c("alien")]}
    assert wanted.matches(offered, ANIMALS)
    assert not wanted.matches({**offered, "inputs": [c("alien")]}, ANIMALS)


def test_without_an_ontology_terms_are_related_to_themselves_alone() -> None:
    assert operator_accepts(read_operator("@>"), c("a"), c("a"))
    assert not operator_accepts(read_operator("@>"), c("a"), c("b"))
    assert operator_accepts(read_operator("@!="), i("a"), c("b"))


def test_resolving_gives_bare_terms_their_kinds() -> None:
    made = resolve_terms(Subscription.parse("x @> <human> and y = {<john>, {<eats>}}"), ANIMALS)
    assert made == Subscription.parse(
        "x @> class(<human>) and y = {individual(<john>), {property(<eats>)}}"
    )
    assert resolve_terms(made, None) is made


@pytest.mark.parametrize(
    "text", ["x @> <humn>", "x @= <john>", "x @* [<human>, <grass>]", "x @> <john>", "x = {{<q9>}}"]
)
def test_resolving_refuses_terms_the_ontology_does_not_know(text: str) -> None:
    with pytest.raises(UnknownTermError):
        resolve_terms(Subscription.parse(text), ANIMALS)


def test_bags_know_the_class_of_everything() -> None:
    from kbn.ontology import Ontology

    thing = Class("http://www.w3.org/2002/07/owl#Thing")
    empty = Ontology.empty()
    alone = operator_accepts(read_operator("@>"), thing, thing, empty)
    assert operator_accepts(read_operator("#>/@>"), Bag(thing), Bag(thing), empty) == alone
