"""Values: families, equality, and what the door lets in."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest

from kbn.errors import InvalidInputError, LimitError
from kbn.filters.values import (
    MAX_BAG_DEPTH,
    MAX_BAG_SIZE,
    Bag,
    Family,
    Relation,
    check_value,
    order_key,
    value_family,
)
from kbn.ontology.terms import Class, Individual, Property, Term


def test_a_bag_ignores_order_and_keeps_multiplicity() -> None:
    assert Bag(1, 1, 2) == Bag(2, 1, 1)
    assert Bag(1, 1, 2) != Bag(1, 2)
    assert hash(Bag(1, 1, 2)) == hash(Bag(2, 1, 1))
    assert [*Bag(3, 1, 2)] == [3, 1, 2]


def test_truth_numbers_and_text_stay_apart() -> None:
    assert Bag(True) != Bag(1)
    assert Bag(1) != Bag("1")
    assert Bag(1) == Bag(1.0)
    assert Bag(Bag(True)) != Bag(Bag(1))
    assert 1 in Bag(1.0) and True not in Bag(1)


def test_containers_become_bags() -> None:
    assert check_value([1, (2, {3})]) == Bag(1, Bag(2, Bag(3)))
    assert value_family(check_value([])) is Family.BAG


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (np.int32(5), 5),
        (np.float64(2.5), 2.5),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (bytearray(b"x"), b"x"),
    ],
)
def test_scalars_of_other_libraries_become_plain(given: object, made: object) -> None:
    assert check_value(given) == made and type(check_value(given)) is type(made)
    assert check_value(np.array([1, 2])) == Bag(1, 2)


def test_times_are_kept_in_utc() -> None:
    local = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert check_value(local) == datetime(2026, 1, 1, tzinfo=UTC)
    assert check_value(local).tzinfo is UTC  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "nonsense",
    [
        None,
        float("nan"),
        2**63,
        -(2**63) - 1,
        10**5000,
        datetime(2026, 1, 1),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2))),
        Decimal(1),
        {"a": 1},
        object(),
        1j,
        "\ud800",
        Relation(Property("p"), Individual("i")),
        [Relation(Property("p"), Individual("i"))],
        np.datetime64("2026-01-01T00:00:00", "ns"),
    ],
    ids=lambda value: f"{type(value).__name__}",
)
def test_nonsense_is_refused_with_a_reason(nonsense: object) -> None:
    with pytest.raises(InvalidInputError):
        check_value(nonsense)


def test_bags_have_limits() -> None:
    deep: object = 1
    for _ in range(MAX_BAG_DEPTH):
        deep = [deep]
    assert isinstance(check_value(deep), Bag)
    with pytest.raises(LimitError):
        check_value([deep])
    with pytest.raises(LimitError):
        Bag(Bag(*[check_value(deep)]))
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(LimitError):
        check_value(endless)
    with pytest.raises(LimitError):
        check_value([0] * (MAX_BAG_SIZE + 1))


def test_a_relation_gives_bare_terms_their_kinds() -> None:
    relation = Relation(Term("p"), Term("i"))
    assert relation == Relation(Property("p"), Individual("i"))
    with pytest.raises(InvalidInputError):
        Relation(Class("p"), Individual("i"))


def test_values_survive_pickling_and_cannot_be_changed() -> None:
    for value in (Bag(1, Class("c"), Bag()), Relation(Property("p"), Individual("i"))):
        assert pickle.loads(pickle.dumps(value)) == value
        with pytest.raises(AttributeError):
            value.items = ()  # type: ignore[union-attr, misc]


def test_the_order_of_operands_is_total_and_agrees_with_equality() -> None:
    mixed = [Bag(1), "a", 2, True, None, Class("c"), Term("c"), b"x", 2.0, Bag(True), Bag("a", 1)]
    ordered = sorted(mixed, key=order_key)
    assert ordered[0] is None
    assert order_key(2) == order_key(2.0) and order_key(True) != order_key(1)
