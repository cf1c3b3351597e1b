"""The action log: what policies led to, and what they did not; the last so many entries of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kbn.management.schema import Kind

ENTRIES_MAX = 10_000


class Status(StrEnum):
    """What came of an action."""

    DECIDED = "decided"  # and not yet done
    DONE = "done"
    UNCHANGED = "unchanged"  # there was nothing to do
    FAILED = "failed"
    OVERRIDDEN = "overridden"  # by another policy, in the same evaluation
    SUPPRESSED = "suppressed"  # by the policy's rate


@dataclass(frozen=True, slots=True)
class LogEntry:
    """What came of a policy at a moment, for `count` objects or actions; `detail` is for people."""

    at: float
    policy: str
    action: str
    kind: Kind | None
    name: str | None
    status: Status
    detail: str = ""
    count: int = 1

    def to_json(self) -> dict[str, Any]:
        """For one line of JSON; what is not known is left out."""
        fields = {
            "at": self.at,
            "policy": self.policy,
            "action": self.action,
            "kind": self.kind,
            "name": self.name,
            "status": self.status.value,
            "detail": self.detail,
            "count": self.count if self.count != 1 else None,
        }
        return {key: value for key, value in fields.items() if value not in (None, "")}


class ActionLog:
    """The last entries, and how many there ever were.

    >>> log = ActionLog()
    >>> log.add(LogEntry(0.0, "p", "log", None, None, Status.DONE, "hello"))
    >>> seen = log.written
    >>> log.add(LogEntry(1.0, "p", "log", None, None, Status.DONE, "again"))
    >>> [entry.detail for entry in log.since(seen)]
    ['again']
    """

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self._entries: deque[LogEntry] = deque(maxlen=entries_max)
        self.written = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[LogEntry]:
        return iter(self._entries)

    def add(self, entry: LogEntry) -> None:
        self._entries.append(entry)
        self.written += 1

    def since(self, written: int) -> list[LogEntry]:
        """Entries after the first `written` ones; those that were dropped meanwhile are missing."""
        new = min(self.written - written, len(self._entries))
        return list(self._entries)[len(self._entries) - new :] if new > 0 else []
