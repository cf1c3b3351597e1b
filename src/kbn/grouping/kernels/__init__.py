"""Kernels: the inner loops of publisher groups, compiled by Numba; arrays and integers only."""

from __future__ import annotations

from pathlib import Path

from kbn.kernel_folder import is_kept, kept

with kept(Path(__file__).parent):
    from kbn.grouping.kernels import arriving, departing, lattice, reordering

__all__ = ["are_compiled", "arriving", "departing", "lattice", "reordering"]


def are_compiled() -> bool:
    """Whether publisher groups can be formed without compiling."""
    return is_kept(arriving.arrive_joining) or is_kept(arriving.arrive_splitting)
