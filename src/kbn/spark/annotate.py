"""Annotate: names in notifications become terms of an ontology.

What an attribute holds is looked up by IRI, CURIE, label, synonym, code and local name
(`kbn.ontology.names`), as the kind of term the caller says. The few thousand names that a million
notifications share are looked up once each, and a whole value that was seen before, such as a bag
of categories, costs one dictionary lookup by its JSON text and is never parsed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kbn.config import or_one_of
from kbn.errors import InvalidInputError
from kbn.filters import MAX_BAG_DEPTH
from kbn.ontology import NameIndex, Ontology
from kbn.spark.columns import ANNOTATED, NOTIFICATIONS
from kbn.spark.io import TERM_KINDS
from kbn.spark.shared import ontology_for, opened_ontology
from kbn.spark.shipping import Place

__all__ = ["annotate", "unrecognised"]

MEMORY_MAX = 200_000
"""Values that are remembered before the memory starts afresh."""

Choice = Literal["keep", "drop"]
Key = TypeVar("Key")
Result = TypeVar("Result")
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_UNRECOGNISED = pa.struct([("attribute", pa.string()), ("text", pa.string())])


def annotate(
    notifications: DataFrame,
    ontology: Ontology | str | os.PathLike[str],
    fields: Mapping[str, str],
    *,
    unrecognised: Choice = "keep",
) -> DataFrame:
    """The notifications, with terms where the attributes of `fields` hold names of terms.

    `fields` says for each attribute which kind of term its names are of: term (any), class,
    individual or property; `Mapping.terms` is such a dictionary. What names no term stays the text
    it is, or is left out with "drop"; either way it is listed in the column `unrecognised`.

    ```python
    annotated = annotate(notifications, "podcast.ttl", {"category": "class"})
    ```
    """
    wanted = checked_fields(fields)
    if unrecognised not in ("keep", "drop"):
        raise InvalidInputError(f'unrecognised is "keep" or "drop", not {unrecognised!r}')
    work = partial(
        annotate_batches,
        path=ontology_for(notifications.sparkSession, ontology),
        fields=wanted,
        drop=unrecognised == "drop",
    )
    return notifications.select(*NOTIFICATIONS.names).mapInArrow(work, ANNOTATED)


def unrecognised(annotated: DataFrame) -> DataFrame:
    """How many notifications hold each text that names no term: the table UNRECOGNISED.

    ```python
    unrecognised(annotated).orderBy("notifications", ascending=False).show()
    ```
    """
    each = F.explode(F.array_distinct("unrecognised")).alias("each")
    counted = annotated.select(each).groupBy("each").agg(F.count("*").alias("notifications"))
    return counted.select(F.col("each.attribute"), F.col("each.text"), F.col("notifications"))


def checked_fields(fields: Mapping[str, str]) -> dict[str, str]:
    """The same, or InvalidInputError when they are no attributes and kinds."""
    if not isinstance(fields, Mapping):
        raise InvalidInputError(f"fields is a dictionary attribute → kind, not {fields!r:.60}")
    for name, kind in fields.items():
        if kind not in TERM_KINDS:
            raise InvalidInputError(
                f"{name}: there is no kind of term {kind!r:.60}{or_one_of(str(kind), TERM_KINDS)}"
            )
    return dict(fields)


# In the workers: Arrow in, Arrow out, no Spark.


def annotate_batches(
    given: Iterable[pa.RecordBatch], path: Place, fields: dict[str, str], drop: bool
) -> Iterator[pa.RecordBatch]:
    """Batches of NOTIFICATIONS into batches of ANNOTATED."""
    annotator = Annotator(_names(opened_ontology(path)), fields, drop=drop)
    for batch in given:
        *others, attributes = batch.columns
        done = [annotator.annotate(text) for text in attributes.to_pylist()]
        texts = pa.array([text for text, _ in done], pa.string())
        missing = _listed([names for _, names in done])
        names = [*batch.schema.names, "unrecognised"]
        yield pa.RecordBatch.from_arrays([*others, texts, missing], names=names)


@lru_cache(maxsize=8)
def _names(ontology: Ontology) -> NameIndex:
    return NameIndex(ontology)


class _Value(NamedTuple):
    """What became of one value: None when nothing is left of it."""

    raw: msgspec.Raw | None
    unrecognised: tuple[str, ...]


Missing = list[tuple[str, str]]


class Annotator:
    """Annotates one attributes text after the other, and remembers what it has looked up."""

    def __init__(self, names: NameIndex, fields: Mapping[str, str], *, drop: bool = False) -> None:
        self._names = names
        self._fields = tuple(fields.items())
        self._drop = drop
        self._memory: dict[tuple[str, bytes], _Value] = {}
        self._terms: dict[tuple[str, str], dict[str, str] | None] = {}

    def annotate(self, text: str | None) -> tuple[str | None, Missing]:
        """The attributes with terms for names, and (attribute, text) of each unrecognised name."""
        missing: Missing = []
        if text is None:
            return None, missing
        try:
            attributes = _decode(text)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return text, missing  # No attributes at all: matching will say so.
        for name, kind in self._fields:
            raw = attributes.get(name)
            if raw is None:
                continue
            value = self._value(bytes(raw), kind)
            if value.raw is None:
                del attributes[name]
            else:
                attributes[name] = value.raw
            missing += [(name, one) for one in value.unrecognised]
        return _encode(attributes).decode(), missing

    def _value(self, raw: bytes, kind: str) -> _Value:
        known = self._memory.get((kind, raw))
        if known is None:
            known = _remembered(self._memory, (kind, raw), self._annotated(raw, kind))
        return known

    def _annotated(self, raw: bytes, kind: str) -> _Value:
        try:
            value = msgspec.json.decode(raw)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return _Value(msgspec.Raw(raw), ())  # No value at all: matching will say so.
        missing: list[str] = []
        made = self._term(value, kind, missing, 0)
        if made is None or (made == [] and value != []):
            return _Value(None, tuple(missing))
        return _Value(msgspec.Raw(_encode(made)), tuple(missing))

    def _term(self, value: Any, kind: str, missing: list[str], depth: int) -> Any:
        """The value with terms for names; None when it is to be left out."""
        if isinstance(value, list) and depth < MAX_BAG_DEPTH:
            made = [self._term(item, kind, missing, depth + 1) for item in value]
            return [item for item in made if item is not None]
        text, stated = _name(value)
        wanted = kind if stated == "term" else stated
        found = self._found(text, wanted) if wanted and kind in ("term", wanted) else None
        if found is not None:
            return found
        missing.append(text)
        return None if self._drop else value

    def _found(self, text: str, kind: str) -> dict[str, str] | None:
        """The term a text names, in JSON form."""
        if (kind, text) in self._terms:
            return self._terms[kind, text]
        found = self._names.find(text, kind)
        made: dict[str, str] | None = None if found is None else {found.kind: found.iri}
        return _remembered(self._terms, (kind, text), made)


def _remembered(memory: dict[Key, Result], key: Key, answer: Result) -> Result:
    if len(memory) >= MEMORY_MAX:
        memory.clear()
    memory[key] = answer
    return answer


def _name(value: Any) -> tuple[str, str | None]:
    """The text that names a term, and the kind it states; None when it can name none."""
    if isinstance(value, str):
        return value, "term"
    if isinstance(value, dict) and len(value) == 1:
        ((stated, iri),) = value.items()
        if stated in TERM_KINDS and isinstance(iri, str):
            return iri, stated
    return _encode(value).decode(), None


def _listed(missing: list[Missing]) -> pa.Array:
    """The column `unrecognised`."""
    flat = [pair for row in missing for pair in row]
    ends = [0]
    for row in missing:
        ends.append(ends[-1] + len(row))
    columns = [pa.array([pair[place] for pair in flat], pa.string()) for place in (0, 1)]
    pairs = pa.StructArray.from_arrays(columns, fields=list(_UNRECOGNISED))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pairs)
