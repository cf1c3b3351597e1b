"""What is handed on to queues and tables: each row once, wherever the process dies."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from kbn.errors import InvalidInputError, KbnError, MissingDependencyError
from kbn.spark.io.delta_tables import Delta, DeltaReader, delta_options
from kbn.spark.io.destinations import Committed, Destination, hand_on
from kbn.spark.io.iceberg_tables import Iceberg, IcebergReader, iceberg_options
from kbn.spark.io.manifests import Delivered, Manifest
from kbn.spark.io.parts import write_part
from kbn.spark.io.queue_rows import QueueDestination, messages
from kbn.spark.io.queues import Bounds, Message, Outgoing

SCHEMA = StructType([StructField("notification", StringType()), StructField("n", LongType())])
ARROW = pa.schema([("notification", pa.string()), ("n", pa.int64())])


class Killed(BaseException):
    """The process ends here."""


class Queue:
    """A queue in memory, of two places, that can die after so many messages."""

    address = "a list"

    def __init__(self) -> None:
        self.held: dict[str, list[Message]] = {"q/0": [], "q/1": []}
        self.dies_after: int | None = None

    def bounds(self) -> dict[str, Bounds]:
        return {place: Bounds(0, len(held)) for place, held in self.held.items()}

    def read(self, place: str, start: int, end: int) -> Iterator[Message]:
        return iter(self.held[place][start:end])

    def send(self, messages: Iterable[Outgoing]) -> int:
        count = 0
        for count, each in enumerate(messages, start=1):
            if self.dies_after is not None and count > self.dies_after:
                raise Killed
            place = f"q/{count % 2}"
            offset = len(self.held[place])
            self.held[place].append(Message(place, offset, each.key, each.value, None, each.id))
        if self.dies_after is not None:
            raise Killed  # all were taken, and nobody knows
        return count

    def close(self) -> None:
        pass

    def values(self) -> Counter[bytes]:
        return Counter(m.value or b"" for held in self.held.values() for m in held)


def commit(delivered: Delivered, batch: int, rows: list[dict[str, object]]) -> None:
    """What tasks and driver do of a batch before it is handed on; perhaps once more."""
    delivered.prepare()
    table = pa.Table.from_pylist(rows, ARROW)
    part = write_part(delivered.parts, table.to_batches(), ARROW, "parquet")
    delivered.commit(Manifest(batch, () if part is None else (part,), SCHEMA.jsonValue()))


def rows_of(batch: int, count: int) -> list[dict[str, object]]:
    return [{"notification": f"n{batch}", "n": number} for number in range(count)]


def test_a_queue_has_each_row_once_wherever_the_sink_is_killed(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    queue, delivered = Queue(), Delivered(tmp_path)
    expected: Counter[bytes] = Counter()
    for batch in range(40):
        made = rows_of(batch, random.randrange(6))
        expected.update(f'{{"notification": "n{batch}", "n": {r["n"]}}}'.encode() for r in made)
        for attempt in range(3):
            commit(delivered, batch, made)
            queue.dies_after = random.randrange(7) if attempt < 2 else None
            # Somebody else writes to it, too.
            queue.held["q/0"].append(Message("q/0", len(queue.held["q/0"]), None, b"-", None, "x"))
            try:
                hand_on(delivered, QueueDestination("queue", queue))
                break
            except Killed:
                continue
    found = queue.values()
    assert found.pop(b"-") >= 40
    assert found == expected
    assert len(list(delivered.parts.iterdir())) <= 3  # what was taken is not kept


def test_an_outbox_is_for_one_destination(tmp_path: Path) -> None:
    delivered = Delivered(tmp_path)
    commit(delivered, 0, rows_of(0, 1))
    hand_on(delivered, QueueDestination("kbn-kafka news", Queue()))
    with pytest.raises(InvalidInputError, match="kbn-kafka news, not to kbn-kafka olds"):
        hand_on(delivered, QueueDestination("kbn-kafka olds", Queue()))


def test_rows_are_messages_notifications_or_objects(tmp_path: Path) -> None:
    def sent(schema: pa.Schema, spark: StructType, row: dict[str, object]) -> list[Outgoing]:
        delivered = Delivered(tmp_path / spark.simpleString())
        delivered.prepare()
        table = pa.Table.from_pylist([row], schema)
        part = write_part(delivered.parts, table.to_batches(), schema, "parquet")
        assert part is not None
        delivered.commit(Manifest(0, (part,), spark.jsonValue()))
        return list(messages(Committed("box", "0", delivered.read_batch(0), delivered), None))

    texts = StructType([StructField("key", StringType()), StructField("value", StringType())])
    arrow = pa.schema([("key", pa.string()), ("value", pa.string())])
    assert sent(arrow, texts, {"key": "k", "value": "v"}) == [Outgoing("box/0/1", b"k", b"v")]
    whole = StructType([StructField("id", StringType()), StructField("attributes", StringType())])
    arrow = pa.schema([("id", pa.string()), ("attributes", pa.string())])
    (one,) = sent(arrow, whole, {"id": "é", "attributes": '{"a":1}'})
    assert one.value.decode() == '{"id": "é", "attributes": {"a":1}}'
    assert sent(arrow, whole, {"id": None, "attributes": None})[1:] == []


# Tables.


def delta(folder: Path) -> tuple[Destination, Callable[[], pa.Table]]:
    options = delta_options({"path": str(folder / "delta")})

    def read() -> pa.Table:
        reader = DeltaReader({**options, "tasks": "2"}, SCHEMA)
        found = [batch for part in reader.partitions() for batch in reader.read(part)]
        return pa.Table.from_batches(found, ARROW)

    return Delta(options), read


def iceberg(folder: Path) -> tuple[Destination, Callable[[], pa.Table]]:
    options = iceberg_options(
        {
            "table": "db.rows",
            "catalog.type": "sql",
            "catalog.uri": f"sqlite:///{folder}/catalog.db",
            "catalog.warehouse": f"file://{folder}/warehouse",
        }
    )

    def read() -> pa.Table:
        reader = IcebergReader({**options, "tasks": "2"}, SCHEMA)
        found = [batch for part in reader.partitions() for batch in reader.read(part)]
        return pa.Table.from_batches(found, ARROW)

    return Iceberg(options), read


@pytest.mark.parametrize("kind", [delta, iceberg])
def test_a_table_has_each_batch_once_wherever_the_sink_is_killed(
    tmp_path: Path, seed: int, kind: Callable[..., tuple[Destination, Callable[[], pa.Table]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    random = Random(seed)
    table, read = kind(tmp_path)
    delivered = Delivered(tmp_path / "outbox")
    expected: list[dict[str, object]] = []
    from kbn.spark.io import destinations

    for batch in range(6):
        made = rows_of(batch, random.randrange(4) if batch else 2)
        expected += made
        commit(delivered, batch, made)
        if random.random() < 0.5:  # taken, and killed before that was written down
            with monkeypatch.context() as patched:
                down = destinations.write_down

                def die(*about: object, down: object = down, **news: object) -> None:
                    if news.get("sending", "") is None:
                        raise Killed
                    down(*about, **news)  # type: ignore[operator]

                patched.setattr(destinations, "write_down", die)
                with pytest.raises(Killed):
                    hand_on(delivered, table)
        hand_on(delivered, table)
    assert sorted(map(str, read().to_pylist())) == sorted(map(str, expected))


def test_what_is_wrong_with_a_table_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInputError, match="there is no Delta table"):
        Delta(delta_options({"path": str(tmp_path / "none")})).dataset()
    with pytest.raises(InvalidInputError, match="say which table"):
        delta_options({})
    with pytest.raises(InvalidInputError, match="namespace and a name"):
        iceberg_options({"table": "rows"})
    with pytest.raises(KbnError) as told:
        Iceberg(iceberg_options({"table": "a.b", "catalog.type": "hush"})).there()
    assert "begin with catalog." in str(told.value) and "hush" not in str(told.value)
    catalog, _ = iceberg(tmp_path)
    assert isinstance(catalog, Iceberg)
    with pytest.raises(InvalidInputError, match="no such Iceberg table"):
        catalog.there()
    table, _ = delta(tmp_path)
    delivered = Delivered(tmp_path / "outbox")
    commit(delivered, 0, rows_of(0, 1))
    hand_on(delivered, table)
    other = StructType([StructField("n", StringType())])
    part = write_part(
        delivered.parts, pa.table({"n": ["x"]}).to_batches(), pa.schema([("n", pa.string())]),
        "parquet",
    )  # fmt: skip
    assert part is not None
    delivered.commit(Manifest(1, (part,), other.jsonValue()))
    with pytest.raises(KbnError, match=r"did not take the batch.*The batch is safe in"):
        hand_on(delivered, table)
    for module, check, extra in (
        ("deltalake", lambda: delta_options({"path": "x"}), "delta"),
        ("pyiceberg", lambda: iceberg_options({"table": "a.b"}), "iceberg"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingDependencyError, match=rf"kbn\[{extra}\]"):
            check()
