"""Affixes: the prefixes, suffixes and substrings of a text that somebody may have asked for."""

from __future__ import annotations

from typing import Any

from kbn.filters import Operator


def _prefixes(value: str, lengths: list[int], patterns: int) -> set[str] | None:
    return {value[:n] for n in lengths if n <= len(value)}


def _suffixes(value: str, lengths: list[int], patterns: int) -> set[str] | None:
    return {value[len(value) - n :] for n in lengths if n <= len(value)}


def _substrings(value: str, lengths: list[int], patterns: int) -> set[str] | None:
    """Every substring of a registered length; None when asking each pattern is less work."""
    if patterns <= len(value) * len(lengths):
        return None
    return {value[i : i + n] for n in lengths for i in range(len(value) - n + 1)}


AFFIXES: dict[Any, Any] = {
    Operator.PREFIX: _prefixes,
    Operator.SUFFIX: _suffixes,
    Operator.CONTAINS: _substrings,
}
