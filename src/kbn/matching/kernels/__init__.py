"""Kernels: the inner loops of matching, compiled by Numba; arrays and integers only."""

from __future__ import annotations

from pathlib import Path

from kbn.kernel_folder import is_kept, kept

with kept(Path(__file__).parent):
    from kbn.matching.kernels import (
        bags,
        batch,
        bulk_covering,
        code,
        covering,
        encoding,
        lane,
        layout,
        listing,
        one,
        rows,
        scanning,
        slab,
        trie,
    )

__all__ = [
    "are_compiled",
    "bags",
    "batch",
    "bulk_covering",
    "code",
    "covering",
    "encoding",
    "lane",
    "layout",
    "listing",
    "one",
    "rows",
    "scanning",
    "slab",
    "trie",
]


def are_compiled() -> bool:
    """Whether a first match can be answered without compiling."""
    return is_kept(one.match_one)
