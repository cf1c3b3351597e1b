"""The small ontologies that ship with kbn, written for its examples, tests and experiments.

Each is one Turtle file; its comment says what it models, from which document, and how much is in
it. They are named without the suffix:

>>> from kbn.data import names, path
>>> "animals" in names()
True
>>> path("animals").name
'animals.ttl'
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

from kbn.errors import InvalidInputError

__all__ = ["names", "namespace", "path"]

_BASE = "https://kbn.example/ontology/"
_SUFFIX = ".ttl"


@cache
def names() -> tuple[str, ...]:
    """The names of the shipped ontologies, sorted.

    >>> "animals" in names()
    True
    """
    files = (entry.name for entry in resources.files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in files if name.endswith(_SUFFIX)))


def path(name: str) -> Path:
    """Where the ontology of that name is on disk, ready for `Ontology.load`.

    >>> path("animals").name
    'animals.ttl'
    """
    _require(name)
    # kbn is always installed unpacked, so the resource is a real file.
    return Path(str(resources.files(__name__).joinpath(name + _SUFFIX)))


def namespace(name: str) -> str:
    """The namespace of that ontology's terms, for building IRIs and declaring prefixes.

    >>> namespace("animals") + "Cats"
    'https://kbn.example/ontology/animals#Cats'
    """
    _require(name)
    return f"{_BASE}{name}#"


def _require(name: str) -> None:
    if name not in names():
        known = ", ".join(names())
        raise InvalidInputError(f"kbn ships no ontology named {name!r}; it ships {known}")
