"""Disks of simulated brokers that are files: the real store, whose file lies or is damaged.

A file *lies* when it is put back, at a crash, to what it was before; the count of commits beside it
stays. A file is *spoilt* when some of its bytes are changed. The store has to notice either when it
is opened: it is repaired then, and says so.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random

from msgspec import msgpack

from kbn.broker import Envelope, NotificationId, SqliteStore, StoreError
from kbn.simulation.disk import Losses, Spoilt

PAGE = 4096
ENDS = ("", "-wal")
Held = tuple[dict[tuple[str, str, int], NotificationId], set[tuple[str, int]]]


class FileDisk(SqliteStore):
    """A store in a file; `refused` counts how often damage was found that cannot be repaired."""

    def __init__(self, path: Path) -> None:
        self.file = path
        self.fails = False
        self.refused = 0
        self.repairs = 0
        self._lied_from: int | None = None  # the commits there were when it began
        super().__init__(path, after_damage="repair")

    @property
    def commits(self) -> int:
        return self._file.tally.commits

    def begin_lying(self) -> None:
        if self._lied_from is None:
            self._lied_from = self.commits
            for end in ENDS:
                with suppress(FileNotFoundError):
                    shutil.copyfile(f"{self.file}{end}", f"{self.file}{end}.safe")

    def mend(self) -> None:
        self._lied_from = None

    def crash(self) -> Losses | None:
        self.rollback()
        lied_from, self._lied_from = self._lied_from, None
        if lied_from is None or lied_from == self.commits:
            return None
        before, commits = self._held(), self.commits - lied_from
        self.close()
        for end in (*ENDS, "-shm"):
            Path(f"{self.file}{end}").unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                os.replace(f"{self.file}{end}.safe", f"{self.file}{end}")
        self._open()
        # Closing it was one more.
        assert self.repaired is not None and self.repaired.commits_lost == commits + 1, "it noticed"
        lost, subscriptions = self._gone(before)
        return Losses(commits, frozenset(lost), frozenset(subscriptions))

    def spoil(self, rng: Random) -> list[Spoilt]:
        """Change some bytes behind the first page, which says what the file is: in rows, mostly."""
        before = self._held()
        self.close()
        whole = self.file.read_bytes()
        changed = bytearray(whole)
        used = [at for at in range(PAGE, len(whole)) if whole[at]]
        for at in rng.sample(used, min(3, len(used))):
            changed[at] ^= rng.randint(1, 255)
        self.file.write_bytes(changed)
        try:
            self._open()
        except StoreError:
            # It is told, and nothing is lost: somebody puts a copy in its place.
            self.refused += 1
            self.file.write_bytes(whole)
            self._open()
            return []
        lost, subscriptions = self._gone(before)
        if lost or subscriptions:
            assert self.repaired is not None, "nothing is lost unless it is told"
        return [
            *(Spoilt(publication=id, is_told=True) for id in lost),
            *(Spoilt(subscription=each, is_told=True) for each in subscriptions),
        ]

    def _open(self) -> None:
        SqliteStore.__init__(self, self.file, after_damage="repair")
        self.repairs += self.repaired is not None

    def _held(self) -> Held:
        rows = self._rows.query(
            "SELECT kind, name, sequence, envelope FROM unacked JOIN body USING (key)"
        )
        subscriptions = self._rows.query("SELECT client, id FROM subscription")
        return (
            {row[:3]: msgpack.decode(row[3], type=Envelope).id for row in rows},
            {(client, id) for client, id in subscriptions},
        )

    def _gone(self, before: Held) -> tuple[set[NotificationId], set[tuple[str, int]]]:
        """The publications and subscriptions that were held and are not any more."""
        now = self._held()
        return {before[0][key] for key in before[0].keys() - now[0].keys()}, before[1] - now[1]
