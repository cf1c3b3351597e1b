"""The file of a store: its rows and versions, and how it is checked, repaired and copied."""

from __future__ import annotations

from kbn.broker.storage import rows
from kbn.broker.storage.checking import Checked, Damage, StoreDamagedError, check
from kbn.broker.storage.copying import Restored, backup, restore
from kbn.broker.storage.file import AfterDamage, StoreFile, Sync
from kbn.broker.storage.repairing import Repaired, repair
from kbn.broker.storage.versions import VERSIONS, StoreVersion

__all__ = [
    "VERSIONS",
    "AfterDamage",
    "Checked",
    "Damage",
    "Repaired",
    "Restored",
    "StoreDamagedError",
    "StoreFile",
    "StoreVersion",
    "Sync",
    "backup",
    "check",
    "repair",
    "restore",
    "rows",
]
