"""Pages: plots and tables a person looks at, shared by the lab and the pipeline."""

from __future__ import annotations

from kbn.pages import plots
from kbn.pages.html import (
    MEDIA_TYPES,
    Section,
    facts,
    figures,
    html_table,
    shown,
    tables_beside,
    whole_page,
)
from kbn.pages.plots import bars, lines
from kbn.pages.trees import TreeNode, tree_drawing

__all__ = [
    "MEDIA_TYPES",
    "Section",
    "TreeNode",
    "bars",
    "facts",
    "figures",
    "html_table",
    "lines",
    "plots",
    "shown",
    "tables_beside",
    "tree_drawing",
    "whole_page",
]
