"""The made-up podcast day: the same from the same seed, good enough to read, bad here and there."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kbn import data
from kbn.filters.bulk import BulkReader
from kbn.lab.podcast_day import PodcastDay
from kbn.ontology import Ontology

pytest.importorskip("pyspark")


def files_of(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_the_same_seed_gives_the_same_day(tmp_path: Path, seed: int) -> None:
    day = PodcastDay(feeds=3, episodes=4, subscriptions=50, deliveries=20, seed=seed)
    day.write(tmp_path / "one")
    day.write(tmp_path / "other")
    assert files_of(tmp_path / "one") == files_of(tmp_path / "other")


def test_feeds_are_feeds_and_the_third_was_cut_off(tmp_path: Path, seed: int) -> None:
    from kbn.spark.io.feeds import feed_outcomes
    from kbn.spark.io.outcomes import Refused, Row

    PodcastDay(feeds=3, subscriptions=10, deliveries=10, seed=seed).write(tmp_path)
    read = [
        list(feed_outcomes(path.read_bytes(), path.name, None))
        for path in sorted((tmp_path / "feeds").iterdir())
    ]
    assert [len(outcomes) for outcomes in read] == [50, 50, 1]
    assert isinstance(read[2][0], Refused) and "XML" in read[2][0].reason
    good = [one for one in read[0] + read[1] if isinstance(one, Row)]
    assert len(good) > 80
    assert len({one.id for one in good}) == len(good)


def test_no_delivery_passes_more_brokers_than_lie_between_two(tmp_path: Path, seed: int) -> None:
    PodcastDay(feeds=40, subscriptions=500, deliveries=2_000, seed=seed).write(tmp_path)
    log = pq.read_table(tmp_path / "deliveries.parquet").to_pylist()
    assert {row["hops"] for row in log} == set(range(5))
    brokers = {row["subscriber"]: row["broker"] for row in log}
    ways = {(row["notification"][:16], brokers[row["subscriber"]], row["hops"]) for row in log}
    assert len(ways) == len(
        {way[:2] for way in ways}
    )  # from a feed to a broker it is as far always


def test_one_subscription_in_five_thousand_is_wrong(tmp_path: Path, seed: int) -> None:
    PodcastDay(feeds=1, subscriptions=6000, deliveries=10, seed=seed).write(tmp_path)
    reader = BulkReader(Ontology.load(data.path("podcast")))
    wrong = 0
    for text in pq.read_table(tmp_path / "subscriptions.parquet")["filter"].to_pylist():
        try:
            reader.read(text)
        except ValueError:
            wrong += 1
    assert wrong == 2
