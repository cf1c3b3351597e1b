"""Files of mappings: SSSOM/TSV, OAEI alignments, and RDF with SKOS or OWL bridges.

Every row keeps the line it is written in. In RDF that is the line where the row ends; a format
that is translated before it is parsed (JSON-LD, OWL functional syntax) has no lines to tell.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kbn.errors import InvalidInputError, LimitError, OntologyError
from kbn.ontology.documents import Document, decoded, read_document
from kbn.ontology.mappings import NARROWER, PREDICATES, SAME, WIDER, Mapping
from kbn.ontology.prefixes import expand_curie
from kbn.ontology.triples import Literal
from kbn.ontology.vocabulary import WELL_KNOWN_PREFIXES

Found = tuple[list[Mapping], list[str]]

SSSOM_PREFIXES = {
    **WELL_KNOWN_PREFIXES,
    "semapv": "https://w3id.org/semapv/vocab/",
    "sssom": "https://w3id.org/sssom/",
}
NO_TERM = SSSOM_PREFIXES["sssom"] + "NoTermFound"
COLUMNS = ("subject_id", "predicate_id", "object_id")
OAEI = "http://knowledgeweb.semanticweb.org/heterogeneity/alignment"
RELATIONS = {
    "=": SAME,
    "equivalence": SAME,
    "<": NARROWER,
    "<=": NARROWER,
    "subsumed": NARROWER,
    "instanceof": NARROWER,
    ">": WIDER,
    ">=": WIDER,
    "subsumes": WIDER,
    "hasinstance": WIDER,
}


def read_mapping_file(path: Path, rows_max: int) -> Found:
    """The rows of a file, and what of it is no mapping, a sentence each.

    An OntologyError when it cannot be read, or has no row at all.
    """
    name = str(path)
    try:
        content = read_document(path).content
    except OntologyError as error:
        # A table has no ending that tells, so it is no known format of an ontology.
        if "format is not recognised" not in str(error):
            raise
        content = path.read_bytes()
    rows, notes = _read(name, content)
    if not rows:
        raise OntologyError("has no mapping", path=name, explanation=tuple(notes))
    if len(rows) > rows_max:
        raise LimitError(
            f"{name}: there are more than {rows_max:,} rows of mappings left to read",
            limit="ROWS_MAX",
            maximum=rows_max,
        )
    return rows, notes


def _read(name: str, content: bytes) -> Found:
    if _is_table(content):
        return _read_sssom(name, content)
    document = Document(name, content)
    if b"heterogeneity/alignment" in content:
        return _read_alignment(document)
    return _read_bridges(document)


def _is_table(content: bytes) -> bool:
    for line in decoded(content[:1_048_576]).splitlines():
        if line.strip() and not line.startswith("#"):
            return "\t" in line and COLUMNS[0] in line.split("\t")
    return False


# SSSOM/TSV.


def _read_sssom(name: str, content: bytes) -> Found:
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise OntologyError(f"is not UTF-8: {error.reason}", path=name) from None
    head = next(n for n, line in enumerate(lines) if line.strip() and not line.startswith("#"))
    prefixes = _prefixes(name, lines[:head])
    columns = lines[head].split("\t")
    missing = [each for each in COLUMNS if each not in columns]
    if missing:
        raise OntologyError(f"has no column {', '.join(missing)}", path=name, line=head + 1)
    rows: list[Mapping] = []
    unused: Counter[str] = Counter()
    for number, cells in _table(name, lines, head + 1):
        if len(cells) > len(columns):
            raise OntologyError(
                f"has {len(cells)} cells, and there are {len(columns)} columns",
                path=name,
                line=number,
            )
        row = _sssom_row(name, number, dict(zip(columns, cells, strict=False)), prefixes, unused)
        if row is not None:
            rows.append(row)
    return rows, _said_of(name, unused)


def _table(name: str, lines: list[str], start: int) -> Iterator[tuple[int, list[str]]]:
    # A quoted cell with a line break is read as two rows, the first of them too short to be one.
    for number, line in enumerate(lines[start:], start + 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            yield number, next(csv.reader([line], delimiter="\t"))
        except csv.Error as error:
            raise OntologyError(f"is no row of a table: {error}", path=name, line=number) from None


def _sssom_row(
    name: str, number: int, cells: dict[str, str], prefixes: dict[str, str], unused: Counter[str]
) -> Mapping | None:
    terms = []
    for column in COLUMNS:
        text = cells.get(column, "").strip()
        if not text:
            raise OntologyError(f"has no {column}", path=name, line=number)
        try:
            terms.append(expand_curie(text, prefixes))
        except InvalidInputError as error:
            raise OntologyError(f"{column}: {error}", path=name, line=number) from None
    subject, predicate, node = terms
    if NO_TERM in (subject, node):
        return None
    relation = PREDICATES.get(predicate)
    if relation is None:
        unused[cells["predicate_id"]] += 1
        return None
    modifier = cells.get("predicate_modifier", "").strip()
    if modifier not in ("", "Not"):
        raise OntologyError(
            f"predicate_modifier is Not or nothing, not {modifier!r:.40}", path=name, line=number
        )
    sure = _measured(cells.get("confidence", ""), "confidence", name, number)
    return Mapping(subject, relation, node, sure, name, number, bool(modifier))


def _prefixes(name: str, comments: list[str]) -> dict[str, str]:
    """The prefixes that the head of a table declares: YAML behind `#`."""
    import yaml

    text = "\n".join(line[1:] for line in comments if line.startswith("#"))
    try:
        head = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        raise OntologyError("the head is not well-formed YAML", path=name, line=line) from None
    declared = head.get("curie_map") if isinstance(head, dict) else None
    if declared is None:
        return SSSOM_PREFIXES
    if not isinstance(declared, dict):
        raise OntologyError("curie_map is a table of prefixes", path=name)
    return {**SSSOM_PREFIXES, **{str(prefix): str(iri) for prefix, iri in declared.items()}}


# RDF.


def _read_alignment(document: Document) -> Found:
    """The cells of an alignment; each is written in the line where its last part ends."""
    cells: dict[str, dict[str, str]] = {}
    lines: dict[str, int | None] = {}
    for (subject, predicate, node), line in document.located_triples():
        if predicate.startswith(OAEI):
            part = predicate[len(OAEI) :].lstrip("#")
            if part in ("entity1", "entity2", "relation", "measure"):
                text = node.value if isinstance(node, Literal) else node
                cells.setdefault(subject, {})[part] = text.strip()
                lines[subject] = line
    rows: list[Mapping] = []
    unused: Counter[str] = Counter()
    for subject, cell in cells.items():
        line = lines[subject]
        for part in ("entity1", "entity2", "relation"):
            if not cell.get(part):
                raise OntologyError(f"a cell has no {part}", path=document.name, line=line)
        given = cell["relation"].rpartition(".")[2].removesuffix("Relation")
        relation = RELATIONS.get(given.lower())
        if relation is None:
            unused[cell["relation"]] += 1
            continue
        sure = _measured(cell.get("measure", ""), "measure", document.name, line)
        first, second = cell["entity1"], cell["entity2"]
        rows.append(Mapping(first, relation, second, sure, document.name, line))
    return rows, _said_of(document.name, unused)


def _read_bridges(document: Document) -> Found:
    rows = [
        Mapping(subject, PREDICATES[predicate], node, file=document.name, line=line)
        for (subject, predicate, node), line in document.located_triples()
        if predicate in PREDICATES and isinstance(node, str) and _are_terms(subject, node)
    ]
    return rows, []


def _are_terms(*names: str) -> bool:
    """Whether these are named, and not of the languages themselves (`a owl:Class`)."""
    return not any(name.startswith(("_:", *WELL_KNOWN_PREFIXES.values())) for name in names)


def _measured(text: str, what: str, name: str, line: int | None) -> float:
    """A confidence; what says none is sure."""
    if not text.strip():
        return 1.0
    try:
        if 0.0 <= (found := float(text)) <= 1.0:
            return found
    except ValueError:
        pass
    raise OntologyError(f"{what} is a number from 0 to 1, not {text!r:.40}", path=name, line=line)


def _said_of(name: str, unused: Counter[str]) -> list[str]:
    return [
        f"{name}: {count} with the relation {relation} are not used"
        for relation, count in sorted(unused.items())
    ]
