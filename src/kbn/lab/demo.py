"""The demo's story: a podcast day on disk, and a few who got what, and why."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbn.lab.podcast_day import PodcastDay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kbn.ontology import Ontology
    from kbn.spark.pipeline import PipelineConfig

EXAMPLES = 4
RECEIVERS_MAX = 200
"""Examples are chosen among notifications that not more than so many get: each is explained."""


@dataclass(frozen=True)
class Example:
    """One notification, how many get it, and why some of them do."""

    notification: str
    categories: list[str]
    receivers: int
    why: dict[str, list[str]]

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return asdict(self)


def prepare(day: PodcastDay, folder: Path) -> Path:
    """Write the day into a folder, in place of one that was there; the pipeline's file."""
    for name in ("feeds", "out"):
        shutil.rmtree(folder / name, ignore_errors=True)
    return day.write(folder)


def examples(spark: SparkSession, config: PipelineConfig) -> list[Example]:
    """A few notifications, and why those who get them do."""
    from pyspark.sql import functions as F

    from kbn.spark import match
    from kbn.spark.pipeline import table

    ontology = config.ontology.load()
    counts = table(spark, config, "counts").groupBy("notification")
    found = counts.agg(F.sum("subscriptions").alias("receivers"))
    some = found.where(F.col("receivers").between(2, RECEIVERS_MAX))
    chosen = some.orderBy(F.xxhash64("notification")).limit(EXAMPLES).collect()
    receivers = {row.notification: row.receivers for row in chosen}
    annotated = table(spark, config, "annotated").where(F.col("id").isin(list(receivers)))
    told = match(annotated, config.output / "store", why=True).collect()
    rows = {row.id: json.loads(row.attributes) for row in annotated.collect()}
    made = []
    for id, attributes in sorted(rows.items()):
        why = {row.subscriber: row.why for row in told if row.notification == id}
        shown = dict(sorted(why.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:3])
        categories = _categories(attributes.get("category"), ontology)
        made.append(Example(attributes.get("title", id), categories, receivers[id], shown))
    return made


def totals(config: PipelineConfig, subscriptions: int) -> dict[str, Any]:
    """What the day came to."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    from kbn.spark.pipeline import status

    stages = status(config.output).stages
    rows = {name: count for stage in stages.values() for name, count in stage.rows.items()}
    counts = ds.dataset(config.output / "tables" / "counts", format="parquet")
    matches = pc.sum(counts.to_table(columns=["subscriptions"])["subscriptions"]).as_py() or 0
    return {
        "notifications": rows["notifications"],
        "subscriptions": subscriptions,
        "matches": matches,
        "subscribers who get some": rows["totals"],
        "records in quarantine": rows["quarantine"],
        "names not recognised": rows["unrecognised"],
        "subscriptions rejected": rows["rejected"],
        "matching seconds": stages["match"].seconds,
    }


def _categories(value: Any, ontology: Ontology) -> list[str]:
    """The labels of what a notification carries; what names no term stays as it is."""
    several = value if isinstance(value, list) else [] if value is None else [value]
    names = []
    for one in several:
        iri = next(iter(one.values())) if isinstance(one, dict) else one
        names.append(ontology.label(iri) or iri)
    return names
