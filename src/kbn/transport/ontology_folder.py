"""The folder from which a broker loads ontologies that a manager asks for.

A manager is not the owner of the machine: it names files, and a broker that opened any of them
would read devices for ever and tell what is in the others. So a request reads regular files of one
folder, which whoever starts the broker has named, and no more of them than a limit allows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

from kbn.errors import InvalidInputError

NO_FOLDER = (
    "this broker loads no ontologies that it is asked for: start it with --ontology-folder, the "
    "folder that they are in"
)


@dataclass(frozen=True, slots=True)
class OntologyFolder:
    """A folder whose files may be asked for; without a `path` none may be."""

    path: Path | None = None

    def check(self, names: Iterable[str]) -> None:
        """Raise `InvalidInputError` unless these are files that may be loaded."""
        self.files(names)

    def files(self, names: Iterable[str]) -> tuple[Path, ...]:
        """The files of these names; relative ones are relative to the folder."""
        if self.path is None:
            raise InvalidInputError(NO_FOLDER)
        folder = _resolved(self.path)
        return tuple(_file(folder, name) for name in names)


def _file(folder: Path, name: str) -> Path:
    # What is behind links is looked at, so none leads out of the folder.
    path = _resolved(folder / name)
    if not path.is_relative_to(folder):
        raise InvalidInputError(f"{name!r:.200} is outside the folder of ontologies: copy it there")
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise InvalidInputError(f"{name!r:.200} cannot be read: {error.strerror}") from None
    if not S_ISREG(mode):
        raise InvalidInputError(f"{name!r:.200} is not a regular file; name a file of an ontology")
    return path


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise InvalidInputError(f"{str(path)!r:.200} is no path: {error}") from None
