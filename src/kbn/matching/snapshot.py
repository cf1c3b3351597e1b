"""Snapshots: a matcher's contents shared in memory, and saved to be memory-mapped.

A saved snapshot is a directory: one `.npy` file per array, the tokens, residual constraints and
axes as JSON in `tables.json`, the keys as an Arrow file, and `manifest.json` with counts, versions
and the digest of the ontology it was compiled with. It is written beside its place and renamed into
it, so that a reader sees all of it or none. Arrays are mapped when loaded, so that the processes of
one machine share one copy; the dictionaries of tokens are built anew, at a few microseconds a
token.

In memory a snapshot shares the arrays, and the matcher it came from copies them before its next
change. The token tables only ever grow, so both can use the same ones.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from copy import copy
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kbn.errors import InvalidInputError
from kbn.filters import Family, constraint_from_json, constraint_to_json
from kbn.matching import groups as groups_module
from kbn.matching import lanes as lanes_module
from kbn.matching import slabs as slabs_module
from kbn.matching import trie as trie_module
from kbn.matching.index import Index
from kbn.matching.indexed_subscriptions import IndexedSubscriptions
from kbn.matching.subscribers import Subscribers
from kbn.ontology import Ontology

FORMAT = 6
_PARTS = {
    "groups": (
        groups_module.ARRAYS,
        ("group_count", "entry_count", "subscription_count", "dead_groups"),
    ),
    "trie": (trie_module.ARRAYS, trie_module.COUNTS),
    "slabs": (slabs_module.ARRAYS, slabs_module.COUNTS),
    "slabs.lanes": (lanes_module.ARRAYS, ("count",)),
}  # fmt: skip


def shared(index: Index) -> Index:
    """A second index over the same arrays and tables."""
    twin = copy(index)
    twin.groups, twin.trie, twin.slabs = copy(index.groups), copy(index.trie), copy(index.slabs)
    twin.slabs.lanes = copy(index.slabs.lanes)
    twin.own_scratch()
    return twin


def unshare(index: Index) -> None:
    """Give the index arrays of its own."""
    for part, (arrays, _) in _PARTS.items():
        owner = attrgetter(part)(index)
        for name in arrays:
            setattr(owner, name, np.array(getattr(owner, name)))
    index.placed = np.array(index.placed)
    index.changed()


def save(held: IndexedSubscriptions, directory: Path) -> None:
    """`Matcher.save`."""
    keys = held.subscribers.as_arrow()
    directory.parent.mkdir(parents=True, exist_ok=True)
    if directory.exists() and not (directory / "manifest.json").exists():
        raise InvalidInputError(f"{directory} exists and is not a snapshot: give another place")
    fresh = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        _write(held, keys, fresh)
        if directory.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{directory.name}-old-", dir=directory.parent))
            directory.rename(old / "snapshot")
            fresh.rename(directory)
            shutil.rmtree(old)
        else:
            fresh.rename(directory)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    directory.chmod(0o755)


def load(directory: Path, ontology: Ontology | None) -> IndexedSubscriptions:
    """`Matcher.load`."""
    manifest = _manifest(directory)
    digest = None if ontology is None else ontology.digest
    if manifest["ontology"] != digest:
        raise InvalidInputError(
            f"{directory} was saved with "
            + ("no ontology" if manifest["ontology"] is None else "another ontology")
            + ": load it with the one it was saved with"
        )
    held = IndexedSubscriptions(ontology)
    try:
        _read(held, directory, manifest)
    except (
        OSError,
        EOFError,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        pa.ArrowException,
    ) as error:
        raise InvalidInputError(f"the snapshot {directory} is damaged: {error}") from error
    return held


def _read(held: IndexedSubscriptions, directory: Path, manifest: dict[str, Any]) -> None:
    index = held.index
    _read_tables(index, directory)
    for part, (arrays, counts) in _PARTS.items():
        owner = attrgetter(part)(index)
        for name in arrays:
            setattr(owner, name, np.load(directory / f"{part}.{name}.npy", mmap_mode="c"))
        for name in counts:
            setattr(owner, name, manifest[part][name])
    index.placed = np.load(directory / "placed.npy", mmap_mode="c")
    index.placed_count = manifest["placed_count"]
    index.built_count = manifest["built_count"]
    with pa.memory_map(str(directory / "keys.arrow")) as source:
        table = pa.ipc.open_file(source).read_all()
    held.subscribers = Subscribers.saved(table["key"].combine_chunks(), manifest["live"])
    held.shares = True


def _write(held: IndexedSubscriptions, keys: pa.Array, directory: Path) -> None:
    index = held.index
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "ontology": None if held.ontology is None else held.ontology.digest,
        "live": len(held),
        "placed_count": index.placed_count,
        "built_count": index.built_count,
    }
    for part, (arrays, counts) in _PARTS.items():
        owner = attrgetter(part)(index)
        for name in arrays:
            np.save(directory / f"{part}.{name}.npy", getattr(owner, name))
        manifest[part] = {name: _plain(getattr(owner, name)) for name in counts}
    np.save(directory / "placed.npy", index.placed)
    (directory / "tables.json").write_text(json.dumps(_tables(index)), encoding="utf-8")
    table = pa.table({"key": keys})
    with pa.ipc.new_file(str(directory / "keys.arrow"), table.schema) as writer:
        writer.write_table(table)
    (directory / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def _plain(value: Any) -> int | bool:
    return value if isinstance(value, (bool, int)) else int(value)


def _tables(index: Index) -> dict[str, Any]:
    table, encoder = index.table, index.encoder
    tokens = [
        [table.families[token][0], int(table.families[token][1])]
        if constraint is None
        else constraint_to_json(constraint)
        for token, constraint in enumerate(table.constraints)
    ]
    return {
        "tokens": tokens,
        "residual_constraints": [constraint_to_json(each) for each in encoder.residuals],
        "axes": [[attribute, int(kind)] for attribute, kind in encoder.axes],
    }


def _read_tables(index: Index, directory: Path) -> None:
    tables = json.loads((directory / "tables.json").read_text(encoding="utf-8"))
    for token in tables["tokens"]:
        if isinstance(token, list):
            index.table.family_token(token[0], Family(token[1]))
        else:
            constraint = constraint_from_json(token)
            index.table.token(constraint.attribute, constraint.operator, constraint.operand)
    for residual in tables["residual_constraints"]:
        index.encoder.residual(constraint_from_json(residual))
    for attribute, kind in tables["axes"]:
        index.encoder.axis(attribute, Family(kind))


def _manifest(directory: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((directory / "manifest.json").read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidInputError(f"{directory} is not a saved matcher") from None
    except ValueError as error:
        raise InvalidInputError(f"{directory}/manifest.json is damaged: {error}") from None
    if manifest.get("format") != FORMAT:
        raise InvalidInputError(
            f"{directory} has format {manifest.get('format')}, and this kbn reads {FORMAT}: "
            "save it again"
        )
    return manifest
