"""JSON-LD documents: what is checked before a parser sees them, and the prefixes they declare.

A context that stands elsewhere is refused: fetching it would make what a file means depend on a
server, and a broker without a network could not read its own file. The parser has no bound on how
deep nodes lie in each other, so that is bounded here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from kbn.errors import LimitError, OntologyError

DEPTH_MAX = 200
"""How deep objects and arrays may lie in each other."""

_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def check_json(content: bytes, name: str) -> bytes:
    """The content without a byte order mark; an error for what the parser cannot be given."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    depth = 0
    for found in _BRACKETS.finditer(content):
        if found[0] in (b"{", b"["):
            depth += 1
            if depth > DEPTH_MAX:
                raise LimitError(
                    f"{name}: objects lie more than {DEPTH_MAX} deep in each other",
                    limit="DEPTH_MAX",
                    maximum=DEPTH_MAX,
                )
        elif found[0] in (b"}", b"]"):
            depth -= 1
    if b'"@' not in content and _read(content) is not None:
        raise OntologyError("is JSON, but not JSON-LD: no context, no ids", path=name)
    for context in _contexts(_read(content)):
        elsewhere = context if isinstance(context, str) else context.get("@import")
        if isinstance(elsewhere, str):
            raise OntologyError(
                f"its context is elsewhere, at <{elsewhere}>, and contexts are not fetched: put "
                "the content of that context in its place, or convert the file to Turtle",
                path=name,
            )
    return content


def json_prefixes(content: bytes) -> dict[str, str]:
    """The prefixes that the contexts declare; the vocabulary has the empty one."""
    found: dict[str, str] = {}
    for context in _contexts(_read(content.removeprefix(b"\xef\xbb\xbf"))):
        for name, value in context.items() if isinstance(context, dict) else ():
            iri = value.get("@id") if isinstance(value, dict) else value
            if name == "@vocab" and isinstance(iri, str):
                found.setdefault("", iri)
            if not isinstance(iri, str):
                continue
            ends_so = ":" in iri and iri.endswith(("#", "/", ":", "_"))
            if ends_so and re.fullmatch(r"[\w.-]+", name):
                found.setdefault(name, iri)
    return found


def _read(content: bytes) -> Any:
    """The content as plain data; nothing when it is no JSON, which the parser tells better."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _contexts(data: Any) -> Iterator[Any]:
    """Every context of a document, those inside of nodes and of term definitions too."""
    waiting = [data]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(reversed(node))
        elif isinstance(node, dict):
            given = node.get("@context")
            listed = given if isinstance(given, list) else [given]
            yield from (one for one in listed if isinstance(one, (str, dict)))
            waiting.extend(reversed(list(node.values())))
