"""Which stages have to run, and why: decided from digests before anything is done.

A stage is known by its *inputs*: digests of all it reads (its part of the configuration, files by
name, size and time of writing, the stages before it). A stage whose inputs are those of its last
run is skipped. The stages that read notifications (ingest, annotate, match) work in *runs*: new
files are a run with a number of its own, and become a partition of every table that follows from
them. Each run has a digest; only runs with a new digest are done.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Literal

from kbn.ontology import Ontology
from kbn.spark.io import QUEUES, arrived
from kbn.spark.pipeline.config import PipelineConfig
from kbn.spark.pipeline.inputs import Stamp, files_digest_parts, found_files, stamps
from kbn.spark.pipeline.state import RunState, StageState
from kbn.wording import counted

STAGES = ("ingest", "annotate", "compile", "match", "deliver", "medoids", "plan", "hops", "report")

Action = Literal["run", "append", "backfill", "skip"]
Inputs = dict[str, str]


@dataclass(frozen=True)
class Decision:
    """What a run does about one stage: run it, append to its tables, or skip it.

    To backfill is to match late subscriptions against the notifications that earlier runs kept.
    """

    stage: str
    action: Action
    why: str
    inputs: Inputs = field(repr=False)
    runs: Mapping[int, RunState] = field(default_factory=dict, repr=False)
    todo: tuple[int, ...] = ()
    """The runs that have to be done, for stages that have runs."""
    late: tuple[int, ...] = ()
    """The runs that were done, and lack nothing but what subscriptions changed since."""


@dataclass(frozen=True)
class Past:
    """What the last runs left: the stages whose tables are all there."""

    stages: Mapping[str, StageState] = field(default_factory=dict)
    removed: Collection[str] = ()
    """Stages that ran, and whose tables are not there any more."""
    again: str = ""
    """Why every stage is done again, if it is."""

    def why_first(self, stage: str) -> str:
        """Why a stage runs that is not among `stages`."""
        if self.again:
            return self.again
        return "its tables were removed" if stage in self.removed else "it has not run yet"


@dataclass(frozen=True)
class Found:
    """What is there to read: per source its files, and the files of the tables.

    The files of a queue are its places, and their stamps the offsets from where to where it keeps
    messages.
    """

    sources: tuple[dict[str, Stamp], ...]
    subscriptions: dict[str, Stamp]
    deliveries: dict[str, Stamp]
    queues: frozenset[int] = frozenset()
    """Which of the sources are queues."""

    @classmethod
    def of(cls, config: PipelineConfig) -> Found:
        """Look at the files."""

        def look(pattern: str) -> dict[str, Stamp]:
            return stamps(config.directory, found_files(config.directory, pattern))

        log = config.deliveries
        return cls(
            tuple(
                arrived(source.connector, source.options)
                if source.connector
                else look(source.pattern)
                for source in config.sources
            ),
            look(config.subscriptions.pattern),
            {} if log is None else look(log.pattern),
            frozenset(n for n, one in enumerate(config.sources) if one.connector in QUEUES),
        )


def digest(*parts: Any) -> str:
    """A short hash of data that JSON can hold."""
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:20]


def decide(config: PipelineConfig, ontology: Ontology, found: Found, past: Past) -> list[Decision]:
    """A decision for each stage, in order."""
    deciding = _Deciding(past)
    _decide_matches(deciding, config, ontology, found)
    _decide_places(deciding, config, found)
    deciding.whole("report", **{n: deciding.result_of(n) for n in deciding.made}, name=config.name)
    return [deciding.made[stage] for stage in STAGES if stage in deciding.made]


def _decide_matches(
    deciding: _Deciding, config: PipelineConfig, ontology: Ontology, found: Found
) -> None:
    """Who gets what: ingest, annotate, compile, match."""
    options = config.options
    meaning = {
        "ontology": ontology.digest,
        "reasoning": [config.ontology.reasoning, config.ontology.skos],
    }
    deciding.by_run(
        "ingest",
        _arrived(found, deciding.past.stages.get("ingest")),
        mapping=[[one.pattern, one.format, one.mapping_digest] for one in config.sources],
    )
    deciding.by_run(
        "annotate",
        deciding.made["ingest"].runs,
        **meaning,
        fields=[config.annotate, options.unrecognised],
    )
    deciding.whole(
        "compile",
        **meaning,
        subscriptions=[config.subscriptions.format, files_digest_parts(found.subscriptions)],
        shards=options.shards,
    )
    compiled, _ = deciding.result_of("compile")
    deciding.by_run(
        "match",
        deciding.made["annotate"].runs,
        compile={name: of for name, of in compiled.items() if name != "subscriptions"},
        subscriptions=compiled["subscriptions"],
        options=[
            *(options.expand, options.by_shard, options.unknown_terms),
            *([] if options.backfill else ["as it was"]),
        ],
    )
    if options.expand:
        deciding.late_subscriptions()
    if config.deliver:
        deciding.by_run(
            "deliver",
            deciding.made["match"].runs,
            deliveries=[[one.table, one.connector, dict(one.options)] for one in config.deliver],
        )


def _decide_places(deciding: _Deciding, config: PipelineConfig, found: Found) -> None:
    """Who belongs where: medoids, plan, hops."""
    deciding.whole(
        "medoids", compile=deciding.result_of("compile"), annotate=deciding.result_of("annotate")
    )
    if config.brokers:
        deciding.whole(
            "plan",
            medoids=deciding.result_of("medoids"),
            brokers=[config.brokers, config.planner],
        )
    if config.deliveries is not None:
        log = [config.deliveries.format, files_digest_parts(found.deliveries)]
        deciding.whole("hops", deliveries=log, options=config.options.misplaced_above)


class _Deciding:
    """The decisions made so far, against the past."""

    def __init__(self, past: Past) -> None:
        self.past = past
        self.made: dict[str, Decision] = {}

    def result_of(self, stage: str) -> list[Any]:
        """What stands for the tables of a stage in the inputs of a later one."""
        decision = self.made[stage]
        return [decision.inputs, [run.digest for run in decision.runs.values()]]

    def whole(self, stage: str, **given: Any) -> None:
        """Decide about a stage that makes its tables as a whole."""
        inputs = {name: digest(value) for name, value in given.items()}
        changed = self._changed(stage, inputs)
        action: Action = "run" if changed else "skip"
        self.made[stage] = Decision(stage, action, changed or "nothing changed", inputs)

    def by_run(self, stage: str, upstream: Mapping[int, RunState], **given: Any) -> None:
        """Decide which of the runs of the stage before have to be done here."""
        inputs = {name: digest(value) for name, value in given.items()}
        own = digest(stage, inputs)
        runs = {
            n: RunState(digest(own, run.digest), run.files if stage == "ingest" else {})
            for n, run in upstream.items()
        }
        known = self.past.stages.get(stage)
        have = {} if known is None else {n: run.digest for n, run in known.runs.items()}
        todo = tuple(n for n, run in runs.items() if have.get(n) != run.digest)
        is_complete = not have.keys() - runs.keys()
        action: Action
        if not todo and is_complete:
            action, why = "skip", "nothing changed"
        elif len(todo) < len(runs) and is_complete:
            action, why = "append", _new_files(sum(len(upstream[n].files) for n in todo))
        else:
            action, why = "run", self._changed(stage, inputs) or _OTHER_FILES[stage == "ingest"]
        self.made[stage] = Decision(stage, action, why, inputs, runs, todo)

    def late_subscriptions(self) -> None:
        """Let matches stay as they are, where nothing but subscriptions changed."""
        decided, known = self.made["match"], self.past.stages.get("match")
        if known is None or [
            name for name in decided.inputs if known.inputs.get(name) != decided.inputs[name]
        ] != ["subscriptions"]:
            return
        before, upstream = digest("match", known.inputs), self.made["annotate"].runs
        late = tuple(
            run
            for run in decided.todo
            if run in known.runs and known.runs[run].digest == digest(before, upstream[run].digest)
        )
        if late and known.runs.keys() <= decided.runs.keys():
            todo = tuple(run for run in decided.todo if run not in late)
            self.made["match"] = replace(decided, action="backfill", todo=todo, late=late)

    def _changed(self, stage: str, inputs: Inputs) -> str:
        """What differs from the last time, in words; empty when nothing does."""
        known = self.past.stages.get(stage)
        if known is None:
            return self.past.why_first(stage)
        names = [*inputs, *(name for name in known.inputs if name not in inputs)]
        return _spoken([name for name in names if known.inputs.get(name) != inputs.get(name)])


def _arrived(found: Found, before: StageState | None) -> dict[int, RunState]:
    """The files in runs: those of the last time, if they have not changed, and one of the new."""
    files: dict[str, Stamp] = {}
    held: dict[str, Stamp] = {}
    for number, one in enumerate(found.sources):
        named = {f"{number}:{name}": stamp for name, stamp in one.items()}
        (held if number in found.queues else files).update(named)
    kept: dict[int, RunState] = {}
    read: dict[str, int] = {}
    if before is not None:
        runs = sorted(before.runs.items())
        old = {name: stamp for _, run in runs for name, stamp in run.files.items()}
        # Of a queue nothing is looked at again that was read; but it must be the same queue.
        read = {name: end for name, (_, end) in old.items() if name in held}
        is_same = all(held[name][1] >= end for name, end in read.items())
        if is_same and all(files.get(n) == stamp for n, stamp in old.items() if n not in read):
            # The digest is that of the files alone, as it was before the settings went in.
            kept = {n: RunState(_of_files(run.files), run.files) for n, run in before.runs.items()}
            files = {name: stamp for name, stamp in files.items() if name not in old}
        else:
            read = {}
    files |= {
        name: (max(first, read.get(name, first)), end)
        for name, (first, end) in held.items()
        if end > read.get(name, first)
    }
    if files:
        # Numbers are not used twice: a table never holds parts of two runs under one.
        number = max(before.runs, default=0) + 1 if before is not None else 1
        kept[number] = RunState(_of_files(files), files)
    return kept


def _of_files(files: Mapping[str, Stamp]) -> str:
    return digest([[name, *stamp] for name, stamp in sorted(files.items())])


_SPOKEN = {
    "mapping": "how notifications are read changed",
    "fields": "what is annotated changed",
    "options": "options changed",
    "brokers": "the brokers or the planner changed",
    "shards": "the number of shards changed",
}
_OTHER_FILES = {True: "files changed or were removed", False: "the notifications changed"}


def _new_files(count: int) -> str:
    if not count:
        return "new notifications"
    return counted(count, "new file")


def _spoken(names: Collection[str]) -> str:
    """The changed inputs in words.

    >>> _spoken(["ontology", "reasoning"]), _spoken(["compile", "annotate", "options"])
    ('the reasoning changed', 'new results of compile and annotate, options changed')
    """
    results = [name for name in names if name in STAGES]
    said = [f"new results of {_listed(results)}"] if results else []
    for name in names:
        # The digest of an ontology covers the level it was reasoned at.
        is_implied = name == "ontology" and "reasoning" in names
        if name not in STAGES and not is_implied:
            said.append(_SPOKEN.get(name, f"the {name} changed"))
    return ", ".join(said)


def _listed(names: Collection[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
