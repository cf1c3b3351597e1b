"""reasoning: what does each level of reasoning cost to load, and what does it find?

The 2006 paper (section 4, Tables 2 and 3) loads a service ontology of 4 classes, wine (138 classes,
206 individuals) and a CIM event ontology (147 classes, 563 individuals) without reasoning, with
RDFS, and with a DL reasoner, and finds that only the last gets the hierarchy of wines right, while
RDFS does for the events. Ours: the shipped `service_core`, the shipped `drinks`, which is a small
stand-in with the same trap (DryWine and TableWine are equivalent, and only DL can tell), and an
event ontology grown to the same size. Give a folder that holds the real ones (`wine.rdf` with
`food*`, `Service.owl`) and those are used instead. Loads are from the files: the cache is not used.
*Loading* is measured alone too, as in the source's second table: reading and compiling without
reasoning, in the same round.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table

if TYPE_CHECKING:
    from kbn.ontology import Ontology

BASELINE = "none"

# 2006 paper, Table 2 (loading and reasoning) and Table 3 (loading only): ms at none, rdfs, dl.
THEIRS = {
    "service": ("Service (OWL-S)", {"none": 52.63, "rdfs": 61.32, "dl": 97.98}),
    "wine": ("Wine", {"none": 329.64, "rdfs": 366.56, "dl": 1391.39}),
    "events": ("JK_SampleEvent", {"none": 455.38, "rdfs": 579.35, "dl": 1064.54}),
}
THEIR_LOADING = {
    "service": {"none": 57.60, "rdfs": 55.37, "dl": 58.91},
    "wine": {"none": 338.84, "rdfs": 346.38, "dl": 364.48},
    "events": {"none": 430.67, "rdfs": 444.68, "dl": 441.5},
}


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    import pyarrow as pa

    rows: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        files = ontology_files(
            Path(folder), parameters["individuals"], parameters.get("ontologies")
        )
        total = len(files) * len(parameters["levels"])
        for subject, paths in files.items():
            for level in parameters["levels"]:
                progress(f"{subject} at {level}", len(rows), total)
                rows.append({"ontology": subject, **_row(paths, level, parameters["rounds"])})
    _against_none(rows)
    notes = (
        "DryWine ≡ TableWine: found among the equivalents of DryWine, where the ontology has it.",
        "DL runs HermiT as a Java program of its own, whose start is most of the time here. Files: "
        + "; ".join(f"{name}: {_named(paths)}" for name, paths in files.items())
        + ". drinks is a stand-in of our own for wine, smaller than the source's.",
    )
    table = Table(
        "loading", pa.Table.from_pylist(rows), "Loading and reasoning", notes, _their_table()
    )
    return [table]


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    rows = [row for row in tables[0].data.to_pylist() if row["ms"] is not None]
    series: dict[str, dict[str, float]] = {"here": {}, "source": {}}
    for row in rows:
        name = f"{row['ontology']}, {row['level']}"
        series["here"][name] = row["ms"]
        series["source"][name] = row["source ms"]
    path = folder / "loading.svg"
    title, x = "Loading and reasoning", "ontology and level of reasoning"
    return [plots.bars(path, series, title=title, x=x, y="time (ms)", log_y=True)]


def _named(paths: Sequence[Path]) -> str:
    return " and ".join(path.name for path in paths)


def ontology_files(
    folder: Path, individuals: int, given: Path | None = None
) -> dict[str, list[Path]]:
    """The three ontologies; the grown one is written into `folder`, `given` may hold real ones."""
    from kbn import data
    from kbn.data.generated import PAPER_CLASSES, event_ontology

    events = folder / "events.ttl"
    events.write_text(event_ontology(PAPER_CLASSES, individuals), encoding="utf-8")
    found = {
        "service": [data.path("service_core")],
        "wine": [data.path("drinks")],
        "events": [events],
    }
    for name, patterns in {"service": ["Service.*"], "wine": ["wine.*", "food*"]}.items():
        there = [path for each in patterns for path in sorted((given or folder).glob(each))]
        found[name] = there or found[name]
    return found


def _row(paths: Sequence[Path], level: str, rounds: int) -> dict[str, Any]:
    """The least time of a few loads; a level that cannot run here says why instead."""
    from kbn.errors import MissingDependencyError, OntologyError
    from kbn.lab.measuring import timed

    try:
        if level in (
            "none",
            "rdfs",
        ):  # the first load imports; a Java program starts anew each time
            _load(paths, level)
        alone_s = min(timed(_load, paths, BASELINE)[0] for _ in range(rounds))
        loads = [timed(_load, paths, level) for _ in range(rounds)]
    except (MissingDependencyError, OntologyError) as error:
        remark = str(error).split(";")[0]
        return {"level": level, "ms": None, "loading ms": None, **_facts(None), "remark": remark}
    least_s = min(seconds for seconds, _ in loads)
    times = {"ms": least_s * 1e3, "loading ms": alone_s * 1e3}
    return {"level": level, **times, **_facts(loads[0][1]), "remark": ""}


def _load(paths: Sequence[Path], level: Any) -> Ontology:
    from kbn.ontology import Ontology

    return Ontology.load(paths, reasoning=level, cache=False)


def _facts(ontology: Ontology | None) -> dict[str, Any]:
    """Counts that are the same in every run."""
    if ontology is None:
        none = ("classes", "individuals", "subclass pairs", "DryWine ≡ TableWine")
        return dict.fromkeys(none)
    pairs = sum(len(ontology.ancestors(iri)) - 1 for iri in ontology.classes)
    return {
        "classes": len(ontology.classes),
        "individuals": len(ontology.individuals),
        "subclass pairs": pairs,
        "DryWine ≡ TableWine": dry_wine_is_table_wine(ontology),
    }


def dry_wine_is_table_wine(ontology: Ontology) -> str | None:
    """Whether the equivalence was found; None where the ontology has no such classes."""
    dry = [iri for iri in ontology.classes if iri.endswith("#DryWine")]
    if not dry:
        return None
    found = any(iri.endswith("#TableWine") for iri in ontology.equivalents(dry[0]))
    return "found" if found else "not found"


def _against_none(rows: list[dict[str, Any]]) -> None:
    """Ratios to the same ontology without reasoning, ours and theirs, put beside the times."""
    base = {row["ontology"]: row["ms"] for row in rows if row["level"] == BASELINE}
    for row in rows:
        theirs = THEIRS[row["ontology"]][1]
        remark = row.pop("remark")
        row["× none"] = None if row["ms"] is None else row["ms"] / base[row["ontology"]]
        row["source ms"] = theirs.get(row["level"])
        row["source × none"] = theirs[row["level"]] / theirs[BASELINE]
        row["source loading ms"] = THEIR_LOADING[row["ontology"]].get(row["level"])
        row["remark"] = remark


def _their_table() -> Any:
    import pyarrow as pa

    rows = [
        {
            "ontology": name,
            "level": level,
            "loading and reasoning, ms": ms,
            "loading only, ms": THEIR_LOADING[subject][level],
        }
        for subject, (name, levels) in THEIRS.items()
        for level, ms in levels.items()
    ]
    return pa.Table.from_pylist(rows)


EXPERIMENT = Experiment(
    name="reasoning",
    source="2006 paper, section 4, Tables 2 and 3",
    question="what does each level of reasoning cost to load, and what does it find?",
    scales={
        Scale.SMALL: {"levels": ["none", "rdfs", "dl"], "individuals": 100, "rounds": 1},
        Scale.PAPER: {"levels": ["none", "rdfs", "dl"], "individuals": 563, "rounds": 5},
        Scale.BEYOND: {"levels": ["none", "rdfs", "dl"], "individuals": 20_000, "rounds": 2},
    },
    run=run,
    plot=plot,
    takes_ontologies=True,
)
