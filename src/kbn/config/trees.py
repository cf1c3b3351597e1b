"""Trees: where the values of a document come from, and on which lines they stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_origin

from kbn.config import forms
from kbn.config.problems import Path
from kbn.config.scalars import BOOL, FLOAT, INT, STR, number_of, value_of
from kbn.config.yaml_nodes import ALIASED_MAX, DEPTH_MAX, TAG, SyntaxProblem, is_quoted, line_of


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a value stands; `column` when its text stands there as it is, on one line."""

    line: int
    column: int | None = None


class Tree(Protocol):
    """The values of a document."""

    def plain(self, path: Path, type: Any) -> Any:
        """The value at a path as plain data, read as what `type` expects."""

    def mark(self, path: Path, *, of_key: bool = False) -> Mark | None:
        """Where the value, or its key, stands; of one that is missing, where its parent does."""


class DataTree:
    """Plain data that was given, or read from JSON; lines come from nodes when there are any."""

    def __init__(self, data: Any, nodes: Callable[[], YamlTree | None] = lambda: None) -> None:
        self._data = data
        self._nodes = nodes

    def plain(self, path: Path, type: Any) -> Any:
        found = self._data
        for key in path:
            found = found[key]
        return found

    def mark(self, path: Path, *, of_key: bool = False) -> Mark | None:
        nodes = self._nodes()
        return None if nodes is None else nodes.mark(path, of_key=of_key)


class YamlTree:
    """A tree of YAML nodes."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._pairs: dict[int, dict[str, Any]] = {}  # of mappings on the way to some value

    def plain(self, path: Path, type: Any) -> Any:
        node = self._root
        for key in path:
            node = self._inner(node, key)[1]
        return None if node is None else _Expansion().of(node, type)

    def mark(self, path: Path, *, of_key: bool = False) -> Mark | None:
        if self._root is None:
            return Mark(1)
        node, key_node = self._root, self._root
        for key in path:
            inner = self._inner(node, key)
            if inner is None:
                return Mark(line_of(node))
            key_node, node = inner
        return Mark(line_of(key_node)) if of_key else Mark(line_of(node), _column(node))

    def _inner(self, node: Any, key: str | int) -> Any:
        """The key's node and the value's; None when there is no such value."""
        if isinstance(key, str) and node.id == "mapping":
            if id(node) not in self._pairs:
                self._pairs[id(node)] = {pair[0].value: pair for pair in node.value}
            return self._pairs[id(node)].get(key)
        if isinstance(key, int) and node.id == "sequence" and key < len(node.value):
            return node.value[key], node.value[key]
        return None


class _Expansion:
    """Turns nodes into plain data; a node that is used again, by an alias, counts each time."""

    def __init__(self) -> None:
        self._used: set[int] = set()
        self._again = 0

    def of(self, node: Any, type: Any, depth: int = 1) -> Any:
        self._again += id(node) in self._used
        self._used.add(id(node))
        if self._again > ALIASED_MAX:
            reason = f"aliases stand for more than {ALIASED_MAX:,} values; write fewer"
            raise SyntaxProblem(reason, line_of(node))
        if depth > DEPTH_MAX:
            reason = f"nested deeper than {DEPTH_MAX} levels, aliases expanded"
            raise SyntaxProblem(reason, line_of(node))
        match node.id:
            case "mapping":
                _check_tag(node, "map")
                return {
                    key.value: self.of(value, forms.inside(type, key.value), depth + 1)
                    for key, value in node.value
                }
            case "sequence":
                _check_tag(node, "seq")
                inner = forms.inside(type, 0)
                return [self.of(each, inner, depth + 1) for each in node.value]
            case _:
                return _scalar(node, type)


def _scalar(node: Any, type: Any) -> Any:
    kind = node.tag.removeprefix(TAG)
    expected = forms.scalars(type)
    if len(expected) == 1 and kind in (BOOL, INT, FLOAT, STR):
        return _as_expected(node, kind, expected[0])
    return _value(node, kind)


def _as_expected(node: Any, kind: str, type: Any) -> Any:
    """A scalar where one type can stand, which decides what its text means."""
    plain, is_written = forms.unannotated(type), forms.is_as_written(type)
    if get_origin(plain) is Literal or (plain is str and is_written):
        return node.value
    if plain in (int, float) and kind != BOOL and (is_written or not is_quoted(node)):
        return _number(number_of(node.value), plain)
    return _value(node, kind)


def _value(node: Any, kind: str) -> Any:
    try:
        return value_of(node.value, kind)
    except ValueError:
        reason = f"not understood: {_short(node.tag)}; use plain texts, numbers, true and false"
        raise SyntaxProblem(reason, line_of(node)) from None


def _number(value: Any, type: Any) -> Any:
    """A whole number may be written 30.0."""
    is_whole = type is int and isinstance(value, float) and value.is_integer()
    return int(value) if is_whole else value


def _check_tag(node: Any, expected: str) -> None:
    if node.tag != TAG + expected:
        reason = f"not YAML that a configuration may use: the tag {_short(node.tag)}; remove it"
        raise SyntaxProblem(reason, line_of(node))


def _short(tag: str) -> str:
    return "!!" + tag.removeprefix(TAG) if tag.startswith(TAG) else tag


def _column(node: Any) -> int | None:
    is_whole = node.start_mark.line == node.end_mark.line
    if node.id != "scalar" or node.style in ("|", ">") or not is_whole:
        return None
    return int(node.start_mark.column) + 1 + is_quoted(node)
