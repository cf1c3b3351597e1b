"""Kernels: the inner loops of clustering, compiled by Numba; arrays and integers only."""

from __future__ import annotations

from pathlib import Path

from kbn.kernel_folder import kept

with kept(Path(__file__).parent) as _ours:
    from kbn.clustering.kernels import (
        arriving,
        choosing,
        departing,
        lattice,
        reordering,
        running,
        searching,
    )

__all__ = [
    "are_compiled",
    "arriving",
    "choosing",
    "departing",
    "lattice",
    "reordering",
    "running",
    "searching",
]


def are_compiled(kernel: str) -> bool:
    """Whether the kernel of that name, and so what is used with it, need not be compiled."""
    return any(_ours.rglob(f"*.{kernel}-*.nbi"))
