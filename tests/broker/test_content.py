"""Content: every notification comes back as it was, and hostile bytes are refused politely."""

from __future__ import annotations

import struct
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.msgpack import Ext
from msgspec.msgpack import encode as pack
from tests.filters.small_worlds import SCALARS, random_value

from kbn.broker.content import decode, encode
from kbn.broker.content_size import value_count
from kbn.errors import InvalidInputError, LimitError
from kbn.filters.notification import MAX_ATTRIBUTES, MAX_NAME, Notification
from kbn.filters.values import (
    MAX_BAG_DEPTH,
    MAX_BAG_SIZE,
    Bag,
    Relation,
    check_value,
    holds_bare_terms,
)
from kbn.ontology.terms import Class, Individual, Property, Term

iris = st.text(min_size=1, max_size=8)
scalars = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.binary(max_size=8)
    | st.datetimes(timezones=st.just(UTC))
    | st.sampled_from([Class, Property, Individual, Term]).flatmap(iris.map)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4).map(lambda items: Bag(*items)), max_leaves=9
)
attributes = st.dictionaries(st.text(min_size=1, max_size=6), values, max_size=6)
seeds = st.integers(0, 2**48)


def same(one: object, other: object) -> bool:
    """Equal, and of the same types all the way down."""
    if type(one) is not type(other):
        return False
    if type(one) is Bag:
        facts = [
            (bag.depth, bag.bare, bag.prefixed, bag.relational, hash(bag)) for bag in (one, other)
        ]
        return facts[0] == facts[1] and all(map(same, one.items, other.items))
    return one == other and repr(one) == repr(other)


@given(attributes)
@settings(max_examples=300)
def test_what_was_encoded_is_decoded(given: dict[str, object]) -> None:
    made = Notification(given)
    again = decode(encode(made))
    assert again == made and hash(again) == hash(made)
    assert list(again) == list(made)
    for name, value in made.items():
        assert same(again[name], value), name


@given(seeds)
def test_values_of_small_worlds_are_decoded_as_they_were(seed: int) -> None:
    random = Random(seed)
    made = {f"a{n}": random_value(random, depth=3) for n in range(5)}
    again = decode(encode(made))
    assert all(same(again[name], made[name]) for name in made)


@pytest.mark.parametrize("value", SCALARS, ids=repr)
def test_every_scalar_alone_and_in_a_bag(value: object) -> None:
    again = decode(encode({"x": value, "y": Bag(value, Bag(value))}))
    assert same(again["x"], value)
    assert same(again["y"], Bag(value, Bag(value)))
    assert holds_bare_terms(again["y"]) is holds_bare_terms(value)


def test_the_form_is_as_documented() -> None:
    made = encode({"n": 1, "c": Class("urn:c"), "b": Bag(Term("urn:t"), b"x")})
    assert made == pack({"n": 1, "c": Ext(1, b"urn:c"), "b": [Ext(4, b"urn:t"), b"x"]})
    assert encode({"p": Property("p")}) == pack({"p": Ext(2, b"p")})
    assert encode({"i": Individual("i")}) == pack({"i": Ext(3, b"i")})
    assert encode({}) == b"\x80"


def test_who_sent_it_comes_along() -> None:
    noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    made = decode(b"\x80", id="n1", publisher="ann", time=noon)
    assert (made.id, made.publisher, made.time) == ("n1", "ann", noon)
    assert made == Notification({}, id="n1", publisher="ann", time=noon)


def test_what_is_not_checked_yet_is_checked_when_encoded() -> None:
    local = datetime(2026, 11, 15, 13, tzinfo=timezone(timedelta(hours=1)))
    assert decode(encode({"at": local, "tags": ["tea"]})).attributes == {
        "at": check_value(local),
        "tags": Bag("tea"),
    }


@pytest.mark.parametrize(
    "given",
    [
        {"x": float("nan")},
        {"x": 2**63},
        {"x": None},
        {"x": datetime(2026, 1, 1)},
        {"x": Relation(Property("p"), Individual("i"))},
        {"x": Bag(Relation(Property("p"), Individual("i")))},
        {"x": Class("\ud800")},
        {"x": "\ud800"},
        {"": 1},
        {1: 1},
        [1],
    ],
    ids=repr,
)
def test_what_no_notification_holds_is_not_encoded(given: object) -> None:
    with pytest.raises(InvalidInputError):
        encode(given)  # type: ignore[arg-type]


def nested(depth: int) -> bytes:
    return b"\x81\xa1x" + b"\x91" * (depth - 1) + b"\x90"


NAN = b"\xcb" + struct.pack(">d", float("nan"))

HOSTILE = {
    "nothing": b"",
    "an opcode that does not exist": b"\xc1",
    "no map": pack([1, 2]),
    "a number": b"\x01",
    "cut short": encode({"a": "tea"})[:-1],
    "something after it": encode({"a": 1}) + b"\x01",
    "a number for a name": pack({1: 1}),
    "bytes for a name": pack({b"a": 1}),
    "an empty name": pack({"": 1}),
    "a long name": pack({"n" * (MAX_NAME + 1): 1}),
    "a name twice": b"\x82\xa1a\x01\xa1a\x02",
    "a name twice in a long map": b"\xde\x00\x02\xa1a\x01\xa1a\x02",
    "nil": pack({"a": None}),
    "a map": pack({"a": {"b": 1}}),
    "a map in a bag": pack({"a": [{"b": 1}]}),
    "nil in a bag": pack({"a": [1, None]}),
    "NaN": b"\x81\xa1a" + NAN,
    "NaN as a single": b"\x81\xa1a\xca\x7f\xc0\x00\x00",
    "NaN in a bag": b"\x81\xa1a\x91" + NAN,
    "NaN in a bag in a bag": b"\x81\xa1a\x91\x91" + NAN,
    "65 bits": pack({"a": 2**63}),
    "65 bits in a bag": pack({"a": [2**64 - 1]}),
    "an empty IRI": pack({"a": Ext(1, b"")}),
    "an IRI that is no text": pack({"a": Ext(1, b"\xff")}),
    "a long IRI that is no text": pack({"a": Ext(1, b"\xff" * 1000)}),
    "an unknown extension": pack({"a": Ext(5, b"x")}),
    "an unknown extension in a bag": pack({"a": [Ext(99, b"x")]}),
    "a term for a name": b"\x81" + pack(Ext(1, b"x")) + b"\x01",
    "a text that is none": b"\x81\xa1a\xa1\xff",
    "half a surrogate": b"\x81\xa1a\xa3\xed\xa0\x80",
    "a time past all calendars": b"\x81\xa1a\xc7\x0c\xff\x00\x00\x00\x00\x7f" + b"\xff" * 7,
    "a time of five bytes": b"\x81\xa1a\xc7\x05\xff12345",
    "more than it has": b"\xdf\xff\xff\xff\xff",
    "an array larger than memory": b"\x81\xa1a\xdd\xff\xff\xff\xff",
    "bags without end": b"\x81\xa1a" + b"\x91" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_are_refused(name: str) -> None:
    with pytest.raises(InvalidInputError):
        decode(HOSTILE[name])


def test_bags_may_be_as_deep_as_stated_and_no_deeper() -> None:
    deepest = decode(nested(MAX_BAG_DEPTH))["x"]
    assert isinstance(deepest, Bag) and deepest.depth == MAX_BAG_DEPTH
    for depth in (MAX_BAG_DEPTH + 1, 200):
        with pytest.raises(LimitError) as caught:
            decode(nested(depth))
        assert caught.value.maximum == MAX_BAG_DEPTH


def test_bags_may_be_as_large_as_stated_and_no_larger() -> None:
    assert len(decode(pack({"x": [1] * MAX_BAG_SIZE}))["x"]) == MAX_BAG_SIZE  # type: ignore[arg-type]
    with pytest.raises(LimitError) as caught:
        decode(pack({"x": [1] * (MAX_BAG_SIZE + 1)}))
    assert caught.value.maximum == MAX_BAG_SIZE


def test_a_notification_may_have_as_many_attributes_as_stated_and_no_more() -> None:
    assert len(decode(pack({f"a{n}": n for n in range(MAX_ATTRIBUTES)}))) == MAX_ATTRIBUTES
    with pytest.raises(LimitError) as caught:
        decode(pack({f"a{n}": n for n in range(MAX_ATTRIBUTES + 1)}))
    assert caught.value.maximum == MAX_ATTRIBUTES


def test_the_reason_names_the_attribute() -> None:
    with pytest.raises(InvalidInputError, match=r"'price'.*NaN"):
        decode(b"\x81\xa5price" + NAN)


def mutated(random: Random, content: bytes) -> bytes:
    """The bytes with some changed, cut out, doubled or put in."""
    made = bytearray(content)
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(made) + 1)
        match random.randrange(5):
            case 0:
                made[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                del made[at : at + random.randrange(1, 4)]
            case 2:
                made[at:at] = random.randbytes(random.randrange(1, 4))
            case 3:
                made[at:at] = made[at : at + 8]
            case _:
                made[at : at + 1] = bytes([random.choice([0xC0, 0xC1, 0xC7, 0xCB, 0xCF, 0xDD])])
    return bytes(made)


@given(attributes, seeds)
@settings(max_examples=300)
def test_mutated_bytes_are_a_notification_or_invalid_input(
    given: dict[str, object], seed: int
) -> None:
    random = Random(seed)
    content = encode(Notification(given))
    for _ in range(20):
        hostile = mutated(random, content)
        try:
            made = decode(hostile)
        except InvalidInputError:
            continue
        # What is let in is what the slow door would have let in, and can be sent on.
        assert all(same(made[name], check_value(value)) for name, value in made.items())
        assert Notification(made.attributes) == made == decode(encode(made))


@given(st.binary(max_size=40))
def test_garbage_is_a_notification_or_invalid_input(garbage: bytes) -> None:
    with suppress(InvalidInputError):
        decode(garbage)


@given(attributes)
def test_values_are_counted_without_reading(given: dict[str, object]) -> None:
    def size(value: object) -> int:
        return 1 + (sum(map(size, value.items)) if isinstance(value, Bag) else 0)

    count = 1 + sum(1 + size(value) for value in given.values())
    padded = encode(given) + bytes(10_000)  # type: ignore[arg-type]
    assert value_count(padded, 10_000) == count
    assert value_count(padded, count) == count
    assert value_count(padded, count - 1) > count - 1


@given(st.binary(max_size=300))
def test_values_of_anything_are_counted(content: bytes) -> None:
    assert value_count(content, 10) >= 0
