"""Documents: a file that was read, and the places in it.

The limits are checked where a file enters: its size here, its depth and the expansion of aliases
where nodes become data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path as FilePath
from typing import Any, TypeVar

import msgspec

from kbn.config.faults import Fault, faults
from kbn.config.problems import ConfigError, Path, Problem
from kbn.config.trees import DataTree, Tree, YamlTree
from kbn.config.yaml_nodes import DEPTH_MAX, SyntaxProblem, composed

SIZE_MAX = 16 * 1024 * 1024
_HIGH, _LOW = r"u[dD][89abAB][0-9a-fA-F]{2}", r"u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rf"\\(?:(?P<pair>{_HIGH}\\{_LOW})|(?P<lone>{_HIGH}|{_LOW})|.)", re.DOTALL)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Document:
    """A file of configuration, or data in its place; `name` is what errors call it.

    Errors about a secret document show no values: it may hold tokens, and errors go to logs.
    """

    name: str
    tree: Tree
    is_secret: bool = False

    @classmethod
    def read(cls, path: str | FilePath, what: str, *, is_secret: bool = False) -> Document:
        """The document in a YAML file, or a JSON file named *.json; `what` it holds is for errors.

        Refuses a file that is too large, is not UTF-8, has a key twice or nests too deep.
        """
        name, text = str(path), _text(FilePath(path), what)
        try:
            if FilePath(path).suffix.lower() == ".json":
                return cls(name, _json_tree(text), is_secret)
            return cls(name, _yaml_tree(text), is_secret)
        except _RepeatedKeysError as error:
            raise ConfigError(_problem(name, each) for each in error.keys) from None
        except SyntaxProblem as error:
            raise ConfigError([_problem(name, error)]) from None

    @classmethod
    def of(cls, data: object, name: str) -> Document:
        """A document of plain data, which has no lines."""
        return cls(name, DataTree(data))

    @property
    def root(self) -> Place:
        return Place(self)


@dataclass(frozen=True)
class Place:
    """A place in a document, by its path; it need not exist."""

    document: Document
    path: Path = ()

    def at(self, *path: str | int) -> Place:
        """A place further inside."""
        return Place(self.document, (*self.path, *path))

    @property
    def line(self) -> int | None:
        """The line on which the value stands, when that is known."""
        mark = self.document.tree.mark(self.path)
        return None if mark is None else mark.line

    @property
    def key_line(self) -> int | None:
        """The line on which the key of the value stands, when that is known."""
        mark = self.document.tree.mark(self.path, of_key=True)
        return None if mark is None else mark.line

    @property
    def column(self) -> int | None:
        """The column of the text, when it is on one line and written without escapes."""
        mark = self.document.tree.mark(self.path)
        return None if mark is None else mark.column

    def data(self, type: Any = Any) -> Any:
        """The plain data here; an empty document is an empty mapping."""
        try:
            found = self.document.tree.plain(self.path, type)
        except SyntaxProblem as error:
            raise ConfigError([_problem(self.document.name, error)]) from None
        return {} if found is None and not self.path else found

    def convert(self, type: type[T]) -> T:
        """The data here as that type; ConfigError tells all that is wrong with it."""
        found, problems = self.convert_valid_keys(type)
        if problems or found is None:
            raise ConfigError(problems)
        return found

    def convert_valid_keys(self, type: type[T]) -> tuple[T | None, list[Problem]]:
        """The data as that type without the keys that are wrong, and what is wrong.

        None when what is right does not suffice.
        """
        data = self.data(type)
        found = list(faults(data, type, shows_values=not self.document.is_secret))
        problems = [self.at(*each.path)._problem_for(each) for each in found]
        if not found:
            return msgspec.convert(data, type), problems
        if not isinstance(data, dict):
            return None, problems
        wrong = {str(each.path[0]) for each in found if each.path}
        right = {key: value for key, value in data.items() if str(key) not in wrong}
        try:
            return msgspec.convert(right, type), problems
        except msgspec.ValidationError:
            return None, problems

    def error(self, reason: str) -> ConfigError:
        """An error about the value here."""
        return ConfigError([self.problem(reason)])

    def problem(self, reason: str, column: int | None = None) -> Problem:
        """What is wrong with the value here."""
        return Problem(self.document.name, reason, self.path, self.line, column)

    def _problem_for(self, fault: Fault) -> Problem:
        mark = self.document.tree.mark(self.path, of_key=fault.of_key)
        line = None if mark is None else mark.line
        return Problem(self.document.name, fault.reason, self.path, line)


class _RepeatedKeysError(Exception):
    def __init__(self, keys: list[SyntaxProblem]) -> None:
        self.keys = keys


def _text(path: FilePath, what: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(SIZE_MAX + 1)
        if len(content) > SIZE_MAX:
            reason = f"larger than {SIZE_MAX // 1024**2} MiB, the limit of a configuration"
            raise ConfigError([Problem(str(path), reason)])
        return content.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError([Problem(str(path), f"cannot read {what}: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        reason = "not UTF-8 text; save it in that encoding"
        raise ConfigError([Problem(str(path), reason, line=line)]) from None


def _yaml_tree(text: str) -> YamlTree:
    root, repeated = composed(text)
    if repeated:
        raise _RepeatedKeysError(repeated)
    return YamlTree(root)


def _json_tree(text: str) -> DataTree:
    """JSON is read as such, for speed and for its escapes; nodes are made when lines are asked."""

    @cache
    def nodes() -> YamlTree | None:
        try:
            return YamlTree(composed(_without_surrogates(text))[0])
        except SyntaxProblem:
            return None

    try:
        data = json.loads(text, object_pairs_hook=_unique_keys)
        _check_depth(data)
        return DataTree(data, nodes)
    except _RepeatedKeysError as error:
        try:
            _yaml_tree(_without_surrogates(text))  # knows the lines
        except SyntaxProblem:
            raise error from None
        raise
    except RecursionError:
        raise SyntaxProblem(f"nested deeper than {DEPTH_MAX} levels", 1) from None
    except ValueError as error:
        reason = f"not JSON: {getattr(error, 'msg', error)}"
        raise SyntaxProblem(reason, getattr(error, "lineno", 1)) from None


def _without_surrogates(text: str) -> str:
    """JSON without the escapes that YAML does not have: pairs of surrogates, and lone ones."""
    return _ESCAPE.sub(_replacement, text)


def _replacement(escape: re.Match[str]) -> str:
    if escape["pair"]:
        return str(json.loads(f'"{escape[0]}"'))
    return r"\ufffd" if escape["lone"] else escape[0]


def _unique_keys(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            reason = f"the key {key!r:.60} occurs twice; remove one"
            raise _RepeatedKeysError([SyntaxProblem(reason, 0)])
        made[key] = value
    return made


def _check_depth(data: Any, depth: int = 1) -> None:
    if depth > DEPTH_MAX:
        raise SyntaxProblem(f"nested deeper than {DEPTH_MAX} levels", 1)
    if isinstance(data, dict | list):
        for each in data.values() if isinstance(data, dict) else data:
            _check_depth(each, depth + 1)


def _problem(name: str, error: SyntaxProblem) -> Problem:
    return Problem(name, error.reason, line=error.line or None)
