"""Structured logs: one event a line, as JSON for machines or as text for people.

An event has a name and fields; remarks of other parts of kbn come as the event "remark". Whatever a
client sends may stand in a field, so values are escaped (an event is always one line) and cut.
Repetitions are bounded by a `RateLimiter`: a client that is refused a thousand times a second
costs a few lines a minute, the next of which says how many were left out.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

LogFormat = Literal["text", "json"]
VALUE_CHARACTERS_MAX = 500
_PLAIN = re.compile(r"[^\s\"'=\\\x00-\x1f\x7f-\x9f]+")

log = logging.getLogger("kbn.events")


def event(name: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Log an event."""
    log.log(level, "%s", name, extra={"event": name, "fields": fields})


def set_up(
    broker: str,
    format: LogFormat = "text",
    level: str = "info",
    stream: TextIO | None = None,
) -> logging.Handler:
    """Have all of kbn log to `stream` (stderr, unless given), in the name of a broker."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines(broker) if format == "json" else TextLines(broker))
    root = logging.getLogger("kbn")
    for each in (root, logging.getLogger("asyncio")):
        for older in list(each.handlers):
            each.removeHandler(older)
        each.addHandler(handler)
        each.propagate = False
    root.setLevel(level.upper())
    # What the server remarks at this level the events say better.
    is_debugging = root.level <= logging.DEBUG
    logging.getLogger("kbn.transport").setLevel(logging.DEBUG if is_debugging else logging.WARNING)
    logging.raiseExceptions = False  # a reader of stderr that went away is no reason to stop
    return handler


class JsonLines(logging.Formatter):
    """Each record as one JSON object: time, level, event, broker, and the event's fields."""

    def __init__(self, broker: str) -> None:
        super().__init__()
        self._broker = broker

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.facts(record), ensure_ascii=False, default=str)

    def facts(self, record: logging.LogRecord) -> dict[str, Any]:
        name, fields = _event_of(record)
        known = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "event": name,
            "broker": self._broker,
        }
        cut = {key: _cut(value) for key, value in fields.items() if value not in (None, "")}
        facts = {**known, **{key: value for key, value in cut.items() if key not in known}}
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        return facts


class TextLines(JsonLines):
    """The same, for people: time, level, event, then name=value."""

    def format(self, record: logging.LogRecord) -> str:
        facts = self.facts(record)
        start = f"{facts.pop('time')} {facts.pop('level'):<7} {facts.pop('event')}"
        return " ".join([start, *(f"{key}={_shown(value)}" for key, value in facts.items())])


class RateLimiter:
    """Lets a few of each kind through per minute, and counts the others; the time is given.

    >>> gate = RateLimiter(most=1, per_s=60)
    >>> gate.passes("ann", 0.0), gate.passes("ann", 1.0), gate.passes("ann", 61.0)
    (0, None, 1)
    """

    KINDS_MAX = 1000

    def __init__(self, most: int = 5, per_s: float = 60.0) -> None:
        self._most = most
        self._per_s = per_s
        self._kinds: OrderedDict[object, tuple[float, int, int]] = OrderedDict()

    def passes(self, kind: object, now: float) -> int | None:
        """How many were left out before this one; None when this one is left out as well."""
        begun, passed, left_out = self._kinds.pop(kind, (now, 0, 0))
        if now - begun >= self._per_s:
            begun, passed = now, 0
        is_through = passed < self._most
        self._kinds[kind] = (begun, passed + 1, 0) if is_through else (begun, passed, left_out + 1)
        if len(self._kinds) > self.KINDS_MAX:
            self._kinds.popitem(last=False)
        return left_out if is_through else None


def _event_of(record: logging.LogRecord) -> tuple[str, dict[str, object]]:
    name = getattr(record, "event", None)
    if name is None:
        return "remark", {"text": record.getMessage(), "where": record.name}
    return str(name), getattr(record, "fields", {})


def _time(record: logging.LogRecord) -> str:
    told = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return told.replace("+00:00", "Z")


def _cut(value: object) -> object:
    if not isinstance(value, str) or len(value) <= VALUE_CHARACTERS_MAX:
        return value
    return value[:VALUE_CHARACTERS_MAX] + "…"


def _shown(value: object) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=True, default=str)
