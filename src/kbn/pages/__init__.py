"""Pages: plots and tables a person looks at, shared by the lab and the pipeline."""

from __future__ import annotations

from kbn.pages import plots
from kbn.pages.html import MEDIA_TYPES, html_table, image, shown, whole_page
from kbn.pages.plots import bars, lines

__all__ = [
    "MEDIA_TYPES",
    "bars",
    "html_table",
    "image",
    "lines",
    "plots",
    "shown",
    "whole_page",
]
