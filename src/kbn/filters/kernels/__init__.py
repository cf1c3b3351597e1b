"""Kernels: inner loops about bags, compiled by Numba; arrays only. Import it where it is needed."""

from __future__ import annotations

from pathlib import Path

from kbn.kernel_folder import kept

with kept(Path(__file__).parent):
    from kbn.filters.kernels import inner, texts

__all__ = ["inner", "texts"]
