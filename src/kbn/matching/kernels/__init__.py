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
        nested,
        one,
        rows,
        scanning,
        slab,
        texts,
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
    "nested",
    "one",
    "rows",
    "scanning",
    "slab",
    "texts",
    "trie",
]


def are_compiled(*, with_covering: bool = False) -> bool:
    """Whether a first match needs no compiling; `with_covering`, the first match of a broker."""
    needed = (one.match_one, rows.walk_rows, covering.select, covering.which_cover)
    return all(map(is_kept, needed if with_covering else needed[:1]))
