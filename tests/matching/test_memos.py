"""What is remembered is bounded by its bytes, however many attributes there are."""

from __future__ import annotations

import pickle
from sys import getsizeof
from typing import Any

import pytest

from kbn import Matcher, Notification
from kbn.filters import Subscription
from kbn.matching import Poset, covering, notification_table, tokens
from kbn.matching.matcher import subscriptions_of
from kbn.matching.memos import Memo, Memory

BYTES_MAX = 200_000
LONG = "x" * 5_000


def matcher_of_many_attributes() -> Matcher:
    matcher = Matcher()
    for n in range(100):
        matcher.add(f"a{n} #> {{'x'}}", f"bag {n}")
        matcher.add(f"a{n} >* 'x'", f"text {n}")
    return matcher


def memos_of(matcher: Matcher) -> list[Memo[Any, Any]]:
    found = []
    for index in subscriptions_of(matcher).index.table.attributes.values():
        found.append(index._memo)
        if index.elements is not None:
            found.append(index.elements._memo)
    return found


def test_values_of_many_attributes_share_one_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MEMO_BYTES_MAX", BYTES_MAX)
    matcher = matcher_of_many_attributes()
    memos, most = memos_of(matcher), 0
    for n in range(300):
        value: Any = f"{LONG}{n}" if n % 2 else [f"{LONG}{n}", "x"]
        found = matcher.match(Notification({f"a{n % 100}": value}))
        assert list(found) == [f"{'text' if n % 2 else 'bag'} {n % 100}"]
        kept = sum(getsizeof(key) for memo in memos for key in memo)
        assert kept <= BYTES_MAX
        most = max(most, kept)
    assert most > BYTES_MAX / 2, "it does remember"


def test_cells_of_many_attributes_share_one_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "KNOWN_BYTES_MAX", BYTES_MAX)
    matcher = matcher_of_many_attributes()
    indexes, most = subscriptions_of(matcher).index.table.attributes.values(), 0
    for n in range(300):
        table = notification_table([{f"a{n % 100}": f"{LONG}{n}"}])
        assert matcher.match_batch(table)["key"].to_pylist() == [f"text {n % 100}"]
        kept = sum(index.known.bytes for index in indexes)
        assert kept <= BYTES_MAX + 2 * len(LONG)
        most = max(most, kept)
    assert most > BYTES_MAX / 2


def test_what_a_covering_order_remembers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covering, "MEMO_BYTES_MAX", BYTES_MAX)
    poset = Poset()
    memory = poset._implications.memory
    operators = (">*", "*", "!=", "*<", "=")
    most = 0
    for n in range(200):
        text = f"a{n % 20} {operators[n % 5]} '{LONG}{n // 20}' and b{n % 3} != '{LONG}'"
        poset.add(Subscription.parse(text), n)
        if n >= 20:
            poset.remove(n - 20)
        kept = sum(len(LONG) * text.count(LONG) for text in remembered(poset))
        assert kept <= memory.bytes <= BYTES_MAX
        most = max(most, memory.bytes)
    assert most > BYTES_MAX / 2


def remembered(poset: Poset) -> list[str]:
    """The constraints in all memos of an order."""
    memos = (poset._implications._known, poset._shelters, poset._index._query._witnesses)
    found = [str(question) for memo in memos for question in memo]
    for atoms in poset._index._postings._attributes.values():
        found += map(str, atoms._implying)
    return found


def test_a_copy_of_a_memo_is_empty_and_shares_as_it_did() -> None:
    memory = Memory(100)
    memos: list[Memo[str, int]] = [Memo(memory), Memo(memory)]
    memos[0].remember("a", 1, 60)
    one, other = pickle.loads(pickle.dumps(memos))
    assert one == other == {}
    one.remember("b", 2, 60)
    other.remember("c", 3, 60)
    assert (one, other, memos[0]) == ({}, {"c": 3}, {"a": 1})


def test_an_answer_that_changes_is_counted_once() -> None:
    memo: Memo[str, int] = Memo(Memory(100))
    for n in range(10):
        memo.remember("a", n, 60)
    assert memo == {"a": 9} and memo.bytes == 60


def test_where_nobody_may_wait_less_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbn.matching.memos.IN_PARTS_BYTES_MAX", 50_000)
    matcher = Matcher(in_parts=True)
    matcher.add("a >* 'x' or b #>/* {'x'}", 1)
    memories = subscriptions_of(matcher).index.memories
    for n in range(300):
        matcher.match(Notification({"a": f"x{n}" + "y" * 500, "b": [f"x{n}" + "y" * 500]}))
        assert all(each.bytes <= 50_000 for each in memories)
    assert any(each.bytes > 10_000 for each in memories)
    assert Poset(in_parts=True)._implications.memory.bytes_max == 50_000
