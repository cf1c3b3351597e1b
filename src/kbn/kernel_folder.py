"""Where compiled kernels are kept, so that only the first run on a machine pays for compiling.

Numba notices when the file of a function changes, but not when a function it calls, in another
file, does. So each folder of kernels has a place named by a digest of its files: change one, and
all are compiled anew.

The place is below $NUMBA_CACHE_DIR if that is set, else below kbn's own cache; where that cannot be
written, each process compiles for itself. Numba's setting is put back after the import: other code
in the process keeps its own.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from sys import version_info
from tempfile import mkdtemp
from typing import Any

from numba import config

from kbn.ontology import cache_directory


@contextmanager
def kept(sources: Path) -> Iterator[None]:
    """Import the kernels of the folder `sources` inside: their code is kept."""
    theirs = config.CACHE_DIR
    config.CACHE_DIR = str(_chosen(sources))
    try:
        yield
    finally:
        config.CACHE_DIR = theirs


def is_kept(kernel: Any) -> bool:
    """Whether the code of a kernel is there, for this Python and this installation of kbn."""
    python = f"py{version_info.major}{version_info.minor}"
    folder = Path(kernel.stats.cache_path)
    return any(folder.glob(f"*.{kernel.__name__}-*.{python}.nbi"))


def _chosen(sources: Path) -> Path:
    """The lasting place, or where none can be written one for this process alone."""
    base = Path(config.CACHE_DIR) if config.CACHE_DIR else cache_directory().parent
    digest = sha256()
    for source in sorted(sources.glob("*.py")):
        digest.update(source.read_bytes())
    lasting = base / f"kbn-kernels-{digest.hexdigest()[:16]}"
    if _is_writable(lasting):
        return lasting
    passing = mkdtemp(prefix="kbn-kernels-")
    atexit.register(rmtree, passing, ignore_errors=True)
    return Path(passing)


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".writable").touch()
    except OSError:
        return False
    return True
