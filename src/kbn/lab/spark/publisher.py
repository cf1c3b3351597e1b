"""A publisher at a steady rate: lines into files, and a log of what was written by when.

    python -m kbn.lab.spark.publisher TEXTS INBOX LOG RATE SECONDS

A process of its own, so that what it does costs the stream nothing but its share of the machine.
Every TICK_S it appends what is due; a new file begins every FILE_S. The log has a line per append:
the bytes written so far in all, the notifications in this append, and when it was done.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

TICK_S = 0.05
FILE_S = 10.0


def publish(texts: Path, inbox: Path, log: Path, rate: int, seconds: float) -> None:
    """Publish for so long; `texts` has a notification without its id a line."""
    lines = texts.read_bytes().splitlines(keepends=True)
    begin, sent, written = time.time(), 0, 0
    with log.open("w", encoding="utf-8") as noted:
        while (now := time.time()) < begin + seconds:
            due = int((now - begin) * rate)
            if due > sent:
                chunk = b"".join(_line(n, lines) for n in range(sent, due))
                name = f"n{int((now - begin) / FILE_S):06d}.jsonl"
                with (inbox / name).open("ab", buffering=0) as stream:
                    stream.write(chunk)
                written += len(chunk)
                noted.write(f"{written} {due - sent} {time.time()}\n")
                sent = due
            time.sleep(max(0.0, TICK_S - (time.time() - now)))


def _line(number: int, lines: list[bytes]) -> bytes:
    return b'{"id":"n%d",%s' % (number, lines[number % len(lines)])


if __name__ == "__main__":
    texts, inbox, log = (Path(given) for given in sys.argv[1:4])
    publish(texts, inbox, log, int(sys.argv[4]), float(sys.argv[5]))
