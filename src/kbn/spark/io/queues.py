"""Queues: messages at numbered places, which are read from where a stream stopped.

A *place* is a partition of a topic of Kafka ("news/0") or a stream of NATS ("NEWS"). Its messages
have offsets that grow; some may be missing. The queue keeps them, not we: a stream writes down in
its checkpoint how far it has read each place, and reads the same messages again when a batch has to
run again. So nothing is acknowledged, and no other reader is in the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from kbn.errors import InvalidInputError, KbnError

Offsets = dict[str, int]
"""How far each place is read: the offset that comes next."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a place keeps: from the offset `first` up to, and without, `end`."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it was read; `id` is the one its sender gave it."""

    place: str
    offset: int
    key: bytes | None
    value: bytes | None
    time_us: int | None
    id: str | None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to be sent; `id` is always the same for the same row."""

    id: str
    key: bytes | None
    value: bytes


class Queue(Protocol):
    """A connection to a queue. KbnError says what is wrong with it, without secrets."""

    @property
    def address(self) -> str:
        """What it is called in messages to people."""
        ...

    def bounds(self) -> dict[str, Bounds]:
        """The places there are now, and what they keep."""
        ...

    def read(self, place: str, start: int, end: int) -> Iterator[Message]:
        """The messages of a place whose offsets are from `start` up to, and without, `end`."""
        ...

    def send(self, messages: Iterable[Outgoing]) -> int:
        """Send messages, and wait until all of them are kept; how many."""
        ...

    def close(self) -> None:
        """Let go of the connection; it comes back when it is needed."""
        ...


@dataclass(frozen=True, slots=True)
class Span:
    """Messages of one place, for one task."""

    place: str
    start: int
    end: int


def reached(start: Offsets, bounds: Mapping[str, Bounds], rows: int | None) -> Offsets:
    """How far a batch reads: to the end, or about `rows` messages, shared among the places.

    Each place with something new gets at least one, so that none waits for ever.

    >>> bounds = {"a": Bounds(0, 2), "b": Bounds(0, 100)}
    >>> reached({"a": 0}, bounds, 10)
    {'a': 2, 'b': 8}
    """
    behind = {place: held.end - start.get(place, held.first) for place, held in bounds.items()}
    after = dict(start)
    left, waiting = rows, len(behind)
    for place in sorted(behind, key=lambda each: (behind[each], each)):
        count = behind[place]
        if left is not None:
            count = min(count, max(1, left // waiting))
            left, waiting = max(0, left - count), waiting - 1
        after[place] = start.get(place, bounds[place].first) + max(0, count)
    return after


def still_kept(
    start: Offsets, bounds: Mapping[str, Bounds], address: str, *, or_fail: bool
) -> Offsets:
    """Where to go on; KbnError when messages that were not read yet are kept no longer.

    Without `or_fail`, reading goes on with what is left.
    """
    found = dict(start)
    for place, offset in start.items():
        held = bounds.get(place)
        if held is None:
            raise KbnError(f"{address} has no {place} any more, and this stream has read from it")
        if offset > held.end:
            raise KbnError(
                f"{place} of {address} ends at {held.end}, and this stream has read it up to "
                f"{offset}: it was made anew. Start again with a new checkpoint"
            )
        if offset < held.first:
            if or_fail:
                raise KbnError(
                    f"{place} of {address} keeps messages from {held.first} on, and {offset} comes "
                    f"next: {held.first - offset} are lost. Let it keep more, or go on without "
                    "them with failOnDataLoss=false"
                )
            found[place] = held.first
    return found


def spans(start: Offsets, end: Offsets, tasks: int, least: int = 5000) -> list[Span]:
    """What lies between, in portions for one task each: about `tasks`, of at least `least`.

    >>> spans({"a": 0}, {"a": 10_000, "b": 3}, 2)
    [Span(place='a', start=0, end=5002), Span(place='a', start=5002, end=10000),
     Span(place='b', start=0, end=3)]
    """
    total = sum(after - start.get(place, 0) for place, after in end.items())
    size = max(least, -(-total // tasks))
    return [
        Span(place, begin, min(begin + size, after))
        for place, after in sorted(end.items())
        for begin in range(start.get(place, 0), after, size)
    ]


def starting(option: str, bounds: Mapping[str, Bounds], name: str = "startingOffsets") -> Offsets:
    """Where an option says to begin, or end: earliest, latest, or a JSON object of offsets."""
    import json

    if option.lower() == "earliest":
        return {place: held.first for place, held in bounds.items()}
    if option.lower() == "latest":
        return {place: held.end for place, held in bounds.items()}
    try:
        given = {str(place): int(offset) for place, offset in json.loads(option).items()}
    except (ValueError, TypeError, AttributeError):
        raise InvalidInputError(
            f'the option {name} is earliest, latest, or JSON such as {{"news/0": 120}}'
        ) from None
    unknown = given.keys() - bounds.keys()
    if unknown:
        raise InvalidInputError(
            f"the option {name} names {', '.join(sorted(unknown))}; there are "
            f"{', '.join(sorted(bounds)) or 'none'}"
        )
    return {place: given.get(place, held.first) for place, held in bounds.items()}
