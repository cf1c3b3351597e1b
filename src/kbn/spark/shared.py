"""What every worker needs, by path: files that all processes of a machine map into memory.

A broadcast would be a private copy per worker, and Spark Connect has none. So the compiled ontology
and the store of subscriptions lie in directories that the workers see: on one machine any directory
will do, on a cluster one on shared storage (KBN_SHARED_DIR names it), an archive that is shipped
with the job, or one that kbn ships itself (`shipping.py`).
"""

from __future__ import annotations

import contextlib
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from kbn.errors import InvalidInputError
from kbn.ontology import Ontology, cache_directory
from kbn.spark.shipping import SETTING, Place, Shipped, ship_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUFFIX = ".kbno"


def shared_directory() -> Path:
    """Where files for the workers are put: KBN_SHARED_DIR, or this machine's cache."""
    given = os.environ.get("KBN_SHARED_DIR")
    return Path(given) if given else cache_directory().parent / "shared"


def ontology_path(ontology: Ontology | str | os.PathLike[str] | None) -> str:
    """The file of a compiled ontology that workers can open; made when it is not there yet.

    Takes an ontology, a file that `Ontology.save` wrote, or an ontology document to load.
    """
    if isinstance(ontology, (str, os.PathLike)):
        if str(ontology).endswith(SUFFIX):
            Ontology.open(ontology)  # now, where the caller sees the error
            return str(Path(ontology).absolute())
        ontology = Ontology.load(ontology)
    if ontology is None:
        ontology = Ontology.empty()
    if not isinstance(ontology, Ontology):
        raise InvalidInputError(f"give an Ontology or a path, not {type(ontology).__name__}")
    path = shared_directory() / f"{ontology.digest or 'empty'}{SUFFIX}"
    if not _is_readable(path):
        ontology.save(path)
    return str(path.absolute())


def ontology_for(spark: SparkSession, ontology: Ontology | str | os.PathLike[str] | None) -> Place:
    """The file of a compiled ontology for the executors of a session."""
    return ship_file(spark, ontology_path(ontology))


def opened_ontology(path: Place) -> Ontology:
    """The ontology in a file, opened once per process; again when the file is another."""
    place = visible(path)
    if isinstance(path, Shipped):
        (place,) = place.glob(f"*{SUFFIX}")
    status = place.stat()
    return _opened(place, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)
def _opened(path: Path, changed_ns: int, size: int) -> Ontology:
    return Ontology.open(path)


def visible(path: Place) -> Path:
    """Where this process finds a file or directory: in its place, or among what was shipped."""
    if isinstance(path, Shipped):
        return path.directory()
    if os.path.exists(path):
        return Path(path)
    shipped = _shipped(Path(path).name)
    if shipped is not None:
        return shipped
    raise InvalidInputError(
        f"{path} is not to be seen on this machine: put it on storage that all machines of the "
        f"cluster share (KBN_SHARED_DIR), or let kbn ship it ({SETTING}=files)"
    )


def _shipped(name: str) -> Path | None:
    """What came with the job: in the working directory, or where Spark puts it."""
    from pyspark import SparkFiles

    places = [Path(name)]
    with contextlib.suppress(Exception):  # no session in this process: nothing was shipped to it
        places.append(Path(SparkFiles.getRootDirectory()) / name)
    return next((place for place in places if place.exists()), None)


def _is_readable(path: Path) -> bool:
    try:
        Ontology.open(path)
    except InvalidInputError:
        return False
    return True
