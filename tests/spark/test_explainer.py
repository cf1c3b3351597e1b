"""The column `why` has what the library says, pair by pair; tested without Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from tests.matching.worlds import World, bag_world_of, world_of

from kbn.filters import Subscription, explain, value_to_json
from kbn.matching import SubscriptionStore
from kbn.spark.match_job import MatchJob, RowLayout


def written(reason: str) -> str:
    """A reason with 1.0 and -0.0 as 1 and 0: JSON columns do not keep how a number is written."""
    return re.sub(r"-0\.0\b", "0", reason).replace(".0", "")


@pytest.mark.parametrize("number", range(4))
def test_each_pair_has_the_reasons_of_the_library(number: int, tmp_path: Path) -> None:
    make = (world_of, bag_world_of)[number % 2]
    world: World = make(number)
    random = Random(number)
    store = SubscriptionStore.create(tmp_path / "store", world.ontology)
    rows = []
    for key in range(30):
        filters = [world.random_filter(random) for _ in range(random.randrange(1, 3))]
        rows.append((f"s{key}", "ann", json.dumps(Subscription(filters).to_json())))
    for row in rows:
        store.change(add=[row])
    given = [world.random_notification(random) for _ in range(30)]
    texts = [
        json.dumps({name: value_to_json(value) for name, value in each.attributes.items()})
        for each in given
    ]
    batch = pa.record_batch([pa.array(range(30)), pa.array(texts)], names=["id", "attributes"])
    view = store.at()
    layout = RowLayout("json", "id")
    job = MatchJob(str(store.directory), store.identity, view.version, layout, why=True)
    pairs = [row for out in job(iter([batch, batch])) for row in out.to_pylist()]
    assert len(pairs) > 20
    for row in pairs:
        wanted = view.subscription(row["subscription"])
        said = explain(wanted, given[row["notification"]], world.ontology)
        assert said.matches
        assert list(map(written, row["why"])) == list(dict.fromkeys(map(written, said.reasons)))
