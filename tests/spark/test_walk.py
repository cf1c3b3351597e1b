"""A DataFrame goes through the functions that ARCHITECTURE.md names: those that tasks call."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from tests.walks import functions, not_called_in_turn, watched

from kbn.matching import ShardReport, SubscriptionStore
from kbn.spark.compiling import build_shard
from kbn.spark.match_job import MatchJob, RowLayout


def test_tasks_take_the_way_that_the_architecture_tells(tmp_path: Path) -> None:
    texts = [f"x > {n} and kind = 'k{n % 7}'" for n in range(50)]
    names = [str(n) for n in range(50)]
    columns = {"subscription": names, "subscriber": names, "filter": texts}
    subscriptions = pa.RecordBatch.from_pydict(columns)
    notifications = pa.RecordBatch.from_pydict({"id": [1, 2], "x": [9, 40], "kind": ["k1", "k2"]})
    with watched() as calls:
        store = SubscriptionStore.create(tmp_path / "store", None)
        with store.new_base() as base:
            made = build_shard(str(base.directory), str(store.directory), iter([subscriptions]))
            base.reports += [ShardReport(**row) for batch in made for row in batch.to_pylist()]
        layout = RowLayout("columns", "id")
        job = MatchJob(str(store.directory), store.identity, store.version, layout)
        found = list(job(iter([notifications])))
    assert sum(batch.num_rows for batch in found) == 2 + 6
    in_tasks = functions("A DataFrame through `match`")[2:]
    assert in_tasks[0] == "ShardBuilder.add"
    assert not_called_in_turn(in_tasks, calls) is None
