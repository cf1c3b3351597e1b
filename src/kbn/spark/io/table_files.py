"""Files of a table: which ones there are, and how they are shared out to tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from kbn.errors import InvalidInputError
from kbn.spark.io.data_source import tasks_of


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of a table: its bytes, and a number by which it is told from one made anew."""

    size: int
    made: int


def file_names(options: Mapping[str, str], there: Sequence[str]) -> list[str]:
    """The files to read: all, or those that the option `files` names."""
    if "files" not in options:
        return sorted(there)
    wanted = json.loads(options["files"])
    missing = sorted(set(wanted) - set(there))
    if missing:
        raise InvalidInputError(f"the table has no file {missing[0]} any more: run again")
    return sorted(wanted)


def portions(
    names: Sequence[str], version: int, options: Mapping[str, str]
) -> list[InputPartition]:
    """The files in portions for a task each, with the version of the table they are of."""
    tasks = min(len(names), max(1, tasks_of(options)))
    return [InputPartition((version, tuple(names[first::tasks]))) for first in range(tasks)]
