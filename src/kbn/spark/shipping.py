"""Bringing stores and ontologies to executors that do not see the folders of the driver.

The setting `spark.kbn.ship` of a session says how they get there:

    folder      they open them where they are: one machine, or storage that all machines share
    files       as files of the session (`addArtifacts`)
    s3://…      through object storage: any address that fsspec knows

Unless it is `folder`, the default, the version that is matched is packed into one archive with the
name of its SHA-256. An executor fetches it once per machine, compares the checksum, and unpacks it
into a folder of its cache, where all workers of the machine map it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from kbn.errors import InvalidInputError, KbnError, MissingDependencyError
from kbn.ontology import cache_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kbn.matching import SubscriptionStore

SETTING = "spark.kbn.ship"
FOLDER, FILES = "folder", "files"
KEPT_MAX = 8
"""How many unpacked archives a machine keeps: those used last."""


@dataclass(frozen=True)
class Shipped:
    """An archive on its way to executors."""

    digest: str
    """The SHA-256 of the archive, and its name."""
    address: str | None
    """The folder in object storage; None when it is among the files of the session."""

    @property
    def name(self) -> str:
        return f"{self.digest}.tar"

    def directory(self) -> Path:
        """Where it is unpacked on this machine; fetched and checked when it is not there yet."""
        place = _unpacked_here() / self.digest
        if not place.is_dir():
            with tempfile.TemporaryDirectory(prefix=".fetched-", dir=place.parent) as scratch:
                self._unpack(self._fetched(Path(scratch)), Path(scratch) / "unpacked", place)
            _forget(place.parent, keep=place)
        os.utime(place)
        return place

    def _fetched(self, scratch: Path) -> Path:
        if self.address is None:
            return _file_of_session(self.name)
        archive = scratch / self.name
        source = f"{self.address}/{self.name}"
        with _remote(source, "rb") as stream, archive.open("wb") as into:
            shutil.copyfileobj(stream, into, 1 << 20)
        return archive

    def _unpack(self, archive: Path, beside: Path, place: Path) -> None:
        found = _digest(archive)
        if found != self.digest:
            raise KbnError(
                f"what was shipped arrived damaged: {archive} has the checksum {found}, and "
                f"{self.digest} was sent; the task may be tried again"
            )
        with tarfile.open(archive) as packed:
            packed.extractall(beside, filter="data")
        # Another worker of this machine may have been faster: its folder is the same.
        with contextlib.suppress(OSError):
            beside.rename(place)
        if not place.is_dir():
            raise KbnError(f"{place} cannot be made on this machine")


Place = str | Shipped
"""Where a store or an ontology is for executors."""

_SENT: WeakKeyDictionary[SparkSession, dict[tuple[str, ...], Shipped]] = WeakKeyDictionary()


def way_of(spark: SparkSession) -> str:
    """What the session's setting says: folder, files, or an address in object storage."""
    way = str(spark.conf.get(SETTING, FOLDER) or FOLDER).rstrip("/")
    if way not in (FOLDER, FILES) and "://" not in way:
        raise InvalidInputError(
            f"{SETTING} is {FOLDER}, {FILES}, or an address like s3://bucket/prefix, not {way!r}"
        )
    return way


def ship_store(spark: SparkSession, store: SubscriptionStore, version: int | None) -> Place:
    """A version of a store for executors; None is all that are to come."""
    if way_of(spark) == FOLDER:
        return str(store.directory.absolute())
    if version is None:
        raise InvalidInputError(
            f"rows that name the version of a store need one that all machines see: {SETTING} "
            f"is {way_of(spark)!r}, set it to {FOLDER!r} or leave out the column `version`"
        )
    root = store.directory
    return _ship(spark, (store.identity, str(version)), root, lambda: store.files(version))


def ship_file(spark: SparkSession, path: str) -> Place:
    """One file for executors, which find it in the folder `Shipped.directory` by its name."""
    if way_of(spark) == FOLDER:
        return path
    file, status = Path(path), os.stat(path)
    key = (path, str(status.st_mtime_ns), str(status.st_size))
    return _ship(spark, key, file.parent, lambda: [file])


def _ship(
    spark: SparkSession, key: tuple[str, ...], root: Path, files: Callable[[], Iterable[Path]]
) -> Shipped:
    """Send files below `root`, unless this session has sent them already."""
    way = way_of(spark)
    sent = _SENT.setdefault(spark, {})
    if (way, *key) in sent:
        return sent[way, *key]
    archive = _packed(root, files())
    digest = _digest(archive)
    named = archive.with_name(f"{digest}.tar")
    archive.rename(named)
    if way == FILES:
        spark.addArtifacts(str(named), file=True)
    else:
        with _remote(f"{way}/{named.name}", "wb") as into, named.open("rb") as stream:
            shutil.copyfileobj(stream, into, 1 << 20)
        named.unlink()
    sent[way, *key] = Shipped(digest, None if way == FILES else way)
    return sent[way, *key]


def _packed(root: Path, files: Iterable[Path]) -> Path:
    """An archive of files below `root`; the same files give the same bytes."""
    archive = Path(tempfile.mkdtemp(prefix="kbn-ship-")) / "archive.tar"
    # Spark reads it when the session's files are asked for, which may be late.
    atexit.register(shutil.rmtree, archive.parent, ignore_errors=True)
    with tarfile.open(archive, "w") as packed:
        for file in sorted(files):
            packed.add(file, str(file.relative_to(root)), filter=_plain)
    return archive


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without what differs from one writing to the next."""
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o644
    return entry


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


@contextlib.contextmanager
def _remote(address: str, mode: str) -> Iterator[Any]:
    try:
        import fsspec
    except ImportError as error:
        raise MissingDependencyError("shipping through object storage", extra="storage") from error
    try:
        opened = fsspec.open(address, mode)
    except (ImportError, ValueError) as error:  # no such protocol, or its package is not there
        raise InvalidInputError(f"{SETTING}: {address}: {error}") from error
    try:
        with opened as stream:
            yield stream
    except OSError as error:
        raise KbnError(
            f"{address} cannot be {'read' if 'r' in mode else 'written'}: {error}"
        ) from error


def _file_of_session(name: str) -> Path:
    """A file that came with the session: in the working directory, or where Spark puts it."""
    from pyspark import SparkFiles

    for place in (Path(name), Path(SparkFiles.getRootDirectory()) / name):
        if place.exists():
            return place
    raise KbnError(f"{name} is not among the files of the session on this machine")


@cache
def _unpacked_here() -> Path:
    """The folder of this machine's cache; where it cannot be written, one of this process."""
    lasting = cache_directory().parent / "shipped"
    try:
        lasting.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=lasting):
            return lasting
    except OSError:
        passing = tempfile.mkdtemp(prefix="kbn-shipped-")
        atexit.register(shutil.rmtree, passing, ignore_errors=True)
        return Path(passing)


def _forget(folder: Path, keep: Path) -> None:
    """Remove all but those used last; whoever has one mapped keeps what it mapped."""
    found = [each for each in folder.iterdir() if not each.name.startswith(".") and each != keep]
    used: dict[Path, float] = {}
    for each in found:
        with contextlib.suppress(OSError):  # another worker removed it
            used[each] = each.stat().st_mtime
    for each in sorted(used, key=lambda place: used[place])[: max(0, len(used) - KEPT_MAX + 1)]:
        shutil.rmtree(each, ignore_errors=True)
