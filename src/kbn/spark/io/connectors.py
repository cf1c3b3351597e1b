"""The formats beside "kbn": queues and tables of others, without jars."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource

from kbn.spark.io.delta_tables import DeltaSource
from kbn.spark.io.iceberg_tables import IcebergSource
from kbn.spark.io.kafka_topics import KafkaSource
from kbn.spark.io.nats_streams import NatsSource

CONNECTORS: tuple[type[DataSource], ...] = (KafkaSource, NatsSource, DeltaSource, IcebergSource)
