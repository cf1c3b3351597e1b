"""The podcast workload as Parquet: subscriptions, their filters, notifications in two forms."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kbn.filters import Subscription
from kbn.lab.workloads.podcast import Podcast

FILES = 8
KEYWORDS = "keywords"


def write_subscriptions(workload: Podcast, count: int, seed: int, directory: Path) -> None:
    """`subscriptions.parquet` with texts, `filters.parquet` with each distinct filter's parts."""
    schema = pa.schema(
        [("subscription", pa.int64()), ("subscriber", pa.int64()), ("filter", pa.string())]
    )
    texts: dict[Subscription, str] = {}
    held: Counter[Subscription] = Counter()
    with pq.ParquetWriter(directory / "subscriptions.parquet", schema) as writer:
        for chunk in workload.subscriptions(count, seed):
            for asked, _ in chunk:
                held[asked] += 1
                if asked not in texts:
                    texts[asked] = str(asked)
            keys = [key for _, key in chunk]
            filters = [texts[asked] for asked, _ in chunk]
            writer.write_table(pa.table([keys, keys, filters], schema=schema))
    rows = [_parts(number, asked, n) for number, (asked, n) in enumerate(held.items())]
    pq.write_table(pa.Table.from_pylist(rows), directory / "filters.parquet")


def write_distinct(count: int, seed: int, workload: Podcast, directory: Path) -> None:
    """`distinct.parquet`: subscriptions of which no two ask for the same."""
    schema = pa.schema(
        [("subscription", pa.int64()), ("subscriber", pa.int64()), ("filter", pa.string())]
    )
    texts: dict[Subscription, str] = {}
    with pq.ParquetWriter(directory / "distinct.parquet", schema) as writer:
        for chunk in workload.subscriptions(count, seed):
            keys = [key for _, key in chunk]
            for asked, _ in chunk:
                if asked not in texts:
                    texts[asked] = str(asked)
            filters = [f"{texts[asked]} and duration < {key}" for asked, key in chunk]
            writer.write_table(pa.table([keys, keys, filters], schema=schema))


def write_notifications(workload: Podcast, count: int, seed: int, directory: Path) -> None:
    """`columns/` with a column per attribute, `json/` with the attributes as one text."""
    per_file = -(-count // FILES)
    for form in ("columns", "json"):
        (directory / form).mkdir(parents=True)
    for number, first in enumerate(range(0, count, per_file)):
        size = min(per_file, count - first)
        table = _plain(workload.notifications(size, seed + number))
        ids = pa.array(range(first, first + size), pa.int64())
        name = f"{number:03d}.parquet"
        pq.write_table(table.add_column(0, "id", ids), directory / "columns" / name)
        texts = [json.dumps(_as_json(row)) for row in table.to_pylist()]
        pq.write_table(pa.table({"id": ids, "attributes": texts}), directory / "json" / name)


def _parts(number: int, asked: Subscription, count: int) -> dict[str, Any]:
    by_name: dict[str, Any] = {c.attribute: c.operand for c in asked.filters[0].constraints}
    category = next(iter(by_name["category"])).iri
    words = list(by_name[KEYWORDS]) if KEYWORDS in by_name else []
    return {"number": number, "category": category, "words": words, "subscriptions": count}


def _plain(table: pa.Table) -> pa.Table:
    """Without dictionaries, which Spark does not read back as such."""
    fields = []
    for field in table.schema:
        type_ = field.type
        if pa.types.is_dictionary(type_):
            type_ = type_.value_type
        elif pa.types.is_list(type_) and pa.types.is_dictionary(type_.value_type):
            type_ = pa.list_(type_.value_type.value_type)
        fields.append(pa.field(field.name, type_))
    return table.cast(pa.schema(fields))


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "category": [{"class": iri} for iri in row["category"]]}
