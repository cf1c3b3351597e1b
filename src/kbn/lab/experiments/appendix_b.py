"""appendix-b: does each term come into the cluster that the thesis put it into?

Appendix B of the thesis lists, for five ontologies of its Table 10, each class and individual with
the cluster that was suggested for it. The lists are data of the lab (`appendix_b.csv`: ontology,
number in the list, local name of the term and of the cluster's key). The ontologies are not: give a
folder that holds any of them, as NAME.owl, .rdf or .ttl. The shipped `conference` is grown to the
size of the thesis' confOf and stands in for it, so there is something to compare without a folder.

Two rules are compared with the lists. *By the text*: a class that has subclasses keys a cluster
and is in it, the design of section 4.3.2 and our default. *As listed*: of the cluster a class keys
and those of its parents, the key listed first wins, which is what the lists show; `order` of
`clusters` does that. Rows that differ are listed with the reason that can be seen.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kbn.errors import InvalidInputError
from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table

if TYPE_CHECKING:
    from kbn.ontology import Ontology
    from kbn.placement import Clusters

Row = dict[str, Any]

SUFFIXES = (".owl", ".rdf", ".ttl")
# Table 10: classes, individuals, properties.
TABLE_10 = {
    "confOf": (45, 19, 36),
    "iswc": (33, 50, 37),
    "ekaw": (73, 0, 33),
    "swrc": (55, 0, 74),
    "security": (446, 37, 206),
}
STAND_IN = "confOf (shipped)"


class Listed(NamedTuple):
    """A row of the appendix: a term and the cluster it was suggested for, if any was."""

    number: int
    term: str
    cluster: str


def their_lists() -> dict[str, list[Listed]]:
    """The lists of the appendix, by ontology."""
    found: dict[str, list[Listed]] = {}
    text = (files("kbn.lab") / "appendix_b.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        listed = Listed(int(row["number"]), row["term"], row["cluster"])
        found.setdefault(row["ontology"], []).append(listed)
    return found


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    import pyarrow as pa

    subjects = _subjects(parameters.get("ontologies"))
    lists = their_lists()
    counts: list[Row] = []
    rows: list[Row] = []
    for done, (name, path) in enumerate(subjects.items()):
        progress(name, done, len(subjects))
        listed = lists[name.partition(" ")[0]]
        count, differing = compared(name, path, listed)
        counts.append(count)
        rows += differing
    theirs = pa.table(
        {
            "ontology": list(TABLE_10),
            **{
                what: [figures[place] for figures in TABLE_10.values()]
                for place, what in enumerate(("classes", "individuals", "properties"))
            },
            "rows in the appendix": [len(lists[name]) for name in TABLE_10],
        }
    )
    columns = ("ontology", "number", "term", "thesis", "by the text", "as listed", "why")
    data = pa.table({name: [row[name] for row in rows] for name in columns})
    return [
        Table("placements", pa.Table.from_pylist(counts), "Placements alike", _NOTES, theirs),
        Table("differences", data, "Rows that differ as listed, and why", _ROW_NOTES),
    ]


def _subjects(folder: Path | None) -> dict[str, Path]:
    """The ontologies there are: the shipped one, and those of the folder."""
    from kbn import data

    found = {STAND_IN: data.path("conference")}
    if folder is None:
        return found
    there = {
        path.stem.lower(): path for path in sorted(folder.iterdir()) if path.suffix in SUFFIXES
    }
    given = {name: there[name.lower()] for name in TABLE_10 if name.lower() in there}
    if not given:
        wanted = ", ".join(f"{name}.owl" for name in TABLE_10)
        raise InvalidInputError(f"{folder} holds none of the ontologies of the thesis: {wanted}")
    return found | given


def compared(name: str, path: Path, listed: Sequence[Listed]) -> tuple[Row, list[Row]]:
    """Counts for an ontology, and the rows of the appendix that differ."""
    from kbn.ontology import Ontology
    from kbn.placement import clusters

    ontology = Ontology.load(path)
    named = _by_local_name(ontology)
    by_text = clusters(ontology)
    order = [named[each.term] for each in listed if each.term in named]
    as_listed = clusters(ontology, order)
    rows = [_row(name, each, named, by_text, as_listed, ontology) for each in listed]
    there = [row for row in rows if row["term"] in named]
    differing = [row for row in rows if row["thesis"] != row["as listed"]]
    return {
        "ontology": name,
        "classes": len(ontology.classes),
        "individuals": len(ontology.individuals),
        "rows": len(rows),
        "terms here": len(there),
        "alike by the text": sum(row["thesis"] == row["by the text"] for row in there),
        "alike as listed": sum(row["thesis"] == row["as listed"] for row in there),
        "differ as listed": sum(row["thesis"] != row["as listed"] for row in there),
    }, differing


def _by_local_name(ontology: Ontology) -> dict[str, str]:
    return {_local(iri): iri for iri in (*ontology.individuals, *ontology.classes)}


def _local(iri: str) -> str:
    return iri.replace("/", "#").rpartition("#")[2]


def _row(
    name: str,
    listed: Listed,
    named: Mapping[str, str],
    by_text: Clusters,
    as_listed: Clusters,
    ontology: Ontology,
) -> Row:
    iri = named.get(listed.term)
    keys = [None if iri is None else made.cluster_of(iri) for made in (by_text, as_listed)]
    text, order = ("" if key is None else _local(key) for key in keys)
    return {
        "ontology": name,
        "number": listed.number,
        "term": listed.term,
        "thesis": listed.cluster,
        "by the text": text,
        "as listed": order,
        "why": _why(listed, iri, named, ontology, as_listed),
    }


def _why(
    listed: Listed,
    iri: str | None,
    named: Mapping[str, str],
    ontology: Ontology,
    as_listed: Clusters,
) -> str:
    """What can be seen of a row that differs; empty where it does not."""
    if iri is None:
        return "the file has no such term: the thesis extended it"
    key = as_listed.cluster_of(iri)
    if (_local(key) if key else "") == listed.cluster:
        return ""
    theirs = named.get(listed.cluster)
    if theirs is None:
        return f"the file has no class {listed.cluster}" if listed.cluster else "no cluster there"
    if theirs not in set(as_listed):
        return f"nothing is below {listed.cluster} in this file, so it keys no cluster"
    if iri in ontology.classes and theirs not in {iri, *ontology.ancestors(iri)}:
        return f"{listed.cluster} is not above it in this file"
    above = sorted(_local(parent) for parent in ontology.parents(iri)) if key else []
    return f"another order of classes; its parents: {', '.join(above) or 'none'}"


_NOTES = (
    "Alike: the thesis and we have the same key, of the terms that the file has. By the text: our "
    "default. As listed: `clusters(ontology, order=…)` with the order of the appendix.",
    f"{STAND_IN} is the ontology `conference` that comes with kbn, made to the thesis' size; the "
    "others are files of the folder, which may be other versions than the thesis had.",
)
_ROW_NOTES = ("Terms that the file does not have are listed too.",)


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    rows = tables[0].data.to_pylist()
    series = {
        what: {row["ontology"]: float(row[what]) for row in rows}
        for what in ("terms here", "alike by the text", "alike as listed")
    }
    path = folder / "placements.svg"
    return [plots.bars(path, series, title="Placements alike", x="ontology", y="terms")]


EXPERIMENT = Experiment(
    name="appendix-b",
    source="thesis, Table 10 and Appendix B",
    question="does each term come into the cluster that the thesis put it into?",
    scales={Scale.SMALL: {}, Scale.PAPER: {}, Scale.BEYOND: {}},
    run=run,
    plot=plot,
    takes_ontologies=True,
)
