"""A trie walked once for many notifications finds what it finds for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from kbn.filters import Constraint, Filter, Notification
from kbn.matching import Matcher, notification_table, placement
from kbn.matching import index as index_module
from kbn.matching.kernels.rows import ROUND, SORTED_MAX
from kbn.matching.matcher import subscriptions_of

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
LARGE = 2**60  # beyond what a float64 tells apart


@pytest.fixture(autouse=True)
def everything_in_the_trie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slabs take nothing, so that the trie's blocks have ranges of every kind; all batches walk it
    once.
    """

    def none_cheaper(weights: Any, members: Any, codes: Any) -> Any:
        return weights[:, 0] != weights[:, 0]

    monkeypatch.setattr(placement, "cheaper_in_slabs", none_cheaper)
    monkeypatch.setattr(index_module, "HITS_PER_ROW", 0)


def _filter(random: Random) -> Filter:
    constraints = []
    for name in random.sample(("a", "b", "c"), random.randint(0, 3)):
        symbol = "!=" if random.random() < 0.2 else "="
        constraints.append(Constraint(name, symbol, random.randrange(6)))
    for name in random.sample(("number", "large", "time"), random.randint(not constraints, 2)):
        for symbol in random.sample(("<", "<=", ">", ">="), random.randint(1, 2)):
            constraints.append(Constraint(name, symbol, _value(random, name)))
    if random.random() < 0.2:
        constraints.append(Constraint("words", "#>", [random.choice("xyz") for _ in range(2)]))
    return Filter(constraints)


def _value(random: Random, name: str) -> Any:
    if name == "large":
        return LARGE + random.randrange(-3, 4)
    if name == "time":
        return EPOCH + timedelta(days=random.randrange(20))
    return random.choice((random.randrange(20), random.randrange(40) / 2))


def _notification(random: Random) -> dict[str, Any]:
    values: dict[str, Any] = {name: random.randrange(7) for name in "abc"}
    values |= {name: _value(random, name) for name in ("number", "large", "time")}
    values["words"] = [random.choice("wxyz") for _ in range(random.randrange(4))]
    return {name: value for name, value in values.items() if random.random() < 0.8}


def _found(matcher: Matcher, several: Sequence[Any]) -> list[set[Any]]:
    found: list[set[Any]] = [set() for _ in several]
    pairs = matcher.match_batch(notification_table(several)).to_pydict()
    for row, key in zip(pairs["notification"], pairs["key"], strict=True):
        assert key not in found[row]
        found[row].add(key)
    return found


@pytest.mark.parametrize("number", range(3))
def test_rounds_agree_with_single_notifications_while_filters_come_and_go(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(number)
    filters = {key: _filter(random) for key in range(1800)}
    matcher = Matcher()
    matcher.add_many([(filters[key], key) for key in range(1500)])
    assert (
        subscriptions_of(matcher).index.trie.listed.shape[0]
        and subscriptions_of(matcher).index.trie.loose_count == 0
    )
    several = [_notification(random) for _ in range(2 * ROUND + 100)]
    for change in range(3):
        for key in random.sample(sorted(filters), 50):
            if key in matcher:
                matcher.remove(key)
                del filters[key]
        for key in [key for key in filters if 1500 + 100 * change <= key < 1600 + 100 * change]:
            matcher.add(filters[key], key)
        found = _found(matcher, several)
        with monkeypatch.context() as patched:
            patched.setattr(index_module, "ROWS_MIN", len(several) + 1)
            assert _found(matcher, several) == found
    assert subscriptions_of(matcher).index.trie.loose_count > 0
    assert max(map(len, found)) > min(map(len, found))
    for row in random.sample(range(len(several)), 10):
        notification = Notification(several[row])
        accepted = {key for key, one in filters.items() if one.matches(notification)}
        assert found[row] == accepted


def test_more_axes_than_are_sorted() -> None:
    names = [f"n{number}" for number in range(SORTED_MAX + 3)]
    matcher = Matcher()
    matcher.add_many([(f"{name} >= 1 and {name} < 3", name) for name in names])
    subscriptions_of(matcher).index.rebuild()
    several = [{name: row % 5 for name in names[row % 7 :]} for row in range(50)]
    expected = [{name for name, value in each.items() if 1 <= value < 3} for each in several]
    assert _found(matcher, several) == expected


def test_a_filter_of_very_many_tokens_is_deep_in_the_trie() -> None:
    names = [f"n{number}" for number in range(200)]
    matcher = Matcher()
    for length in (1, 2, 150, 200):
        matcher.add(" and ".join(f"{name} = 1" for name in names[:length]), length)
    subscriptions_of(matcher).index.rebuild()
    several = [dict.fromkeys(names[:count], 1) for count in (*range(1, 5), 150, 199, 200) * 6]
    expected = [{n for n in (1, 2, 150, 200) if n <= len(each)} for each in several]
    assert _found(matcher, several) == expected
