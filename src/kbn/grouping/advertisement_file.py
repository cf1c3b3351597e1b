"""Files of advertisements: JSON lines, one publisher each.

    {"publisher": "nyse", "attributes": ["price", "symbol"], "connections": 12}
    {"publisher": "nasdaq", "advertisement": "price > 0 and symbol any"}

What it sends is either a list of attributes or an advertisement, the text or the JSON form of a
filter, as in Siena. A publisher without a name is known by its number, from 1; one without a number
of connections has no limit of its own. A mistake is reported with the file and the line it is in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kbn.errors import InvalidInputError
from kbn.filters import Subscription, json_depth_error, refuse_duplicate_names
from kbn.grouping.combinations import Combination, attributes_of

KNOWN = frozenset({"publisher", "attributes", "advertisement", "connections"})


class Advertised(NamedTuple):
    """One line of the file."""

    publisher: str
    attributes: Combination
    connections: int | None


def read_advertisements(path: Path) -> list[Advertised]:
    """The publishers of a file, in its order; no two have the same name.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "publishers.jsonl"
    >>> _ = path.write_text('{"publisher": "nyse", "attributes": ["price", "symbol"]}\\n')
    >>> [entry.publisher for entry in read_advertisements(path)]
    ['nyse']
    """
    first: dict[str, int] = {}
    found: list[Advertised] = []
    for number, line in _lines(path):
        try:
            entry = _entry(line, len(found) + 1)
            if entry.publisher in first:
                at = first[entry.publisher]
                raise InvalidInputError(f"{entry.publisher!r} is there already, in line {at}")
        except InvalidInputError as error:
            raise InvalidInputError(f"{path}:{number}: {error}") from error
        first[entry.publisher] = number
        found.append(entry)
    return found


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path}: not UTF-8 text (byte {error.start})") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


def _entry(line: str, count: int) -> Advertised:
    try:
        data = json.loads(line, object_pairs_hook=refuse_duplicate_names)
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"not JSON: {error}") from error
    except RecursionError:
        raise json_depth_error() from None
    if not isinstance(data, dict):
        raise InvalidInputError(f"a publisher is an object, not {line.strip():.60}")
    unknown = sorted(data.keys() - KNOWN)
    if unknown:
        raise InvalidInputError(f"{unknown[0]!r} is not one of {', '.join(sorted(KNOWN))}")
    publisher = data.get("publisher", str(count))
    if not isinstance(publisher, str) or not publisher:
        raise InvalidInputError(f"a publisher's name is a text, not {publisher!r:.60}")
    connections = data.get("connections")
    if connections is not None and (type(connections) is not int or connections < 1):
        raise InvalidInputError(f"'connections' is a number from 1, not {connections!r:.60}")
    return Advertised(publisher, _attributes(data), connections)


def _attributes(data: dict[str, object]) -> Combination:
    if ("attributes" in data) == ("advertisement" in data):
        raise InvalidInputError("a publisher has either 'attributes' or an 'advertisement'")
    if "advertisement" in data:
        given = data["advertisement"]
        is_text = isinstance(given, str)
        names = attributes_of(
            Subscription.parse(str(given)) if is_text else Subscription.from_json(given)
        )
    else:
        listed = data["attributes"]
        if not isinstance(listed, list):
            raise InvalidInputError(f"'attributes' is a list of names, not {listed!r:.60}")
        for name in listed:
            if not isinstance(name, str):
                raise InvalidInputError(f"an attribute is a text, not {name!r:.60}")
        names = attributes_of(listed)
    if not names:
        raise InvalidInputError("a publisher needs at least one attribute")
    return names
