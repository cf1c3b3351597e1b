"""Benchmarks of the data pipeline on Spark; import the modules this door names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbn.lab.spark import batch_bench, stream_bench

__all__ = ["batch_bench", "stream_bench"]
