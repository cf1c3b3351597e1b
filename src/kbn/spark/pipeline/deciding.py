"""Which stages have to run, and why: decided from digests before anything is done.

A stage is known by its *inputs*: digests of all it reads (the part of the configuration, files by
name, size and time of writing, the stages before it). One whose inputs are those of its last run is
skipped. The stages that go over notifications (ingest, annotate, match) work in *runs*: new files
are a run of their own, with a number, and become a partition of every table that follows from them.
Each run has a digest; only runs whose digest is new are done.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from kbn.ontology import Ontology
from kbn.spark.pipeline.config import PipelineConfig
from kbn.spark.pipeline.inputs import Stamp, files_digest_parts, found_files, stamps
from kbn.spark.pipeline.state import RunState, StageState

FORMAT = 1
"""Goes up when the code makes other tables of the same input: everything is then done again."""

STAGES = ("ingest", "annotate", "compile", "match", "medoids", "plan", "hops", "report")

Inputs = dict[str, str]


@dataclass(frozen=True)
class Decision:
    """What a run will do about one stage: run it, append to its tables, or skip it."""

    stage: str
    action: str
    why: str
    inputs: Inputs = field(repr=False)
    runs: Mapping[int, RunState] = field(default_factory=dict, repr=False)
    todo: tuple[int, ...] = ()
    """The runs that have to be done, for stages that have runs."""


@dataclass(frozen=True)
class Found:
    """What is there to read: per source its files, and the files of the tables."""

    sources: tuple[dict[str, Stamp], ...]
    subscriptions: dict[str, Stamp]
    deliveries: dict[str, Stamp]

    @classmethod
    def of(cls, config: PipelineConfig) -> Found:
        """Look at the files."""

        def look(pattern: str) -> dict[str, Stamp]:
            return stamps(config.directory, found_files(config.directory, pattern))

        log = config.deliveries
        return cls(
            tuple(look(source.pattern) for source in config.sources),
            look(config.subscriptions.pattern),
            {} if log is None else look(log.pattern),
        )


def digest(*parts: Any) -> str:
    """A short hash of data that JSON can hold."""
    return sha256(json.dumps([FORMAT, *parts], sort_keys=True).encode()).hexdigest()[:20]


def decide(
    config: PipelineConfig,
    ontology: Ontology,
    found: Found,
    known: Mapping[str, StageState],
    *,
    full: bool = False,
) -> list[Decision]:
    """A decision for each stage, in order; `known` is what the stages did last."""
    before = {} if full else dict(known)
    options = config.options
    made: dict[str, Decision] = {}

    def whole(stage: str, **inputs: Any) -> None:
        made[stage] = _whole(stage, {k: digest(v) for k, v in inputs.items()}, before.get(stage))

    def by_run(stage: str, runs: Mapping[int, RunState], **inputs: Any) -> None:
        settings = {k: digest(v) for k, v in inputs.items()}
        made[stage] = _by_run(stage, settings, runs, before.get(stage))

    sources = [[one.pattern, one.format, one.mapping_digest] for one in config.sources]
    arrived = _arrived(found.sources, before.get("ingest"), known.get("ingest"))
    by_run("ingest", arrived, mapping=sources)
    meaning = {"ontology": ontology.digest, "annotate": [config.annotate, options.unrecognised]}
    by_run("annotate", made["ingest"].runs, **meaning)
    whole(
        "compile",
        ontology=ontology.digest,
        subscriptions=[config.subscriptions.format, files_digest_parts(found.subscriptions)],
        shards=options.shards,
    )
    compiled = digest(made["compile"].inputs)
    how = {"subscriptions": compiled, "options": [options.expand, options.by_shard]}
    by_run("match", made["annotate"].runs, **how)
    published = [run.digest for run in made["annotate"].runs.values()]
    whole("medoids", subscriptions=compiled, notifications=published)
    placed = digest(made["medoids"].inputs)
    if config.brokers:
        whole("plan", medoids=placed, brokers=[config.brokers, config.planner])
    if config.deliveries is not None:
        log = [config.deliveries.format, files_digest_parts(found.deliveries)]
        whole("hops", deliveries=log, options=options.misplaced_above)
    everything = {n: [d.inputs, [r.digest for r in d.runs.values()]] for n, d in made.items()}
    whole("report", **everything, name=config.name)
    return [made[stage] for stage in STAGES if stage in made]


def _whole(stage: str, inputs: Inputs, known: StageState | None) -> Decision:
    changed = _changed(inputs, known)
    if not changed:
        return Decision(stage, "skip", "nothing changed", inputs)
    return Decision(stage, "run", changed, inputs)


def _by_run(
    stage: str, settings: Inputs, upstream: Mapping[int, RunState], known: StageState | None
) -> Decision:
    """Which of the runs of the stage before have to be done here."""
    own = digest(stage, settings)
    runs = {
        n: RunState(digest(own, run.digest), run.files if stage == "ingest" else {})
        for n, run in upstream.items()
    }
    have = {} if known is None else {n: run.digest for n, run in known.runs.items()}
    todo = tuple(n for n, run in runs.items() if have.get(n) != run.digest)
    gone = [n for n in have if n not in runs]
    if not todo and not gone:
        return Decision(stage, "skip", "nothing changed", settings, runs)
    if len(todo) < len(runs) and not gone:
        files = sum(len(upstream[n].files) for n in todo)
        why = f"{files} new files" if files else "new notifications"
        return Decision(stage, "append", why, settings, runs, todo)
    why = _changed(settings, known) or "files changed or are gone"
    if stage != "ingest" and not _changed(settings, known):
        why = "the notifications changed"
    return Decision(stage, "run", why, settings, runs, todo)


def _arrived(
    sources: Iterable[dict[str, Stamp]],
    before: StageState | None,
    known: StageState | None,
) -> dict[int, RunState]:
    """The files in runs: those of the last time, if they are as they were, and one of the new."""
    files = {f"{n}:{name}": stamp for n, one in enumerate(sources) for name, stamp in one.items()}
    kept: dict[int, RunState] = {}
    if before is not None:
        old = {name: stamp for run in before.runs.values() for name, stamp in run.files.items()}
        if all(files.get(name) == stamp for name, stamp in old.items()):
            # The digest is that of the files alone, as it was before the settings went in.
            kept = {n: RunState(_of_files(run.files), run.files) for n, run in before.runs.items()}
            files = {name: stamp for name, stamp in files.items() if name not in old}
    if files:
        # Numbers are not used twice: a table never holds parts of two runs under one.
        number = max(known.runs, default=0) + 1 if known is not None else 1
        kept[number] = RunState(_of_files(files), files)
    return kept


def _of_files(files: Mapping[str, Stamp]) -> str:
    return digest([[name, *stamp] for name, stamp in sorted(files.items())])


_SPOKEN = {
    "mapping": "how notifications are read changed",
    "annotate": "what is annotated changed",
    "options": "options changed",
    "brokers": "the brokers or the planner changed",
}


def _changed(inputs: Inputs, known: StageState | None) -> str:
    """What differs from the last time, in words; empty when nothing does."""
    if known is None:
        return "it has not run yet"
    names = [name for name in inputs if known.inputs.get(name) != inputs[name]]
    names += [name for name in known.inputs if name not in inputs]
    return ", ".join(_SPOKEN.get(name, f"the {name} changed") for name in names)
