"""bags: what do composite bag operators cost as bags grow? (book chapter; formulas, no figures)

The chapter compares bags under a composite operator by trying arrangements of the larger bag C
against the smaller B: |C|! / (|C| - |B|)! of them when none fits. Here it is a bipartite matching,
or less: sorting for an order, counting for equality.

First table: both on small bags built so that no arrangement fits but every element has partners,
which is the brute force's worst case. λ asked counts exactly how often it related two elements.
Second table: ours alone, up to 1,000 elements, answers known beforehand, on the plain evaluator and
through the index. The bar is 50 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from math import perm
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table

if TYPE_CHECKING:
    from random import Random

    from kbn.filters import Bag, Constraint
    from kbn.matching import Matcher
    from kbn.ontology import Ontology

BAR_MS = 50.0
ROUNDS_OF_OURS = 5
INNER = 10


def brute_force(
    smaller: Sequence[Any], larger: Sequence[Any], related: Callable[[Any, Any], bool]
) -> bool:
    """Whether some arrangement of `larger` gives each of `smaller` a partner: try them all.

    >>> brute_force([1, 2], [3, 2], lambda p, q: p < q)
    True
    >>> brute_force([2, 2], [3, 2], lambda p, q: p < q)
    False
    """
    return any(
        all(related(p, q) for p, q in zip(smaller, arranged, strict=True))
        for arranged in permutations(larger, len(smaller))
    )


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    from kbn import data
    from kbn.ontology import Ontology

    ontology = Ontology.load(data.path("podcast"))
    small = _against_brute_force(parameters, progress)
    return [small, _growing(parameters, ontology, seed, progress)]


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    small, growing = (table.data.to_pylist() for table in tables)
    both = [row for row in small if row["|B|"] == row["|C|"]] or small
    by_size = {
        "brute force": [(row["|B|"], row["brute force ms"]) for row in both],
        "ours": [(row["|B|"], row["ours ms"]) for row in both],
    }
    slowest: dict[str, dict[float, float]] = {}
    for row in growing:
        # Both answers were timed: the slower one counts.
        points = slowest.setdefault(f"{row['operator']}, {row['elements of']}", {})
        points[row["elements"]] = max(row["ours ms"], points.get(row["elements"], 0.0))
    series = {name: sorted(points.items()) for name, points in slowest.items()}
    return [
        plots.lines(
            folder / "brute-force.svg",
            by_size,
            title="No arrangement fits",
            x="elements in each bag",
            y="time (ms)",
            log_y=True,
        ),
        plots.lines(
            folder / "growing.svg",
            series,
            title="Growing bags",
            x="elements in each bag",
            y="time (ms)",
            log_x=True,
            log_y=True,
        ),
    ]


# --- against the brute force --------------------------------------------------------------------


def _against_brute_force(parameters: Parameters, progress: Progress) -> Table:
    import pyarrow as pa

    from kbn.filters import accepts
    from kbn.lab.measuring import timed, undisturbed

    rows: list[dict[str, Any]] = []
    for b, c in parameters["brute_force"]:
        progress("brute force", len(rows), len(parameters["brute_force"]))
        small, large = unfitting(b, c)
        asked = [0]

        def related(p: str, q: str, asked: list[int] = asked) -> bool:
            asked[0] += 1
            return p in q

        constraint = _sub_bag_of(large)
        with undisturbed():
            brute_s, brute = timed(brute_force, small, large, related)
            times = [timed(accepts, constraint, _bag(small), None) for _ in range(ROUNDS_OF_OURS)]
        ours_s, ours = min(times)
        assert brute is ours is False, "a bag that does not fit was found to fit"
        rows.append(
            {
                "|B|": b,
                "|C|": c,
                "arrangements": perm(c, b),
                "λ asked": asked[0],
                "brute force ms": brute_s * 1e3,
                "ours ms": ours_s * 1e3,
                "brute force × ours": brute_s / ours_s,
            }
        )
    notes = (
        "B #</in C where every element of B but two has every element of C as a partner, and those "
        "two share their only one: nothing fits, and only the last choice shows it.",
    )
    theirs = pa.table(
        {
            "bound": ["best", "worst", "ordered λ, sorted"],
            "composite operators": ["O(|B|)", "O(|C|! / (|C|-|B|)!)", "O(max(|B|, |C|))"],
        }
    )
    data = pa.Table.from_pylist(rows)
    return Table("brute-force", data, "The worst case of trying arrangements", notes, theirs)


def unfitting(b: int, c: int) -> tuple[list[str], list[str]]:
    """Texts B and C so that B's have partners among C's (`in`), but not all of them at once.

    >>> unfitting(3, 4)
    (['a', 'z', 'z'], ['a0z', 'a1', 'a2', 'a3'])
    """
    assert 2 <= b <= c
    return ["a"] * (b - 2) + ["z", "z"], ["a0z", *(f"a{i}" for i in range(1, c))]


def _sub_bag_of(large: list[str]) -> Constraint:
    from kbn.filters import Constraint

    return Constraint("bag", "#</*>", _bag(large))


def _bag(items: Sequence[Any]) -> Bag:
    from kbn.filters import Bag

    return Bag(*items)


# --- growing ------------------------------------------------------------------------------------


def _growing(parameters: Parameters, ontology: Ontology, seed: int, progress: Progress) -> Table:
    import pyarrow as pa

    rows = []
    jobs = [(size, kind) for size in parameters["sizes"] for kind in KINDS]
    for done, (size, kind) in enumerate(jobs):
        progress("growing bags", done, len(jobs))
        rows += _grown(size, kind, ontology, seed, parameters["rounds"])
    slowest = max(rows, key=lambda row: max(row["ours ms"], row["index ms"]))
    notes = (
        f"Slowest: {slowest['operator']} over {slowest['elements of']}, "
        f"{max(slowest['ours ms'], slowest['index ms']):.3g} ms; the bar is {BAR_MS:.0f} ms.",
        "accepted: one partner each by construction; rejected: the same but one element that has "
        "none of its own.",
    )
    return Table("growing", pa.Table.from_pylist(rows), "Bags of many elements", notes)


def _grown(
    size: int, kind: str, ontology: Ontology, seed: int, rounds: int
) -> list[dict[str, Any]]:
    from random import Random

    from kbn.filters import Constraint

    rows = []
    for symbol in ("#=", "#>", "#<"):
        element, draw = KINDS[kind]
        rng = Random(f"{kind} {symbol} {size} {seed}")
        values, wanted, spoilt = draw(rng, size, ontology)
        operator = f"{symbol}/{element}"
        constraint = Constraint("bag", operator, _bag(wanted))
        for answer, given in ((True, values), (False, spoilt)):
            figures = _times(constraint, _bag(given), ontology, answer, rounds)
            rows.append(
                {
                    "operator": operator,
                    "elements of": kind,
                    "elements": size,
                    "answer": "accepted" if answer else "rejected",
                    **figures,
                }
            )
    return rows


def _times(
    constraint: Constraint, bag: Bag, ontology: Ontology, answer: bool, rounds: int
) -> dict[str, float]:
    """The least ms of the plain evaluator, and of a match by an index that never saw this bag."""
    from kbn.filters import Notification, accepts
    from kbn.lab.measuring import timed, undisturbed

    notification = Notification({"bag": bag})
    plain, indexed = [], []
    with undisturbed():
        for _ in range(rounds + 1):
            seconds, found = timed(accepts, constraint, bag, ontology)
            plain.append(seconds)
            assert found is answer, f"{constraint.operator.symbol}: {found}, not {answer}"
            seconds, matches = timed(_fresh(constraint, ontology).match, notification)
            indexed.append(seconds)
            assert bool(matches) is answer, f"{constraint.operator.symbol}: index disagrees"
    # The first run compiles.
    return {"ours ms": min(plain[1:]) * 1e3, "index ms": min(indexed[1:]) * 1e3}


def _fresh(constraint: Constraint, ontology: Ontology) -> Matcher:
    """A matcher with one subscription, that has matched something else before."""
    from kbn.filters import Filter, Subscription
    from kbn.matching import Matcher

    matcher = Matcher(ontology)
    matcher.add(Subscription(Filter([constraint])), "who")
    matcher.match({"other": 1})
    return matcher


Drawn = tuple[list[Any], list[Any], list[Any]]  # values, what they are compared with, spoilt values


def _numbers(rng: Random, size: int, ontology: Ontology) -> Drawn:
    """Each value just below its partner; spoilt: the smallest raised above every partner."""
    wanted = [float(number) for number in rng.sample(range(10 * size), size)]
    values = [number - 0.5 for number in wanted]
    spoilt = [float(10 * size), *sorted(values)[1:]]
    return _shuffled(rng, values), wanted, _shuffled(rng, spoilt)


def _classes(rng: Random, size: int, ontology: Ontology) -> Drawn:
    """Each value a class below its partner (many repeat); spoilt: one too many of a top class."""
    from kbn.ontology import Class

    below = [iri for iri in ontology.classes if len(ontology.ancestors(iri)) > 1]
    top = [iri for iri in ontology.classes if len(ontology.ancestors(iri)) == 1]
    values = [rng.choice(below) for _ in range(size)]
    wanted = [rng.choice(sorted(ontology.ancestors(iri) - {iri})) for iri in values]
    spare = next(iri for iri in top if iri not in wanted) if set(top) - set(wanted) else top[0]
    spoilt = [spare, *values[1:]]
    if spare in wanted:  # every top class is wanted: the exact class of one is what nothing gives
        wanted[0], spoilt = values[0], [top[0], *values[1:]]
    return (
        _shuffled(rng, [Class(iri) for iri in values]),
        [Class(iri) for iri in wanted],
        _shuffled(rng, [Class(iri) for iri in spoilt]),
    )


def _texts(rng: Random, size: int, ontology: Ontology) -> Drawn:
    """Each value starts with its partner, and with that of others; spoilt: one starts with none."""
    wanted = ["".join(rng.choices("abc", k=rng.randint(2, 6))) for _ in range(size)]
    values = [start + "".join(rng.choices("abc", k=4)) for start in wanted]
    return _shuffled(rng, values), wanted, _shuffled(rng, ["zzz", *values[1:]])


def _nested(rng: Random, size: int, ontology: Ontology) -> Drawn:
    """Bags of ten numbers, as many as hold `size` in all, under `#</<` again."""
    bags = [_numbers(rng, INNER, ontology) for _ in range(max(2, size // INNER))]
    values, wanted = [_bag(v) for v, _, _ in bags], [_bag(w) for _, w, _ in bags]
    spoilt = [_bag([float(10 * size)]), *values[1:]]
    return _shuffled(rng, values), wanted, _shuffled(rng, spoilt)


def _shuffled(rng: Random, values: list[Any]) -> list[Any]:
    return rng.sample(values, len(values))


KINDS: dict[str, tuple[str, Callable[[Random, int, Ontology], Drawn]]] = {
    "numbers": ("<", _numbers),
    "classes": ("@>", _classes),
    "texts": (">*", _texts),
    "bags of ten": ("#</<", _nested),
}


EXPERIMENT = Experiment(
    name="bags",
    source="book chapter, the sections on performance",
    question="what do composite bag operators cost as bags grow?",
    scales={
        Scale.SMALL: {
            "brute_force": [[2, 4], [4, 4], [5, 5], [6, 6]],
            "sizes": [10, 100],
            "rounds": 1,
        },
        Scale.PAPER: {
            "brute_force": [[2, 9], [4, 9], [6, 9], [4, 4], [5, 5], [6, 6], [7, 7], [8, 8], [9, 9]],
            "sizes": [10, 30, 100, 300, 1000],
            "rounds": 5,
        },
        Scale.BEYOND: {
            "brute_force": [[4, 4], [6, 6], [8, 8], [9, 9], [10, 10]],
            "sizes": [10, 100, 1000, 3000, 10_000],
            "rounds": 3,
        },
    },
    run=run,
    plot=plot,
)
