"""What to do about an SQLite file that fails, in words for whoever runs the process."""

from __future__ import annotations

import sqlite3

_IN_USE = "another {owner} uses it; stop that one, or give this one a file of its own"
_CLOSED = "cannot be written; see to its permissions and those of its folder"
_ADVICE = {
    "SQLITE_BUSY": _IN_USE,
    "SQLITE_LOCKED": _IN_USE,
    "SQLITE_FULL": "the disk is full; free some space and start again",
    "SQLITE_READONLY": _CLOSED,
    "SQLITE_PERM": _CLOSED,
    "SQLITE_CANTOPEN": "cannot be opened; is it a file, in a folder that exists and is writable?",
    "SQLITE_NOTADB": "not the {file} of a {owner}; name another file",
    "SQLITE_CORRUPT": "damaged; restore it from a copy, or name another file",
    "SQLITE_IOERR": "the disk does not answer as it should; see the system's log",
}


def advice(error: sqlite3.Error, *, file: str, owner: str) -> str:
    """What is wrong with the `file` of an `owner`, such as the store of a broker, and what to do.

    >>> advice(sqlite3.OperationalError("no such table: x"), file="store", owner="broker")
    'the store failed: no such table: x'
    """
    name = getattr(error, "sqlite_errorname", "")
    for code, text in _ADVICE.items():
        if name.startswith(code):
            return f"{text.format(file=file, owner=owner)} ({error})"
    return f"the {file} failed: {error}"
