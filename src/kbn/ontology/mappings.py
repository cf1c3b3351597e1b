"""Mappings: rows that relate the terms of one vocabulary to those of another.

A `Mapping` is one row of a file: subject, predicate, object, confidence, and where it is written.
`Mappings` are the rows that a reader named together, of one file or several. They are a layer over
an ontology and no part of it: `Ontology.with_mappings` adds it, and the ontology without it is
still there. What a row does for a term A that is published:

    A exactMatch B, A equivalent B, A sameAs B   reaches those who want B, and the other way round
    A broadMatch B, A subClassOf B               reaches those who want B, never the reverse
    A narrowMatch B                              the mirror of broadMatch
    A closeMatch B, A relatedMatch B             nothing, unless the set says `close`, `related`;
                                                 then as exactMatch

A negated row takes away what other rows of its file say of the same two terms. A row below the
`threshold` of its file does nothing; one that states no confidence is sure. Confidences are
compared with the threshold and never multiplied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl

from kbn.errors import InvalidInputError
from kbn.ontology import vocabulary as v

SAME, NARROWER, WIDER, CLOSE, RELATED = "same", "narrower", "wider", "close", "related"
"""How the subject of a row stands to its object."""

PREDICATES = {
    v.SKOS + "exactMatch": SAME,
    v.EQUIVALENT_CLASS: SAME,
    v.EQUIVALENT_PROPERTY: SAME,
    v.SAME_AS: SAME,
    v.SKOS + "broadMatch": NARROWER,
    v.SUB_CLASS_OF: NARROWER,
    v.SUB_PROPERTY_OF: NARROWER,
    v.TYPE: NARROWER,
    v.SKOS + "narrowMatch": WIDER,
    v.SKOS + "closeMatch": CLOSE,
    v.SKOS + "relatedMatch": RELATED,
}
ROWS_MAX = 2_000_000
"""How many rows the files of one reader may have together."""


class Mapping(NamedTuple):
    """One row: the subject is so related to the object, says a line of a file.

    >>> Mapping("urn:a#Car", NARROWER, "urn:b#Vehicle", file="cars.tsv", line=7).place
    'cars.tsv:7'
    """

    subject: str
    relation: str
    object: str
    confidence: float = 1.0
    file: str = ""
    line: int | None = None
    is_negated: bool = False

    @property
    def place(self) -> str:
        """Where it is written."""
        return self.file if self.line is None else f"{self.file}:{self.line}"


class MappingFile(NamedTuple):
    """A file of mappings, and which of its rows count."""

    path: str
    threshold: float = 0.0
    close: bool = False
    related: bool = False


def mapping_file(given: str | PathLike[str] | MappingFile) -> MappingFile:
    """The file that somebody names, with its settings behind a `?`.

    >>> mapping_file("cars.sssom.tsv?threshold=0.8&close")
    MappingFile(path='cars.sssom.tsv', threshold=0.8, close=True, related=False)
    """
    if isinstance(given, MappingFile):
        return given
    path, _, settings = str(given).partition("?")
    found = MappingFile(path)
    for name, value in parse_qsl(settings, keep_blank_values=True):
        if name == "close" and not value:
            found = found._replace(close=True)
        elif name == "related" and not value:
            found = found._replace(related=True)
        elif name == "threshold":
            found = found._replace(threshold=_confidence(value, f"{given}: a threshold"))
        else:
            raise InvalidInputError(
                f"{given}: {name!r} is no setting of a mapping; "
                "they are threshold=0.8, close and related"
            )
    return found


def _confidence(text: str, what: str) -> float:
    try:
        if 0.0 <= (found := float(text)) <= 1.0:
            return found
    except ValueError:
        pass
    raise InvalidInputError(f"{what} is a number from 0 to 1, not {text!r:.40}")


@dataclass(frozen=True)
class Mappings:
    """The rows of some files, in order; `used` are those that do something."""

    rows: tuple[Mapping, ...]
    used: tuple[Mapping, ...]
    notes: tuple[str, ...] = ()
    """What was left out, a sentence each."""

    @classmethod
    def load(
        cls, files: str | PathLike[str] | MappingFile | Iterable[str | PathLike[str] | MappingFile]
    ) -> Mappings:
        """Read files in SSSOM/TSV, the OAEI alignment format, or RDF with SKOS or OWL bridges.

        A name may have settings, as in `cars.sssom.tsv?threshold=0.8&close`. An OntologyError says
        what is wrong with a file, and in which line.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     bridge = Path(folder, "bridge.nt")
        ...     _ = bridge.write_text(
        ...         "<urn:a#Car> <http://www.w3.org/2004/02/skos/core#exactMatch> <urn:b#Auto> .")
        ...     Mappings.load(bridge).used[0][:3]
        ('urn:a#Car', 'same', 'urn:b#Auto')
        """
        from kbn.ontology.mapping_files import read_mapping_file

        # A MappingFile is a tuple, and one file all the same.
        if isinstance(files, (str, PathLike, MappingFile)):
            files = [files]
        listed = [mapping_file(each) for each in files]
        if not listed:
            raise InvalidInputError("no file of mappings was given")
        rows: list[Mapping] = []
        used: list[Mapping] = []
        notes: list[str] = []
        for file in listed:
            found, said = read_mapping_file(Path(file.path), ROWS_MAX - len(rows))
            rows += found
            used += counting(found, file)
            notes += said
        return cls(tuple(rows), tuple(used), tuple(notes))

    @property
    def digest(self) -> str:
        """A hash of what the rows do, hex; where they are written does not matter."""
        lines = sorted({f"{row.subject} {row.relation} {row.object}" for row in self.used})
        return sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def counting(rows: Iterable[Mapping], file: MappingFile) -> list[Mapping]:
    """The rows of one file that do something, as `same` or with the narrower term first.

    >>> rows = [Mapping("urn:a", "wider", "urn:b"), Mapping("urn:a", "close", "urn:c")]
    >>> [row[:3] for row in counting(rows, MappingFile("f"))]
    [('urn:b', 'narrower', 'urn:a')]
    """
    listed = list(rows)
    denied = {_what(_turned(row)) for row in listed if row.is_negated}
    loose = {CLOSE: file.close, RELATED: file.related}
    found = []
    for row in listed:
        if row.is_negated or row.confidence < file.threshold or not loose.get(row.relation, True):
            continue
        if _what(turned := _turned(row)) not in denied:
            same = turned.relation in loose
            found.append(turned._replace(relation=SAME) if same else turned)
    return found


def _turned(row: Mapping) -> Mapping:
    """A row with the narrower term first."""
    if row.relation != WIDER:
        return row
    return row._replace(subject=row.object, relation=NARROWER, object=row.subject)


def _what(row: Mapping) -> tuple[str, frozenset[str] | tuple[str, str]]:
    """What a row says: of `narrower` the order of the terms matters."""
    if row.relation == NARROWER:
        return row.relation, (row.subject, row.object)
    return row.relation, frozenset((row.subject, row.object))
