"""The JSON form of values, constraints, filters, subscriptions and notifications, both ways.

    value         true, 12, 2.5, "text"                 as they are
                  [1, 1, "a"]                           a bag
                  {"class": iri}  {"property": iri}  {"individual": iri}  {"term": iri}
                  {"time": "2026-11-15T10:00:00Z"}  {"bytes": base64}  {"float": "inf"}
    constraint    {"attribute": "category", "op": "#>/@>", "value": ...}, "not": true if negated
    filter        {"all": [constraint, ...]}
    subscription  {"any": [filter, ...]}, or one filter, or a list of constraints
    notification  {"attributes": {name: value, ...}, "id": ..., "publisher": ..., "time": ...}, or
                  just {name: value, ...}

The operand of `@*` is {"property": iri, "individual": iri}. Decoders take data or JSON text, and
answer anything else with InvalidInputError that begins with the path to the trouble, as in
`$.any[0].all[1].value: ...`.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NoReturn, TypeVar

from kbn.errors import InvalidInputError, LimitError
from kbn.filters.model import Constraint, Filter, Subscription
from kbn.filters.notification import Notification
from kbn.filters.operators import AnyOperator, Negated, negate_operator, read_operator
from kbn.filters.printing import print_time
from kbn.filters.values import MAX_BAG_DEPTH, Bag, Operand, Relation, Value, check_value
from kbn.ontology import Class, Individual, Property, Term

__all__ = [
    "constraint_from_json",
    "constraint_to_json",
    "decode_json",
    "filter_from_json",
    "filter_to_json",
    "notification_from_json",
    "notification_to_json",
    "subscription_from_json",
    "subscription_to_json",
    "value_from_json",
    "value_to_json",
]

T = TypeVar("T")


# Out.


def value_to_json(value: Operand) -> Any:
    """The value as JSON-ready data.

    >>> value_to_json(Bag(1, Class("urn:x#Tea")))
    [1, {'class': 'urn:x#Tea'}]
    """
    if isinstance(value, float) and math.isinf(value):
        return {"float": "inf" if value > 0 else "-inf"}
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Bag):
        return [value_to_json(item) for item in value.items]
    if isinstance(value, Term):
        return {value.kind: value.iri}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, datetime):
        return {"time": print_time(value)}
    return {"property": value.property.iri, "individual": value.individual.iri}


def constraint_to_json(constraint: Constraint) -> dict[str, Any]:
    """The constraint as JSON-ready data.

    >>> constraint_to_json(Constraint("age", ">=", 18))
    {'attribute': 'age', 'op': '>=', 'value': 18}
    """
    operator = constraint.operator
    plain = operator.operator if isinstance(operator, Negated) else operator
    made: dict[str, Any] = {"attribute": constraint.attribute, "op": plain.symbol}
    if constraint.operand is not None:
        made["value"] = value_to_json(constraint.operand)
    if plain is not operator:
        made["not"] = True
    return made


def filter_to_json(filter: Filter) -> dict[str, Any]:
    """The filter as JSON-ready data."""
    return {"all": [constraint_to_json(constraint) for constraint in filter.constraints]}


def subscription_to_json(subscription: Subscription) -> dict[str, Any]:
    """The subscription as JSON-ready data."""
    return {"any": [filter_to_json(part) for part in subscription.filters]}


def notification_to_json(notification: Notification) -> dict[str, Any]:
    """The notification as JSON-ready data, always with its "attributes" apart."""
    attributes = {name: value_to_json(value) for name, value in notification.attributes.items()}
    made: dict[str, Any] = {"attributes": attributes}
    if notification.id is not None:
        made["id"] = notification.id
    if notification.publisher is not None:
        made["publisher"] = notification.publisher
    if notification.time is not None:
        made["time"] = print_time(notification.time)
    return made


# In.


def value_from_json(data: object) -> Value:
    """The value such data stands for; JSON text is not decoded here, since a string is a value.

    >>> value_from_json([1, "tea"])
    Bag(1, 'tea')
    """
    return _reported(lambda given: check_value(_value(given, 0)), data)


def constraint_from_json(data: object) -> Constraint:
    """The constraint such data, or such JSON text, stands for.

    >>> constraint_from_json({"attribute": "age", "op": ">=", "value": 18})
    Constraint('age', Operator.GE, 18)
    """
    return _reported(_constraint, decode_json(data))


def filter_from_json(data: object) -> Filter:
    """The filter such data, or such JSON text, stands for."""
    return _reported(_filter, decode_json(data))


def subscription_from_json(data: object) -> Subscription:
    """The subscription such data, or such JSON text, stands for."""
    return _reported(_subscription, decode_json(data))


def notification_from_json(data: object) -> Notification:
    """The notification such data, or such JSON text, stands for."""
    return _reported(_notification, decode_json(data))


def decode_json(data: object) -> object:
    """The data itself, or what the JSON text holds; of a name given twice the last counts.

    >>> decode_json('{"price": 5}'), decode_json({"price": 5})
    ({'price': 5}, {'price': 5})
    """
    if not isinstance(data, (str, bytes, bytearray, memoryview)):
        return data
    import msgspec

    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidInputError(f"this is not JSON: {error}") from None
    except RecursionError:
        raise json_depth_error() from None


def refuse_duplicate_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs, for `json.loads`; a name given twice is a mistake.

    >>> refuse_duplicate_names([("price", 5), ("kind", "tea")])
    {'price': 5, 'kind': 'tea'}
    >>> refuse_duplicate_names([("price", 5), ("price", 6)])
    Traceback (most recent call last):
    kbn.errors.InvalidInputError: an object has the name 'price' twice
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInputError(f"an object has the name {twice!r:.60} twice")
    return found


def json_depth_error() -> LimitError:
    """The error for JSON that no decoder follows to its end.

    >>> json_depth_error().maximum == MAX_BAG_DEPTH
    True
    """
    return LimitError(
        f"the JSON is nested too deep; a bag may be {MAX_BAG_DEPTH} deep",
        limit="MAX_BAG_DEPTH",
        maximum=MAX_BAG_DEPTH,
    )


class _Trouble(Exception):
    """What is wrong, and the way to it, innermost step first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.steps: list[str | int] = []

    def within(self, step: str | int) -> _Trouble:
        self.steps.append(step)
        return self

    def path(self) -> str:
        shown = "$"
        for step in reversed(self.steps):
            shown += f"[{step}]" if isinstance(step, int) else f".{step}"
        return shown


def _reported(read: Callable[[object], T], data: object) -> T:
    """Read, and turn whatever is wrong into the error callers see."""
    try:
        return read(data)
    except _Trouble as trouble:
        raise InvalidInputError(f"{trouble.path()}: {trouble.reason}") from None


def _inside(step: str | int, read: Callable[[Any], T], data: object) -> T:
    try:
        return read(data)
    except _Trouble as trouble:
        raise trouble.within(step) from None
    except LimitError:
        raise
    except InvalidInputError as error:
        raise _Trouble(str(error)).within(step) from None


def _each(read: Callable[[Any], T], items: Iterable[object]) -> list[T]:
    return [_inside(index, read, item) for index, item in enumerate(items)]


def _fail(reason: str) -> NoReturn:
    raise _Trouble(reason)


def _object(data: object, what: str, known: Iterable[str]) -> dict[str, Any]:
    if not isinstance(data, dict):
        _fail(f"{what} is an object, not {_type(data)}")
    known = tuple(known)
    for name in data:
        if name not in known:
            _fail(f"{what} has no {name!r}; it may have {', '.join(known)}")
    return data


def _list(data: object, what: str) -> list[Any]:
    if not isinstance(data, (list, tuple)):
        _fail(f"{what} is a list, not {_type(data)}")
    return list(data)


def _string(data: object, what: str) -> str:
    if not isinstance(data, str):
        _fail(f"{what} is a string, not {_type(data)}")
    return data


def _type(data: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", type(None): "null"}
    return names.get(type(data), f"{type(data).__name__} {data!r:.40}")


def _subscription(data: object) -> Subscription:
    if isinstance(data, dict) and "any" in data:
        given = _object(data, "a subscription", ("any",))
        parts = _inside("any", lambda items: _each(_filter, _list(items, '"any"')), given["any"])
        return _checked(lambda: Subscription(parts))
    if isinstance(data, (dict, list, tuple)):
        return Subscription(_filter(data))
    return _fail(f'a subscription is {{"any": [filter, ...]}}, not {_type(data)}')


def _filter(data: object) -> Filter:
    if isinstance(data, (list, tuple)):
        parts = _each(_constraint, data)
    else:
        given = _object(data, "a filter", ("all",))
        if "all" not in given:
            _fail('a filter is {"all": [constraint, ...]}; "all" is missing')
        parts = _inside(
            "all", lambda items: _each(_constraint, _list(items, '"all"')), given["all"]
        )
    return _checked(lambda: Filter(parts))


def _checked(make: Callable[[], T]) -> T:
    try:
        return make()
    except LimitError:
        raise
    except InvalidInputError as error:
        raise _Trouble(str(error)) from None


def _constraint(data: object) -> Constraint:
    given = _object(data, "a constraint", ("attribute", "op", "value", "not"))
    for name in ("attribute", "op"):
        if name not in given:
            _fail(f"a constraint needs {name!r}")
    attribute = _inside("attribute", lambda item: _string(item, "an attribute"), given["attribute"])
    operator = _inside("op", _operator, given["op"])
    if "not" in given:
        operator = _inside("not", lambda item: _negated(operator, item), given["not"])
    operand = (
        _inside("value", lambda item: _value(item, 0), given["value"]) if "value" in given else None
    )
    return _checked(lambda: Constraint(attribute, operator, operand))


def _operator(data: object) -> AnyOperator:
    return read_operator(_string(data, "an operator"))


def _negated(operator: AnyOperator, data: object) -> AnyOperator:
    if not isinstance(data, bool):
        _fail(f'"not" is true or false, not {_type(data)}')
    return negate_operator(operator) if data else operator


def _value(data: object, depth: int) -> Operand:
    if isinstance(data, (bool, int, float, str)):
        return check_value(data)
    if isinstance(data, (list, tuple)):
        if depth >= MAX_BAG_DEPTH:
            raise LimitError(
                f"bags are nested more than {MAX_BAG_DEPTH} deep",
                limit="bag depth",
                maximum=MAX_BAG_DEPTH,
            )
        if depth == 0:
            try:
                return Bag.of([_element(item, 1) for item in data])
            except (_Trouble, InvalidInputError):
                pass  # read again, to say which element is wrong
        return Bag(*_each(lambda item: _value(item, depth + 1), data))
    if isinstance(data, dict):
        return _tagged(data)
    return _fail(
        "null is not a value; leave the attribute out" if data is None else _no_value(data)
    )


def _element(data: object, depth: int) -> Operand:
    """As `_value`, but what is wrong is not said to be anywhere: three times as fast."""
    if type(data) is list and depth < MAX_BAG_DEPTH:
        return Bag.of([_element(item, depth + 1) for item in data])
    return _value(data, depth)


def _no_value(data: object) -> str:
    return f"{type(data).__name__} is not a JSON value"


def _tagged(data: dict[str, Any]) -> Operand:
    if data.keys() == {"property", "individual"}:
        first = _inside("property", _iri, data["property"])
        return Relation(
            Property(first), Individual(_inside("individual", _iri, data["individual"]))
        )
    if len(data) != 1:
        _fail(f"an object as a value has exactly one of {', '.join(_TAGS)}")
    ((tag, body),) = data.items()
    if tag not in _TAGS:
        _fail(f"there is no kind of value {tag!r}; there are {', '.join(_TAGS)}")
    return _inside(tag, _TAGS[tag], body)


def _iri(data: object) -> str:
    checked_text = check_value(_string(data, "an IRI"))
    assert isinstance(checked_text, str)
    return checked_text


def _time(data: object) -> Value:
    text = _string(data, "a time")
    try:
        return check_value(datetime.fromisoformat(text))
    except InvalidInputError:
        raise
    except ValueError as error:
        return _fail(f"not a time: {error}")


def _bytes(data: object) -> Value:
    try:
        return base64.b64decode(_string(data, "base64").encode(), validate=True)
    except (binascii.Error, UnicodeError) as error:
        return _fail(f"not base64: {error}")


_SPECIAL_FLOATS = {"inf": math.inf, "-inf": -math.inf}


def _float(data: object) -> Value:
    if isinstance(data, str) and data in _SPECIAL_FLOATS:
        return _SPECIAL_FLOATS[data]
    if isinstance(data, bool) or not isinstance(data, (int, float)):
        _fail(f'"float" is a number, "inf" or "-inf", not {_type(data)}')
    try:
        return check_value(float(data))
    except OverflowError:
        return _fail("this number is too large for a float")


_TAGS: dict[str, Callable[[Any], Operand]] = {
    "class": lambda data: Class(_iri(data)),
    "property": lambda data: Property(_iri(data)),
    "individual": lambda data: Individual(_iri(data)),
    "term": lambda data: Term(_iri(data)),
    "time": _time,
    "bytes": _bytes,
    "float": _float,
}

_ENVELOPE = ("attributes", "id", "publisher", "time")


def _notification(data: object) -> Notification:
    if not isinstance(data, dict):
        _fail(f"a notification is an object, not {_type(data)}")
    enveloped = isinstance(data.get("attributes"), dict) and data.keys() <= set(_ENVELOPE)
    if not enveloped:
        attributes = _attributes(data)
        return _checked(lambda: Notification(attributes))
    attributes = _inside("attributes", _attributes, data["attributes"])
    time = _inside("time", _time, data["time"]) if data.get("time") is not None else None
    return _checked(
        lambda: Notification(
            attributes,
            id=data.get("id"),
            publisher=data.get("publisher"),
            time=time,  # type: ignore[arg-type]
        )
    )


def _attributes(data: dict[Any, Any]) -> dict[str, Operand]:
    return {
        name: _inside(str(name), lambda item: _value(item, 0), item) for name, item in data.items()
    }
