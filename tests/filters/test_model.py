"""Constraints, filters, subscriptions, notifications: canonical, immutable, validated."""

from __future__ import annotations

import pickle
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from kbn.errors import InvalidInputError, LimitError
from kbn.filters import (
    Bag,
    Composite,
    Constraint,
    Filter,
    Negated,
    Notification,
    Operator,
    Relation,
    Subscription,
    negate_operator,
)
from kbn.filters.model import MAX_CONSTRAINTS, MAX_FILTERS
from kbn.filters.operators import MAX_COMPOSITE_DEPTH, read_operator
from kbn.ontology.terms import Class, Individual, Property, Term


def test_one_object_for_each_operator() -> None:
    assert Composite(Operator.SUPER_BAG, Operator.EQ) is Operator.SUPER_BAG
    first = Composite(Operator.SUPER_BAG, Operator.MORE_SPECIFIC)
    assert Composite(Operator.SUPER_BAG, Operator.MORE_SPECIFIC) is first
    assert read_operator("super_bag/more_specific") is read_operator("#>/@>") is first
    assert pickle.loads(pickle.dumps(Negated(first))) is Negated(first)


def test_negating_twice_changes_nothing() -> None:
    for operator in Operator:
        if operator is not Operator.EXISTS:
            assert negate_operator(negate_operator(operator)) is operator
    assert Negated(Operator.LT) is Operator.GE
    with pytest.raises(InvalidInputError):
        negate_operator(Operator.EXISTS)


def test_operators_nest_only_so_deep() -> None:
    read_operator("#</" * (MAX_COMPOSITE_DEPTH - 1) + "#<")
    for text in ("#</" * 40 + "=", "!" * 100 + "#<", "#</" * MAX_COMPOSITE_DEPTH + "#<"):
        with pytest.raises(LimitError):
            read_operator(text)
    for text in ("", "/", "#<//", "foo", "=/=", "#</"):
        with pytest.raises(InvalidInputError):
            read_operator(text)


def test_equal_filters_are_equal_however_they_were_written() -> None:
    a, b, c = Constraint("b", "=", 1), Constraint("a", "<", 2), Constraint("a", "<", 2.0)
    assert Filter([a, b]) == Filter([b, c, a, a])
    assert hash(Filter([a, b])) == hash(Filter([b, c, a]))
    assert Filter([a, b]).constraints == (b, a)
    assert Constraint("a", "=", True) != Constraint("a", "=", 1)
    assert Constraint("a", "#=", [True]) != Constraint("a", "#=", [1])
    first, second = Filter([a]), Filter([b])
    assert Subscription([first, second]) == Subscription([second, first, second])


def test_the_canonical_order_is_the_same_in_every_process() -> None:
    program = (
        "from kbn.filters import Constraint as C, Filter, Subscription, Bag\n"
        "parts=[C('a','=',v) for v in ['x',1,True,2.5,Bag(1,'q'),Bag('q'),b'z']]\n"
        "parts+=[C('b','!*','y'),C('b','>*','y')]\n"
        "print(Subscription([Filter(parts), Filter(parts[:3]), Filter(parts[4:])]))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize(
    ("operator", "operand"),
    [
        ("<", True), ("<", [1]), ("<", b"x"), (">*", 1), ("*>", Class("c")), ("@>", "text"),
        ("@>", Individual("i")), ("@~", 3), ("@=", Individual("i")), ("@*", Class("c")),
        ("@*", "p"), ("#<", 1), ("#>/@>", ["a"]), ("#>/<", [True]), ("#</#<", [1]),
        ("=", Relation(Property("p"), Individual("i"))), ("=", None), ("any", 1),
        ("#=", [Relation(Property("p"), Individual("i"))]), ("!#>/@>", ["a"]),
    ],
)  # fmt: skip
def test_an_operand_must_fit_its_operator(operator: str, operand: object) -> None:
    with pytest.raises(InvalidInputError):
        Constraint("x", operator, operand)


def test_places_imply_kinds() -> None:
    assert Constraint("x", "@=", Term("c")).operand == Class("c")
    assert Constraint("x", "#>/@=", [Term("c")]).operand == Bag(Class("c"))
    relation = Constraint("x", "@*", [Term("p"), Term("i")]).operand
    assert relation == Relation(Property("p"), Individual("i"))
    assert Constraint("x", "#>/@*", [relation]).operand == Bag(relation)


@pytest.mark.parametrize("name", ["", 3, None, "x" * 2000, "\ud800"])
def test_attribute_names_are_checked(name: object) -> None:
    with pytest.raises(InvalidInputError):
        Constraint(name, "=", 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError):
        Notification({name: 1})  # type: ignore[dict-item]


def test_sizes_have_limits() -> None:
    with pytest.raises(LimitError):
        Filter(Constraint(f"a{i}", "=", 1) for i in range(MAX_CONSTRAINTS + 1))
    with pytest.raises(LimitError):
        Subscription(Filter([Constraint("a", "=", i)]) for i in range(MAX_FILTERS + 1))
    with pytest.raises(InvalidInputError):
        Subscription([])
    with pytest.raises(InvalidInputError):
        Filter(["a = 1"])  # type: ignore[list-item]
    with pytest.raises(LimitError):
        Notification({f"a{i}": 1 for i in range(5000)})


def test_a_notification_is_a_mapping_of_values() -> None:
    noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    seen = Notification({"a": 1, "b": [1, 1]}, id="n", publisher="p", time=noon)
    assert seen["b"] == Bag(1, 1) and len(seen) == 2 and set(seen) == {"a", "b"}
    assert seen == Notification({"b": [1, 1], "a": 1.0}, id="n", publisher="p", time=noon)
    assert seen != Notification({"b": [1, 1], "a": True}, id="n", publisher="p", time=noon)
    assert seen != Notification({"a": 1, "b": [1, 1]})
    assert hash(seen) == hash(pickle.loads(pickle.dumps(seen)))
    with pytest.raises(InvalidInputError):
        Notification({}, time=datetime(2026, 1, 1))
    with pytest.raises(InvalidInputError):
        Notification({}, id=3)  # type: ignore[arg-type]


def test_everything_survives_pickling_and_cannot_be_changed() -> None:
    made = Subscription.parse('a #>/!@> {<urn:c>} and b not contains "x" or c any')
    assert pickle.loads(pickle.dumps(made)) == made
    for thing in (made, made.filters[0], made.filters[0].constraints[0], Notification({})):
        with pytest.raises(AttributeError):
            thing.attribute = "y"


def test_a_subscription_matches_and_covers_by_its_filters() -> None:
    wide, narrow = Subscription.parse("a < 9 or b any"), Subscription.parse("a < 5 or b = 1")
    assert wide.covers(narrow) and not narrow.covers(wide)
    assert wide.matches({"b": "x"}) and not narrow.matches({"b": "x"})
    assert Subscription.parse("true").covers(wide)
    assert Subscription.parse("true").matches({})
