"""Kernels: the inner loops of matching, compiled by Numba; arrays and integers only.

Compiled code is kept on disk, so that only the first run on a machine pays for compiling. Numba
notices when the file of a function changes, but not when a function it calls, in another file,
does. So the folder is named by a digest of all these files: change one, and all are compiled anew.

The folder is below $NUMBA_CACHE_DIR if that is set, else below kbn's own cache; where that cannot
be written, each process compiles for itself. Numba's setting is put back after the import: other
code in the process keeps its own.
"""

from __future__ import annotations

import atexit
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from numba import config

from kbn.ontology.cache import directory as cache_directory


def _folder() -> Path:
    base = Path(config.CACHE_DIR) if config.CACHE_DIR else cache_directory().parent
    digest = sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return base / f"kbn-kernels-{digest.hexdigest()[:16]}"


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".writable").touch()
    except OSError:
        return False
    return True


def _chosen() -> Path:
    """The lasting folder, or where none can be written one for this process alone."""
    lasting = _folder()
    if _is_writable(lasting):
        return lasting
    passing = mkdtemp(prefix="kbn-kernels-")
    atexit.register(rmtree, passing, ignore_errors=True)
    return Path(passing)


def are_compiled() -> bool:
    """Whether a first match can be answered without compiling."""
    return any(_ours.rglob("*match_one*.nbi"))


_theirs = config.CACHE_DIR
_ours = _chosen()
config.CACHE_DIR = str(_ours)
try:
    from kbn.matching.kernels import batch, code, one, slab, trie
finally:
    config.CACHE_DIR = _theirs

__all__ = ["are_compiled", "batch", "code", "one", "slab", "trie"]
