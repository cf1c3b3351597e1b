"""What a pipeline remembers between runs: `state.json` in its output folder.

It is written after each stage, whole or not at all, when the stage's tables are in their place. So
a run that was killed is continued by the next one from the stage it was in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kbn.errors import InvalidInputError
from kbn.spark.pipeline.inputs import Stamp

FILE = "state.json"
FORMAT = 3
"""Goes up when `state.json` changes, or when the code makes other tables of the same input.

Everything is then done again.
"""


@dataclass(frozen=True)
class RunState:
    """One run's part of a stage: its digest and, at the first stage, the files it took."""

    digest: str
    files: Mapping[str, Stamp] = field(default_factory=dict)


@dataclass(frozen=True)
class StageState:
    """What a stage did last."""

    inputs: Mapping[str, str]
    runs: Mapping[int, RunState] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    """Its tables and how many rows they have."""
    seconds: float = 0.0
    finished: str = ""


@dataclass
class State:
    """What all stages did last."""

    name: str = ""
    stages: dict[str, StageState] = field(default_factory=dict)
    is_outdated: bool = False
    """Whether another version of kbn left what is there: it counts for nothing."""

    @classmethod
    def read(cls, out: Path) -> State:
        """The state of an output folder; an empty one when nothing ran there yet."""
        path = out / FILE
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError) as error:
            raise InvalidInputError(
                f"{path} is damaged ({error}); run with --full to do all again"
            ) from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            return cls(is_outdated=True)
        return cls(data["name"], {name: _stage(one) for name, one in data["stages"].items()})

    def write(self, out: Path) -> None:
        """Put the state in its place."""
        stages = {name: asdict(stage) for name, stage in self.stages.items()}
        data = {"format": FORMAT, "name": self.name, "stages": stages}
        fresh = out / f".{FILE}.new"
        with fresh.open("w", encoding="utf-8") as stream:
            json.dump(data, stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(out / FILE)


def now() -> str:
    """The time, for people."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Status:
    """What is in an output folder."""

    name: str
    out: Path
    stages: Mapping[str, StageState]

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        stages = {
            name: {
                "rows": dict(stage.rows),
                "runs": sorted(stage.runs),
                "seconds": stage.seconds,
                "finished": stage.finished,
            }
            for name, stage in self.stages.items()
        }
        return {"name": self.name, "out": str(self.out), "stages": stages}


def status(out: str | Path) -> Status:
    """What the last runs left in an output folder: tables, rows, when, how long it took.

    ```python
    for stage, known in status("out").stages.items():
        print(stage, dict(known.rows), known.finished)
    ```
    """
    place = Path(out)
    state = State.read(place)
    return Status(state.name, place, state.stages)


def _stage(data: dict[str, Any]) -> StageState:
    runs = {
        int(number): RunState(
            run["digest"], {name: (stamp[0], stamp[1]) for name, stamp in run["files"].items()}
        )
        for number, run in data["runs"].items()
    }
    return StageState(data["inputs"], runs, data["rows"], data["seconds"], data["finished"])
