"""The YAML file of a pipeline, checked: whatever it says wrong is refused by file and key.

    name: podcast day
    ontology: {files: podcast.ttl, reasoning: rdfs}
    notifications:
      - {path: "feeds/*.xml", format: rss}
      - {path: archive, format: csv, mapping: archive-mapping.yaml}
    subscriptions: {path: subscriptions.parquet}
    annotate: {category: class}                # beside what the mappings say
    brokers: [dublin, cork, galway]            # the top of the hierarchy first
    deliveries: {path: deliveries.parquet}     # a delivery log, for hops
    output: out
    options: {shards: 1, expand: false}

Paths are relative to the file. All that can be checked without Spark is checked when it is loaded:
keys, values, that the files are there and have the columns they need, that the mappings hold.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn, cast

from kbn.errors import InvalidInputError
from kbn.ontology import LEVELS, Ontology, Reasoning
from kbn.placement import PLANNERS
from kbn.spark.annotate import checked_fields
from kbn.spark.ingest import FORMATS
from kbn.spark.io import FEED_MAPPING, TERM_KINDS, suggestion
from kbn.spark.io import Mapping as RecordMapping
from kbn.spark.pipeline.inputs import TableInput, found_files, table_format
from kbn.spark.yaml_file import read_yaml

KEYS = (
    *("name", "ontology", "notifications", "subscriptions", "annotate", "brokers", "planner"),
    *("deliveries", "output", "options"),
)
UNRECOGNISED = ("keep", "drop")


@dataclass(frozen=True)
class Source:
    """Files of records of one format."""

    key: str
    pattern: str
    format: str
    mapping: RecordMapping | None
    mapping_digest: str

    @property
    def terms(self) -> Mapping[str, str]:
        """The attributes whose texts name terms."""
        if self.mapping is None:
            return FEED_MAPPING.terms if self.format == "rss" else {}
        return self.mapping.terms


@dataclass(frozen=True)
class OntologyFiles:
    """Which ontology, and how it is read."""

    files: tuple[Path, ...]
    reasoning: Reasoning = "rdfs"
    skos: bool | None = None

    def load(self) -> Ontology:
        """The compiled ontology; from the cache when it was loaded before."""
        if not self.files:
            return Ontology.empty()
        return Ontology.load(list(self.files), reasoning=self.reasoning, skos=self.skos)


@dataclass(frozen=True)
class Options:
    """What may be left to its default."""

    shards: int = 1
    by_shard: bool = False
    expand: bool = False
    unrecognised: str = "keep"
    misplaced_above: float = 1.5


@dataclass(frozen=True)
class PipelineConfig:
    """A pipeline as its YAML file declares it."""

    path: Path
    name: str
    ontology: OntologyFiles
    sources: tuple[Source, ...]
    subscriptions: TableInput
    annotate: Mapping[str, str]
    brokers: tuple[str, ...]
    planner: str
    deliveries: TableInput | None
    output: Path
    options: Options = field(default_factory=Options)

    @property
    def directory(self) -> Path:
        """What paths are relative to."""
        return self.path.parent


def load_config(path: str | Path) -> PipelineConfig:
    """The pipeline a YAML file declares; InvalidInputError names the key that is wrong."""
    place = Path(path).absolute()
    return _Reading(Path(path), place.parent).config(place, read_yaml(Path(path), "pipeline"))


def checked_config(data: object, where: str, directory: Path) -> PipelineConfig:
    """The pipeline that data declares; `where` is named in errors, paths are from `directory`."""
    return _Reading(Path(where), directory.absolute()).config(directory.absolute() / "-", data)


class _Reading:
    """Reads one file; knows its name, for the errors."""

    def __init__(self, where: Path, directory: Path) -> None:
        self.where = where
        self.directory = directory

    def config(self, path: Path, data: object) -> PipelineConfig:
        given = self._object("", data, KEYS)
        for key in ("notifications", "subscriptions", "output"):
            if given.get(key) is None:
                self._fail(key, "is missing, and a pipeline needs it")
        sources = self._sources(given["notifications"])
        return PipelineConfig(
            path=path,
            name=self._text("name", given.get("name", path.stem)),
            ontology=self._ontology(given.get("ontology")),
            sources=sources,
            subscriptions=self._table("subscriptions", given["subscriptions"]),
            annotate=self._annotate(given.get("annotate"), sources),
            brokers=self._brokers(given.get("brokers")),
            planner=self._choice("planner", given.get("planner", "taxonomic"), tuple(PLANNERS)),
            deliveries=None
            if given.get("deliveries") is None
            else self._table("deliveries", given["deliveries"]),
            output=self._output(given["output"]),
            options=self._options(given.get("options")),
        )

    def _ontology(self, data: object) -> OntologyFiles:
        if data is None:
            return OntologyFiles(())
        if isinstance(data, (str, list)):
            data = {"files": data}
        given = self._object("ontology", data, ("files", "reasoning", "skos"))
        files = self._texts("ontology.files", given.get("files"))
        level = self._choice("ontology.reasoning", given.get("reasoning", "rdfs"), LEVELS)
        paths = tuple(self._file("ontology.files", one) for one in files)
        skos = self._flag("ontology.skos", given.get("skos"))
        return OntologyFiles(paths, cast(Reasoning, level), skos)

    def _sources(self, data: object) -> tuple[Source, ...]:
        several = data if isinstance(data, list) else [data]
        if not several:
            self._fail("notifications", "a list of {path, format, mapping}, and there is none")
        return tuple(self._source(f"notifications[{n}]", one) for n, one in enumerate(several))

    def _source(self, key: str, data: object) -> Source:
        given = self._object(key, data, ("path", "format", "mapping"))
        pattern = self._text(f"{key}.path", given.get("path"))
        format = self._choice(f"{key}.format", given.get("format"), FORMATS)
        if not found_files(self.directory, pattern):
            self._fail(f"{key}.path", f"no file is called, or fits, {pattern!r}")
        mapping, digest = self._mapping(f"{key}.mapping", given.get("mapping"))
        return Source(key, pattern, format, mapping, digest)

    def _mapping(self, key: str, data: object) -> tuple[RecordMapping | None, str]:
        """A mapping is a file's name, or stands here."""
        if data is None:
            return None, ""
        if isinstance(data, dict):
            return RecordMapping.of(data, f"{self.where}: {key}"), _digest(repr(data))
        path = self._file(key, self._text(key, data))
        return RecordMapping.load(path), _digest(path.read_text(encoding="utf-8-sig"))

    def _table(self, key: str, data: object) -> TableInput:
        if isinstance(data, str):
            data = {"path": data}
        given = self._object(key, data, ("path", "format"))
        pattern = self._text(f"{key}.path", given.get("path"))
        files = found_files(self.directory, pattern)
        if not files:
            self._fail(f"{key}.path", f"no file is called, or fits, {pattern!r}")
        try:
            format = table_format(key, files[0], given.get("format"))
            made = TableInput(key, pattern, format)
            made.check_columns(files)
        except InvalidInputError as error:
            self._fail(key, str(error))
        return made

    def _annotate(self, data: object, sources: Iterable[Source]) -> dict[str, str]:
        found = {name: kind for one in sources for name, kind in one.terms.items()}
        if data is None:
            return found
        if not isinstance(data, dict):
            self._fail("annotate", f"an attribute and a kind each, not {data!r:.60}")
        for name, kind in data.items():
            if kind is None or kind is False:
                found.pop(name, None)  # what a mapping says is a term is to stay text
                continue
            self._choice(f"annotate.{name}", kind, TERM_KINDS)
            found[str(name)] = kind
        return checked_fields(found)

    def _brokers(self, data: object) -> tuple[str, ...]:
        names = self._texts("brokers", data) if data is not None else ()
        if len(set(names)) < len(names):
            self._fail("brokers", "a name stands twice")
        return names

    def _output(self, data: object) -> Path:
        path = self.directory / self._text("output", data)
        if path.exists() and not path.is_dir():
            self._fail("output", f"{path} is a file, and should be a folder")
        existing = next(one for one in (path, *path.parents) if one.exists())
        if not os.access(existing, os.W_OK):
            self._fail("output", f"{existing} cannot be written to")
        return path

    def _options(self, data: object) -> Options:
        known = tuple(Options.__dataclass_fields__)
        given = {} if data is None else self._object("options", data, known)
        made: dict[str, Any] = {}
        for name, value in given.items():
            key = f"options.{name}"
            if name in ("expand", "by_shard"):
                made[name] = bool(self._flag(key, value))
            elif name == "shards":
                made[name] = self._count(key, value)
            elif name == "unrecognised":
                made[name] = self._choice(key, value, UNRECOGNISED)
            else:
                made[name] = self._number(key, value)
        return Options(**made)

    # Values.

    def _object(self, key: str, data: object, known: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(data, dict):
            self._fail(key, f"expected {', '.join(known)}, not {data!r:.60}")
        for name in data:
            if name not in known:
                inner = f"{key}.{name}" if key else str(name)
                guess = suggestion(str(name), known)
                self._fail(inner, f"unknown key; there are {', '.join(known)}{guess}")
        return data

    def _file(self, key: str, name: str) -> Path:
        path = self.directory / name
        if not path.is_file():
            self._fail(key, f"there is no file {str(path)!r}")
        return path

    def _text(self, key: str, data: object) -> str:
        if data is None:
            self._fail(key, "is missing")
        if not isinstance(data, str) or not data:
            self._fail(key, f"expected a text, not {data!r:.60}")
        return data

    def _texts(self, key: str, data: object) -> tuple[str, ...]:
        several = data if isinstance(data, list) else [data]
        return tuple(self._text(key, one) for one in several)

    def _choice(self, key: str, data: object, known: tuple[str, ...]) -> str:
        if data is None:
            self._fail(key, f"is missing; there are {', '.join(known)}")
        if data not in known:
            guess = suggestion(str(data), known)
            self._fail(key, f"{data!r:.60} is unknown; there are {', '.join(known)}{guess}")
        return str(data)

    def _flag(self, key: str, data: object) -> bool | None:
        if data is not None and not isinstance(data, bool):
            self._fail(key, f"true or false, not {data!r:.60}")
        return data

    def _count(self, key: str, data: object) -> int:
        if not isinstance(data, int) or isinstance(data, bool) or data < 1:
            self._fail(key, f"a number from 1 on, not {data!r:.60}")
        return data

    def _number(self, key: str, data: object) -> float:
        if not isinstance(data, (int, float)) or isinstance(data, bool) or not data >= 0:
            self._fail(key, f"a number from 0 on, not {data!r:.60}")
        return float(data)

    def _fail(self, key: str, reason: str) -> NoReturn:
        place = f"{self.where}: {key}: " if key else f"{self.where}: "
        raise InvalidInputError(place + reason)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
