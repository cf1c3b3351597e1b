"""Brokers as source and sink: what is published is there once, whoever breaks down in between."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)
from tests.spark.releases import reads_streams
from tests.transport.certificates import Authority
from tests.transport.overlay import make_server, start_process

from kbn.broker.access import AllowAll, Permission
from kbn.errors import InvalidInputError, KbnError
from kbn.filters import Bag, Notification
from kbn.matching.store import SubscriptionStore
from kbn.spark.columns import INGESTED, MATCHES
from kbn.spark.io import publishing
from kbn.spark.io.brokers import BrokerAddress, BrokerSource
from kbn.spark.io.data_source import register, source_of
from kbn.spark.io.manifests import Delivered, Manifest
from kbn.spark.io.parts import write_part
from kbn.spark.io.publishing import publish_pending
from kbn.spark.io.row_notifications import check_publishable, notifications
from kbn.spark.io.sink import BatchWriter, Target
from kbn.spark.io.slices import lines
from kbn.spark.io.sources import Offset
from kbn.spark.io.spool import Spool
from kbn.spark.matching import match
from kbn.transport import server_tls
from kbn.transport.feed import Feed
from kbn.transport.sync import SyncFeed, connect_sync
from kbn.transport.urls import parse_url

PATIENCE_S = 120.0
NESTED = StructType().add("b", IntegerType())


def table(**columns: DataType) -> StructType:
    made = StructType()
    for name, type_ in columns.items():
        made.add(name, type_)
    return made


class Broker:
    """A broker in a process of its own, that can be killed and started again."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._process, self.url = start_process("b", store)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def start(self) -> None:
        port = parse_url(self.url).port
        self._process, url = start_process("b", self._store, port)
        assert url == self.url


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    started = Broker(tmp_path_factory.mktemp("broker") / "b.kbns")
    yield started
    started.kill()


@contextmanager
def serving(**options: Any) -> Iterator[str]:
    """A broker in a thread of ours; its URL."""
    ready, ended = Event(), Event()
    urls: list[str] = []

    async def serve() -> None:
        async with make_server(**options) as server:
            urls.append(server.url)
            ready.set()
            await asyncio.to_thread(ended.wait, PATIENCE_S)

    thread = Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        yield urls[0]
    finally:
        ended.set()
        thread.join()


def publish(url: str, numbers: range, attribute: str = "n") -> None:
    with connect_sync(url, name=f"publisher of {attribute} from {numbers.start}") as client:
        for n in numbers:
            client.publish({attribute: n}, durable=True)


@contextmanager
def subscribed(url: str, filter: str, name: str = "ann") -> Iterator[SyncFeed]:
    with connect_sync(url, name=name, durable=True) as client:
        yield client.subscribe(filter).in_force()


def received(url: str, feed: SyncFeed, attribute: str, last: object = -1) -> list[object]:
    """All values that come up to the last one, which is published now."""
    with connect_sync(url, name="the last") as client:
        client.publish({attribute: last}, durable=True)
    found = []
    while (value := feed.next(PATIENCE_S)[attribute]) != last:
        found.append(value)
    return found


# The source.


@contextmanager
def opened(url: str, spool: Path, filter: str, client: str) -> Iterator[BrokerSource]:
    source = BrokerSource(BrokerAddress(url, client, give_up_s=PATIENCE_S), filter, spool)
    source.open()
    try:
        yield source
    finally:
        source.close()


def held(source: BrokerSource, attribute: str) -> list[int]:
    """What the source has when everything it is owed is there."""
    source.hold()
    parts = source.slices(Offset(), source.latest(Offset(), None))
    found = [json.loads(line) for part in parts for _, line in lines(part)]
    return [each["attributes"][attribute] for each in found]


def test_what_was_spooled_and_not_acknowledged_comes_again_and_is_dropped(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(broker.url, tmp_path, "a any", "crashing") as source:
        assert held(source, "a") == []
    publish(broker.url, range(50), "a")
    with monkeypatch.context() as patched:
        # As if the process was killed before the broker heard of anything.
        patched.setattr(Feed, "done_with", lambda self, items: None)
        with opened(broker.url, tmp_path, "a any", "crashing") as source:
            assert held(source, "a") == list(range(50))
    publish(broker.url, range(50, 60), "a")
    with opened(broker.url, tmp_path, "a any", "crashing") as source:
        assert held(source, "a") == list(range(60))


def test_what_was_not_spooled_is_not_acknowledged(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(broker.url, tmp_path, "f any", "full") as source:
        source.hold()
    publish(broker.url, range(5), "f")
    with monkeypatch.context() as patched:
        patched.setattr(Spool, "append", _disk_is_full)
        with (
            opened(broker.url, tmp_path, "f any", "full") as source,
            pytest.raises(KbnError, match="disk is full"),
        ):
            source.hold()
    with opened(broker.url, tmp_path, "f any", "full") as source:
        assert held(source, "f") == list(range(5))


def _disk_is_full(spool: Spool, data: bytes) -> None:
    raise KbnError("the disk is full")


def test_lines_that_may_come_again_are_kept_although_they_were_delivered(tmp_path: Path) -> None:
    with closing(Spool(tmp_path, segment_bytes=4)) as spool:
        spool.open()
        for n in range(5):
            spool.append(b"%d\n%d\n" % (n, n))
        spool.forget(spool.end[0], keeping=3)
        assert len(list(tmp_path.glob("*.jsonl"))) == 2
        assert spool.last(3) == [b"3\n", b"4\n", b"4\n"]
        assert spool.last(100) == [b"3\n", b"3\n", b"4\n", b"4\n"]


def test_a_new_filter_of_a_known_client_and_one_that_is_none_are_refused(
    broker: Broker, tmp_path: Path
) -> None:
    with opened(broker.url, tmp_path / "1", "a < 1", "chooser") as source:
        source.hold()
    for filter, reason in (("a < 2", "needs a new name"), ("a <<", "refuses the filter 'a <<'")):
        with (
            opened(broker.url, tmp_path / "2", filter, "chooser") as source,
            pytest.raises(InvalidInputError, match=reason),
        ):
            source.hold()


class TokenDoor(AllowAll):
    """Admits who says the word; such a one may not publish `secret`."""

    def admit(self, client: str, token: str) -> Permission | None:
        if token != "please":
            return None
        return Permission(frozenset({"n"}), frozenset({"n"}), manage=False)


def test_a_wrong_token_is_told_and_a_row_that_may_not_be_published_is_put_aside(
    tmp_path: Path,
) -> None:
    with serving(path=tmp_path / "b.kbns", authorizer=TokenDoor()) as url:
        source = BrokerSource(BrokerAddress(url, "ann", "now"), "n any", tmp_path / "spool")
        source.open()
        with pytest.raises(InvalidInputError, match="check its token"):
            source.hold()
        source.close()
        out = delivered_numbers(tmp_path / "out", 0, range(3), field="secret")
        commit_numbers(out, 1, range(2))
        with pytest.raises(KbnError, match=r"refused 3 of 3 rows.*refused.jsonl"):
            publish_pending(out, BrokerAddress(url, "bob", "please"))
        put_aside = map(json.loads, (out.directory / "refused.jsonl").read_text().splitlines())
        assert [each["attributes"] for each in put_aside] == [{"secret": n} for n in range(3)]
        assert publish_pending(out, BrokerAddress(url, "bob", "please")) == 1


def test_options_reach_a_broker_behind_tls_in_both_directions(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = server_tls(*authority.sign("server"))
    with serving(path=tmp_path / "b.kbns", tls=tls) as url:
        options = {"url": url, "tlsCa": str(authority.certificate), "client": "ann"}
        source = source_of({**options, "filter": "n any", "spool": str(tmp_path / "spool")})
        assert isinstance(source, BrokerSource)
        source.open()
        source.hold()
        source.close()
        out = delivered_numbers(tmp_path / "out", 0, range(3))
        publish_pending(out, BrokerAddress.of({**options, "client": "bob"}, PATIENCE_S))
        source.open()
        assert held(source, "n") == [0, 1, 2]
        source.close()
    with pytest.raises(InvalidInputError, match="nowhere"):
        BrokerAddress.of({"url": "nowhere"}, PATIENCE_S)


def test_a_broker_that_is_away_is_told(tmp_path: Path) -> None:
    with serving() as url:
        pass
    source = BrokerSource(BrokerAddress(url, "ann", give_up_s=0.2), "n any", tmp_path)
    source.open()
    with pytest.raises(KbnError, match="giveUpAfter"):
        source.hold()
    source.close()
    out = delivered_numbers(tmp_path / "out", 0, range(3))
    with pytest.raises(KbnError, match="The batch is safe"):
        publish_pending(out, BrokerAddress(url, "bob", give_up_s=0.2))


def test_options_that_are_missing_or_do_not_fit_are_told() -> None:
    given = {"url": "kbn://localhost:7420", "filter": "n any", "spool": "s", "client": "c"}
    for name, reason in (
        ("client", "a name of its own"),
        ("filter", "wanted"),
        ("spool", "folder"),
    ):
        rest = {key: value for key, value in given.items() if key != name}
        with pytest.raises(InvalidInputError, match=rf"option {name} \(.*{reason}"):
            source_of(rest)
    with pytest.raises(InvalidInputError, match="url and host do not go together"):
        source_of({**given, "host": "h"})
    with pytest.raises(InvalidInputError, match="not both"):
        Target({"path": "o", "url": given["url"], "host": "h", "port": "1"}, table(n=LongType()))


# Rows.


def test_rows_become_notifications_or_are_ones() -> None:
    schema = table(
        text=StringType(), price=DecimalType(5, 2), at=TimestampType(),
        sizes=ArrayType(IntegerType()), raw=BinaryType(), none=StringType(),
    )  # fmt: skip
    at = datetime(2026, 11, 16, tzinfo=UTC)
    row = {"text": "tea", "price": 2, "at": at, "sizes": [1, 1], "raw": b"x", "none": None}
    batch = pa.RecordBatch.from_pylist([row])
    (made,) = notifications([batch], schema)
    expected = {"text": "tea", "price": 2, "at": at, "sizes": Bag(1, 1), "raw": b"x"}
    assert made == Notification(expected)
    attributes = ['{"kind":{"class":"urn:x#Tea"}}', None]
    (whole,) = notifications(
        [pa.record_batch({"id": ["n1", None], "attributes": attributes})], INGESTED
    )
    assert whole.to_json() == {"attributes": json.loads(attributes[0] or "")}
    for bad in (NESTED, MapType(StringType(), LongType()), ArrayType(NESTED), DateType()):
        with pytest.raises(InvalidInputError, match="column a of type"):
            check_publishable(table(a=bad))
    unreal = pa.record_batch({"x": [float("nan")]})
    with pytest.raises(InvalidInputError, match=r"cannot be published: .*NaN"):
        list(notifications([unreal], table(x=DoubleType())))


# Publishing.


def delivered_numbers(folder: Path, batch: int | None, rows: range, field: str = "n") -> Delivered:
    delivered = Delivered(folder)
    delivered.prepare()
    delivered.claim("a stream")
    commit_numbers(delivered, batch, rows, field)
    return delivered


def commit_numbers(delivered: Delivered, batch: int | None, rows: range, field: str = "n") -> None:
    batch_of = pa.record_batch({field: pa.array(rows, pa.int64())})
    part = write_part(delivered.parts, [batch_of], batch_of.schema, "arrow")
    assert part is not None
    schema = table(**{field: LongType()}).jsonValue()
    assert delivered.commit(Manifest(batch, (part,), schema))


class Killed(Exception):
    pass


def test_a_batch_is_published_once_wherever_the_driver_is_killed(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first row, in the middle, after the last; and more rows than a broker grants."""
    total = 3000
    to = BrokerAddress(broker.url, None)
    out = delivered_numbers(tmp_path, 0, range(total), "k")
    whole = publishing._Rows.__iter__

    def killed_after(rows: int) -> None:
        def some(self: Any) -> Iterator[Notification]:
            for n, each in enumerate(whole(self)):
                if n == rows:
                    raise Killed
                yield each

        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(publishing._Rows, "__iter__", some)
            publish_pending(out, to)

    def killed_before_it_is_written_down() -> None:
        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(publishing.Progress, "after", _raise_killed)
            publish_pending(out, to)

    with subscribed(broker.url, "k any", "ann of k") as feed:
        for rows in (0, 700, 2100):
            killed_after(rows)
        killed_before_it_is_written_down()
        assert publish_pending(out, to) == 1
        commit_numbers(out, None, range(total, total + 5), "k")
        commit_numbers(out, 1, range(total + 5, total + 9), "k")
        assert publish_pending(out, to) == 2
        assert publish_pending(out, to) == 0
        assert received(broker.url, feed, "k") == list(range(total + 9))


def _raise_killed(*_: object) -> None:
    raise Killed


def test_a_folder_keeps_its_name_and_one_put_back_from_a_copy_is_told(
    broker: Broker, tmp_path: Path
) -> None:
    out = delivered_numbers(tmp_path, 0, range(3), "c")
    publish_pending(out, BrokerAddress(broker.url, "copied"))
    commit_numbers(out, 1, range(3, 4), "c")
    with pytest.raises(InvalidInputError, match="is published as 'copied', not as 'other'"):
        publish_pending(out, BrokerAddress(broker.url, "other"))
    (tmp_path / "acknowledged.json").write_text('{"published": 0, "batch": 0}')
    with pytest.raises(KbnError, match="put back from a copy"):
        publish_pending(out, BrokerAddress(broker.url, "copied"))


# Under Spark.


@pytest.fixture(scope="module")
def with_kbn(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


class Flow:
    """Broker, Spark, broker: what has an `n` is matched, and the matches are published."""

    def __init__(self, spark: SparkSession, url: str, root: Path) -> None:
        self._spark = spark
        self._url = url
        self._root = root
        self._store = SubscriptionStore.create(root / "store")
        self._store.change(add=[("s", "eve", "n >= 0")])

    def start(self, **trigger: Any) -> StreamingQuery:
        reader = self._spark.readStream.format("kbn").option("url", self._url)
        reader = reader.option("filter", "n any").option("client", "source").option("tasks", "1")
        reader = reader.option("subscriptions", str(self._root / "store"))
        stream = reader.option("spool", str(self._root / "spool")).load()
        writer = match(stream, self._store).writeStream.format("kbn").option("url", self._url)
        writer = writer.option("client", "sink").trigger(**trigger)
        writer = writer.option("checkpointLocation", str(self._root / "checkpoint"))
        return writer.start(str(self._root / "out"))


@pytest.mark.slow
@reads_streams
def test_a_stream_between_brokers_loses_and_doubles_nothing_when_all_are_disturbed(
    with_kbn: SparkSession, tmp_path: Path
) -> None:
    broker = Broker(tmp_path / "b.kbns")
    flow = Flow(with_kbn, broker.url, tmp_path)
    found: list[object] = []

    def take(feed: SyncFeed, total: int) -> None:
        found.extend(feed.next(PATIENCE_S)["notification"] for _ in range(total - len(found)))

    try:
        with subscribed(broker.url, "notification any") as feed:
            with opened(broker.url, tmp_path / "spool", "n any", "source") as source:
                source.hold()  # from here on the broker keeps what the query wants
            publish(broker.url, range(100))
            query = flow.start(processingTime="0 seconds")
            take(feed, 50)
            broker.kill()
            broker.start()
            publish(broker.url, range(100, 130))
            take(feed, 110)
            query.stop()  # perhaps in the middle of a batch
            forget_last_commit(tmp_path / "checkpoint")
            publish(broker.url, range(130, 200))
            flow.start(availableNow=True).awaitTermination()
            take(feed, 200)
            assert received(broker.url, feed, "notification") == []
    finally:
        broker.kill()
    origins = Counter(str(id).split("/")[0].rpartition(" ")[2] for id in found)
    assert len(set(found)) == 200
    assert origins == {"0": 100, "100": 30, "130": 70}


def forget_last_commit(checkpoint: Path) -> None:
    """As if the driver was killed after the sink's commit and before Spark's own."""
    commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()
    (checkpoint / "commits" / f".{commits[-1].name}.crc").unlink(missing_ok=True)


def test_a_broker_is_read_in_batches(
    with_kbn: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    with opened(broker.url, tmp_path / "spool", "p < 10", "batches") as source:
        source.hold()  # from here on the broker keeps what it wants
    publish(broker.url, range(5, 15), "p")
    reader = with_kbn.read.format("kbn").option("url", broker.url).option("filter", "p < 10")
    reader = reader.option("client", "batches").option("spool", str(tmp_path / "spool"))
    rows = reader.load().select("publisher", "attributes", "reason").collect()
    assert [json.loads(row["attributes"])["p"] for row in rows] == [5, 6, 7, 8, 9]
    assert {(row["publisher"], row["reason"]) for row in rows} == {("publisher of p from 5", None)}
    publish(broker.url, range(2), "p")
    assert reader.load().count() == 7
    with pytest.raises(PySparkException, match="refuses the filter"):
        reader.option("filter", "p <").load().count()


def test_a_table_is_published_in_a_batch(
    with_kbn: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    rows = with_kbn.createDataFrame([("n1", "s1", "ann"), ("n2", None, "bob")], MATCHES)
    with subscribed(broker.url, "subscriber any", "ann of rows") as feed:
        writer = rows.coalesce(1).write.format("kbn").option("url", broker.url)
        writer.mode("append").save(str(tmp_path / "out"))
        assert [dict(feed.next(PATIENCE_S)) for _ in range(2)] == [
            {"notification": "n1", "subscription": "s1", "subscriber": "ann"},
            {"notification": "n2", "subscriber": "bob"},
        ]
        assert received(broker.url, feed, "subscriber", "the last") == []


def test_what_was_published_is_not_overwritten(tmp_path: Path) -> None:
    options = {"path": str(tmp_path), "url": "kbn://localhost:7420"}
    with pytest.raises(InvalidInputError, match="what was published stays so"):
        BatchWriter(options, MATCHES, overwrite=True)
    with pytest.raises(InvalidInputError, match="cannot be an attribute"):
        BatchWriter(options, table(a=NESTED), overwrite=False)
