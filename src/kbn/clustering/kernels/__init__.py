"""Kernels: the inner loops of clustering, compiled by Numba; arrays and integers only."""

from __future__ import annotations

from pathlib import Path

from kbn.kernel_folder import kept

with kept(Path(__file__).parent):
    from kbn.clustering.kernels import (
        arriving,
        choosing,
        departing,
        lattice,
        reordering,
        searching,
    )

__all__ = ["arriving", "choosing", "departing", "lattice", "reordering", "searching"]
