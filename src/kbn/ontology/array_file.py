"""One file of named arrays with a head: written beside its place and renamed into it, read mapped.

The file is a magic line, the size of a JSON text, that text, and the arrays, aligned. The text says
what the writer wants to say `about` it, where each array lies, and a hash of all of them. No
pickle, so a file can hold nothing that runs.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from hashlib import sha256
from pathlib import Path

import msgspec
import numpy as np

from kbn.ontology.tables import Arrays

_MAGIC = b"kbn-ontology\n"
_ALIGN = 64


class _Array(msgspec.Struct, frozen=True):
    name: str
    dtype: str
    size: int
    offset: int


class _Head(msgspec.Struct, frozen=True):
    about: msgspec.Raw
    body_digest: str
    body_size: int
    arrays: tuple[_Array, ...]


def write(path: Path, about: msgspec.Struct, arrays: Arrays) -> None:
    """Write the file; a reader sees all of it or none."""
    places, body = _laid_out(arrays)
    raw = msgspec.Raw(msgspec.json.encode(about))
    head = msgspec.json.encode(_Head(raw, sha256(body).hexdigest(), len(body), places))
    start = _MAGIC + len(head).to_bytes(8, "little") + head
    start += b"\0" * (-len(start) % _ALIGN)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem[:16], suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(start)
            stream.write(body)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def read(path: Path) -> tuple[bytes, Arrays]:
    """What the file says about itself, as JSON, and its arrays, mapped.

    A ValueError (msgspec's are such) or an OSError when it is damaged or no such file.
    """
    mapped = np.memmap(path, dtype=np.uint8, mode="r")
    if mapped[: len(_MAGIC)].tobytes() != _MAGIC:
        raise ValueError("not a compiled ontology")
    start = len(_MAGIC) + 8
    size = int.from_bytes(mapped[len(_MAGIC) : start].tobytes(), "little")
    if size > len(mapped):
        raise ValueError("it is cut short")
    head = msgspec.json.decode(mapped[start : start + size].tobytes(), type=_Head)
    body = mapped[start + size + (-(start + size) % _ALIGN) :]
    if len(body) != head.body_size or sha256(body.data).hexdigest() != head.body_digest:
        raise ValueError("it is damaged")
    arrays: Arrays = {}
    for place in head.arrays:
        dtype = np.dtype(place.dtype)
        stop = place.offset + place.size * dtype.itemsize
        arrays[place.name] = np.asarray(body[place.offset : stop]).view(dtype)
    return bytes(head.about), arrays


def _laid_out(arrays: Arrays) -> tuple[tuple[_Array, ...], bytes]:
    places: list[_Array] = []
    parts: list[bytes] = []
    offset = 0
    for name, array in sorted(arrays.items()):
        content = np.ascontiguousarray(array).tobytes()
        places.append(_Array(name, array.dtype.str, array.size, offset))
        padding = -len(content) % _ALIGN
        parts += [content, b"\0" * padding]
        offset += len(content) + padding
    return tuple(places), b"".join(parts)
