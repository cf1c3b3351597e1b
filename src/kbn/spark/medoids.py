"""What each client is interested in, and the medoid of it: where it belongs in the ontology.

    subscriptions ─┐
    notifications ─┴ interests ─→ (client, term) ─ by client ─→ medoids ─→ (client, medoid, cluster)

A client is a subscriber, interested in what its filters name, or a publisher, in what it publishes.
What cannot be read names nothing: a filter that does not parse, an attribute that holds no value.
The client's other filters and attributes count, and `compile_subscriptions` is who tells about it.
A term that the ontology does not know has no place on its map, and does not count either.

The semantic map is built once per worker process and keeps the distances that it worked out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from kbn.errors import InvalidInputError
from kbn.filters import BulkReader, terms_named_in, value_from_json
from kbn.ontology import Ontology
from kbn.placement import Clusters, MapSettings, Medoid, SemanticMap, Ties, Weights
from kbn.placement import clusters as clusters_of
from kbn.spark.columns import INTERESTS, MEDOIDS
from kbn.spark.shared import ontology_path, opened_ontology
from kbn.spark.shipping import Place, ship_file

__all__ = ["interests", "medoids"]

LOT = 50_000
"""How many clients are worked on together: many at once share the searches they need."""

FILTERS_REMEMBERED = 65_536

INTERESTS_ARROW = pa.schema([("client", pa.string()), ("term", pa.string())])
MEDOIDS_ARROW = pa.schema(
    [
        ("client", pa.string()),
        ("medoid", pa.string()),
        ("spread", pa.float64()),
        ("cost", pa.float64()),
        ("terms", pa.int32()),
        ("reached", pa.int32()),
        ("cluster", pa.string()),
    ]
)
_COUNT_MAX = 2**31 - 1

# The columns that tell a table of subscriptions from one of notifications: who, and what.
_SUBSCRIBED = ("subscriber", "filter")
_PUBLISHED = ("publisher", "attributes")


def interests(clients: DataFrame, prefixes: Mapping[str, str] | None = None) -> DataFrame:
    """The terms that subscribers, or publishers, name: INTERESTS, a row for each mention.

    `clients` are SUBSCRIPTIONS or NOTIFICATIONS. `prefixes` are what filters may use besides those
    they declare (`Ontology.prefixes`). A row in which nothing is named gives one with a null term,
    so that no client is lost. Rows without a client are left out.

    ```python
    interests(subscriptions, ontology.prefixes).groupBy("term").count().show()
    ```
    """
    if set(INTERESTS.names) <= set(clients.columns):
        return clients.select(*INTERESTS.names)
    for who, what in (_SUBSCRIBED, _PUBLISHED):
        if {who, what} <= set(clients.columns):
            _require_text(clients, what)
            named = clients.where(F.col(who).isNotNull()).select(who, what)
            work = partial(name_terms, filters=what == "filter", prefixes=dict(prefixes or {}))
            return named.mapInArrow(work, INTERESTS)
    raise InvalidInputError(
        "interests come from a table with subscriber and filter, or publisher and attributes, or "
        f"client and term; this one has {', '.join(clients.columns)}"
    )


def medoids(
    clients: DataFrame,
    ontology: Ontology | str | os.PathLike[str],
    weights: Weights | None = None,
    ties: Ties = Ties.INDIVIDUAL_FIRST,
) -> DataFrame:
    """The medoid of each client's interests, and the cluster it is in: MEDOIDS.

    `clients` are SUBSCRIPTIONS, NOTIFICATIONS or INTERESTS; `weights` and `ties` are those of the
    semantic map. A client of whose terms none has a
    place on the map has nulls. On a stream this is an aggregation, for update and complete mode,
    and its state holds every mention.

    ```python
    placed = medoids(subscriptions, "podcast.ttl")
    placed.groupBy("cluster").count().show()
    ```
    """
    path, settings = ontology_path(ontology), MapSettings(weights or Weights(), Ties(ties))
    named = interests(clients, opened_ontology(path).prefixes)
    if named.isStreaming:
        counted = named.withColumn("times", F.lit(1).cast("long"))
    else:
        counted = named.groupBy("client", "term").agg(F.count(F.lit(1)).alias("times"))
    gathered = counted.groupBy("client").agg(
        F.collect_list(F.struct("term", "times")).alias("mentions")
    )
    place = ship_file(clients.sparkSession, path)
    return gathered.mapInArrow(partial(find_medoids, path=place, settings=settings), MEDOIDS)


def _require_text(table: DataFrame, column: str) -> None:
    found = table.schema[column].dataType
    if not isinstance(found, StringType):
        raise InvalidInputError(
            f"the column {column} holds texts (see kbn.spark.columns), not {found.simpleString()}"
        )


# In the workers: Arrow in, Arrow out, no Spark.


def name_terms(
    given: Iterable[pa.RecordBatch], filters: bool, prefixes: dict[str, str]
) -> Iterator[pa.RecordBatch]:
    """Batches of (client, filter or attributes) into batches of INTERESTS."""
    reader = BulkReader(prefixes=prefixes)

    @lru_cache(maxsize=FILTERS_REMEMBERED)
    def of_filter(text: str | None) -> tuple[str, ...]:
        return named_in_filter(text, reader)

    read = of_filter if filters else named_in_attributes
    for batch in given:
        who, what = (column.to_pylist() for column in batch.columns)
        pairs = [
            (client, term)
            for client, text in zip(who, what, strict=True)
            for term in read(text) or (None,)
        ]
        yield _transposed(pairs, INTERESTS_ARROW)


def named_in_filter(text: str | None, reader: BulkReader) -> tuple[str, ...]:
    """The IRIs that a subscription's text, or JSON form, names; none when it cannot be read."""
    if text is None:
        return ()
    try:
        subscription = reader.read(text)
    except InvalidInputError:
        return ()
    return tuple(term.iri for term in terms_named_in(subscription))


_decode = msgspec.json.Decoder(dict).decode


def named_in_attributes(text: str | None) -> tuple[str, ...]:
    """The IRIs that a notification's attributes name, those apart that cannot be read."""
    if text is None:
        return ()
    try:
        attributes = _decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ()
    named: list[str] = []
    for value in attributes.values():
        if isinstance(value, (dict, list)):  # nothing else can hold a term
            try:
                named += [term.iri for term in terms_named_in(value_from_json(value))]
            except (InvalidInputError, RecursionError):
                continue
    return tuple(named)


def find_medoids(
    given: Iterable[pa.RecordBatch], path: Place, settings: MapSettings, lot_size: int = LOT
) -> Iterator[pa.RecordBatch]:
    """Batches of (client, mentions) into batches of MEDOIDS."""
    for lot in _lots(given, lot_size):
        semantic_map, parts = _map_and_clusters(opened_ontology(path), settings)
        names = lot.column("client").to_pylist()
        found = semantic_map.medoids(map(_counted, lot.column("mentions").to_pylist()))
        rows = [_row(client, medoid, parts) for client, medoid in zip(names, found, strict=True)]
        yield _transposed(rows, MEDOIDS_ARROW)


@lru_cache(maxsize=2)
def _map_and_clusters(ontology: Ontology, settings: MapSettings) -> tuple[SemanticMap, Clusters]:
    return settings.map_of(ontology), clusters_of(ontology)


def _counted(mentions: list[dict[str, object]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for mention in mentions:
        term, times = mention["term"], mention["times"]
        if isinstance(term, str) and isinstance(times, int):
            counts[term] = counts.get(term, 0) + times
    return counts


def _row(client: str, medoid: Medoid, parts: Clusters) -> tuple[object, ...]:
    counts = (min(medoid.terms, _COUNT_MAX), min(medoid.reached, _COUNT_MAX))
    if medoid.term is None:
        return client, None, None, None, *counts, None
    place = parts.cluster_of(medoid.term)
    return client, medoid.term, medoid.spread, float(medoid.cost), *counts, place


def _lots(given: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    for batch in given:
        waiting.append(batch)
        if sum(map(len, waiting)) >= size:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _transposed(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else [() for _ in schema]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
