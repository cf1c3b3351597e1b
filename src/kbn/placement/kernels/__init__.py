"""Kernels: the inner loops of placement, compiled by Numba; arrays and integers only."""

from __future__ import annotations

from pathlib import Path

from kbn.kernel_folder import is_kept, kept

with kept(Path(__file__).parent):
    from kbn.placement.kernels import choosing, running, searching

__all__ = ["are_compiled", "choosing", "running", "searching"]


def are_compiled() -> bool:
    """Whether a medoid can be found without compiling."""
    return is_kept(choosing.choose)
