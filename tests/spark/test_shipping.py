"""Stores and ontologies on their way to executors: packed, checked, unpacked once, forgotten."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kbn import Ontology, data
from kbn.errors import InvalidInputError, KbnError
from kbn.matching import SubscriptionStore
from kbn.spark import annotate, match, shipping
from kbn.spark.shared import opened_ontology
from kbn.spark.shipping import SETTING, Shipped, ship_file, ship_store


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Where this process unpacks, as an executor elsewhere would."""
    monkeypatch.setenv("KBN_CACHE_DIR", str(tmp_path / "cache"))
    shipping._unpacked_here.cache_clear()
    yield tmp_path / "cache" / "shipped"
    shipping._unpacked_here.cache_clear()


@pytest.fixture
def ways(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, with its setting put back."""
    yield spark
    spark.conf.unset(SETTING)


@pytest.fixture
def store(tmp_path: Path) -> SubscriptionStore:
    made = SubscriptionStore.create(tmp_path / "store", Ontology.load(data.path("podcast")))
    made.change(add=[("s1", "ann", "price < 5"), ("s2", "bob", "price < 9")])
    made.compact()
    made.change(remove=["s1"])
    made.change(add=[("s3", "eve", "price < 3")])
    return made


def test_a_version_arrives_as_it_was_and_later_ones_do_not(
    ways: SparkSession, machine: Path, store: SubscriptionStore, tmp_path: Path
) -> None:
    ways.conf.set(SETTING, f"file://{tmp_path}/bucket")
    (tmp_path / "bucket").mkdir()
    sent = ship_store(ways, store, 2)
    assert isinstance(sent, Shipped)
    assert ship_store(ways, store, 2) is sent, "one archive is sent once"
    arrived = SubscriptionStore.open(sent.directory())
    assert (arrived.identity, arrived.version) == (store.identity, 2)
    assert {row.as_py() for row in next(iter(arrived.at().rows()))["subscription"]} == {"s2"}
    assert arrived.ontology is not None
    assert [each.name for each in machine.iterdir()] == [sent.digest]


def test_what_arrives_damaged_is_told_and_not_used(
    ways: SparkSession, machine: Path, store: SubscriptionStore, tmp_path: Path
) -> None:
    ways.conf.set(SETTING, f"file://{tmp_path}/bucket/")
    (tmp_path / "bucket").mkdir()
    sent = ship_store(ways, store, 3)
    assert isinstance(sent, Shipped)
    archive = tmp_path / "bucket" / sent.name
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 1
    archive.write_bytes(content)
    with pytest.raises(KbnError, match=r"arrived damaged: .* has the checksum"):
        sent.directory()
    assert list(machine.iterdir()) == []
    archive.unlink()
    with pytest.raises(KbnError, match="cannot be read"):
        sent.directory()


def test_a_session_without_a_folder_matches_and_annotates(
    ways: SparkSession, store: SubscriptionStore, tmp_path: Path
) -> None:
    """The workers of this machine, with what the session's files brought them."""
    ways.conf.set(SETTING, "files")
    posts = ways.createDataFrame([(1, 4.0), (2, 8.0)], ["id", "price"])
    wants = ways.createDataFrame(
        [(f"s{n}", "ann", f"price < {n}") for n in range(10)],
        ["subscription", "subscriber", "filter"],
    )
    found = match(posts, wants)
    in_store = match(posts, store)
    store.directory.rename(tmp_path / "moved")
    assert sorted(row[:2] for row in found.collect()) == sorted(
        [(1, f"s{n}") for n in range(5, 10)] + [(2, "s9")]
    )
    assert sorted(row[1] for row in in_store.collect()) == ["s2", "s2"]
    texts = ways.createDataFrame(
        [("n", "p", None, '{"category": "Technology"}')],
        "id string, publisher string, time timestamp, attributes string",
    )
    (row,) = annotate(texts, Ontology.load(data.path("podcast")), {"category": "class"}).collect()
    assert "Technology" in row.attributes and row.unrecognised == []


def test_settings_and_rows_that_cannot_be_shipped_are_told(
    ways: SparkSession, store: SubscriptionStore
) -> None:
    ways.conf.set(SETTING, "fils")
    with pytest.raises(InvalidInputError, match=r"spark\.kbn\.ship is folder, files, or"):
        ship_store(ways, store, 1)
    ways.conf.set(SETTING, "files")
    with pytest.raises(InvalidInputError, match="rows that name the version"):
        ship_store(ways, store, None)
    ways.conf.set(SETTING, "nowhere://bucket")
    with pytest.raises(InvalidInputError, match="nowhere"):
        ship_store(ways, store, 1)


def test_a_machine_keeps_what_it_used_last(
    ways: SparkSession, machine: Path, tmp_path: Path
) -> None:
    ways.conf.set(SETTING, f"file://{tmp_path}/bucket")
    (tmp_path / "bucket").mkdir()
    path = tmp_path / "podcast.kbno"
    Ontology.load(data.path("podcast")).save(path)
    for number in range(shipping.KEPT_MAX + 3):
        old = machine / f"{number:064d}"
        old.mkdir(parents=True)
        os.utime(old, (number, number))
    sent = ship_file(ways, str(path))
    assert isinstance(sent, Shipped)
    assert "podcast" in str(opened_ontology(sent).classes[0]).lower()
    kept = sorted(each.name for each in machine.iterdir())
    assert len(kept) == shipping.KEPT_MAX
    assert sent.digest in kept and f"{shipping.KEPT_MAX + 2:064d}" in kept
