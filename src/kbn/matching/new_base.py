"""A base in the making: a temporary folder that becomes a version of a store, or nothing."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kbn.errors import KbnError
from kbn.matching.shard import ShardReport

if TYPE_CHECKING:
    from kbn.matching.store import SubscriptionStore


@dataclass
class NewBase:
    """A base in the making, for a `with` block.

    Put shards into `directory` and their reports into `reports`. The end of the block renames the
    folder to the base of `version`; an error in the block deletes it.
    """

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
