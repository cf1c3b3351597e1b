"""A store: the versions of a set of subscriptions, on disk, for readers in many processes.

    store.json                the format, the digest of the ontology, a name no other store has
    ontology.kbno             the compiled ontology, mapped by every reader; absent if there is none
    bases/00000003/           all subscriptions of version 3, compiled: `shard=0/`, … and base.json
    changes/00000004.json     what version 4 added and removed

A version is its newest base and the changes since. A writer writes each file beside its place and
links it there, so a reader sees the whole file or none, and of two writers that make the next
version one has to try again. Nothing that has a number ever changes: a replayed batch of a stream
reads version 4 again and finds what it found before.

`StoreView` reads a version. `compact` makes a base of the newest version; readers only open it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from kbn.errors import InvalidInputError, KbnError
from kbn.filters import BulkReader
from kbn.matching.new_base import NewBase
from kbn.matching.shard import ShardBuilder, rejected
from kbn.matching.store_view import AddedRow, StoreView
from kbn.ontology import Ontology

FORMAT = 1
ATTEMPTS_MAX = 100

ONTOLOGY = "ontology.kbno"


class SubscriptionStore:
    """The versions of a set of subscriptions in a directory.

    >>> from tempfile import mkdtemp
    >>> store = SubscriptionStore.create(mkdtemp() + "/store")
    >>> store.change(add=[("s1", "ann", "price < 20"), ("s2", "bob", "price < 10")])
    1
    >>> store.change(remove=["s1"])
    2
    >>> table = pa.table({"price": [5]})
    >>> store.at(1).matches(table)["subscriber"].to_pylist()
    ['ann', 'bob']
    >>> store.at(2).matches(table)["subscriber"].to_pylist()
    ['bob']
    """

    def __init__(self, directory: Path) -> None:
        """Use `create` or `open`."""
        self.directory = directory
        self._writers_view: StoreView | None = None

    @classmethod
    def create(cls, directory: str | Path, ontology: Ontology | None = None) -> SubscriptionStore:
        """A new, empty store: version 0."""
        place = Path(directory)
        if (place / "store.json").exists():
            raise InvalidInputError(f"{place} is a store already: open it, or give another place")
        place.mkdir(parents=True, exist_ok=True)
        for name in ("bases", "changes"):
            (place / name).mkdir(exist_ok=True)
        if ontology is not None:
            ontology.save(place / ONTOLOGY)
        digest = ontology.digest if ontology is not None else None
        about = {"format": FORMAT, "ontology": digest, "identity": uuid4().hex}
        _write_new(place / "store.json", json.dumps(about))
        return cls(place)

    @classmethod
    def open(cls, directory: str | Path) -> SubscriptionStore:
        """The store in a directory."""
        place = Path(directory)
        about = _read_json(place / "store.json", f"{place} is not a store of subscriptions")
        if about.get("format") != FORMAT:
            raise InvalidInputError(
                f"{place} has format {about.get('format')}, and this kbn reads {FORMAT}"
            )
        return cls(place)

    @cached_property
    def identity(self) -> str:
        """A name that no other store has, not even an earlier or later one in this directory."""
        about = _read_json(self.directory / "store.json", f"{self.directory} is gone")
        return str(about["identity"])

    @cached_property
    def ontology(self) -> Ontology | None:
        """The ontology that gives terms their meaning.

        Without one, a term relates only to itself.
        """
        path = self.directory / ONTOLOGY
        return Ontology.open(path) if path.exists() else None

    @property
    def version(self) -> int:
        """The newest version; 0 before the first change."""
        return max([0, *_numbers(self.directory / "changes"), *self.bases()])

    def bases(self) -> list[int]:
        """The versions that have a base, ascending."""
        found = _numbers(self.directory / "bases")
        return sorted(n for n in found if (self._base(n) / "base.json").exists())

    def change(self, add: Iterable[tuple[Any, Any, str]] = (), remove: Iterable[Any] = ()) -> int:
        """Make a new version: `add` (subscription, subscriber, filter) rows, `remove` by id.

        The change is made as a whole or not at all. Returns the new version. To replace a
        subscription, remove and add its id in one change.
        """
        reader = BulkReader(self.ontology)
        added, removed = [_checked(tuple(row), reader) for row in add], list(remove)
        for _ in range(ATTEMPTS_MAX):
            version = self.version
            self._writers_view = self._newest(version)
            _check_ids(self._writers_view, added, removed)
            content = json.dumps({"add": added, "remove": removed})
            if _write_new(self.directory / "changes" / f"{version + 1:08d}.json", content):
                return version + 1
        raise KbnError(f"{self.directory}: others change the store all the time; try again")

    def at(self, version: int | None = None) -> StoreView:
        """The subscriptions of a version, the newest unless one is named."""
        newest = self.version
        wanted = newest if version is None else version
        if not 0 <= wanted <= newest:
            raise InvalidInputError(
                f"{self.directory} has no version {wanted}, the newest is {newest}"
            )
        view = StoreView(self, self.base_of(wanted))
        view.advance(wanted)
        return view

    def compact(self) -> int:
        """Compile the newest version into one base; returns the version, which stays the same."""
        version = self.version
        if version in self.bases():
            return version
        builder = ShardBuilder(self.ontology)
        for batch in self.at(version).rows():
            builder.add(batch)
        with self.new_base(version) as base:
            base.reports.append(builder.save(base.directory / "shard=0"))
        return version

    def new_base(self, version: int | None = None) -> NewBase:
        """A place to build the shards of a version, the next one unless it is named."""
        return NewBase(self, self.version + 1 if version is None else version)

    def forget(self, before: int) -> None:
        """Delete the bases and changes that only versions older than `before` need."""
        kept = [n for n in self.bases() if n <= before]
        oldest = kept[-1] if kept else 0
        for number in self.bases():
            if number < oldest:
                shutil.rmtree(self._base(number))
        for number in _numbers(self.directory / "changes"):
            if number <= oldest:
                (self.directory / "changes" / f"{number:08d}.json").unlink()

    def changes(self, version: int) -> tuple[list[AddedRow], list[Any]]:
        """What a version added and removed."""
        path = self.directory / "changes" / f"{version:08d}.json"
        read = _read_json(path, f"{self.directory} has no version {version}, or not any more")
        return [AddedRow(*row) for row in read["add"]], read["remove"]

    def shards(self, base: int) -> list[Path]:
        """The shards of a base, in order."""
        if base == 0:
            return []
        about = _read_json(self._base(base) / "base.json", f"{self.directory} has no base {base}")
        return [self._base(base) / f"shard={n}" for n in range(about["shards"])]

    def files(self, version: int) -> list[Path]:
        """All files that a reader of one version needs: what to copy to take it elsewhere."""
        base = self.base_of(version)
        found = [self.directory / "store.json", self.directory / ONTOLOGY]
        if base:
            found += self._base(base).rglob("*")
        numbers = range(base + 1, version + 1)
        found += [self.directory / "changes" / f"{number:08d}.json" for number in numbers]
        return [path for path in found if path.is_file()]

    def rejected(self) -> pa.Table | None:
        """The subscriptions that the newest base could not compile, with reasons; None if none."""
        bases = self.bases()
        found = [rejected(path) for path in self.shards(bases[-1])] if bases else []
        tables = [table for table in found if table is not None]
        return pa.concat_tables(tables) if tables else None

    def _newest(self, version: int) -> StoreView:
        """The writer's own view of the newest version, taken along from change to change."""
        view = self._writers_view or self.at(version)
        view.advance(version)
        return view

    def _base(self, version: int) -> Path:
        return self.directory / "bases" / f"{version:08d}"

    def base_of(self, version: int) -> int:
        """The newest base that a version can be read from; 0 for none."""
        return max([0, *(n for n in self.bases() if n <= version)])


def _checked(row: tuple[Any, ...], reader: BulkReader) -> AddedRow:
    """The row, if it has its three parts and a filter that can be read."""
    if len(row) != 3 or any(part is None for part in row):
        raise InvalidInputError(f"give (subscription, subscriber, filter), not {row!r}"[:300])
    try:
        reader.read(row[2])
    except InvalidInputError as error:
        error.args = (f"subscription {row[0]!r}: {error}",)
        raise
    return AddedRow(*row)


def _check_ids(view: StoreView, added: list[AddedRow], removed: list[Any]) -> None:
    """Raise InvalidInputError for ids of another type, in use, or not there to be removed."""
    for row in added:
        for value, type_ in zip(row, view.types, strict=False):
            try:
                pa.scalar(value, type_)
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                raise InvalidInputError(
                    f"this store's subscriptions and subscribers are {type_}, not {value!r}"
                ) from None
    for subscription in removed:
        if not view.holds(subscription):
            raise InvalidInputError(f"there is no subscription {subscription!r} to remove")
    known: set[Any] = set()
    gone = set(removed)
    for row in added:
        id = row.subscription
        if id in known or (id not in gone and view.holds(id)):
            raise InvalidInputError(f"the id {id!r} is in use: remove it first")
        known.add(id)


def _numbers(directory: Path) -> list[int]:
    """The numbers among the names of a directory's files and folders."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    stems = (name.removesuffix(".json") for name in names)
    return [int(stem) for stem in stems if stem.isdigit()]


def _read_json(path: Path, absent: str) -> dict[str, Any]:
    try:
        read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidInputError(absent) from None
    except ValueError as error:
        raise InvalidInputError(f"{path} is damaged: {error}") from error
    return read


def _write_new(path: Path, content: str) -> bool:
    """Write a file that must not exist yet; False when another writer was first."""
    handle, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.link(name, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(name)
    return True
