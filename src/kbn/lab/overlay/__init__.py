"""Benchmarks of brokers as real processes over TCP; import the modules this door names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbn.lab.overlay import broker_bench, move_bench

__all__ = ["broker_bench", "move_bench"]
