"""attribute-families: what do 16 families of attributes cost beside exact combinations?

Publishers have 3 or 4 attributes of 40 or 200, drawn in two ways: *evenly*, or by *topic*, three in
four of them from one of 12 topics into which the attributes are divided. Subscribers want one to
three attributes that some publisher has. Three ways to group them with the same connections:

- *hashed*: attributes share 16 families by the hashes of their names (strategy 4);
- *learned*: families of attributes that the same publishers have (strategy 4);
- *exact*: all combinations apart, and merged until connections suffice (`exact_groups`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table

if TYPE_CHECKING:
    from kbn.grouping import Combination, Groups

TOPICS = 12
DRAWS = ("evenly", "by topic")
LIMITS: tuple[tuple[int, int] | None, ...] = (None, (11, 15), (5, 8))


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    import pyarrow as pa

    cases = list(product(parameters["attributes"], DRAWS, LIMITS))
    rows: list[dict[str, Any]] = []
    for done, (attributes, draw, limits) in enumerate(cases):
        progress(f"{attributes} attributes, drawn {draw}", done, len(cases))
        found: Counter[str] = Counter()
        for number in range(parameters["seeds"]):
            found.update(_received(attributes, draw, limits, parameters, seed + number))
        rows.append(
            {
                "attributes": attributes,
                "drawn": draw,
                "connections": "any" if limits is None else f"{limits[0]}-{limits[1]}",
                **{
                    way: found[f"{way} in vain"] / max(1, found[way])
                    for way in ("hashed", "learned", "exact")
                },
                "received, hashed": found["hashed"] / max(1, found["exact"]),
                "received, learned": found["learned"] / max(1, found["exact"]),
            }
        )
    data = pa.Table.from_pylist(rows)
    return [Table("false-positives", data, "False positives of families", _NOTES)]


def _received(
    attributes: int,
    draw: str,
    limits: tuple[int, int] | None,
    parameters: Parameters,
    seed: int,
) -> dict[str, int]:
    """What arrives in all, and in vain, by each way."""
    from kbn.grouping import hashed_families, learned_families
    from kbn.lab.baselines.exact_groups import exact_deliveries

    rng = Random(f"{seed} {attributes} {draw}")
    names = [f"a{number}" for number in range(attributes)]
    advertised = [_drawn(names, draw, rng) for _ in range(parameters["publishers"])]
    most = [None if limits is None else rng.randint(*limits) for _ in advertised]
    wanted: Counter[Combination] = Counter()
    for _ in range(parameters["subscribers"]):
        of = sorted(rng.choice(advertised))
        wanted[frozenset(rng.sample(of, rng.randint(1, 3)))] += 1
    found: dict[str, int] = {}
    families = {
        "hashed": hashed_families(names),
        "learned": learned_families(Counter(advertised), wanted),
    }
    for way, of_way in families.items():
        delivered = _grouped(of_way, advertised, most, wanted).deliveries(wanted)
        found |= {way: delivered.received, f"{way} in vain": delivered.false_positives}
    exact = exact_deliveries(advertised, most, wanted)
    return found | {"exact": exact.received, "exact in vain": exact.false_positives}


def _drawn(names: list[str], draw: str, rng: Random) -> Combination:
    count = rng.randint(3, 4)
    if draw == "evenly":
        return frozenset(rng.sample(names, count))
    topic = rng.randrange(TOPICS)
    of_topic = names[topic::TOPICS]
    chosen: set[str] = set()
    while len(chosen) < count:
        chosen.add(rng.choice(of_topic if rng.random() < 0.75 else names))
    return frozenset(chosen)


def _grouped(
    families: dict[str, int],
    advertised: list[Combination],
    limits: list[int | None],
    wanted: Counter[Combination],
) -> Groups:
    from kbn.grouping import Groups

    groups = Groups(strategy="4", families=families)
    for subscriber, combination in enumerate(wanted.elements()):
        groups.subscribe(subscriber, combination)
    for number, (attributes, limit) in enumerate(zip(advertised, limits, strict=True)):
        groups.arrive(number, attributes, limit)
    groups.reorder()
    return groups


_NOTES = (
    "False positives among the notifications received, all seeds together; each publisher sends "
    "one notification, and subscribers are those drawn.",
    "Received: how many times as many notifications arrive as with exact combinations.",
    "Exact combinations with any number of connections have none.",
)


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    series: dict[str, list[tuple[float, float]]] = {}
    for row in tables[0].data.to_pylist():
        if row["connections"] != "any":
            for way in ("hashed", "learned", "exact"):
                curve = f"{way}, {row['drawn']}, {row['connections']} connections"
                series.setdefault(curve, []).append((row["attributes"], row[way]))
    path = folder / "families.svg"
    title = "False positives of attribute families"
    return [plots.lines(path, series, title=title, x="attributes", y="rate")]


EXPERIMENT = Experiment(
    name="attribute-families",
    source="Stuttgart thesis (Biliniewicz), which has up to 10 attributes; the families are ours",
    question="what do attribute families cost in false positives beside exact combinations?",
    scales={
        Scale.SMALL: {"attributes": [40], "publishers": 40, "subscribers": 60, "seeds": 1},
        Scale.PAPER: {"attributes": [40, 200], "publishers": 200, "subscribers": 400, "seeds": 5},
    },
    run=run,
    plot=plot,
)
