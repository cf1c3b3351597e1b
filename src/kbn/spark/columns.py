"""The tables of the pipeline: their columns, types and meaning. Every job takes and gives these.

Schemas are constants, not DDL strings: under Spark Connect a string costs a round trip to parse.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)


def _table(**columns: DataType) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in columns.items()])


TEXT = StringType()
NUMBER = LongType()

NOTIFICATIONS = _table(id=TEXT, publisher=TEXT, time=TimestampType(), attributes=TEXT)
"""What was published. `attributes` is a JSON object in kbn's JSON form: name → value."""

QUARANTINE = _table(source=TEXT, position=NUMBER, record=TEXT, reason=TEXT)
"""What could not be read: where it stood (the line, row or item from 1; null when the whole file is
meant), the record as it was, and why."""

INGESTED = StructType([*NOTIFICATIONS.fields, *QUARANTINE.fields])
"""One row per record read: a notification (`reason` is null) or a quarantined record (`id` is)."""

UNRECOGNISED_IN_ROW = ArrayType(_table(attribute=TEXT, text=TEXT))
ANNOTATED = StructType(
    [*NOTIFICATIONS.fields, StructField("unrecognised", UNRECOGNISED_IN_ROW)],
)
"""Notifications with terms in place of names, and the names that named no term."""

UNRECOGNISED = _table(attribute=TEXT, text=TEXT, notifications=NUMBER)
"""How many notifications have a name that names no term."""

SUBSCRIPTIONS = _table(subscription=TEXT, subscriber=TEXT, filter=TEXT)
"""Who wants what: `filter` is a subscription's text, or its JSON form; or a list of constraints, as
`kbn.matching.constraint_table` has them."""

REJECTED = StructType([*SUBSCRIPTIONS.fields, StructField("reason", TEXT)])
"""Subscriptions that could not be compiled, and why."""

MATCHES = _table(notification=TEXT, subscription=TEXT, subscriber=TEXT)
"""Who gets what."""

WHY = StructField("why", ArrayType(TEXT))
"""With `why`, one line per constraint: what in the notification satisfied it."""

PROBLEMS = _table(
    notification=TEXT, attribute=TEXT, reason=TEXT, record=TEXT, left_out=BooleanType(),
)  # fmt: skip
"""What is wrong with notifications: in which attribute (null when the whole row is meant), why, the
beginning of the record, and whether the notification is left out of the matches."""

GROUPS = ArrayType(_table(group=NUMBER, subscriptions=NUMBER))
COUNTS = _table(notification=TEXT, subscriptions=NUMBER, groups=GROUPS)
"""Who gets what, counted. A group is one distinct filter and `subscriptions` how many have it; the
number of a group is good within one version of a store. A notification that nobody wants has a row
as well; one that meets a store of several shards has a row per shard."""

INTERESTS = _table(client=TEXT, term=TEXT)
"""One row per mention: a client named a term in a filter, or in a notification it published."""

MEDOIDS = _table(
    client=TEXT,
    medoid=TEXT,
    spread=DoubleType(),
    cost=DoubleType(),
    terms=IntegerType(),
    reached=IntegerType(),
    cluster=TEXT,
)
"""Each client's interests as one point of the ontology, and the cluster that holds it. `terms` of
its mentions counted, and the medoid reaches `reached` of them; null when none can be placed."""

CLUSTERS = _table(term=TEXT, kind=TEXT, cluster=TEXT)
"""The cluster of every term of an ontology."""

PLAN = _table(
    cluster=TEXT, rank=IntegerType(), broker=TEXT, terms=NUMBER, clients=NUMBER,
)  # fmt: skip
"""Which cluster lives on which broker: `rank` from the most general on, how many terms it holds,
and how many clients have their medoid in it."""

DELIVERIES = _table(notification=TEXT, subscriber=TEXT, broker=TEXT, hops=IntegerType())
"""A delivery log: how many brokers a notification passed on its way to a subscriber at `broker`."""

HOPS = StructType(
    [
        StructField("subscriber", TEXT),
        StructField("broker", TEXT),
        StructField("notifications", NUMBER),
        StructField("mean", DoubleType()),
        StructField("deviation", DoubleType()),
        StructField("histogram", MapType(IntegerType(), NUMBER)),
        StructField("misplaced", BooleanType()),
    ]
)
"""How far each subscriber's notifications travel, and whether it had better sit elsewhere."""
