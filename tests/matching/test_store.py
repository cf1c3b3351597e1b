"""A store's versions: each answers as the plain evaluator does, whatever came before and after."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.matching.worlds import World, world_of

from kbn.errors import InvalidInputError, UnknownTermError
from kbn.filters import Notification, Subscription
from kbn.matching.json_table import table_from_json
from kbn.matching.shard import Shard, ShardBuilder
from kbn.matching.store import SubscriptionStore
from kbn.matching.store_view import StoreView

Wanted = dict[str, Subscription]
ATTRIBUTES = ("n", "s", "c", "i", "m")


def text_of(subscription: Subscription) -> str:
    return json.dumps(subscription.to_json())


def random_subscription(world: World, random: Random) -> Subscription:
    count = 1 if random.random() < 0.8 else 2
    return Subscription([world.random_filter(random) for _ in range(count)])


def as_table(notifications: list[Notification]) -> pa.Table:
    texts = [json.dumps(n.to_json()["attributes"]) for n in notifications]
    return table_from_json(pa.array(texts), ATTRIBUTES)


def expected(wanted: Wanted, notifications: list[Notification], world: World) -> set[Any]:
    return {
        (row, key, f"of {key}")
        for row, notification in enumerate(notifications)
        for key, asked in wanted.items()
        if asked.matches(notification, world.ontology)
    }


def assert_answers(
    view: StoreView, wanted: Wanted, given: list[Notification], world: World
) -> None:
    found = [tuple(row.values()) for row in view.matches(as_table(given)).to_pylist()]
    assert len(found) == len(set(found))
    assert set(found) == expected(wanted, given, world)
    counted = [0] * len(given)
    for part in view.counts(as_table(given)):
        for row in range(part.starts.shape[0] - 1):
            counts = part.counts[part.starts[row] : part.starts[row + 1]]
            counted[part.first + row] += int(counts.sum())
    entries = [
        sum(f.matches(n, world.ontology) for asked in wanted.values() for f in set(asked.filters))
        for n in given
    ]
    assert counted == entries


@pytest.mark.parametrize("number", range(12))
def test_every_version_answers_as_the_plain_evaluator(
    number: int, seed: int, tmp_path: Path
) -> None:
    random = Random(seed + number)
    world = world_of(random.randrange(1000))
    store = SubscriptionStore.create(tmp_path / "store", world.ontology)
    wanted: Wanted = {}
    history: list[Wanted] = [{}]
    following = store.at(0)
    for step in range(8):
        fresh = {f"s{step}.{n}": random_subscription(world, random) for n in range(6)}
        gone = random.sample(sorted(wanted), min(len(wanted), random.randrange(4)))
        rows = [(key, f"of {key}", text_of(asked)) for key, asked in fresh.items()]
        assert store.change(add=rows, remove=gone) == step + 1
        wanted = {k: v for k, v in {**wanted, **fresh}.items() if k not in gone}
        history.append(wanted)
        if random.random() < 0.3:
            assert store.compact() == step + 1
        given = [world.random_notification(random) for _ in range(5)]
        following.advance(store.version)
        assert_answers(following, wanted, given, world)
    given = [world.random_notification(random) for _ in range(8)]
    for version, then in enumerate(history):
        assert_answers(store.at(version), then, given, world)


@pytest.mark.parametrize("number", range(6))
def test_shards_together_answer_as_one(number: int, seed: int, tmp_path: Path) -> None:
    random = Random(seed + number)
    world = world_of(random.randrange(1000))
    store = SubscriptionStore.create(tmp_path / "store", world.ontology)
    wanted = {f"s{n}": random_subscription(world, random) for n in range(40)}
    rows = [
        {"subscription": key, "subscriber": f"of {key}", "filter": text_of(asked)}
        for key, asked in wanted.items()
    ]
    with store.new_base() as base:
        for shard in range(3):
            builder = ShardBuilder(store.ontology)
            for first in range(shard, len(rows), 6):
                builder.add(pa.Table.from_pylist([r for r in rows[first : first + 6 : 3]]))
            base.reports.append(builder.save(base.directory / f"shard={shard}"))
    assert sum(report.live for report in base.reports) == 40
    store.change(remove=["s3", "s20"], add=[("s3", "of s3", "n any"), ("new", "of new", "m any")])
    wanted = {**wanted, "s3": Subscription.parse("n any"), "new": Subscription.parse("m any")}
    del wanted["s20"]
    given = [world.random_notification(random) for _ in range(10)]
    assert_answers(store.at(), wanted, given, world)
    alone: set[Any] = set()
    for shard in range(3):
        view = StoreView(store, store.base_of(store.version), only=[shard])
        view.advance(store.version)
        found = [tuple(row.values()) for row in view.matches(as_table(given)).to_pylist()]
        assert not alone & set(found)
        alone |= set(found)
    assert alone == expected(wanted, given, world)


def test_what_cannot_be_compiled_is_kept_apart_with_the_reason(tmp_path: Path) -> None:
    store = SubscriptionStore.create(tmp_path / "store", world_of(0).ontology)
    builder = ShardBuilder(store.ontology)
    rows = [
        ("a", "ann", "n < 3"),
        ("b", "bob", "n <"),
        ("c", "cyd", "c @> urn:nothing#Here"),
        (None, "dee", "n < 3"),
        ("a", "eve", "n < 4"),
        ("f", None, "n < 3"),
        ("g", "gus", None),
        ("h", "hal", '{"all": [{"attribute": "n", "op": "<", "value": 9}]}'),
        ("i", "ida", '{"all": 3}'),
    ]
    names = ["subscription", "subscriber", "filter"]
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    builder.add(pa.table(columns, names))
    with store.new_base() as base:
        base.reports.append(builder.save(base.directory / "shard=0"))
    assert (base.reports[0].live, base.reports[0].rejected) == (2, 7)
    rejected = store.rejected()
    assert rejected is not None
    reasons = {row["subscriber"]: row["reason"] for row in rejected.to_pylist()}
    assert reasons["eve"].startswith("an earlier subscription has this id")
    assert reasons["gus"] == "a subscription's filter is null"
    assert "ends too early" in reasons["bob"]
    assert reasons[None] == reasons["dee"] == "no subscription id or no subscriber"
    found = store.at().matches(pa.table({"n": [1, 5]}))
    assert found["subscriber"].to_pylist() == ["ann", "hal", "hal"]


def test_a_change_is_made_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    world = world_of(0)
    store = SubscriptionStore.create(tmp_path / "store", world.ontology)
    store.change(add=[("a", "ann", "n < 3")])
    bad: list[tuple[list[Any], list[Any], str]] = [
        ([("b", "bob", "n < 3"), ("c", "cyd", "n <")], [], "subscription 'c': line 1"),
        ([("a", "bob", "n < 3")], [], "the id 'a' is in use"),
        ([("b", "bob", "n < 3"), ("b", "bob", "n < 4")], [], "the id 'b' is in use"),
        ([], ["z"], "there is no subscription 'z'"),
        ([("b", "n < 3")], [], "give \\(subscription, subscriber, filter\\)"),
        ([(7, "bob", "n < 3")], [], "are string, not 7"),
    ]
    for add, remove, message in bad:
        with pytest.raises(InvalidInputError, match=message):
            store.change(add, remove)
    with pytest.raises(UnknownTermError, match="subscription 'x'"):
        store.change([("x", "xan", "c = class(<urn:t#Nobody>)")])
    assert store.version == 1
    assert store.change(add=[("a", "ann", "n < 9")], remove=["a"]) == 2
    assert store.at().matches(pa.table({"n": [5]}))["subscriber"].to_pylist() == ["ann"]


def test_two_writers_make_two_versions(tmp_path: Path) -> None:
    one = SubscriptionStore.create(tmp_path / "store")
    two = SubscriptionStore.open(tmp_path / "store")
    for number in range(5):
        assert one.change(add=[(f"one{number}", "ann", "n < 3")]) == 2 * number + 1
        assert two.change(add=[(f"two{number}", "bob", "n < 3")]) == 2 * number + 2
    with pytest.raises(InvalidInputError, match="'two3' is in use"):
        one.change(add=[("two3", "ann", "n < 3")])
    assert len(one.at().matches(pa.table({"n": [1]}))) == 10


def test_forgetting_keeps_what_later_versions_need(tmp_path: Path) -> None:
    store = SubscriptionStore.create(tmp_path / "store")
    for number in range(6):
        store.change(add=[(f"s{number}", "ann", "n < 3")])
        if number == 2:
            store.compact()
    store.forget(before=4)
    for version in (3, 4, 5, 6):
        assert len(store.at(version).matches(pa.table({"n": [1]}))) == version
    with pytest.raises(InvalidInputError, match="no version 1, or not any more"):
        store.at(2)
    assert store.change(add=[("last", "ann", "n < 3")]) == 7


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="is not a store of subscriptions"):
        SubscriptionStore.open(tmp_path)
    SubscriptionStore.create(tmp_path / "store")
    with pytest.raises(InvalidInputError, match="is a store already"):
        SubscriptionStore.create(tmp_path / "store")


def test_a_reader_of_a_large_base_takes_one_out_without_copying_it(tmp_path: Path) -> None:
    store = SubscriptionStore.create(tmp_path / "store")
    builder = ShardBuilder(store.ontology)
    names = [f"s{n}" for n in range(3000)]
    filters = [f"n < {n % 50}" for n in range(3000)]
    builder.add(pa.table({"subscription": names, "subscriber": names, "filter": filters}))
    with store.new_base() as base:
        base.reports.append(builder.save(base.directory / "shard=0"))
    store.change(remove=["s49"])
    view = store.at()
    arrays = view.shards[0].held.index.groups
    assert arrays.next_entry.base is not None  # still the mapped file
    found = view.matches(pa.table({"n": [48]}))["subscription"].to_pylist()
    assert sorted(found) == sorted(n for n in names if int(n[1:]) % 50 == 49 and n != "s49")


def test_filters_of_a_shard_may_be_lists_of_constraints(tmp_path: Path) -> None:
    kind = pa.list_(
        pa.struct([("attribute", pa.string()), ("op", pa.string()), ("integer", pa.int64())])
    )
    filters = [
        [{"attribute": "n", "op": "<", "integer": 3}, {"attribute": "m", "op": "=", "integer": 1}],
        [{"attribute": "n", "op": "<<", "integer": 3}],
        None,
        [{"attribute": "n", "op": ">=", "integer": 0}],
    ]
    builder = ShardBuilder(None)
    names = ["s0", "s1", "s2", "s3"]
    columns = {"subscription": names, "subscriber": names, "filter": pa.array(filters, kind)}
    builder.add(pa.table(columns))
    report = builder.save(tmp_path / "shard")
    assert (report.live, report.rejected) == (2, 2) and "<<" in report.example
    shard = Shard(tmp_path / "shard", None)
    found = {
        (row, shard.ids[number].as_py())
        for rows, numbers in shard.pairs(pa.table({"n": [1, 5], "m": [1, 1]}))
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True)
    }
    assert found == {(0, "s0"), (0, "s3"), (1, "s3")}
