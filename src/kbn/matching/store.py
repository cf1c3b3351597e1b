"""A store: the versions of a set of subscriptions, on disk, for readers in many processes.

    store.json                the format, the digest of the ontology, a name no other store has
    ontology.kbno             the compiled ontology, mapped by every reader; absent if there is none
    bases/00000003/           all subscriptions of version 3, compiled: `shard=0/`, … and base.json
    changes/00000004.json     what version 4 added and removed

A version is its newest base and the changes since. A file is written beside its place and linked
into it, so that it is there as a whole or not at all, and of two writers that both make the next
version one is told to try again. Nothing that has a number ever changes: what was read at version
4 can be read at version 4 again, which is what a replayed batch of a stream needs.

A reader (`StoreView`) maps the base, takes the removed out of its own view of it, and keeps the
added in a small matcher beside it. Going from one version to a later one costs the changes between
them. `compact` makes a base of the newest version, and costs readers nothing but opening it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from kbn.errors import InvalidInputError, KbnError
from kbn.filters import BulkReader, Subscription
from kbn.matching.groups import Array
from kbn.matching.matcher import Matcher
from kbn.matching.shard import (
    GroupCounts,
    Shard,
    ShardBuilder,
    ShardReport,
    counts_of,
    pairs_of,
    rejected,
)
from kbn.ontology import Ontology

FORMAT = 1
ATTEMPTS_MAX = 100
GROUP_BITS = 40
"""A group's number says in its upper bits which shard it is of; the added ones come after."""

ONTOLOGY = "ontology.kbno"

Added = tuple[Any, Any, str]


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
        _link(place / "store.json", json.dumps(about))
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
        """Tells this store from another that was, or will be, in the same place."""
        about = _read_json(self.directory / "store.json", f"{self.directory} is gone")
        return str(about["identity"])

    @cached_property
    def ontology(self) -> Ontology | None:
        """The ontology that subscriptions and notifications are understood with.

        Without one, terms are names that relate to themselves alone.
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

    def change(self, add: Iterable[Added] = (), remove: Iterable[Any] = ()) -> int:
        """Make a new version: `add` (subscription, subscriber, filter) rows, `remove` by id.

        All of it or nothing. Returns the new version. Removing and adding the same id in one
        change replaces what it asks for.
        """
        added, removed = [tuple(row) for row in add], list(remove)
        for row in added:
            self._check(row)
        for _ in range(ATTEMPTS_MAX):
            version = self.version
            self._writers_view = self._newest(version)
            _check_ids(self._writers_view, added, removed)
            content = json.dumps({"add": added, "remove": removed})
            if _link(self.directory / "changes" / f"{version + 1:08d}.json", content):
                return version + 1
        raise KbnError(f"{self.directory}: others change the store all the time; try again")

    def at(self, version: int | None = None) -> StoreView:
        """The subscriptions of a version, the newest unless one is named."""
        wanted = self.version if version is None else version
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

    def changes(self, version: int) -> tuple[list[Added], list[Any]]:
        """What a version added and removed."""
        path = self.directory / "changes" / f"{version:08d}.json"
        read = _read_json(path, f"{self.directory} has no version {version}, or not any more")
        return [(row[0], row[1], row[2]) for row in read["add"]], read["remove"]

    def shards(self, base: int) -> list[Path]:
        """The shards of a base, in order."""
        if base == 0:
            return []
        about = _read_json(self._base(base) / "base.json", f"{self.directory} has no base {base}")
        return [self._base(base) / f"shard={n}" for n in range(about["shards"])]

    def rejected(self) -> pa.Table | None:
        """What the newest base could not compile, with reasons; None when it is all there."""
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

    def _check(self, row: tuple[Any, ...]) -> None:
        if len(row) != 3 or any(part is None for part in row):
            raise InvalidInputError(f"give (subscription, subscriber, filter), not {row!r}"[:300])
        try:
            BulkReader(self.ontology).read(row[2])
        except InvalidInputError as error:
            error.args = (f"subscription {row[0]!r}: {error}",)
            raise


@dataclass
class NewBase:
    """A base in the making: shards are put into `directory`, and the block's end makes it one."""

    store: SubscriptionStore
    version: int

    def __post_init__(self) -> None:
        bases = self.store.directory / "bases"
        bases.mkdir(parents=True, exist_ok=True)
        self.directory = Path(tempfile.mkdtemp(prefix=".new-", dir=bases))
        self.directory.chmod(0o755)
        self.reports: list[ShardReport] = []

    def __enter__(self) -> NewBase:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self._finish()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _finish(self) -> None:
        facts = {
            "shards": len(self.reports),
            "live": sum(report.live for report in self.reports),
            "rejected": sum(report.rejected for report in self.reports),
        }
        (self.directory / "base.json").write_text(json.dumps(facts), encoding="utf-8")
        place = self.directory.parent / f"{self.version:08d}"
        try:
            os.rename(self.directory, place)
        except OSError as error:
            if not (place / "base.json").exists():
                raise
            raise KbnError(
                f"{self.store.directory}: version {self.version} was made by another"
            ) from error


class StoreView:
    """One version of a store, for one reader; `advance` takes it to a later one.

    >>> from tempfile import mkdtemp
    >>> store = SubscriptionStore.create(mkdtemp() + "/store")
    >>> store.change(add=[("s1", "ann", "price < 20")])
    1
    >>> store.at(1).matches(pa.table({"price": [5]}))["subscriber"].to_pylist()
    ['ann']
    """

    def __init__(
        self, store: SubscriptionStore, base: int, only: Iterable[int] | None = None
    ) -> None:
        """`only` some shards of the base, by number; what was added since counts with the first."""
        paths = store.shards(base)
        self.only = range(len(paths)) if only is None else sorted(only)
        self.base = base
        self.version = base
        self.shards = {n: Shard(paths[n], store.ontology) for n in self.only}
        self.ontology = store.ontology
        self._store = store
        self._reader = BulkReader(store.ontology)
        self._takes_added = not paths or 0 in self.only
        self._added = Matcher(store.ontology)
        self._added_rows: dict[int, Added] = {}
        self._added_numbers: dict[Any, int] = {}
        self._group_of_added = len(paths) << GROUP_BITS

    def advance(self, version: int) -> None:
        """Apply the changes up to `version`."""
        if version < self.version:
            raise InvalidInputError(f"this view is at version {self.version}, past {version}")
        while self.version < version:
            added, removed = self._store.changes(self.version + 1)
            for subscription in removed:
                self._remove(subscription)
            for row in added if self._takes_added else ():
                self._add(row)
            self.version += 1

    def holds(self, subscription: Any) -> bool:
        """Whether a subscription of this id is in this version."""
        if subscription in self._added_numbers:
            return True
        return any(shard.number_of(subscription) is not None for shard in self.shards.values())

    @cached_property
    def types(self) -> tuple[pa.DataType, pa.DataType]:
        """The types of subscription ids and of subscribers: the base's, or else text."""
        for shard in self.shards.values():
            return shard.ids.type, shard.subscribers.type
        return pa.string(), pa.string()

    @property
    def attributes(self) -> set[str]:
        """The attributes some subscription asks for."""
        index = self._added.index
        found = {*index.table.attributes, *index.axes_of()}
        return found.union(*(shard.attributes for shard in self.shards.values()))

    def pairs(self, table: pa.Table) -> Iterator[tuple[Array, pa.Array, pa.Array]]:
        """Rows of `table`, the subscriptions they satisfy and whose those are, some at a time."""
        for shard in self.shards.values():
            for rows, numbers in shard.pairs(table):
                chosen = pa.array(numbers)
                yield rows, shard.ids.take(chosen), shard.subscribers.take(chosen)
        if len(self._added):
            for rows, numbers in pairs_of(self._added, table):
                keys: list[Any] = self._added.keys_at(numbers.tolist())
                found = [self._added_rows[key] for key in keys]
                ids, who = self.types
                yield (
                    rows,
                    pa.array([row[0] for row in found], ids),
                    pa.array([row[1] for row in found], who),
                )

    def matches(self, table: pa.Table) -> pa.Table:
        """Every (notification, subscription, subscriber), a notification being a row's number."""
        ids, subscribers = self.types
        columns = [("notification", pa.int64()), ("subscription", ids), ("subscriber", subscribers)]
        schema = pa.schema(columns)
        pieces = [pa.record_batch(list(piece), schema=schema) for piece in self.pairs(table)]
        return pa.Table.from_batches(pieces, schema)

    def counts(self, table: pa.Table) -> Iterator[GroupCounts]:
        """The groups each row of `table` satisfies, counted and not expanded, some at a time."""
        for number, shard in self.shards.items():
            yield from counts_of(shard.matcher, table, number << GROUP_BITS)
        if len(self._added):
            yield from counts_of(self._added, table, self._group_of_added)

    def subscription(self, subscription: Any) -> Subscription:
        """What one subscription asks for."""
        if subscription in self._added_numbers:
            return self._added.subscription(self._added_numbers[subscription])
        for shard in self.shards.values():
            number = shard.number_of(subscription)
            if number is not None:
                return shard.subscription_at(number)
        raise InvalidInputError(f"version {self.version} has no subscription {subscription!r}")

    def rows(self) -> Iterator[pa.Table]:
        """All of it as tables of subscription, subscriber and filter."""
        for shard in self.shards.values():
            yield from shard.rows()
        if self._added_rows:
            columns = zip(*self._added_rows.values(), strict=True)
            names = ("subscription", "subscriber", "filter")
            yield pa.table({n: pa.array(c) for n, c in zip(names, columns, strict=True)})

    def _add(self, row: Added) -> None:
        number = len(self._added.keys)
        while number in self._added_rows or number in self._added:
            number += 1
        self._added.add(self._reader.read(row[2]), number)
        self._added_rows[number] = row
        self._added_numbers[row[0]] = number

    def _remove(self, subscription: Any) -> None:
        number = self._added_numbers.pop(subscription, None)
        if number is not None:
            del self._added_rows[number]
            self._added.remove(number)
            return
        for shard in self.shards.values():
            if shard.remove(subscription):
                return


def _check_ids(view: StoreView, added: list[Added], removed: list[Any]) -> None:
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
        if row[0] in known or (row[0] not in gone and view.holds(row[0])):
            raise InvalidInputError(f"the id {row[0]!r} is in use: remove it first")
        known.add(row[0])


def _numbers(directory: Path) -> list[int]:
    """The numbers that files or folders of a directory are named by."""
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


def _link(path: Path, content: str) -> bool:
    """Write a file that must not be there yet; False when another was first."""
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
