"""Kernels: the inner loops of publisher groups, compiled by Numba; arrays and integers only."""

from __future__ import annotations

from pathlib import Path

from kbn.kernel_folder import kept

with kept(Path(__file__).parent) as _ours:
    from kbn.grouping.kernels import arriving, departing, lattice, reordering

__all__ = ["are_compiled", "arriving", "departing", "lattice", "reordering"]


def are_compiled() -> bool:
    """Whether publisher groups can be formed without compiling."""
    return any(_ours.rglob("*.arrive_*.nbi"))
