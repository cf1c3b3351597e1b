"""medoid-cost: how long do the medoids of many clients take, and of one that changes?

The thesis works out distances between all nodes for each client; it gives no times. Here 100,000
clients name 10 terms each, over 45,000 classes: in a *tree*, or where some classes have *two
parents*; terms from *anywhere*, or *near* each other as a client's interests are. Seconds are
processor time of one thread, on a map that has answered nothing before.

Then a multiset of 2,000 terms, as a broker's subscriptions are, changes by three terms again and
again, and its medoid is asked each time: kept up (`RunningMedoid`), and worked out from scratch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table

if TYPE_CHECKING:
    from random import Random

    from kbn.ontology import Ontology

SPACE = "https://kbn.example/generated#"
SHAPES = ("tree", "two parents")
KINDS = ("anywhere", "near")
NEAR = 60
HELD = 2000
CHANGED = 3


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    from random import Random

    import pyarrow as pa

    batches, changes = [], []
    for done, shape in enumerate(SHAPES):
        progress(shape, done, len(SHAPES))
        rng = Random(f"{seed}/{shape}")
        ontology = generated(parameters["classes"], shape, rng)
        batches += [_batch(ontology, shape, kind, parameters, rng) for kind in ("anywhere", "near")]
        changes.append(_changes(ontology, shape, parameters, rng))
    made = pa.Table.from_pylist
    return [
        Table("batches", made(batches), "Medoids of many clients"),
        Table("changes", made(changes), "The medoid of what changes, µs for each change"),
    ]


def generated(classes: int, shape: str, rng: Random) -> Ontology:
    """A hierarchy of so many classes, each below one or two of about a third of its number."""
    from tempfile import TemporaryDirectory

    from kbn.ontology import Ontology

    with TemporaryDirectory() as folder:
        file = Path(folder) / "generated.nt"
        file.write_text("\n".join(_triples(classes, shape, rng)), encoding="utf-8")
        return Ontology.load(file, cache=False)


def _triples(classes: int, shape: str, rng: Random) -> Iterator[str]:
    a = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    below = "<http://www.w3.org/2000/01/rdf-schema#subClassOf>"
    for number in range(classes):
        yield f"<{SPACE}{number}> {a} <http://www.w3.org/2002/07/owl#Class> ."
        if not number:
            continue
        count = 1 if shape == "tree" else rng.choice((1, 1, 2))
        lowest, highest = max(0, number // 3 - 200), max(1, number // 3 + 1)
        for wider in {rng.randrange(lowest, highest) for _ in range(count)}:
            yield f"<{SPACE}{number}> {below} <{SPACE}{wider}> ."


def _named(classes: int, count: int, kind: str, rng: Random) -> list[str]:
    if kind == "anywhere":
        return [f"{SPACE}{rng.randrange(classes)}" for _ in range(count)]
    first = rng.randrange(max(1, classes - NEAR))
    return [f"{SPACE}{min(classes - 1, first + rng.randrange(NEAR))}" for _ in range(count)]


def _batch(
    ontology: Ontology, shape: str, kind: str, parameters: Parameters, rng: Random
) -> dict[str, Any]:
    from time import process_time

    from kbn.placement import SemanticMap

    classes, clients = parameters["classes"], parameters["clients"]
    sets = [_named(classes, parameters["terms"], kind, rng) for _ in range(clients)]
    SemanticMap(ontology).medoids(sets[:2])  # compiles
    fresh = SemanticMap(ontology)
    started = process_time()
    found = fresh.medoids(sets)
    seconds = process_time() - started
    assert all(each.complete for each in found), "under one root every term is reached"
    return {
        "hierarchy": shape,
        "terms": kind,
        "classes": classes,
        "clients": clients,
        "s": seconds,
        "µs each": seconds / clients * 1e6,
    }


def _changes(ontology: Ontology, shape: str, parameters: Parameters, rng: Random) -> dict[str, Any]:
    from collections import Counter
    from time import process_time

    from kbn.placement import RunningMedoid, SemanticMap

    semantic_map = SemanticMap(ontology)
    running, held = (
        RunningMedoid(semantic_map),
        _named(parameters["classes"], HELD, "anywhere", rng),
    )
    running.add(held)
    assert running.medoid() == semantic_map.medoid(Counter(held))
    kept = scratch = 0.0
    for _ in range(parameters["changes"]):
        gone, held = held[:CHANGED], held[CHANGED:]
        new = rng.choices(held, k=CHANGED)
        held = held + new
        started = process_time()
        running.remove(gone)
        running.add(new)
        by_running = running.medoid()
        kept += process_time() - started
        started = process_time()
        from_scratch = semantic_map.medoid(Counter(held))
        scratch += process_time() - started
        assert by_running == from_scratch
    count = parameters["changes"]
    return {
        "hierarchy": shape,
        "classes": parameters["classes"],
        "kept up": kept / count * 1e6,
        "from scratch": scratch / count * 1e6,
    }


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    rows = tables[0].data.to_pylist()
    series = {
        shape: {row["terms"]: row["s"] for row in rows if row["hierarchy"] == shape}
        for shape in SHAPES
    }
    title, x = "Medoids of many clients", "terms of each client"
    return [plots.bars(folder / "batches.svg", series, title=title, x=x, y="seconds on one core")]


EXPERIMENT = Experiment(
    name="medoid-cost",
    source="beyond the thesis: its 4.3.4 for many clients",
    question="how long do the medoids of many clients take, and of one that changes?",
    scales={
        Scale.SMALL: {"classes": 300, "clients": 200, "terms": 10, "changes": 20},
        Scale.PAPER: {"classes": 45_000, "clients": 100_000, "terms": 10, "changes": 500},
        Scale.BEYOND: {"classes": 45_000, "clients": 1_000_000, "terms": 10, "changes": 5000},
    },
    run=run,
    plot=plot,
)
