"""A compiled ontology in a file of its own, to be mapped by every process that needs it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kbn.errors import InvalidInputError
from kbn.ontology import array_file
from kbn.ontology.cache import FORMAT
from kbn.ontology.tables import Facts, Tables


class _About(msgspec.Struct, frozen=True):
    format: int
    facts: Facts


def save(tables: Tables, path: Path) -> None:
    """`Ontology.save`."""
    array_file.write(path, _About(FORMAT, tables.facts), tables.arrays())


def open_saved(path: Path) -> Tables:
    """`Ontology.open`."""
    try:
        about, arrays = array_file.read(path)
        made = msgspec.json.decode(about, type=_About)
        if made.format == FORMAT:
            return Tables.from_arrays(made.facts, arrays)
    except FileNotFoundError:
        raise InvalidInputError(f"{path}: there is no such file") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"{path} is not a compiled ontology: {error}") from error
    raise InvalidInputError(
        f"{path} was written by another version of kbn (format {made.format}, not {FORMAT}): "
        "load the ontology and save it again"
    )
