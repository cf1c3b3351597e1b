"""Conditions over columns agree with celpy, which goes row by row, and bad ones are refused."""

from __future__ import annotations

from typing import Any

import celpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbn.errors import LimitError
from kbn.management.conditions import LENGTH_MAX, Condition, ConditionError, Quantity
from kbn.management.expressions import Overlay, RowByRow
from kbn.management.mib import Mib
from kbn.management.reports import (
    BrokerInfo,
    BrokerMedoid,
    MedoidGroup,
    NotificationReport,
    SubscriberInfo,
)
from kbn.management.row_by_row import environment

NOW = 100.0
OVERLAY = Overlay(brokers=3, subscribers=6, publishers=0, clusters=2)
LARGEST = 2**63 - 1


def some_subscribers() -> Mib:
    mib = Mib()
    medoids = ["ex:Tea", None, "ex:Cat", "ex:Tea", "other", "é"]
    for number, medoid in enumerate(medoids):
        name, count = f"s{number}", LARGEST if number == 4 else number
        mib.apply(SubscriberInfo(name, f"b{number % 2}", medoid, number / 2, count), 10.0 * number)
        if number % 3:
            report = NotificationReport.of(name, "b0", {number: 3, 2: number}, {f"p{number}": 5})
            mib.apply(report, 50.0)
    mib.mark("subscriber", "s1", "odd")
    mib.mark("subscriber", "s3", "odd")
    mib.mark("subscriber", "s3", "late")
    mib.placed("subscriber", "s2", "b0", 20.0)
    return mib


MIB = some_subscribers()


def ours(text: str) -> list[bool]:
    rows = MIB.rows("subscriber", NOW, OVERLAY)
    holds = Condition.parse(text, "subscriber").holds(rows)
    return [bool(each) for each in holds]


def one_by_one(text: str) -> list[bool]:
    """What the condition gives when it is asked of one object at a time."""
    condition = Condition.parse(text, "subscriber")
    return [
        bool(condition.holds(MIB.rows("subscriber", NOW, OVERLAY, f"s{number}"))[0])
        for number in range(6)
    ]


def theirs(text: str) -> list[bool]:
    program = environment().program(environment().compile(text))
    overlay = {"brokers": 3, "subscribers": 6, "publishers": 0, "clusters": 2}
    answers = []
    for each in MIB.objects("subscriber"):
        fields: Any = celpy.json_to_cel(each.to_json())
        given = {
            "subscriber": fields,
            "overlay": celpy.json_to_cel(overlay),
            "now": celpy.celtypes.DoubleType(NOW),
        }
        try:
            answers.append(bool(program.evaluate(given)))
        except celpy.CELEvalError:
            answers.append(False)
    return answers


# Pairs of a text for us and one for celpy: they differ only where has() of a map means less.


def joined(pattern: str, *parts: st.SearchStrategy[tuple[str, str]]) -> Any:
    return st.tuples(*parts).map(
        lambda given: (
            pattern.format(*(one for one, _ in given)),
            pattern.format(*(other for _, other in given)),
        )
    )


def same(texts: str | list[str]) -> st.SearchStrategy[tuple[str, str]]:
    several = texts.split() if isinstance(texts, str) else texts
    return st.sampled_from(several).map(lambda text: (text, text))


def applied(inner: Any, symbols: str) -> Any:
    return st.one_of(*(joined(f"({{}} {symbol} {{}})", inner, inner) for symbol in symbols.split()))


whole = st.recursive(
    same(
        "0 1 (-1) 7 (-7) 9223372036854775807 (-9223372036854775808) 0x10 overlay.brokers "
        "overlay.clusters subscriber.subscriptions subscriber.notifications subscriber.moves"
    ),
    lambda inner: applied(inner, "+ - * / %") | joined("(-{})", inner),
    max_leaves=4,
)
fractions = st.recursive(
    same(
        "0.0 1.5 (-2.5) 1e3 now subscriber.spread subscriber.mean_hops subscriber.seen_at "
        "double(subscriber.notifications) double(2)"
    ),
    # Never by zero: that is infinite or no number, as the language has it; celpy says infinite.
    lambda inner: st.one_of(
        applied(inner, "+ - *"), joined("(-{})", inner), joined("({} / {})", inner, same("2.5 now"))
    ),
    max_leaves=4,
)
texts = same(
    "'' 'b0' 'ex:Tea' \"é\" 's3' 'never' subscriber.name subscriber.broker subscriber.medoid "
    "subscriber.placed_on"
)
orders = "== != < <= > >="
has = st.sampled_from(
    [("medoid", "''"), ("broker", "''"), ("notifications", "0"), ("spread", "0.0")]
).map(lambda field: (f"has(subscriber.{field[0]})", f"subscriber.{field[0]} != {field[1]}"))
leaves = st.one_of(
    same(["true", "false", "'odd' in subscriber.marks", "'never' in subscriber.marks"]),
    applied(whole, orders),
    applied(fractions, orders),
    applied(texts, orders),
    joined("{}.startsWith({})", texts, texts),
    joined("{}.endsWith({})", texts, texts),
    joined("{}.contains({})", texts, texts),
    joined("({} in [{}, {}])", texts, texts, texts),
    joined("({} in [{}])", whole, whole),
    joined("({} in [])", texts),
    same(["size(subscriber.publishers) == 1", "subscriber.histogram['2'] > 1"]),
    same(["subscriber.name.matches('s[12]')", "size(subscriber.marks) > 0"]),
    has,
)
conditions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        applied(inner, "&& ||"),
        joined("!({})", inner),
        joined("({} && {} && {})", inner, inner, inner),
        joined("({} ? {} : {})", inner, inner, inner),
        joined("({} ? {} : {}) > 1", inner, whole, whole),
        joined("({} ? {} : {}) != 'b1'", inner, texts, texts),
    ),
    max_leaves=5,
)


@given(pair=conditions)
def test_columns_agree_with_celpys_evaluator(pair: tuple[str, str]) -> None:
    text, for_celpy = pair
    # Our histograms have whole numbers as keys; celpy was given the JSON.
    mine = text.replace("histogram['2']", "histogram[2]")
    expected = theirs(for_celpy)
    assert ours(mine) == expected
    assert one_by_one(mine) == expected


@given(pair=whole | fractions)
def test_quantities_agree_with_celpys_evaluator(pair: tuple[str, str]) -> None:
    text, _ = pair
    values = Quantity.parse(text, "subscriber").values(MIB.rows("subscriber", NOW, OVERLAY))
    program = environment().program(environment().compile(text))
    for each, value in zip(MIB.objects("subscriber"), values, strict=True):
        overlay = {"brokers": 3, "subscribers": 6, "publishers": 0, "clusters": 2}
        given: Any = {
            "subscriber": celpy.json_to_cel(each.to_json()),
            "overlay": celpy.json_to_cel(overlay),
            "now": celpy.celtypes.DoubleType(NOW),
        }
        try:
            expected = float(program.evaluate(given))  # type: ignore[arg-type]
        except celpy.CELEvalError:
            expected = float("nan")
        assert value == pytest.approx(expected, nan_ok=True)


# Chosen ones.


def selected(text: str) -> list[str]:
    return MIB.select("subscriber", text, NOW)


def test_a_condition_chooses_objects() -> None:
    assert selected("subscriber.mean_hops > 2.0 && subscriber.notifications >= 7") == ["s4", "s5"]
    assert selected("subscriber.medoid == ''") == ["s1"]
    assert selected("'odd' in subscriber.marks && !('late' in subscriber.marks)") == ["s1"]
    assert selected("subscriber.placed_on == subscriber.broker") == ["s2"]
    assert selected("has(subscriber.histogram)") == ["s1", "s2", "s4", "s5"]
    assert selected("has(subscriber.name) && subscriber.name < 's1'") == ["s0"]


def test_numbers_of_both_kinds_may_be_compared_but_not_added() -> None:
    assert selected("subscriber.spread >= 2") == ["s4", "s5"]
    assert selected("subscriber.subscriptions == 2.0") == ["s2"]
    with pytest.raises(ConditionError, match=r"write 2.0, or double"):
        selected("subscriber.spread + 1 > 2.0")


def test_a_division_by_zero_holds_for_nobody_but_does_not_spoil_an_or() -> None:
    assert selected("6 / subscriber.subscriptions > 1") == ["s1", "s2", "s3"]
    assert selected("6 / subscriber.subscriptions > 1 || subscriber.name == 's0'")[0] == "s0"
    assert selected("6 / subscriber.subscriptions > 1 || false") == ["s1", "s2", "s3"]
    assert selected("!(6 / subscriber.subscriptions < 1 && true)") == ["s1", "s2", "s3", "s5"]
    assert selected("subscriber.subscriptions + 1 > 0") == ["s0", "s1", "s2", "s3", "s5"]


def test_whole_numbers_are_divided_towards_zero() -> None:
    assert selected("-subscriber.subscriptions / 2 == -1") == ["s2", "s3"]
    assert selected("-subscriber.subscriptions % 2 == -1") == ["s1", "s3", "s4", "s5"]
    assert selected("subscriber.subscriptions / -2 == -1") == ["s2", "s3"]


def test_fractions_by_zero_are_infinite_or_no_number() -> None:
    assert selected("1.0 / 0.0 > 1e300 && -1.0 / 0.0 < -1e300") == [f"s{n}" for n in range(6)]
    assert selected("subscriber.spread / 0.0 >= 0.0") == [f"s{n}" for n in range(1, 6)]


def test_without_a_kind_only_the_overlay_and_the_time_are_known() -> None:
    condition = Condition.parse("overlay.brokers >= 2 && now > 5.0", None)
    assert not condition.reads_object
    with pytest.raises(ConditionError, match="there are overlay, now"):
        Condition.parse("subscriber.spread > 1.0", None)


def test_lists_and_maps_are_asked_one_by_one_and_only_where_the_rest_leaves_it_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mib = Mib()
    for number in range(20):
        name = f"b{number:02d}"
        mib.apply(BrokerInfo(name, ""), 1.0)
        groups = tuple(MedoidGroup(f"m{each}", 0.5, each) for each in range(number % 3))
        mib.apply(BrokerMedoid(name, None, 0.0, number, groups), 1.0)
    monkeypatch.setattr(RowByRow, "ROWS_MAX", 5)
    asked = "broker.groups.exists(group, group.subscribers == 1)"
    with pytest.raises(LimitError, match="one by one, and there are 20"):
        mib.select("broker", asked)
    for text in (f"broker.subscribers < 5 && {asked}", f"{asked} && broker.subscribers < 5"):
        assert Condition.parse(text, "broker").is_slow
        assert mib.select("broker", text) == ["b02"]
    assert mib.select("broker", f"broker.subscribers < 15 || {asked}")[-1] == "b17"
    assert mib.select("broker", "broker.subscribers < 3 && broker.groups[1].spread == 0.5") == [
        "b02"
    ]


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("subscriber.mean_hop > 1.5", 12, "did you mean 'mean_hops'"),
        ("true && subscriber.foo == 1", 20, "no field 'foo'"),
        ("subscribr.spread > 1.0", 1, "did you mean 'subscriber'"),
        ("broker.load > 1.0", 1, "unknown name 'broker'"),
        ("overlay.broker > 1", 9, "did you mean 'brokers'"),
        ("subscriber.spread", 1, "a condition is true or false"),
        ("subscriber.spread && true", 1, "&& joins what is true or false"),
        ("!subscriber.name", 2, "! is for what is true or false"),
        ("subscriber.name > 1", 1, "cannot compare a text with a whole number"),
        ("true < false", 1, "no meaning between true and false"),
        ("subscriber.name - 'a' == 'b'", 1, "- is for numbers"),
        ("-subscriber.name == 'b'", 2, "- is for numbers"),
        ("subscriber.spread % 2.0 == 0.0", 1, "% is for whole numbers"),
        ("subscriber.marks == 'a'", 1, "marks are asked for one at a time"),
        ("'a' in subscriber.broker", 8, "in needs a list or marks"),
        ("1 in subscriber.marks", 1, "a mark is a text"),
        ("subscriber.name in [1]", 1, "cannot compare"),
        ("subscriber.name.startsWith(1)", 28, "startsWith is for texts"),
        ("subscriber.name.startsWith()", 17, "takes one text"),
        ("subscriber.spread > 1.0 ? 1 : 'a'", 31, "must be alike"),
        ("has(now)", 5, "asks for a field"),
        ("subscriber", 1, "alone has no value"),
        ("99999999999999999999 > 1", 1, "too large"),
        ("size(subscriber.marks)", 1, "neither true nor false"),
        ("size(3) == 1", 1, "types do not allow"),
        ("nosuch(subscriber.name)", 1, "no function nosuch"),
        ("subscriber.name.nosuch()", 17, "no function nosuch"),
        ("size(subscriber.histgram) > 1", 17, "did you mean 'histogram'"),
        ("size(nobody.name) > 1", 6, "unknown name 'nobody'"),
        ("a &&", 3, "not CEL"),
        ("subscriber.name == 'x", 20, "not CEL"),
        ("  ", 1, "empty"),
        ("1 == 1 " * 1000, 1, f"longer than {LENGTH_MAX}"),
        ("!" * 3000 + "true", 1, "nested too deeply"),
    ],
)
def test_what_has_no_meaning_is_refused_with_its_column(
    text: str, column: int, reason: str
) -> None:
    with pytest.raises(ConditionError) as refused:
        Condition.parse(text, "subscriber")
    assert reason in refused.value.reason
    assert (refused.value.line, refused.value.column) == (1, column)


def test_the_line_is_told_too() -> None:
    with pytest.raises(ConditionError) as refused:
        Condition.parse("true &&\n  subscriber.nam == ''", "subscriber")
    assert (refused.value.line, refused.value.column) == (2, 14)


@pytest.mark.parametrize("text", ["subscriber.name", "true", "size(subscriber.marks)"])
def test_a_quantity_is_a_number_of_plain_fields(text: str) -> None:
    with pytest.raises(ConditionError):
        Quantity.parse(text, "subscriber")


def test_conditions_are_equal_by_what_they_say() -> None:
    one, other = (Condition.parse("overlay.brokers > 1", None) for _ in range(2))
    assert one == other and hash(one) == hash(other)
    assert one != Condition.parse("overlay.brokers > 2", None)
    assert one != Condition.parse("overlay.brokers > 1", "broker")
