"""Slices: whole lines of a file between two bytes, shared out to tasks and read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from kbn.errors import KbnError

BLOCK = 1 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PIECE_BYTES_MIN = 1 << 20
PIECE_BYTES_MAX = 32 << 20


@dataclass(frozen=True, slots=True)
class Slice:
    """The bytes from `start` to `end` of a file: whole lines."""

    path: str
    start: int
    end: int


def pieces(slices: Sequence[Slice], tasks: int) -> list[tuple[Slice, ...]]:
    """The slices in portions for one task each, cut at line ends: about so many of equal size.

    A task has a cost of its own, so small batches get fewer; and it has a buffer for one Arrow
    batch only, so large ones get more.
    """
    total = sum(each.end - each.start for each in slices)
    wanted = min(PIECE_BYTES_MAX, max(PIECE_BYTES_MIN, -(-total // tasks)))
    portions: list[tuple[Slice, ...]] = []
    portion: list[Slice] = []
    room = wanted
    for part in (part for whole in slices for part in _parts(whole, wanted)):
        portion.append(part)
        room -= part.end - part.start
        if room <= 0:
            portions.append(tuple(portion))
            portion, room = [], wanted
    return [*portions, tuple(portion)] if portion else portions


def _parts(whole: Slice, wanted: int) -> Iterator[Slice]:
    begin = whole.start
    # A last part of less than half the size is not worth a task of its own.
    while whole.end - begin > wanted * 3 // 2:
        with opened(whole.path) as stream:
            stream.seek(begin + wanted - 1)
            stream.readline()
            end = min(stream.tell(), whole.end)
        yield Slice(whole.path, begin, end)
        begin = end
    if begin < whole.end:
        yield Slice(whole.path, begin, whole.end)


def lines(part: Slice) -> Iterator[tuple[int, bytes]]:
    """Each line with its number among the slice's, from 1."""
    left = part.end - part.start
    with opened(part.path) as stream:
        stream.seek(part.start)
        number = 0
        while left > 0 and (line := stream.readline(left)):
            left -= len(line)
            if part.start == number == 0:
                line = line.removeprefix(BYTE_ORDER_MARK)
            number += 1
            yield number, line.rstrip(b"\r\n")
    if left > 0:
        raise KbnError(f"{part.path} is shorter than when it was planned: put it back as it was")


def lines_before(part: Slice) -> int:
    """The number of lines of the file that stand before the slice."""
    count = 0
    with opened(part.path) as stream:
        left = part.start
        while left and (block := stream.read(min(BLOCK, left))):
            count += block.count(b"\n")
            left -= len(block)
    return count


def opened(path: str | Path) -> BinaryIO:
    """A file that was listed, to read from."""
    try:
        return open(path, "rb")
    except OSError as error:
        raise KbnError(f"{path}: {error.strerror}; it was there when it was listed") from error
