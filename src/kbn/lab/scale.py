"""How large a run of an experiment is; apart from all else, for the command line reads it first."""

from __future__ import annotations

from enum import StrEnum


class Scale(StrEnum):
    """How large a run is: seconds, the source's own size, or as far as the machine goes."""

    SMALL = "small"
    PAPER = "paper"
    BEYOND = "beyond"
