"""Where compiled ontologies and downloads are kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_directory() -> Path:
    """Where entries are kept: KBN_CACHE_DIR, or the platform's place for caches.

    >>> cache_directory().name
    'ontologies'
    """
    given = os.environ.get("KBN_CACHE_DIR")
    if given:
        return Path(given) / "ontologies"
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "kbn" / "ontologies"
