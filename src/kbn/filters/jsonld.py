"""JSON-LD to notifications and back, for one node with literal and term values.

A notification is flat, so the document must be one node: its `@id` is the notification's id, its
properties are the attributes, under the names the document uses (or their IRIs, with
`full_names=True`), and `@type` is the attribute `@type`, a class or a bag of classes.

    {"@id": iri}                        an individual; as are strings of a term typed "@id"
    {"@id": iri, "@type": owl:Class}    a class; rdf:Property and its like: a property;
                                        rdfs:Resource: a term of no stated kind
    {"@value": ..., "@type": ...}       a literal: XSD numbers, booleans, strings, times, binary
    arrays, @set, @list                 a bag

Contexts are inline objects, or are looked up in `contexts`; nothing is ever fetched. What has no
place in a flat notification (nested nodes, reverse properties, several nodes) is an error.
Publisher and time are `dcterms:publisher` and `dcterms:issued`. Language tags are dropped.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urljoin

from kbn.errors import InvalidInputError, LimitError
from kbn.filters.json_form import decode_json
from kbn.filters.notification import Notification
from kbn.filters.printing import print_time
from kbn.filters.values import MAX_BAG_DEPTH, Bag, Operand, Relation, Value, check_value
from kbn.ontology import Class, Individual, Property, Term

__all__ = ["ATTRIBUTE_NAMESPACE", "from_jsonld", "to_jsonld"]

ATTRIBUTE_NAMESPACE = "urn:kbn:attribute:"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_OWL = "http://www.w3.org/2002/07/owl#"
_PUBLISHER = "http://purl.org/dc/terms/publisher"
_ISSUED = "http://purl.org/dc/terms/issued"

_KINDS: dict[str, type[Term]] = {
    _OWL + "Class": Class,
    _RDFS + "Class": Class,
    _RDF + "Property": Property,
    _OWL + "ObjectProperty": Property,
    _OWL + "DatatypeProperty": Property,
    _OWL + "AnnotationProperty": Property,
    _OWL + "NamedIndividual": Individual,
    _RDFS + "Resource": Term,
}
_MARK = {Class: _OWL + "Class", Property: _RDF + "Property", Term: _RDFS + "Resource"}


class _Definition(NamedTuple):
    """What a context says of one term."""

    iri: str
    type: str | None


class _Context(NamedTuple):
    """What the contexts say together."""

    terms: dict[str, _Definition]
    vocab: str | None
    base: str


_NOTHING_SAID = _Context({}, None, "")
_UNDERSTOOD = frozenset({"@vocab", "@base", "@language", "@version", "@protected", "@direction"})


def from_jsonld(
    data: object,
    *,
    contexts: Mapping[str, object] | None = None,
    full_names: bool = False,
) -> Notification:
    """The notification a document stands for; `data` is the document, or its JSON text.

    `contexts` maps the addresses of contexts that documents may name to the contexts themselves.

    >>> from_jsonld({"@id": "urn:n:1", "title": "Tea", "about": {"@id": "urn:x#Assam"}})
    Notification({'title': 'Tea', 'about': Individual('urn:x#Assam')}, id='urn:n:1')
    """
    node = _one_node(decode_json(data))
    context = _read_context(_NOTHING_SAID, node.get("@context", {}), contexts or {}, 0)
    attributes: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    for name, value in node.items():
        if name != "@context" and value is not None:
            _read_entry(name, value, context, full_names, attributes, facts)
    return Notification(
        attributes,
        id=facts.get("id"),
        publisher=facts.get("publisher"),
        time=facts.get("time"),
    )


def to_jsonld(notification: Notification) -> dict[str, Any]:
    """The notification as a document with its own context; reading it gives an equal one.

    >>> to_jsonld(Notification({"title": "Tea"}, id="urn:n:1"))["title"]
    'Tea'
    """
    node: dict[str, Any] = {"@context": {"@vocab": ATTRIBUTE_NAMESPACE}}
    if notification.id is not None:
        node["@id"] = notification.id
    for name, value in notification.attributes.items():
        if name == "@type":
            node[name] = _written_types(value)
        elif name.startswith("@") or name in (_PUBLISHER, _ISSUED):
            raise InvalidInputError(f"attribute {name!r} has another meaning in JSON-LD")
        else:
            node[name] = _written(value)
    if notification.publisher is not None:
        node[_PUBLISHER] = notification.publisher
    if notification.time is not None:
        node[_ISSUED] = _typed(print_time(notification.time), "dateTime")
    return node


# Out.


def _typed(value: object, name: str) -> dict[str, object]:
    return {"@value": value, "@type": _XSD + name}


def _written(value: Operand) -> Any:
    if isinstance(value, float):
        return _written_float(value)
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Bag):
        return {"@list": [_written(item) for item in value.items]}
    if isinstance(value, bytes):
        return _typed(base64.b64encode(value).decode("ascii"), "base64Binary")
    if isinstance(value, datetime):
        return _typed(print_time(value), "dateTime")
    assert not isinstance(value, Relation)
    mark = _MARK.get(type(value))
    return {"@id": value.iri} if mark is None else {"@id": value.iri, "@type": mark}


def _written_float(value: float) -> Any:
    if math.isinf(value):
        return _typed("INF" if value > 0 else "-INF", "double")
    return _typed(value, "double") if value.is_integer() else value


def _written_types(value: Value) -> str | list[str]:
    items = value.items if isinstance(value, Bag) else (value,)
    iris = [item.iri for item in items if isinstance(item, Class)]
    if len(iris) != len(items):
        raise InvalidInputError("the attribute '@type' must be a class or a bag of classes")
    return iris if isinstance(value, Bag) else iris[0]


# In: the context.


def _one_node(data: object) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise InvalidInputError("$: a JSON-LD notification is one object")
    if not all(isinstance(name, str) for name in data):
        raise InvalidInputError("$: the names in a JSON-LD object are strings")
    graph = data.get("@graph")
    if graph is None:
        return data
    if data.keys() - {"@graph", "@context"} or not isinstance(graph, list) or len(graph) != 1:
        raise InvalidInputError("$.@graph: a notification is exactly one node")
    inner = _one_node(graph[0]) if "@graph" not in _dict(graph[0]) else None
    if inner is None or "@context" in inner:
        raise InvalidInputError("$.@graph[0]: the context belongs beside @graph")
    return {"@context": data.get("@context", {}), **inner}


def _dict(data: object) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


def _read_context(
    context: _Context, data: object, known: Mapping[str, object], depth: int
) -> _Context:
    if depth > 8:
        raise LimitError("contexts refer to contexts too deep", limit="contexts", maximum=8)
    if data is None:
        return _NOTHING_SAID
    if isinstance(data, str):
        if data not in known:
            raise InvalidInputError(
                f"$.@context: <{data}> is not at hand, and contexts are never fetched; "
                "put the context into the document or pass it in `contexts`"
            )
        held = known[data]
        inner = held.get("@context", held) if isinstance(held, Mapping) else held
        return _read_context(context, inner, known, depth + 1)
    if isinstance(data, list):
        for item in data:
            context = _read_context(context, item, known, depth + 1)
        return context
    if not isinstance(data, Mapping):
        raise InvalidInputError("$.@context: a context is an object, or a list of objects")
    return _with_definitions(context, data)


def _with_definitions(context: _Context, data: Mapping[Any, Any]) -> _Context:
    for name in data:
        if not isinstance(name, str) or (name.startswith("@") and name not in _UNDERSTOOD):
            raise InvalidInputError(f"$.@context: {name!r} is not supported")
    vocab, base = data.get("@vocab", context.vocab), data.get("@base", context.base)
    if not isinstance(vocab, (str, type(None))) or not isinstance(base, (str, type(None))):
        raise InvalidInputError("$.@context: @vocab and @base are strings")
    made = _Context(dict(context.terms), vocab, base or "")
    raw = {name: item for name, item in data.items() if not name.startswith("@")}
    for name in raw:
        definition = _definition(name, raw, made, 0)
        if definition is None:
            made.terms.pop(name, None)
        else:
            made.terms[name] = definition
    return made


def _definition(
    name: str, raw: Mapping[str, Any], context: _Context, depth: int
) -> _Definition | None:
    """A term's definition; its IRI may use other terms of the same context as prefixes."""
    if depth > 8:
        raise InvalidInputError(f"$.@context.{name}: the definition goes round in circles")
    item = raw[name]
    if item is None:
        return None
    if isinstance(item, str):
        item = {"@id": item}
    if not isinstance(item, dict) or item.keys() - {"@id", "@type", "@container", "@language"}:
        raise InvalidInputError(f"$.@context.{name}: only @id, @type and @container are supported")
    iri, kind = item.get("@id", name), item.get("@type")
    if not isinstance(iri, str) or not isinstance(kind, (str, type(None))):
        raise InvalidInputError(f"$.@context.{name}: @id and @type are strings")
    if item.get("@container") not in (None, "@set", "@list"):
        raise InvalidInputError(f"$.@context.{name}: this @container is not supported")
    return _Definition(
        _defined_iri(name, iri, raw, context, depth),
        None if kind is None else _defined_iri(name, kind, raw, context, depth),
    )


def _defined_iri(name: str, iri: str, raw: Mapping[str, Any], context: _Context, depth: int) -> str:
    prefix, colon, rest = iri.partition(":")
    if colon and prefix in raw and prefix != name and not rest.startswith("//"):
        outer = _definition(prefix, raw, context, depth + 1)
        return (outer.iri if outer else "") + rest
    if iri in raw and iri != name:
        outer = _definition(iri, raw, context, depth + 1)
        return outer.iri if outer else iri
    return _expanded(iri, context) if iri != name or colon else (context.vocab or "") + iri


def _expanded(name: str, context: _Context) -> str:
    """The IRI of a term, a compact IRI, or a word of the vocabulary; as given if none of these."""
    if name.startswith("@"):
        return name
    if name in context.terms:
        return context.terms[name].iri
    prefix, colon, rest = name.partition(":")
    if colon and prefix in context.terms and not rest.startswith("//"):
        return context.terms[prefix].iri + rest
    return name if colon or context.vocab is None else context.vocab + name


def _resolved(iri: str, context: _Context) -> str:
    """The IRI of a node: compact or relative to the base."""
    if ":" in iri:
        return _expanded(iri, context)
    try:
        return urljoin(context.base, iri) if context.base else iri
    except ValueError as error:
        raise InvalidInputError(f"$: {iri!r} is not an IRI: {error}") from None


# In: the node.


def _read_entry(
    name: str,
    value: Any,
    context: _Context,
    full_names: bool,
    attributes: dict[str, Any],
    facts: dict[str, Any],
) -> None:
    iri = _expanded(name, context)
    if iri == "@id":
        facts["id"] = _resolved(_text(value, name), context)
    elif iri == "@type":
        attributes["@type"] = _read_types(value, context)
    elif iri.startswith("@"):
        raise InvalidInputError(f"$.{name}: {iri} has no place in a notification")
    elif iri == _PUBLISHER:
        facts["publisher"] = value["@id"] if isinstance(value, dict) and "@id" in value else value
    elif iri == _ISSUED:
        facts["time"] = _read(value, name, context, 0)
    else:
        attributes[iri if full_names else name] = _read(value, name, context, 0)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInputError(f"$.{name}: expected a non-empty string, found {value!r:.60}")
    return value


def _read_types(value: object, context: _Context) -> Value:
    names = value if isinstance(value, list) else [value]
    classes = [Class(_expanded(_text(item, "@type"), context)) for item in names]
    return Bag(*classes) if isinstance(value, list) else classes[0]


def _read(value: Any, name: str, context: _Context, depth: int) -> Value:
    if depth > MAX_BAG_DEPTH:
        raise LimitError(
            f"bags are nested more than {MAX_BAG_DEPTH} deep",
            limit="bag depth",
            maximum=MAX_BAG_DEPTH,
        )
    if isinstance(value, list):
        return Bag(*(_read(item, name, context, depth + 1) for item in value))
    if isinstance(value, dict):
        return _read_object(value, name, context, depth)
    kind = context.terms[name].type if name in context.terms else None
    if kind is not None and isinstance(value, str):
        return _read_by_type(value, kind, name, context)
    return _checked(value, name)


def _read_by_type(value: str, kind: str, name: str, context: _Context) -> Value:
    if kind == "@id":
        return Individual(_resolved(_text(value, name), context))
    if kind == "@vocab":
        return Term(_expanded(_text(value, name), context))
    return _literal(value, kind, name)


def _read_object(value: dict[Any, Any], name: str, context: _Context, depth: int) -> Value:
    parts = {_expanded(key, context): item for key, item in value.items() if isinstance(key, str)}
    if "@value" in parts:
        return _read_value(parts, name, context)
    for wrapper in ("@list", "@set"):
        if parts.keys() == {wrapper}:
            inner = parts[wrapper]
            return _read(inner if isinstance(inner, list) else [inner], name, context, depth)
    if "@id" in parts and parts.keys() <= {"@id", "@type"}:
        return _read_reference(parts, name, context)
    raise InvalidInputError(
        f"$.{name}: a nested object has no place in a notification; refer to it by @id alone"
    )


def _read_value(parts: dict[str, Any], name: str, context: _Context) -> Value:
    if parts.keys() - {"@value", "@type", "@language", "@direction"}:
        raise InvalidInputError(f"$.{name}: only @type and @language go with @value")
    kind = parts.get("@type")
    if kind is None:
        return _checked(parts["@value"], name)
    return _literal(parts["@value"], _expanded(_text(kind, name), context), name)


def _read_reference(parts: dict[str, Any], name: str, context: _Context) -> Value:
    iri = _resolved(_text(parts["@id"], name), context)
    if "@type" not in parts:
        return Individual(iri)
    kinds = parts["@type"] if isinstance(parts["@type"], list) else [parts["@type"]]
    found = {_KINDS.get(_expanded(_text(kind, name), context), Individual) for kind in kinds}
    if len(found) != 1:
        raise InvalidInputError(f"$.{name}: @type makes <{iri}> several kinds of term at once")
    return found.pop()(iri)


def _checked(value: object, name: str) -> Value:
    if value is None or isinstance(value, (list, dict)):
        raise InvalidInputError(f"$.{name}: {value!r:.60} is not a literal")
    try:
        return check_value(value)
    except LimitError:
        raise
    except InvalidInputError as error:
        raise InvalidInputError(f"$.{name}: {error}") from None


_INTEGERS = [
    "integer", "int", "long", "short", "byte", "nonNegativeInteger", "positiveInteger",
    "nonPositiveInteger", "negativeInteger", "unsignedInt", "unsignedLong", "unsignedShort",
    "unsignedByte",
]  # fmt: skip
_SPECIAL = {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf}


def _read_float(value: object) -> object:
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    return float(value)  # type: ignore[arg-type]


def _read_integer(value: object) -> object:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError(f"{value!r} is not an integer")
    return int(value)  # type: ignore[call-overload]


def _read_boolean(value: object) -> object:
    known = {"true": True, "1": True, "false": False, "0": False}
    return value if isinstance(value, bool) else known[str(value)]


_LITERALS: dict[str, Callable[[Any], object]] = {
    **dict.fromkeys((_XSD + name for name in _INTEGERS), _read_integer),
    **dict.fromkeys((_XSD + name for name in ("double", "float", "decimal")), _read_float),
    _XSD + "string": lambda value: value,
    _XSD + "anyURI": lambda value: value,
    _XSD + "boolean": _read_boolean,
    _XSD + "dateTime": datetime.fromisoformat,
    _XSD + "dateTimeStamp": datetime.fromisoformat,
    _XSD + "base64Binary": lambda value: base64.b64decode(value, validate=True),
    _XSD + "hexBinary": bytes.fromhex,
}


def _literal(value: object, kind: str, name: str) -> Value:
    if kind not in _LITERALS:
        raise InvalidInputError(f"$.{name}: literals of type <{kind}> are not supported")
    try:
        made = _LITERALS[kind](value)
    except (ValueError, TypeError, KeyError, OverflowError, binascii.Error) as error:
        raise InvalidInputError(f"$.{name}: {value!r:.60} is no <{kind}>: {error}") from None
    return _checked(made, name)
