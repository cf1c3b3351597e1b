"""Files of deliveries: how many notifications went from one medoid's publishers to another's
subscribers. CSV with a line of names, or JSON lines:

    publisher_medoid,subscriber_medoid,count
    https://example.org/pets#Gus,https://example.org/pets#Dixie,10

    {"publisher_medoid": "pets:Gus", "subscriber_medoid": "pets:Dixie", "count": 10}

Other columns are passed over, and so are lines of clients without a medoid. Lines with the same two
medoids are summed up. A mistake is reported with the file and the line it is in.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kbn.errors import InvalidInputError
from kbn.filters import json_depth_error, refuse_duplicate_names

MEDOIDS = ("publisher_medoid", "subscriber_medoid")
COLUMNS = (*MEDOIDS, "count")


def read_deliveries(path: Path, find: Callable[[str], str]) -> dict[tuple[str, str], int]:
    """(publisher's medoid, subscriber's medoid) -> notifications; `find` makes IRIs of names.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "deliveries.csv"
    >>> _ = path.write_text("publisher_medoid,subscriber_medoid,count\\nurn:a,urn:b,10\\n")
    >>> read_deliveries(path, str)
    {('urn:a', 'urn:b'): 10}
    """
    text = _text(path)
    rows = _csv_rows(path, text) if path.suffix.lower() == ".csv" else _json_rows(path, text)
    found: Counter[tuple[str, str]] = Counter()
    for number, row in rows:
        try:
            publisher, subscriber = (_medoid(row[name], name, find) for name in MEDOIDS)
            count = _count(row["count"])
        except InvalidInputError as error:
            raise InvalidInputError(f"{path}:{number}: {error}") from error
        if publisher is not None and subscriber is not None:
            found[publisher, subscriber] += count
    return dict(found)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path}: not UTF-8 text (byte {error.start})") from error


def _csv_rows(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(text.splitlines(), strict=True)
    try:
        _require_columns(reader.fieldnames or (), f"{path}:1")
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise InvalidInputError(f"{path}:{reader.line_num + 1}: not CSV: {error}") from error


def _json_rows(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            row = _json_row(line, f"{path}:{number}")
            _require_columns(row, f"{path}:{number}")
            yield number, row


def _json_row(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line, object_pairs_hook=refuse_duplicate_names)
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"{where}: not JSON: {error}") from error
    except RecursionError:
        raise InvalidInputError(f"{where}: {json_depth_error()}") from None
    if not isinstance(row, dict):
        raise InvalidInputError(f"{where}: deliveries are an object, not {line.strip():.60}")
    return row


def _require_columns(names: Any, where: str) -> None:
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise InvalidInputError(
            f"{where}: deliveries have {', '.join(COLUMNS)}; {', '.join(missing)} is missing"
        )


def _medoid(value: object, name: str, find: Callable[[str], str]) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise InvalidInputError(f"{name!r} is an IRI or a name, not {value!r:.60}")
    return find(value)


def _count(value: object) -> int:
    count: object = value
    if isinstance(value, str):
        count = int(value) if value.strip().isdecimal() else None
    if type(count) is not int or count < 0:
        raise InvalidInputError(f"'count' is a whole number from 0, not {value!r:.60}")
    return count
