"""operator-cost: does a semantic operator cost more than `=`? (thesis 6.3.1, Tables 13-15)

As in the thesis, all subscriptions of one run use one operator with one operand, the one of Table
14 where it has the operator, and each is made unique by a numeric id: `value OP v and id = i`. Of
500 publications 300 carry an id that somebody subscribed to, so 300 are delivered, each to one
subscriber. `=` is not in the source's table; here it is the baseline of every ratio.

Where an operator accepts many values, each publication has one drawn at random and each round has
new publications: an engine that only remembers what it saw before gains nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table

if TYPE_CHECKING:
    import random

    from kbn.filters import Bag, Notification, Subscription
    from kbn.matching import Matcher
    from kbn.ontology import Ontology

BASELINE = "="
EXTRAS_MAX = 5

# Thesis Table 15: mean ms per delivery at 500, 1000, 2000, 3000 subscriptions; None: out of memory.
THEIRS: dict[str, tuple[str, tuple[float | None, ...]]] = {
    "@*": ("ont prop", (94.76, 185.28, None, None)),
    "@=": ("is a", (50.83, 94.64, 190.33, 4319.39)),
    "@!=": ("is not a", (50.35, 96.90, 200.83, 4349.53)),
    "#>/@<": ("bag super", (18.17, 33.45, 62.18, 92.94)),
    "@~": ("equiv", (17.94, 32.77, 61.76, 90.46)),
    "#</@<": ("bag sub", (11.40, 20.50, 38.75, 57.60)),
    "#=/@<": ("bag equal", (9.10, 15.98, 30.98, 43.57)),
    "@!~": ("not equiv", (8.74, 15.37, 27.84, 39.87)),
    "@<": ("less spec", (4.47, 7.03, 12.51, 17.11)),
    "@>": ("more spec", (4.32, 7.61, 11.83, 16.96)),
}
THEIR_SIZES = (500, 1000, 2000, 3000)
THEIR_SD: dict[str, tuple[float | None, ...]] = {
    "@*": (5.42, 7.15, None, None),
    "@=": (12.37, 20.03, 42.35, 2235.37),
    "@!=": (24.76, 40.4, 104.91, 2078.71),
    "#>/@<": (6.3, 8.56, 11.86, 16.34),
    "@~": (9.67, 14.21, 21.02, 24.8),
    "#</@<": (2.9, 3.95, 4.87, 5.52),
    "#=/@<": (3.04, 3.51, 4.77, 4.94),
    "@!~": (4.92, 6.72, 9.78, 11.83),
    "@<": (2.99, 3.46, 3.88, 4.24),
    "@>": (2.95, 4.4, 4.14, 4.19),
}


@dataclass(frozen=True, slots=True)
class Case:
    """An operator, the operand subscribed with, and how a value it accepts is drawn."""

    symbol: str
    operand: Any
    draw: Callable[[random.Random], Any]


@dataclass(slots=True)
class Trial:
    """One operator at one size: its matcher, and seconds per publication in the best round."""

    case: Case
    matcher: Matcher
    delivered: int = 0
    single_s: float = float("inf")
    batch_s: float = float("inf")


def cases(ontology: Ontology) -> list[Case]:
    """Every operator with an operand; the baseline first."""
    from kbn import data
    from kbn.filters import Bag, Relation
    from kbn.ontology import Class, Individual, Property

    here = data.namespace("conference")

    def classes(*names: str) -> Bag:
        return Bag(*(Class(here + name) for name in names))

    chairs = classes("Chair_PC", "Administrator", "Administrative_event")
    every_class = [Class(iri) for iri in ontology.classes]
    individuals = [Individual(iri) for iri in ontology.individuals]
    city = Relation(Property(here + "hasCity"), Individual(here + "Dublin"))
    terms: list[tuple[str, Any, Sequence[Any]]] = [
        ("@~", Class(here + "Lesson"), every_class),
        ("@!~", Class(here + "Lesson"), every_class),
        ("@<", Class(here + "Paper"), every_class),
        ("@>", Class(here + "Administrative_event"), every_class),
        ("@=", Class(here + "City"), individuals),
        ("@!=", Class(here + "Organization"), individuals),
        ("@*", city, individuals),
    ]
    bags = [
        ("#=/@<", chairs),
        ("#>/@<", classes("Chair_PC", "Administrative_event")),
        ("#</@<", chairs),
        ("#>/@>", classes("Person", "Event")),
        ("#</@>", classes("Person", "Event", "Organization")),
    ]
    return [
        *_plain_cases(),
        *(Case(op, v, _drawing_term(op, v, pool, ontology)) for op, v, pool in terms),
        *(Case(op, v, _drawing_bag(op, v, every_class, ontology)) for op, v in bags),
        *_number_bag_cases(ontology),
        *_negated_and_nested_cases(classes("Person", "Event"), every_class, ontology),
    ]


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    """One row for each operator and size."""
    import pyarrow as pa

    from kbn import data
    from kbn.ontology import Ontology

    ontology = Ontology.load(data.path("conference"))
    rows: list[dict[str, Any]] = []
    for size in parameters["sizes"]:
        trials = [_trial(case, size, ontology) for case in cases(ontology)]
        for number in range(parameters["rounds"] + 1):
            for place, trial in enumerate(trials):
                _round(trial, parameters, seed + number, size, timed_round=number > 0)
                done = number * len(trials) + place + 1
                progress(f"{size} subscriptions", done, (parameters["rounds"] + 1) * len(trials))
        rows += _rows(trials, size)
    notes = (
        "µs per publication: one match call and the keys it gives, the median call of the best "
        "round; in a batch: a table of all publications, counted by group, the best round.",
        "× =: the ratio to the row of `=` in the same run. The source has no such row, and its ms "
        "include a network, queues and a 2008 laptop.",
    )
    cost = Table("cost", pa.Table.from_pylist(rows), "Cost per publication", notes, _theirs())
    passed = _end_to_end(parameters, ontology, seed, progress)
    if not passed:
        return [cost]
    title = "End to end, from publishing to delivery"
    return [cost, Table("end-to-end", pa.Table.from_pylist(passed), title, _END_NOTES)]


_END_NOTES = (
    "ms: from the publisher's socket to the subscriber's, mean and deviation of the deliveries; "
    "the broker is a process of its own, one notification at a time is on its way.",
    "× =: against the row of `=` at the same size. The match call alone is in the table of costs.",
)


def _end_to_end(
    parameters: Parameters, ontology: Ontology, seed: int, progress: Progress
) -> list[dict[str, Any]]:
    """A row for each of the source's operators, and `=`, through a broker over sockets."""
    from random import Random

    from kbn import data
    from kbn.lab.overlay.end_to_end import end_to_end

    count, met = parameters["publications"], parameters["matching"]
    rows: list[dict[str, Any]] = []
    measured = [case for case in cases(ontology) if case.symbol in (BASELINE, *THEIRS)]
    sizes = parameters["end to end"]
    for size in sizes:
        first = len(rows)
        for case in measured:
            progress(f"end to end, {size} subscriptions", len(rows), len(measured) * len(sizes))
            sent = publications(case, size, count, met, Random(f"{case.symbol} {seed}"))
            wanted = [(each, bool(each["id"] < size)) for each in sent]
            found = end_to_end(
                [subscription(case, number) for number in range(size)],
                wanted,
                str(data.path("conference")),
            )
            assert found.delivered == met, f"{case.symbol}: {found.delivered} of {met} arrived"
            at = THEIR_SIZES.index(size) if size in THEIR_SIZES and case.symbol in THEIRS else None
            rows.append(
                {
                    "operator": case.symbol,
                    "subscriptions": size,
                    "delivered": found.delivered,
                    "ms": found.mean_ms,
                    "sd": found.sd_ms,
                    "× =": found.mean_ms
                    / (rows[first]["ms"] if len(rows) > first else found.mean_ms),
                    "source ms": None if at is None else THEIRS[case.symbol][1][at],
                    "source sd": None if at is None else THEIR_SD[case.symbol][at],
                }
            )
    return rows


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    rows = tables[0].data.to_pylist()
    largest = max(row["subscriptions"] for row in rows)
    last = [row for row in rows if row["subscriptions"] == largest]
    ratios = {"one call": {row["operator"]: row["× ="] for row in last}}
    source = [row for row in rows if row["source ms"] is not None]
    figures = [
        plots.bars(
            folder / "ratio.svg",
            ratios,
            title=f"Cost of an operator, {largest:,} subscriptions",
            x="operator",
            y="times the cost of =",
        )
    ]
    if source:
        series = {}
        for symbol in ("@=", "@>", "#>/@<"):
            ours = [r for r in source if r["operator"] == symbol]
            series[f"{symbol} here"] = [
                (r["subscriptions"], r["µs per publication"] / 1e3) for r in ours
            ]
            series[f"{symbol} source"] = [(r["subscriptions"], r["source ms"]) for r in ours]
        figures.append(
            plots.lines(
                folder / "growth.svg",
                series,
                title="Time per delivery",
                x="subscriptions",
                y="time (ms)",
                log_y=True,
            )
        )
    return figures


# --- one trial ----------------------------------------------------------------------------------


def subscription(case: Case, number: int) -> Subscription:
    """`value OP v and id = number`."""
    from kbn.filters import Constraint, Filter, Subscription

    value = Constraint("value", case.symbol, case.operand)
    return Subscription(Filter([value, Constraint("id", "=", number)]))


def publications(
    case: Case, size: int, count: int, met: int, rng: random.Random
) -> list[Notification]:
    """`count` publications whose value the operator accepts, `met` with an id below `size`."""
    from kbn.filters import Notification

    ids = [*rng.sample(range(size), met), *range(size, size + count - met)]
    rng.shuffle(ids)
    return [Notification({"value": case.draw(rng), "id": number}) for number in ids]


def _trial(case: Case, size: int, ontology: Ontology) -> Trial:
    from kbn.matching import Matcher

    matcher = Matcher(ontology)
    matcher.add_many((subscription(case, number), number) for number in range(size))
    return Trial(case, matcher)


def _round(
    trial: Trial, parameters: Parameters, seed: int, size: int, *, timed_round: bool
) -> None:
    from random import Random

    from kbn.lab.measuring import quantile, timed, undisturbed
    from kbn.matching import count_batch, notification_table

    count, met = parameters["publications"], parameters["matching"]
    sent = publications(trial.case, size, count, met, Random(f"{trial.case.symbol} {seed}"))
    table = notification_table(sent)
    with undisturbed():
        calls = [timed(_deliver, trial.matcher, notification) for notification in sent]
        batch_s, counted = timed(count_batch, trial.matcher, table)
    trial.delivered = sum(delivered for _, delivered in calls)
    assert trial.delivered == int(counted.sum()), f"{trial.case.symbol}: batch and calls disagree"
    if timed_round:
        trial.single_s = min(trial.single_s, quantile((seconds for seconds, _ in calls), 0.5))
        trial.batch_s = min(trial.batch_s, batch_s / count)


def _deliver(matcher: Matcher, notification: Notification) -> int:
    return len(list(matcher.match(notification)))


def _rows(trials: list[Trial], size: int) -> Iterator[dict[str, Any]]:
    baseline = next(trial for trial in trials if trial.case.symbol == BASELINE)
    for trial in trials:
        name, theirs = THEIRS.get(trial.case.symbol, ("", ()))
        at = THEIR_SIZES.index(size) if size in THEIR_SIZES and theirs else None
        yield {
            "operator": trial.case.symbol,
            "source's name": name,
            "subscriptions": size,
            "delivered": trial.delivered,
            "µs per publication": trial.single_s * 1e6,
            "× =": trial.single_s / baseline.single_s,
            "µs in a batch": trial.batch_s * 1e6,
            "× = in a batch": trial.batch_s / baseline.batch_s,
            "source ms": None if at is None else theirs[at],
        }


def _theirs() -> Any:
    import pyarrow as pa

    columns: dict[str, list[Any]] = {"operator": list(THEIRS)}
    columns["name"] = [name for name, _ in THEIRS.values()]
    for place, size in enumerate(THEIR_SIZES):
        columns[f"ms at {size}"] = [figures[place] for _, figures in THEIRS.values()]
    return pa.table(columns)


# --- drawing values -----------------------------------------------------------------------------


def _plain_cases() -> list[Case]:
    from kbn.filters import Bag

    words = [f"word{i:03d}" for i in range(200)]
    pair, several = Bag(*words[:2]), Bag(*words[:6])

    def letters(rng: random.Random) -> str:
        return "".join(rng.choices("abcdefghij", k=8))

    return [
        Case("=", "value", lambda rng: "value"),
        Case("!=", "value", letters),
        Case("any", None, letters),
        Case("<", 50.0, lambda rng: rng.random() * 50),
        Case(">=", 50.0, lambda rng: 50 + rng.random() * 50),
        Case(">*", "pre", lambda rng: "pre" + letters(rng)),
        Case("*<", "post", lambda rng: letters(rng) + "post"),
        Case("*", "mid", lambda rng: letters(rng) + "mid" + letters(rng)),
        Case("*>", "a text of several words", lambda rng: "a text of several"[rng.randrange(9) :]),
        Case("#=", pair, lambda rng: Bag(*rng.sample(words[:2], 2))),
        Case("#<", several, lambda rng: Bag(*rng.sample(words[:6], rng.randint(1, 6)))),
        Case("#>", pair, lambda rng: Bag(*words[:2], *rng.sample(words[2:], EXTRAS_MAX))),
    ]


def _number_bag_cases(ontology: Ontology) -> list[Case]:
    from kbn.filters import Bag

    bounds = Bag(20.0, 40.0, 60.0, 80.0)
    numbers = [float(number) for number in range(100)]
    symbols = ("#=/<", "#>/<", "#</<")
    return [Case(op, bounds, _drawing_bag(op, bounds, numbers, ontology)) for op in symbols]


def _negated_and_nested_cases(
    two: Bag, classes: Sequence[Any], ontology: Ontology
) -> Iterator[Case]:
    """Composites that are negated, or over composites, or over texts that nobody has seen yet."""
    from kbn.filters import Bag

    words = [f"word{i:03d}" for i in range(200)]
    several = [words[:2], words[2:3]]
    bounds = Bag(Bag(90.0, 95.0), Bag(80.0, 90.0, 100.0))

    def texts(rng: random.Random) -> Bag:
        return Bag(*("".join(rng.choices("abcdefghij", k=8)) for _ in range(EXTRAS_MAX)))

    def some(rng: random.Random) -> Bag:
        return Bag(*rng.sample(classes, rng.randint(1, EXTRAS_MAX)))

    def words_in_bags(rng: random.Random) -> Bag:
        return Bag(*(Bag(*wanted, *rng.sample(words, 2)) for wanted in several))

    def numbers_in_bags(rng: random.Random) -> Bag:
        return Bag(*(Bag(rng.random() * 100, rng.random() * 100) for _ in range(2)))

    shapes: list[tuple[str, Bag, Callable[[random.Random], Bag]]] = [
        ("!#>/@>", two, some),
        ("#>/*", Bag("a", "b"), texts),
        ("#>/#>", Bag(*(Bag(*wanted) for wanted in several)), words_in_bags),
        ("#</#</<", bounds, numbers_in_bags),
    ]
    for symbol, operand, draw in shapes:
        yield Case(symbol, operand, _drawing_until(symbol, operand, draw, ontology))


def _drawing_until(
    symbol: str, operand: Bag, draw: Callable[[random.Random], Bag], ontology: Ontology
) -> Callable[[random.Random], Bag]:
    """Draw until the operator accepts the value."""
    from kbn.filters import Constraint

    constraint = Constraint("value", symbol, operand)

    def accepted(rng: random.Random) -> Bag:
        while not constraint.accepts(value := draw(rng), ontology):
            pass
        return value

    return accepted


def _drawing_term(
    symbol: str, operand: Any, pool: Sequence[Any], ontology: Ontology
) -> Callable[[random.Random], Any]:
    """Any of the terms that the operator accepts."""
    from kbn.filters import Constraint

    constraint = Constraint("value", symbol, operand)
    accepted = [term for term in pool if constraint.accepts(term, ontology)]
    assert accepted, f"no term is {symbol} {operand}"
    return lambda rng: rng.choice(accepted)


def _drawing_bag(
    symbol: str, operand: Any, pool: Sequence[Any], ontology: Ontology
) -> Callable[[random.Random], Any]:
    """A partner for each wanted element: some of them for a sub-bag, more for a super-bag."""
    from kbn.filters import Bag, Constraint

    bag, _, element = symbol.partition("/")
    partners = [
        [one for one in pool if Constraint("value", element, wanted).accepts(one, ontology)]
        for wanted in operand
    ]

    def draw(rng: random.Random) -> Bag:
        kept = rng.sample(partners, rng.randint(1, len(partners))) if bag == "#<" else partners
        chosen = [rng.choice(of_one) for of_one in kept]
        if bag == "#>":
            chosen += rng.choices(pool, k=rng.randint(0, EXTRAS_MAX))
        rng.shuffle(chosen)
        return Bag(*chosen)

    return draw


EXPERIMENT = Experiment(
    name="operator-cost",
    source="thesis, 6.3.1, Tables 13-15",
    question="what does each operator cost, with every filter unique?",
    scales={
        Scale.SMALL: {
            **{"sizes": [50, 100], "publications": 50, "matching": 30, "rounds": 1},
            "end to end": [],
        },
        Scale.PAPER: {
            "sizes": [500, 1000, 2000, 3000],
            "publications": 500,
            "matching": 300,
            "rounds": 5,
            "end to end": [500, 1000, 2000, 3000],
        },
        Scale.BEYOND: {
            "sizes": [3000, 30_000, 300_000],
            "publications": 500,
            "matching": 300,
            "rounds": 5,
            "end to end": [30_000],
        },
    },
    run=run,
    plot=plot,
)
