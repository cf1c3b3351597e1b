"""What we write is a Delta table by the protocol, not only to the library that wrote it.

delta-spark, which is the reference, needs a jar that is not on PyPI. So a reader of the protocol's
text stands in for it here: it knows the log and Parquet files, and nothing of delta-rs. The other
way round, a table is written by hand, as Spark's connector does, and read by ours.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from tests.spark.test_destinations import ARROW, SCHEMA, commit, delta, rows_of

from kbn.spark.io.delta_tables import Delta, DeltaReader, delta_options
from kbn.spark.io.destinations import hand_on
from kbn.spark.io.manifests import Delivered


def read_by_protocol(table: Path) -> tuple[list[dict[str, object]], dict[str, int]]:
    """The rows and transactions of a table: its log replayed, action by action."""
    files: dict[str, dict[str, object]] = {}
    marks: dict[str, int] = {}
    commits = sorted((table / "_delta_log").glob("*.json"))
    assert [int(path.stem) for path in commits] == list(range(len(commits)))
    assert all(len(path.stem) == 20 for path in commits)
    for path in commits:
        for line in path.read_text(encoding="utf-8").splitlines():
            ((kind, action),) = json.loads(line).items()
            if kind == "protocol":  # the first version of both: every reader knows it
                assert action["minReaderVersion"] == 1 and action["minWriterVersion"] <= 2
            elif kind == "metaData":
                schema = json.loads(action["schemaString"])
                assert [field["name"] for field in schema["fields"]] == ARROW.names
                assert action["format"]["provider"] == "parquet"
            elif kind == "add":
                assert action["dataChange"] is True and action["size"] > 0
                files[unquote(action["path"])] = action
            elif kind == "remove":
                del files[unquote(action["path"])]
            elif kind == "txn":
                marks[action["appId"]] = action["version"]
    rows = []
    for name, action in files.items():
        assert (table / name).stat().st_size == action["size"]
        held = pq.read_table(table / name)
        stats = json.loads(str(action["stats"]))
        assert stats["numRecords"] == held.num_rows
        rows += held.to_pylist()
    return rows, marks


def test_a_table_of_ours_is_one_by_the_protocol(tmp_path: Path) -> None:
    table, _ = delta(tmp_path)
    delivered = Delivered(tmp_path / "outbox")
    for batch in range(3):
        commit(delivered, batch, rows_of(batch, batch + 1))
        hand_on(delivered, table)
    rows, marks = read_by_protocol(tmp_path / "delta")
    assert sorted(map(str, rows)) == sorted(str(r) for n in range(3) for r in rows_of(n, n + 1))
    assert list(marks.values()) == [2]  # one outbox, whose last batch is the third


def test_a_table_that_sparks_connector_wrote_is_read(tmp_path: Path) -> None:
    """The actions as delta-spark writes them, with a file that was replaced and one partitioned."""
    place = tmp_path / "theirs"
    (place / "_delta_log").mkdir(parents=True)
    (place / "n=7").mkdir()
    pq.write_table(pa.table({"notification": ["old"]}), place / "n=7" / "a.snappy.parquet")
    pq.write_table(pa.table({"notification": ["a", "b"]}), place / "n=7" / "b c.snappy.parquet")

    def add(name: str) -> dict[str, object]:
        size = (place / "n=7" / name).stat().st_size
        return {
            "add": {
                "path": f"n=7/{name}".replace(" ", "%20"),
                "partitionValues": {"n": "7"},
                "size": size,
                "modificationTime": 1700000000000,
                "dataChange": True,
                "stats": '{"numRecords":1,"tightBounds":true}',
            }
        }

    fields = [
        {"name": name, "type": type_, "nullable": True, "metadata": {}}
        for name, type_ in (("notification", "string"), ("n", "long"))
    ]
    first = [
        {"commitInfo": {"timestamp": 1700000000000, "operation": "WRITE", "engineInfo": "Spark"}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "3fa85f64-5717-4562-b3fc-2c963f66afa6",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": ["n"],
                "configuration": {},
                "createdTime": 1700000000000,
            }
        },
        add("a.snappy.parquet"),
    ]
    gone = {"path": "n=7/a.snappy.parquet", "deletionTimestamp": 1, "dataChange": True}
    second = [
        {"txn": {"appId": "a query of Spark's", "version": 4, "lastUpdated": 1700000000001}},
        {"remove": gone},
        add("b c.snappy.parquet"),
    ]
    for number, actions in enumerate((first, second)):
        text = "".join(json.dumps(action) + "\n" for action in actions)
        (place / "_delta_log" / f"{number:020d}.json").write_text(text, encoding="utf-8")
    options = delta_options({"path": str(place), "tasks": "1"})
    reader = DeltaReader(options, SCHEMA)
    found = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert pa.Table.from_batches(found).to_pylist() == [
        {"notification": "a", "n": 7},
        {"notification": "b", "n": 7},
    ]
    table = Delta(options).table()
    assert table is not None and table.transaction_version("a query of Spark's") == 4
