"""What each stage does: tables in, tables out, by the functions of `kbn.spark`."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kbn.matching import SubscriptionStore
from kbn.ontology import Ontology
from kbn.spark.annotate import annotate, unrecognised
from kbn.spark.columns import REJECTED
from kbn.spark.compiling import compile_subscriptions
from kbn.spark.hops import hops
from kbn.spark.ingest import ingest as ingest_rows
from kbn.spark.ingest import notifications, quarantine, read
from kbn.spark.io import TABLES, register, rows_arrived
from kbn.spark.matching import match, problems
from kbn.spark.medoids import interests, medoids
from kbn.spark.pipeline.config import Delivery, PipelineConfig
from kbn.spark.pipeline.deciding import Decision, digest
from kbn.spark.pipeline.inputs import Stamp, TableInput, found_files, spark_path
from kbn.spark.pipeline.tables import Tables
from kbn.spark.pipeline.wanted import totals_of_matches, totals_of_wanted, wanted
from kbn.spark.planning import clusters, plan, plan_json
from kbn.spark.shared import ontology_path
from kbn.wording import counted


@dataclass(frozen=True)
class Job:
    """What a stage works with."""

    config: PipelineConfig
    ontology: Ontology
    tables: Tables
    spark: SparkSession
    told: list[str] = field(default_factory=list)
    """What the stage under way has to say to whoever runs it."""

    @property
    def out(self) -> Path:
        """The output folder."""
        return self.config.output

    @property
    def store(self) -> SubscriptionStore:
        """The compiled subscriptions, by the path that is this compilation's own."""
        return SubscriptionStore.open((self.out / "store").resolve())

    def table(self, name: str) -> DataFrame:
        """A table that an earlier stage made."""
        return self.tables.read(self.spark, name)

    def given(self, table: TableInput) -> DataFrame:
        """A table that the user gave."""
        files = found_files(self.config.directory, table.pattern)
        return table.read(self.spark, files, self.ontology)


def tables_of(stage: str, config: PipelineConfig) -> tuple[str, ...]:
    """The names of the tables a stage makes."""
    return {
        "ingest": ("notifications", "quarantine"),
        "annotate": ("annotated", "unrecognised"),
        "compile": ("rejected",),
        "match": (*_matched(config), "totals", "problems"),
        "deliver": (),
        "medoids": ("medoids", "clusters"),
        "plan": ("plan",),
        "hops": ("hops",),
        "report": (),
    }[stage]


def _matched(config: PipelineConfig) -> tuple[str, ...]:
    return ("matches", "subscribed") if config.options.expand else ("counts", "wanted")


BY_RUN = frozenset({"notifications", "quarantine", "annotated", "matches", "counts", "problems"})
"""Tables with a part for each run; the others are always made as a whole."""


def ingest(job: Job, decision: Decision) -> None:
    """Files to notifications and the quarantine."""
    for run in decision.todo:
        by_source: dict[int, dict[str, Stamp]] = {}
        for name, stamp in decision.runs[run].files.items():
            number, _, file = name.partition(":")
            by_source.setdefault(int(number), {})[file] = stamp
        parts = [_records(job, place, files) for place, files in sorted(by_source.items())]
        # Read once, though two tables come of it.
        rows = job.tables.stage(job.spark, reduce(DataFrame.unionByName, parts), "ingested")
        job.tables.write(notifications(rows), "notifications", run)
        job.tables.write(quarantine(rows), "quarantine", run)
    for name in ("notifications", "quarantine"):
        job.tables.keep_runs(name, decision.runs)
    refused = job.tables.rows("quarantine")
    if refused and not job.tables.rows("notifications"):
        often = _most_frequent(job.table("quarantine"))
        job.told.append(f"all {counted(refused, 'record')} are in quarantine, most often: {often}")


def _most_frequent(rows: DataFrame) -> str:
    """The reason that most rows have."""
    reasons = rows.groupBy("reason").count().orderBy(F.col("count").desc(), "reason").limit(1)
    return str(reasons.collect()[0].reason)


def _records(job: Job, number: int, files: Mapping[str, Stamp]) -> DataFrame:
    """The records of some files of a source, or of what came to its queue or table."""
    source = job.config.sources[number]
    if source.connector:
        register(job.spark)
        rows = rows_arrived(job.spark, source.connector, source.options, dict(files))
        return ingest_rows(rows, source.format, source.mapping)
    places = [Path(os.path.normpath(job.config.directory / file)) for file in files]
    paths = [spark_path(path) for path in places]
    return read(job.spark, paths, source.format, source.mapping)


def annotate_(job: Job, decision: Decision) -> None:
    """Names to terms."""
    path = ontology_path(job.ontology)
    for run in decision.todo:
        given = job.tables.read(job.spark, "notifications", run)
        done = annotate(
            given, path, job.config.annotate, unrecognised=_choice(job.config.options.unrecognised)
        )
        job.tables.write(done, "annotated", run)
    job.tables.keep_runs("annotated", decision.runs)
    job.tables.write(unrecognised(job.table("annotated")), "unrecognised")
    for name in _unsure(job.config) if job.tables.rows("annotated") else ():
        held = F.get_json_object("attributes", f"$['{name}']")
        if not job.table("annotated").where(held.isNotNull()).limit(1).count():
            job.told.append(f"annotate: no notification has an attribute {name!r}")


def _unsure(config: PipelineConfig) -> list[str]:
    """The attributes to annotate of which only the records tell whether there are any."""
    known = {name for one in config.sources for name in one.attributes or ()}
    return [name for name in config.annotate if name not in known and "'" not in name]


def compile_(job: Job, decision: Decision) -> None:
    """Subscriptions to a store."""
    stores = job.out / "stores"
    fresh = stores / digest(decision.inputs)
    shutil.rmtree(fresh, ignore_errors=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table `rejected` says it, and the page
        store = compile_subscriptions(
            job.given(job.config.subscriptions),
            job.ontology,
            fresh,
            shards=job.config.options.shards,
        )
    rejected = store.rejected()
    if rejected is None:
        job.tables.write(job.spark.createDataFrame([], REJECTED), "rejected")
    else:
        rows = rejected.select(REJECTED.names).to_pylist()
        job.tables.write(job.spark.createDataFrame(rows, REJECTED), "rejected")
    # Workers remember stores by their path: each compilation has its own, and `store` points to it.
    link = job.out / ".store.new"
    link.unlink(missing_ok=True)
    link.symlink_to(Path("stores") / fresh.name)
    link.replace(job.out / "store")
    for other in stores.iterdir():
        if other.name != fresh.name:
            shutil.rmtree(other, ignore_errors=True)


def match_(job: Job, decision: Decision) -> None:
    """Notifications × subscriptions: pairs, or counts by group."""
    options, store = job.config.options, job.store
    name, other = ("matches", "counts") if options.expand else ("counts", "matches")
    if decision.late and options.backfill:
        backfill(job, decision)
    for run in decision.todo:
        given = job.tables.read(job.spark, "annotated", run)
        told = options.unknown_terms
        found = match(
            given, store, expand=options.expand, by_shard=options.by_shard, unknown_terms=told
        )
        job.tables.write(found, name, run)
        wrong = problems(given, store, unknown_terms=told, duplicates=True)
        job.tables.write(wrong, "problems", run)
    job.tables.keep_runs(name, decision.runs)
    job.tables.keep_runs("problems", decision.runs)
    job.tables.remove(other)
    if wrong_rows := job.tables.rows("problems"):
        often = _most_frequent(job.table("problems"))
        job.told.append(f"{counted(wrong_rows, 'problem')} of notifications, most often: {often}")
    if options.expand:
        job.tables.remove("wanted")
        job.tables.write(job.given(job.config.subscriptions), "subscribed")
        job.tables.write(totals_of_matches(job.table("matches")), "totals")
    else:
        job.tables.remove("subscribed")
        job.tables.write(wanted(job.table("counts"), store), "wanted")
        job.tables.write(totals_of_wanted(job.table("wanted"), store), "totals")


def backfill(job: Job, decision: Decision) -> None:
    """Match late subscriptions against the notifications of earlier runs.

    The table `subscribed` has the subscriptions that the matches there are of. Those that came,
    went or changed since lose their matches, if they have any, and those that are there now get
    them. What was killed in between is therefore done again with the same result.
    """
    fresh, before = job.given(job.config.subscriptions), job.table("subscribed")
    changed = fresh.subtract(before).unionByName(before.subtract(fresh)).select("subscription")
    changed = job.tables.stage(job.spark, changed.distinct(), "changed")
    if changed.isEmpty():
        return
    late = fresh.join(changed, "subscription", "left_semi").select(*fresh.columns)
    store = None
    if not late.isEmpty():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the table `rejected` says it, of all of them
            place = job.out / "stores" / f"late-{digest(decision.inputs)}"
            shutil.rmtree(place, ignore_errors=True)
            store = compile_subscriptions(late, job.ontology, place)
    told = job.config.options.unknown_terms
    for run in decision.late:
        given = job.tables.read(job.spark, "annotated", run)
        kept = job.tables.read(job.spark, "matches", run)
        kept = kept.join(changed, "subscription", "left_anti").select(*kept.columns)
        if store is not None:
            kept = kept.unionByName(match(given, store, unknown_terms=told))
        job.tables.write(kept, "matches", run)
        wrong = problems(given, job.store, unknown_terms=told, duplicates=True)
        job.tables.write(wrong, "problems", run)


def deliver(job: Job, decision: Decision) -> None:
    """Rows of tables to queues and tables of others, each run's once.

    What waits to be taken has a folder that is known by the run and its digest: what was killed in
    between is completed, and not written twice. A table whose earlier runs changed is made anew.
    """
    register(job.spark)
    for number, target in enumerate(job.config.deliver):
        if target.connector in TABLES and decision.action != "append":
            whole = digest([run.digest for run in decision.runs.values()])
            _write_to(job, target, job.table(target.table), "overwrite", f"{number}-{whole}")
            continue
        for run in decision.todo:
            rows = job.tables.read(job.spark, target.table, run)
            _write_to(job, target, rows, "append", f"{number}-{decision.runs[run].digest}")
    shutil.rmtree(job.out / "outboxes", ignore_errors=True)


def _write_to(job: Job, target: Delivery, rows: DataFrame, mode: str, outbox: str) -> None:
    writer = rows.write.format(f"kbn-{target.connector}").mode(mode).options(**target.options)
    writer.option("outbox", str(job.out / "outboxes" / outbox)).option("batch", "0").save()


def medoids_(job: Job, decision: Decision) -> None:
    """Each client's interests as one point of the ontology: of subscribers and publishers."""
    path, prefixes = ontology_path(job.ontology), job.ontology.prefixes
    named = interests(job.given(job.config.subscriptions), prefixes)
    published = interests(job.table("annotated"), prefixes)
    job.tables.write(medoids(named.unionByName(published), path), "medoids")
    job.tables.write(clusters(job.spark, path), "clusters")


def plan_(job: Job, decision: Decision) -> None:
    """Which cluster lives on which broker: a table, and the JSON form for a policy server."""
    path, config = ontology_path(job.ontology), job.config
    job.tables.write(plan(job.table("medoids"), path, config.brokers, config.planner), "plan")
    written = plan_json(job.table("plan"), path, config.brokers, config.planner)
    (text,) = (row.value for row in written.collect())  # one row: clusters, and not clients
    fresh = job.out / ".plan.json.new"
    fresh.write_text(text + "\n", encoding="utf-8")
    fresh.replace(job.out / "plan.json")


def hops_(job: Job, decision: Decision) -> None:
    """How far notifications travelled."""
    assert job.config.deliveries is not None
    found = hops(job.given(job.config.deliveries), job.config.options.misplaced_above)
    job.tables.write(found, "hops")


WORK: Mapping[str, Callable[[Job, Decision], None]] = {
    "ingest": ingest,
    "annotate": annotate_,
    "compile": compile_,
    "match": match_,
    "deliver": deliver,
    "medoids": medoids_,
    "plan": plan_,
    "hops": hops_,
}


def _choice(text: str) -> Literal["keep", "drop"]:
    return "drop" if text == "drop" else "keep"
