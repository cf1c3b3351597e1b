"""The YAML file of a pipeline, checked: whatever it says wrong is refused by file and key.

    name: podcast day
    ontology: {files: podcast.ttl, reasoning: rdfs}
    notifications:
      - {path: "feeds/*.xml", format: rss}
      - {path: archive, format: csv, mapping: archive-mapping.yaml}
      - {kafka: {servers: "localhost:9092", topic: posts}, format: json}
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
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from kbn.config import Document, Form, Place, Text, did_you_mean, or_one_of
from kbn.errors import InvalidInputError
from kbn.ontology import Ontology, Reasoning
from kbn.placement import PLANNERS
from kbn.spark.annotate import checked_fields
from kbn.spark.ingest import FORMATS
from kbn.spark.io import (
    FEED_MAPPING,
    QUEUES,
    TABLES,
    TERM_KINDS,
    MappingForm,
    checked_connector,
    column_names,
    mapping_of,
)
from kbn.spark.io import Mapping as RecordMapping
from kbn.spark.pipeline.inputs import TableInput, found_files, table_format
from kbn.spark.row_problems import UnknownTermsChoice

if TYPE_CHECKING:
    Format = str
    TermKind = str
else:
    Format = Literal[FORMATS]
    TermKind = Literal[TERM_KINDS]


QUEUE_FORMATS = ("json", "cloudevents", "rss")


@dataclass(frozen=True)
class Source:
    """Files of records of one format; or a queue, or a table, whose kind is `connector`."""

    key: str
    pattern: str
    format: str
    mapping: RecordMapping | None
    mapping_digest: str
    attributes: frozenset[str] | None = None
    """All that its notifications may have; None where each record has its own."""
    connector: str = ""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def terms(self) -> Mapping[str, str]:
        """The attributes whose texts name terms."""
        if self.mapping is None:
            return FEED_MAPPING.terms if self.format == "rss" else {}
        return self.mapping.terms


@dataclass(frozen=True)
class Delivery:
    """A table of the pipeline that goes to a queue, or to a table of others."""

    table: str
    connector: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


DELIVERABLE = ("notifications", "quarantine", "annotated", "matches", "counts")


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


class Options(Form, frozen=True):
    """What may be left to its default."""

    shards: Annotated[int, Meta(ge=1, description="a whole number from 1 on")] = 1
    by_shard: bool = False
    expand: bool = False
    backfill: bool = True
    unrecognised: Literal["keep", "drop"] = "keep"
    unknown_terms: UnknownTermsChoice = "tell"
    misplaced_above: Annotated[float, Meta(ge=0, description="a number from 0 on")] = 1.5


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
    deliver: tuple[Delivery, ...] = ()

    @property
    def directory(self) -> Path:
        """What paths are relative to."""
        return self.path.parent


# The file, as it is written.


ConnectorForm = dict[str, str | int | bool]


class SourceForm(Form, frozen=True):
    """Files of records, a queue or a table; the mapping is a file, or stands here."""

    path: Text | None = None
    format: Format | None = None
    mapping: Text | MappingForm | None = None
    kafka: ConnectorForm | None = None
    nats: ConnectorForm | None = None
    delta: Text | ConnectorForm | None = None
    iceberg: ConnectorForm | None = None


class DeliverForm(Form, frozen=True):
    """A table of the pipeline, and the queue or table that gets its rows."""

    table: Text
    kafka: ConnectorForm | None = None
    nats: ConnectorForm | None = None
    delta: Text | ConnectorForm | None = None
    iceberg: ConnectorForm | None = None


class TableForm(Form, frozen=True):
    """Files of a table; the format is what their names say, unless it is given."""

    path: Text
    format: Text | None = None


class OntologyForm(Form, frozen=True):
    """Files of an ontology."""

    files: Text | list[Text]
    reasoning: Reasoning = "rdfs"
    skos: bool | None = None


Sources = Annotated[
    list[SourceForm], Meta(min_length=1, description="a list of {path, format, mapping}")
]
Kinds = Annotated[
    dict[str, TermKind | bool | None], Meta(description="attributes, each with a kind of term")
]


class PipelineForm(Form, frozen=True):
    """The whole file."""

    notifications: SourceForm | Sources
    subscriptions: Text | TableForm
    output: Text
    name: Text | None = None
    ontology: Text | list[Text] | OntologyForm | None = None
    annotate: Kinds | None = None
    brokers: Text | list[Text] | None = None
    planner: Text = "taxonomic"
    deliveries: Text | TableForm | None = None
    deliver: list[DeliverForm] | None = None
    options: Options | None = None


def load_config(path: str | Path) -> PipelineConfig:
    """The pipeline a YAML file declares; InvalidInputError names the line and key of a mistake.

    ```python
    config = load_config("pets.yaml")
    print(config.output, [source.format for source in config.sources])
    ```
    """
    return _config(Document.read(path, "the pipeline"), Path(path).absolute())


def checked_config(data: object, where: str, directory: Path) -> PipelineConfig:
    """The pipeline that data declares; `where` is named in errors, paths are from `directory`.

    ```python
    declared = {"notifications": {"path": "posts.jsonl", "format": "json"},
                "subscriptions": "wants.txt", "output": "out"}
    config = checked_config(declared, "my program", Path.cwd())
    ```
    """
    return _config(Document.of(data, where), directory.absolute() / "-")


def _config(document: Document, path: Path) -> PipelineConfig:
    root, directory = document.root, path.parent
    form = root.convert(PipelineForm)
    options = form.options or Options()
    if not (options.backfill or options.expand):
        raise (
            root.at("options")
            .at("backfill")
            .error(
                "false goes with `expand: true`: matches counted by filter are counted as a whole"
            )
        )
    sources = _sources(form.notifications, root.at("notifications"), directory)
    deliveries = form.deliveries
    return PipelineConfig(
        path=path,
        name=form.name or path.stem,
        ontology=_ontology(form.ontology, root.at("ontology"), directory),
        sources=sources,
        subscriptions=_table(form.subscriptions, root.at("subscriptions"), directory),
        annotate=_annotate(form.annotate, root.at("annotate"), sources),
        brokers=_brokers(form.brokers, root.at("brokers")),
        planner=_planner(form.planner, root.at("planner")),
        deliveries=None
        if deliveries is None
        else _table(deliveries, root.at("deliveries"), directory),
        output=_output(form.output, root.at("output"), directory),
        options=options,
        deliver=tuple(
            _delivery(one, root.at("deliver").at(number), directory, options)
            for number, one in enumerate(form.deliver or ())
        ),
    )


def _ontology(
    form: str | list[str] | OntologyForm | None, place: Place, directory: Path
) -> OntologyFiles:
    if form is None:
        return OntologyFiles(())
    if not isinstance(form, OntologyForm):
        return OntologyFiles(_files(form, place, directory))
    files = _files(form.files, place.at("files"), directory)
    return OntologyFiles(files, form.reasoning, form.skos)


def _files(form: str | list[str], place: Place, directory: Path) -> tuple[Path, ...]:
    if isinstance(form, str):
        return (_file(form, place, directory),)
    return tuple(_file(each, place.at(number), directory) for number, each in enumerate(form))


def _file(name: str, place: Place, directory: Path) -> Path:
    path = directory / name
    if not path.is_file():
        raise place.error(f"there is no file {str(path)!r}")
    return path


def _sources(
    form: SourceForm | list[SourceForm], place: Place, directory: Path
) -> tuple[Source, ...]:
    several = [form] if isinstance(form, SourceForm) else form
    places = [place] if isinstance(form, SourceForm) else [place.at(n) for n in range(len(form))]
    return tuple(
        _source(f"notifications[{number}]", one, there, directory)
        for number, (one, there) in enumerate(zip(several, places, strict=True))
    )


def _connectors(form: SourceForm | DeliverForm) -> dict[str, str | ConnectorForm]:
    """The queues and tables that are named, by kind."""
    given = {kind: getattr(form, kind) for kind in (*QUEUES, *TABLES)}
    return {kind: options for kind, options in given.items() if options is not None}


def _delivery(form: DeliverForm, place: Place, directory: Path, options: Options) -> Delivery:
    given = _connectors(form)
    if len(given) != 1:
        raise place.error(f"expected one of {', '.join((*QUEUES, *TABLES))}")
    if form.table not in DELIVERABLE:
        known = or_one_of(form.table, DELIVERABLE)
        raise place.at("table").error(f"{form.table!r:.60} is unknown{known}")
    if form.table == ("counts" if options.expand else "matches"):
        needed = "without" if options.expand else "with"
        raise place.at("table").error(f"there is such a table only {needed} `expand: true`")
    ((kind, about),) = given.items()
    return Delivery(form.table, kind, _connector(kind, about, place.at(kind), directory))


def _source(key: str, form: SourceForm, place: Place, directory: Path) -> Source:
    given = _connectors(form)
    kinds = list(given)
    if len(kinds) + (form.path is not None) != 1:
        raise place.error(f"expected one of path, {', '.join((*QUEUES, *TABLES))}")
    if form.format is None and kinds not in (["delta"], ["iceberg"]):
        raise place.at("format").error("is missing")
    mapping, digest = _mapping(form.mapping, place.at("mapping"), directory)
    if form.path is not None:
        files = _found(form.path, place.at("path"), directory)
        columns = _columns(form.format or "", mapping, files, place.at("mapping"))
        attributes = _attributes(form.format or "", mapping, columns)
        return Source(key, form.path, form.format or "", mapping, digest, attributes)
    (kind,) = kinds
    options = _connector(kind, given[kind], place.at(kind), directory)
    if kind in TABLES and form.format is not None:
        raise place.at("format").error("a table has none; leave it out")
    if kind in QUEUES and form.format not in QUEUE_FORMATS:
        raise place.at("format").error(f"messages are {' or '.join(QUEUE_FORMATS)}")
    named = [options.get(name, "") for name in ("path", "table", "topic", "stream", "subject")]
    format = form.format or "rows"
    attributes = _attributes(format, mapping, None)
    return Source(
        key, f"{kind} {' '.join(named)}", format, mapping, digest, attributes, kind, options
    )


def _connector(
    kind: str, form: str | ConnectorForm, place: Place, directory: Path
) -> dict[str, str]:
    """The options of a queue or table; paths are from the file."""
    form = {"path": form} if isinstance(form, str) else form
    texts = {n: str(v).lower() if isinstance(v, bool) else str(v) for n, v in form.items()}
    for name in ("path", "secrets"):
        if name in texts and "://" not in texts[name]:
            texts[name] = str(directory / texts[name])
    try:
        return checked_connector(kind, texts)
    except InvalidInputError as error:
        raise place.error(str(error)) from None


def _columns(
    format: str, mapping: RecordMapping | None, files: Iterable[Path], place: Place
) -> tuple[str, ...] | None:
    """The columns of the first file that has what the mapping reads; refused when none has.

    A file that lacks a column beside others that have it is a file gone wrong: its rows go to the
    quarantine, and the others are read.
    """
    seen: tuple[str, ...] | None = None
    for file in files:
        names = column_names(file, format, mapping)
        if names is None:
            continue
        missing = [one for one in _needed(mapping) if not {one, one.partition(".")[0]} & {*names}]
        if not missing:
            return names
        seen, lacking, where = names, missing[0], file
    if seen is not None:
        raise place.error(
            f"it reads the column {lacking!r}, and no file has it{did_you_mean(lacking, seen)}; "
            f"{where} has {', '.join(seen)}"
        )
    return None


def _needed(mapping: RecordMapping | None) -> tuple[str, ...]:
    return () if mapping is None else mapping.fields


def _attributes(
    format: str, mapping: RecordMapping | None, columns: tuple[str, ...] | None
) -> frozenset[str] | None:
    if format == "rss" and mapping is None:
        mapping = FEED_MAPPING
    if mapping is not None and mapping.attributes is not None:
        return frozenset(mapping.attributes)
    # kbn's own table has attributes of its own; fields of structs are named outer.inner.
    if format == "csv" and columns is not None:
        return frozenset(columns)
    return None


def _mapping(
    form: str | MappingForm | None, place: Place, directory: Path
) -> tuple[RecordMapping | None, str]:
    if form is None:
        return None, ""
    if isinstance(form, MappingForm):
        return mapping_of(form, place), _digest(repr(place.data(MappingForm)))
    path = _file(form, place, directory)
    return RecordMapping.load(path), _digest(path.read_text(encoding="utf-8-sig"))


def _table(form: str | TableForm, place: Place, directory: Path) -> TableInput:
    key = str(place.path[0])
    if isinstance(form, str):
        files = _found(form, place, directory)
        form = TableForm(path=form)
    else:
        files = _found(form.path, place.at("path"), directory)
    try:
        made = TableInput(key, form.path, table_format(key, files[0], form.format))
        made.check_columns(files)
    except InvalidInputError as error:
        raise place.error(str(error)) from None
    return made


def _found(pattern: str, place: Place, directory: Path) -> tuple[Path, ...]:
    files = found_files(directory, pattern)
    if not files:
        raise place.error(f"no file is called, or fits, {pattern!r}")
    return files


def _annotate(
    form: Mapping[str, str | bool | None] | None, place: Place, sources: Iterable[Source]
) -> dict[str, str]:
    found = {name: kind for one in sources for name, kind in one.terms.items()}
    for name, kind in (form or {}).items():
        if isinstance(kind, str):
            found[name] = kind
            _check_attribute(name, place.at(name), sources)
        elif kind is True:
            raise place.at(name).error(f"expected {', '.join(TERM_KINDS)} or false, not true")
        else:
            found.pop(name, None)  # what a mapping says is a term is to stay text
    return checked_fields(found)


def _check_attribute(name: str, place: Place, sources: Iterable[Source]) -> None:
    """Refuse to annotate what no notification can have, as far as that is known before."""
    known: set[str] = set()
    for one in sources:
        if one.attributes is None:
            return
        known |= one.attributes
    if name not in known:
        raise place.error(
            f"no notification has an attribute of that name{did_you_mean(name, known)}; there are "
            f"{', '.join(sorted(known))}"
        )


def _brokers(form: str | list[str] | None, place: Place) -> tuple[str, ...]:
    names = (form,) if isinstance(form, str) else tuple(form or ())
    if len(set(names)) < len(names):
        raise place.error("a name occurs twice; remove one")
    return names


def _planner(form: str, place: Place) -> str:
    if form not in PLANNERS:
        raise place.error(f"{form!r:.60} is unknown{or_one_of(form, PLANNERS)}")
    return form


def _output(form: str, place: Place, directory: Path) -> Path:
    path = directory / form
    if path.exists() and not path.is_dir():
        raise place.error(f"{path} is a file, and should be a folder")
    existing = next(one for one in (path, *path.parents) if one.exists())
    if not os.access(existing, os.W_OK):
        raise place.error(f"{existing} cannot be written to")
    return path


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
