"""YAML text as a tree of nodes that know their lines, within stated limits.

PyYAML reads the text and makes the nodes. This module adds: keys are texts as written, and none
occurs twice; `<<` is merged; depth and the number of merged keys have a limit. The nodes of an
alias are shared, so whoever expands them counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from yaml.composer import Composer

from kbn.config.scalars import STR, plain_kind

DEPTH_MAX = 64
ALIASED_MAX = 100_000
"""How many values aliases, and keys merges, may stand for."""
TAG = "tag:yaml.org,2002:"

if yaml.__with_libyaml__:
    from yaml.cyaml import CParser as Parser
else:
    from yaml.parser import Parser as _Parser
    from yaml.reader import Reader as _Reader
    from yaml.scanner import Scanner as _Scanner

    class Parser(_Reader, _Scanner, _Parser):  # type: ignore[no-redef,misc]
        """The same in Python, where PyYAML was built without libyaml."""

        def __init__(self, text: str) -> None:
            _Reader.__init__(self, text)
            _Scanner.__init__(self)
            _Parser.__init__(self)


class SyntaxProblem(Exception):
    """The text is not YAML, or exceeds a limit."""

    def __init__(self, reason: str, line: int, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.path = path


def composed(text: str) -> tuple[Any, list[SyntaxProblem]]:
    """The root node, None for an empty file, and each key that occurs twice."""
    try:
        nodes = _Nodes(text)
        return nodes.get_single_node(), nodes.repeated
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = text.count("\n", 0, getattr(error, "position", 0)) if mark is None else mark.line
        problem = _problem(error)
        last = text.count("\n")  # libyaml counts the end of the text as a line of its own
        raise SyntaxProblem(f"not YAML: {problem}", min(line, last) + 1) from None


def _problem(error: yaml.YAMLError) -> str:
    """What is wrong; PyYAML with libyaml and without it word this differently."""
    if isinstance(error, yaml.reader.ReaderError):
        return "control or special characters are not allowed; remove or escape them"
    return str(getattr(error, "problem", None) or error)


def is_quoted(node: Any) -> bool:
    return node.style in ("'", '"')


def line_of(node: Any) -> int:
    return int(node.start_mark.line) + 1


class _Nodes(Composer, Parser):  # type: ignore[misc]
    """PyYAML's composer with limits; what tags mean is ours."""

    def __init__(self, text: str) -> None:
        Parser.__init__(self, text)
        Composer.__init__(self)
        self.repeated: list[SyntaxProblem] = []
        self._depth = 0
        self._merged = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            line = self.peek_event().start_mark.line + 1
            raise SyntaxProblem(f"nested deeper than {DEPTH_MAX} levels", line)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key, value in node.value:
            if key.id != "scalar":
                raise SyntaxProblem("a key is a text, not a list or a mapping", line_of(key))
            if key.value == "<<" and not is_quoted(key):
                merged.update((pair[0].value, pair) for pair in self._sources(value))
                continue
            if key.value in own:
                first = line_of(own[key.value][0])
                reason = (
                    f"the key {key.value!r:.60} occurs twice, first on line {first}; remove one"
                )
                self.repeated.append(SyntaxProblem(reason, line_of(key)))
            own[key.value] = (key, value)
        node.value = list({**merged, **own}.values())
        return node

    def _sources(self, node: Any) -> Iterator[Any]:
        """The pairs that `<<` merges: those of the first mapping win, so they come last."""
        several = reversed(node.value) if node.id == "sequence" else [node]
        for each in several:
            if each.id != "mapping":
                raise SyntaxProblem("<<: expected a mapping, or a list of them", line_of(node))
            self._merged += len(each.value)
            if self._merged > ALIASED_MAX:
                raise SyntaxProblem(
                    f"<< merges more than {ALIASED_MAX:,} keys; write fewer", line_of(node)
                )
            yield from each.value

    # What the composer asks PyYAML's resolver for.

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        if kind is not yaml.ScalarNode:
            return TAG + ("seq" if kind is yaml.SequenceNode else "map")
        return TAG + (plain_kind(value) if implicit[0] else STR)

    def descend_resolver(self, *_: Any) -> None:
        """Nothing depends on where a node stands."""

    def ascend_resolver(self) -> None:
        """Nothing depends on where a node stands."""
