"""Files of subscriptions and of notifications, read one entry at a time.

Subscriptions as text are one a line, with the name of who wants it before it if it has one;
prefixes are declared on lines of their own and hold for the lines below:

    prefix podcast: <https://example.org/podcast#>
    # who likes what
    ann: category #>/@> {podcast:Technology}
    duration < 1800

Subscriptions as JSON (`.json`: an array; `.jsonl`: one a line) are the JSON form of a subscription,
alone or as {"key": …, "subscription": …}. Notifications are always JSON. An entry without a key is
known by its number, from 1; two with the same key are a mistake, and so is a JSON object with one
name twice. A mistake is reported with the file and the line or entry it stands in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbn.errors import FilterSyntaxError, InvalidInputError

if TYPE_CHECKING:
    from kbn.filters import Notification, Subscription
    from kbn.ontology import Ontology

JSON_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson"})

_PREFIX = re.compile(r"prefix\s+([\w.-]*):\s*<([^<>\s]+)>\s*$", re.IGNORECASE)
_KEYED = re.compile(r"([\w.@-]+):\s+(.+)$")


def read_subscriptions(
    path: Path, prefixes: Mapping[str, str], ontology: Ontology | None = None
) -> Iterator[tuple[str, Subscription]]:
    """Each subscription of a file with its key; a prefix the file declares wins over `prefixes`.

    With an ontology, terms are looked up as they are read, so that an unknown one is reported with
    the line it stands in.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "wants.txt"
    >>> _ = path.write_text("price < 20\\n")
    >>> [str(subscription) for key, subscription in read_subscriptions(path, {})]
    ['price < 20']
    """
    is_json = path.suffix in JSON_SUFFIXES
    found = (
        _subscriptions_from_json(path, ontology)
        if is_json
        else _subscriptions_from_text(path, prefixes, ontology)
    )
    first: dict[str, str] = {}
    for where, key, subscription in found:
        if key in first:
            raise InvalidInputError(f"{where}: the key {key!r} is in use already, at {first[key]}")
        first[key] = where
        yield key, subscription


def read_notifications(path: Path) -> Iterator[Notification]:
    """Each notification of a JSON or JSON Lines file.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "posts.jsonl"
    >>> _ = path.write_text('{"price": 5}\\n')
    >>> [dict(notification) for notification in read_notifications(path)]
    [{'price': 5}]
    """
    from kbn.filters import Notification

    for where, data in _json_entries(path):
        with _at(where):
            notification = Notification.from_json(data)
        yield notification


def subscription_texts(path: Path, ontology: Ontology) -> Iterator[tuple[str, str, str]]:
    """Each subscription of a file as (where, key, text), not understood yet.

    The text means the same without the file: one that needs a prefix the file declares is given in
    its JSON form. For bulk readers, which keep a bad entry apart rather than stop at it.

    >>> from tempfile import mkdtemp
    >>> from kbn.ontology import Ontology
    >>> path = Path(mkdtemp()) / "wants.txt"
    >>> _ = path.write_text("price < 20\\n")
    >>> [text for where, key, text in subscription_texts(path, Ontology.empty())]
    ['price < 20']
    """
    if path.suffix in JSON_SUFFIXES:
        for where, key, form in _keyed_json(path):
            yield where, key, json.dumps(form)
        return
    for where, _, key, text, declared in _keyed_lines(path, {}):
        yield where, key, _without_prefixes(text, declared, ontology) if declared else text


def _without_prefixes(text: str, declared: Mapping[str, str], ontology: Ontology) -> str:
    from kbn.filters import Subscription

    try:
        read = Subscription.parse(text, {**ontology.prefixes, **declared}, ontology)
    except InvalidInputError:
        return text
    return json.dumps(read.to_json())


def _subscriptions_from_text(
    path: Path, prefixes: Mapping[str, str], ontology: Ontology | None
) -> Iterator[tuple[str, str, Subscription]]:
    from kbn.filters import Subscription

    for where, line, key, text, known in _keyed_lines(path, prefixes):
        with _at(where, line):
            subscription = Subscription.parse(text, known, ontology)
        yield where, key, subscription


def _keyed_lines(
    path: Path, prefixes: Mapping[str, str]
) -> Iterator[tuple[str, str, str, str, dict[str, str]]]:
    """Where each subscription stands, its line, key and text, and the prefixes that hold there."""
    known = dict(prefixes)
    count = 0
    for number, line in enumerate(_text(path).split("\n"), start=1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        if declaration := _PREFIX.match(content):
            known[declaration[1]] = declaration[2]
            continue
        count += 1
        keyed = _KEYED.match(content)
        key, text = (keyed[1], keyed[2]) if keyed else (str(count), content)
        yield f"{path}:{number}", line, key, text, known


def _subscriptions_from_json(
    path: Path, ontology: Ontology | None
) -> Iterator[tuple[str, str, Subscription]]:
    from kbn.filters import Subscription
    from kbn.filters.term_resolution import resolve_terms

    for where, key, form in _keyed_json(path):
        with _at(where):
            subscription = resolve_terms(Subscription.from_json(form), ontology)
        yield where, key, subscription


def _keyed_json(path: Path) -> Iterator[tuple[str, str, Any]]:
    for count, (where, data) in enumerate(_json_entries(path), start=1):
        if isinstance(data, dict) and "subscription" in data:
            yield where, str(data.get("key", count)), data["subscription"]
        else:
            yield where, str(count), data


def _json_entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Each entry with the place it stands in, for error messages."""
    text = _text(path)
    if path.suffix == ".json" or text.lstrip().startswith("["):
        entries = _decoded(text, str(path))
        entries = entries if isinstance(entries, list) else [entries]
        yield from ((f"{path}, entry {n}", entry) for n, entry in enumerate(entries, start=1))
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"{path}:{number}", _decoded(line, f"{path}:{number}")


def _decoded(text: str, where: str) -> Any:
    from kbn.filters.json_form import json_depth_error, refuse_duplicate_names

    with _at(where):
        try:
            return json.loads(text, object_pairs_hook=refuse_duplicate_names)
        except json.JSONDecodeError as error:
            raise InvalidInputError(f"not JSON: {error}") from error
        except RecursionError:
            raise json_depth_error() from None


def _text(path: Path) -> str:
    """What the file holds, lines ended by \\n alone.

    Callers split at that and nothing else: a string may hold the other characters, U+2028 for one,
    that `str.splitlines` takes for the end of a line.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path}: not UTF-8 text (byte {error.start})") from error


class _at:
    """Says where an invalid entry stands: `with _at("wants.txt:7"): …`.

    The error stays what it is and only its message changes. A syntax error has a column as well,
    in the `line` of the file when that is given.
    """

    def __init__(self, where: str, line: str = "") -> None:
        self.where = where
        self.line = line

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FilterSyntaxError) and self.line:
            error.args = (self._in_line(error),)
        elif isinstance(error, InvalidInputError):
            error.args = (f"{self.where}: {error}",)

    def _in_line(self, error: FilterSyntaxError) -> str:
        # The text is the end of the line, but for spaces: before it stands whose it is.
        start = max(0, self.line.rfind(error.text))
        shown = FilterSyntaxError(
            error.reason, text=self.line, position=start + error.position, expected=error.expected
        )
        return re.sub(
            r"^line 1, column (\d+)", lambda place: f"{self.where}:{place[1]}", str(shown)
        )
