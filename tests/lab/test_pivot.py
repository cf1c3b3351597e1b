"""The pivot scan finds what asking every subscription finds, and says what it cannot take."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kbn.errors import InvalidInputError, LimitError
from kbn.filters import Filter, Subscription
from kbn.lab.baselines.pivot import PivotScan
from kbn.lab.measuring import rows_as_notifications
from kbn.lab.workloads import Mixed, Mixture, Pair, workload
from kbn.lab.workloads.mixed import NEUTRAL
from kbn.matching import LinearScan


def built(pairs: list[Pair], table: pa.Table) -> PivotScan:
    engine = PivotScan()
    engine.add_many(pairs)
    engine.build(table)
    return engine


def by_asking_each(pairs: list[Pair], table: pa.Table) -> list[tuple[int, int]]:
    scan = LinearScan()
    scan.add_many(pairs)
    found = [scan.match(row) for row in rows_as_notifications(table, table.num_rows)]
    return sorted((row, key) for row, keys in enumerate(found) for key in keys)  # type: ignore[misc]


MIXTURES = [*NEUTRAL, "few values", "equalities", "open ranges"]


def made(name: str) -> Mixed:
    if name in NEUTRAL:
        return Mixed(NEUTRAL[name], name)
    share = {"few values": 0.7, "equalities": 1.0, "open ranges": 0.0}[name]
    return Mixed(Mixture(attributes=8, values=3, equalities=share, present=0.5, selectivity=0.02))


@pytest.mark.parametrize("name", MIXTURES)
def test_it_finds_what_asking_each_finds(name: str) -> None:
    world = made(name)
    pairs, table = next(world.subscriptions(300, 5)), world.notifications(30, 5)
    engine = built(pairs, table)
    wanted = by_asking_each(pairs, table)
    assert sorted(engine.found(table, len(pairs))) == wanted
    assert engine.counts(table).sum() == len(wanted)


def test_open_closed_and_crossed_bounds() -> None:
    texts = ["a > 3 and a < 5", "a >= 3 and a <= 5", "a = 4", "a > 4 and a < 4", "a != 4"]
    pairs = [(Subscription.parse(text), key) for key, text in enumerate(texts[:4])]
    table = pa.table({"a": [2.0, 3.0, 3.5, 4.0, 5.0, None]})
    assert sorted(built(pairs, table).found(table, 9)) == by_asking_each(pairs, table)
    with pytest.raises(InvalidInputError, match="equalities and ranges of numbers"):
        PivotScan().add_many([(Subscription.parse(texts[4]), 0)])


def test_what_it_cannot_take_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="conjunctions"):
        PivotScan().add_many([(Subscription.parse("a = 1 or b = 1"), 0)])
    with pytest.raises(InvalidInputError, match="without constraints"):
        PivotScan().add_many([(Subscription(Filter()), 0)])
    with pytest.raises(InvalidInputError, match="not both"):
        PivotScan().add_many([(Subscription.parse('a = 1 and a = "x"'), 0)])
    wide = workload("w20")
    engine = PivotScan(bytes_max=1000)
    engine.add_many(next(wide.subscriptions(10, 0)))
    with pytest.raises(LimitError, match="too wide"):
        engine.build(wide.notifications(10, 0))


def test_cells_are_joined_until_wide_ranges_fit_and_the_answers_stay() -> None:
    wide = workload("w20")
    pairs, table = next(wide.subscriptions(50, 0)), wide.notifications(30, 0)
    roomy, tight = built(pairs, table), PivotScan(bytes_max=1 << 20)
    tight.add_many(pairs)
    tight.build(table)
    assert tight.cells < roomy.cells and tight.memory() < roomy.memory()
    assert tight.counts(table).tolist() == roomy.counts(table).tolist()
