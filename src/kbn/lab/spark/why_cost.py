"""What reasons cost beside pairs, in a worker: the job of one task, without Spark around it.

Both jobs get the same Arrow batches in turns, in one process. The least of the rounds counts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kbn.matching import SubscriptionStore
from kbn.spark.match_job import MatchJob, RowLayout

ROUNDS = 5
BATCH_ROWS = 10_000
"""Spark's own, unless `spark.sql.execution.arrow.maxRecordsPerBatch` says otherwise."""


def notifications_of(folder: Path, count: int) -> pa.Table:
    """The first notifications of a folder of Parquet files."""
    table = pq.read_table(folder)
    return table.filter(pc.less(table["id"], count))


def times_pairs(store: SubscriptionStore, table: pa.Table, terms: Mapping[str, str]) -> float:
    """The CPU time of pairs with reasons, in that of pairs."""
    batches = table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
    least = {}
    for _ in range(ROUNDS):
        for why in (False, True):
            layout = RowLayout("columns", "id", terms)
            job = MatchJob(str(store.directory), store.identity, store.version, layout, why=why)
            before = time.process_time()
            for _ in job(iter(batches)):
                pass
            took = time.process_time() - before
            least[why] = min(took, least.get(why, took))
    return least[True] / least[False]
