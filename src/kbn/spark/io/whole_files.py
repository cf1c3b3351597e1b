"""Files to outcomes, one file at a time: opened here, unpacked, and read to the end.

A file on a disk that this process sees is opened by its path and read piece by piece; of any other
the content is handed over. A file that cannot be opened, or breaks off, is refused as a whole, or
from the place it breaks: what was read before counts.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from kbn.errors import InvalidInputError
from kbn.spark.io.csv_texts import csv_names, csv_outcomes
from kbn.spark.io.feeds import feed_outcomes
from kbn.spark.io.json_texts import RECORD_BYTES_MAX, JsonReader, Line
from kbn.spark.io.mapping import Mapping
from kbn.spark.io.outcomes import Outcome, Refused
from kbn.spark.io.partitions import partition_fields
from kbn.spark.io.table_rows import parquet_outcomes

CONTENT_BYTES_MAX = 256 * 2**20
"""A file that is not on a disk of ours is handed over whole, if it is no larger."""

FEED_BYTES_MAX = 64 * 2**20

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")

_PACKED_BYTES = 2**14
_DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException, UnicodeError)


def file_outcomes(
    source: str, content: bytes | None, format: str, mapping: Mapping | None
) -> Iterator[Outcome]:
    """The outcome of every record in the file at `source`; its `content` where that is given.

    >>> found = file_outcomes("menu.csv", b"id,topic\\nn1,tea\\n", "csv", Mapping(id="id"))
    >>> [row.id for row in found]
    ['n1']
    """
    count = 0
    try:
        with _opened(source, content) as stream:
            for outcome in _outcomes(stream, source, format, mapping):
                count += 1
                yield outcome
    except InvalidInputError as error:
        yield Refused(source, None, None, str(error))
    except _DAMAGED as error:
        yield Refused(source, None, None, _damage(error, count))


def column_names(path: Path, format: str, mapping: Mapping | None) -> tuple[str, ...] | None:
    """The fields that all records of a file have; None where records have their own, or none.

    ```python
    column_names(Path("menu.csv"), "csv", None)
    ```
    """
    if format not in ("csv", "parquet"):
        return None
    source = path.absolute().as_uri()
    try:
        with _opened(source, None) as stream:
            names = (
                csv_names(stream, mapping or Mapping())
                if format == "csv"
                else pq.read_schema(stream).names
            )
    except (InvalidInputError, *_DAMAGED):
        return None  # reading it will say so
    return (*partition_fields(source), *names)


def _outcomes(
    stream: IO[bytes], source: str, format: str, mapping: Mapping | None
) -> Iterator[Outcome]:
    match format:
        case "csv":
            return csv_outcomes(stream, source, mapping or Mapping())
        case "parquet":
            return parquet_outcomes(stream, source, mapping)
        case "rss":
            return feed_outcomes(_whole(stream), source, mapping)
    return JsonReader(format == "cloudevents", mapping).file(_lines(stream), source)


def _damage(error: Exception, count: int) -> str:
    told = str(error).partition("\n")[0] or type(error).__name__
    return f"the file cannot be read{f' after {count} records' if count else ''}: {told}"


@contextmanager
def _opened(source: str, content: bytes | None) -> Iterator[IO[bytes]]:
    """The file's bytes, unpacked."""
    address = urlsplit(source)
    if content is None and address.scheme != "file":
        raise InvalidInputError(
            f"larger than {CONTENT_BYTES_MAX:,} bytes and not on a local disk: split it, or read "
            "it with Spark and pass the DataFrame to `ingest`"
        )
    raw = open(unquote(address.path), "rb") if content is None else io.BytesIO(content)  # noqa: SIM115
    with raw, _unpacked(cast(IO[bytes], raw), source) as stream:
        yield stream


def _unpacked(raw: IO[bytes], source: str) -> IO[bytes]:
    match source[source.rfind(".") :]:
        case ".gz":
            return cast(IO[bytes], gzip.GzipFile(fileobj=raw))
        case ".bz2":
            return bz2.BZ2File(raw)
        case ".xz":
            return lzma.LZMAFile(raw)
        case ".zst":
            return _zstandard(raw)
    return raw


def _zstandard(raw: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], io.BufferedReader(_Zstandard(raw)))


class _Zstandard(io.RawIOBase):
    """Zstandard's own reader takes a file that breaks off for one that ends; this one does not."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._frame: Any = None
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and self._advance():
            pass
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _advance(self) -> bool:
        """Unpack some more; False at the end."""
        import zstandard

        left = b"" if self._frame is None or not self._frame.eof else self._frame.unused_data
        packed = left or self._raw.read(_PACKED_BYTES)
        if not packed:
            if self._frame is not None and not self._frame.eof:
                raise EOFError("the file breaks off in the middle")
            return False
        if self._frame is None or self._frame.eof:
            self._frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            self._ready = self._frame.decompress(packed)
        except zstandard.ZstdError as error:
            raise OSError(str(error)) from None
        return True


def _whole(stream: IO[bytes]) -> bytes:
    content = stream.read(FEED_BYTES_MAX + 1)
    if len(content) > FEED_BYTES_MAX:
        raise InvalidInputError(f"a feed of more than {FEED_BYTES_MAX:,} bytes")
    return content


def _lines(stream: IO[bytes]) -> Iterator[Line]:
    """The lines of the file; of one that is too long the beginning is given, to be refused."""
    number = 0
    while line := stream.readline(RECORD_BYTES_MAX + 1):
        number += 1
        yield number, line
        while line[-1:] != b"\n" and len(line) > RECORD_BYTES_MAX:
            line = stream.readline(RECORD_BYTES_MAX + 1)
