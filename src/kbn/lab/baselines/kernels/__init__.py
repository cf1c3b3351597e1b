"""Kernels of the baselines, compiled by Numba; arrays and integers only."""

from __future__ import annotations

from pathlib import Path

from kbn.kernel_folder import kept

with kept(Path(__file__).parent):
    from kbn.lab.baselines.kernels import pivot

__all__ = ["pivot"]
