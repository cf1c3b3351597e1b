"""What reads from and writes to the world: the format "kbn", files of records, brokers, folders.

`register` makes the format "kbn" known to a Spark session, for streams and batches alike. Reading:
`sources.py` (files, and what came over a connection, by way of `spool.py`), `brokers.py`, and the
readers of each file format, which give one outcome for each record. Writing: `sink.py`, into a
folder of parts and manifests, from where `outbox.py` and `publishing.py` send batches on, and
`destinations.py` hands them on to queues and tables of others. `connectors.py` lists the formats
of those: `queue_reader.py` and `queue_stream.py` read Kafka (`kafka_topics.py`) and NATS
(`nats_streams.py`), `delta_tables.py` and `iceberg_tables.py` are tables.
Nothing here knows the jobs of `kbn.spark`, which use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbn.front_door import on_first_use

if TYPE_CHECKING:
    from kbn.spark.io.arrivals import QUEUES, TABLES, arrived, checked_connector, rows_arrived
    from kbn.spark.io.conversions import TERM_KINDS, TimeFormat
    from kbn.spark.io.data_source import VERSION, KbnSource, register
    from kbn.spark.io.feeds import FEED_MAPPING, feed_outcomes
    from kbn.spark.io.json_texts import JsonReader
    from kbn.spark.io.manifests import Delivered, Manifest, Part, link
    from kbn.spark.io.mapping import Mapping, record_text
    from kbn.spark.io.mapping_file import MappingForm, mapping_of
    from kbn.spark.io.outbox import Frame, acknowledge, frames
    from kbn.spark.io.outcomes import Outcome, Refused, Row, batches
    from kbn.spark.io.sink import read_delivered, read_rows
    from kbn.spark.io.slices import Slice
    from kbn.spark.io.sources import FilesSource, Offset, Source, local_path
    from kbn.spark.io.table_rows import batch_outcomes
    from kbn.spark.io.whole_files import (
        COMPRESSED,
        CONTENT_BYTES_MAX,
        column_names,
        file_outcomes,
    )

__all__ = [
    "COMPRESSED",
    "CONTENT_BYTES_MAX",
    "FEED_MAPPING",
    "QUEUES",
    "TABLES",
    "TERM_KINDS",
    "VERSION",
    "Delivered",
    "FilesSource",
    "Frame",
    "JsonReader",
    "KbnSource",
    "Manifest",
    "Mapping",
    "MappingForm",
    "Offset",
    "Outcome",
    "Part",
    "Refused",
    "Row",
    "Slice",
    "Source",
    "TimeFormat",
    "acknowledge",
    "arrived",
    "batch_outcomes",
    "batches",
    "checked_connector",
    "column_names",
    "feed_outcomes",
    "file_outcomes",
    "frames",
    "link",
    "local_path",
    "mapping_of",
    "read_delivered",
    "read_rows",
    "record_text",
    "register",
    "rows_arrived",
]

__getattr__ = on_first_use(
    __name__,
    {
        "COMPRESSED": "kbn.spark.io.whole_files",
        "CONTENT_BYTES_MAX": "kbn.spark.io.whole_files",
        "Delivered": "kbn.spark.io.manifests",
        "FEED_MAPPING": "kbn.spark.io.feeds",
        "FilesSource": "kbn.spark.io.sources",
        "Frame": "kbn.spark.io.outbox",
        "JsonReader": "kbn.spark.io.json_texts",
        "KbnSource": "kbn.spark.io.data_source",
        "Manifest": "kbn.spark.io.manifests",
        "Mapping": "kbn.spark.io.mapping",
        "MappingForm": "kbn.spark.io.mapping_file",
        "Offset": "kbn.spark.io.sources",
        "Outcome": "kbn.spark.io.outcomes",
        "Part": "kbn.spark.io.manifests",
        "Refused": "kbn.spark.io.outcomes",
        "Row": "kbn.spark.io.outcomes",
        "Slice": "kbn.spark.io.slices",
        "Source": "kbn.spark.io.sources",
        "TERM_KINDS": "kbn.spark.io.conversions",
        "TimeFormat": "kbn.spark.io.conversions",
        "QUEUES": "kbn.spark.io.arrivals",
        "TABLES": "kbn.spark.io.arrivals",
        "VERSION": "kbn.spark.io.data_source",
        "arrived": "kbn.spark.io.arrivals",
        "checked_connector": "kbn.spark.io.arrivals",
        "rows_arrived": "kbn.spark.io.arrivals",
        "acknowledge": "kbn.spark.io.outbox",
        "batch_outcomes": "kbn.spark.io.table_rows",
        "batches": "kbn.spark.io.outcomes",
        "column_names": "kbn.spark.io.whole_files",
        "feed_outcomes": "kbn.spark.io.feeds",
        "file_outcomes": "kbn.spark.io.whole_files",
        "frames": "kbn.spark.io.outbox",
        "link": "kbn.spark.io.manifests",
        "local_path": "kbn.spark.io.sources",
        "mapping_of": "kbn.spark.io.mapping_file",
        "read_delivered": "kbn.spark.io.sink",
        "read_rows": "kbn.spark.io.sink",
        "record_text": "kbn.spark.io.mapping",
        "register": "kbn.spark.io.data_source",
    },
)
