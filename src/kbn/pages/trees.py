"""Drawings of trees: who is above whom, each with a colour, as SVG inside a page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

COLUMN, ROW, MARGIN = 150, 26, 12
RADIUS = 6


class TreeNode(NamedTuple):
    """One node; `parent` None for a root. `note` is shown when the pointer is on it."""

    name: str
    parent: str | None
    colour: str
    note: str = ""


def tree_drawing(nodes: Sequence[TreeNode]) -> str:
    """The tree from left to right, leaves one below the other.

    >>> drawing = tree_drawing([TreeNode("ann", None, "green"), TreeNode("bob", "ann", "red")])
    >>> drawing.count("<circle"), drawing.count("<path")
    (2, 1)
    """
    known = {node.name for node in nodes}
    children: dict[str | None, list[str]] = {}
    for node in nodes:
        children.setdefault(node.parent if node.parent in known else None, []).append(node.name)
    places = _places(children)
    width = MARGIN * 2 + COLUMN * (1 + max((column for column, _ in places.values()), default=0))
    height = MARGIN * 2 + ROW * max(1.0, 1 + max((row for _, row in places.values()), default=0))
    lines = [
        _line(places[node.parent], places[node.name])
        for node in nodes
        if node.parent in places and node.name in places
    ]
    dots = [_dot(node, *places[node.name]) for node in nodes if node.name in places]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:g}" '
        f'font-family="sans-serif" font-size="12">{"".join(lines)}{"".join(dots)}</svg>'
    )


def _places(children: dict[str | None, list[str]]) -> dict[str, tuple[int, float]]:
    """Column and row of each node: a leaf gets the next row, others are beside their children."""
    places: dict[str, tuple[int, float]] = {}
    row = 0.0
    waiting = [(name, 0, False) for name in reversed(children.get(None, []))]
    while waiting:  # not by recursion: a tree may be a long chain
        name, column, is_done = waiting.pop()
        below = children.get(name, [])
        if is_done:
            rows = [places[child][1] for child in below]
            places[name] = (column, (rows[0] + rows[-1]) / 2)
        elif below:
            waiting.append((name, column, True))
            waiting.extend((child, column + 1, False) for child in reversed(below))
        else:
            places[name] = (column, row)
            row += 1
    return places


def _at(column: int, row: float) -> tuple[float, float]:
    return MARGIN + RADIUS + column * COLUMN, MARGIN + ROW / 2 + row * ROW


def _line(parent: tuple[int, float], child: tuple[int, float]) -> str:
    (x, y), (to_x, to_y) = _at(*parent), _at(*child)
    middle = (x + to_x) / 2
    way = f"M{x:g} {y:g} C{middle:g} {y:g} {middle:g} {to_y:g} {to_x:g} {to_y:g}"
    return f'<path d="{way}" fill="none" stroke="#999"/>'


def _dot(node: TreeNode, column: int, row: float) -> str:
    x, y = _at(column, row)
    return (
        f"<g><title>{escape(node.note or node.name)}</title>"
        f'<circle cx="{x:g}" cy="{y:g}" r="{RADIUS}" fill="{escape(node.colour)}"/>'
        f'<text x="{x + RADIUS + 4:g}" y="{y + 4:g}">{escape(node.name[:18])}</text></g>'
    )
