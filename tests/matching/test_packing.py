"""Single matches read the arrays of the index by their addresses: always those it has now."""

from __future__ import annotations

import pickle
from itertools import chain
from random import Random
from typing import Any

import numpy as np
import pytest

from kbn.filters import Constraint, Filter, Subscription
from kbn.matching import LinearScan, Matcher, placement
from kbn.matching import indexed_subscriptions as subscriptions_module
from kbn.matching import slabs as slabs_module
from kbn.matching.index import Index
from kbn.matching.kernels import one
from kbn.matching.kernels.packing import WORDS, pack
from kbn.matching.matcher import subscriptions_of

STEPS = 600


def _filter(random: Random) -> Filter:
    constraints = []
    for attribute in random.sample(range(40), random.randint(1, 3)):
        name, low = f"a{attribute}", random.randrange(50)
        kind = random.random()
        if kind < 0.4:
            constraints.append(Constraint(name, "=", low))
        elif kind < 0.5:
            constraints.append(Constraint(name, "!=", low))
        else:
            constraints.append(Constraint(name, ">=", low))
            constraints.append(Constraint(name, "<", low + random.randrange(1, 30)))
    return Filter(constraints)


def _notification(random: Random) -> dict[str, Any]:
    chosen = random.sample(range(40), random.randint(5, 25))
    return {f"a{attribute}": random.randrange(60) for attribute in chosen}


def _arrays(index: Index) -> list[Any]:
    """What the kernels are to see, taken from where it is kept."""
    lanes = index.slabs.lanes
    parts = (index.groups.view(), index.trie.view(), index.slabs.view(), lanes.view())
    return list(chain.from_iterable(parts))


def _addresses(fields: list[Any]) -> list[int]:
    return [each.ctypes.data if isinstance(each, np.ndarray) else int(each) for each in fields]


def _index(matcher: Matcher) -> Index:
    return subscriptions_of(matcher).index


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rebuilds and compactions at every turn."""
    monkeypatch.setattr(placement, "REBUILD_MIN", 16)
    monkeypatch.setattr(subscriptions_module, "COMPACT_MIN", 16)
    monkeypatch.setattr(slabs_module, "LOOSE_MIN", 32)


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_replaced_or_grown_is_packed_anew(seed: int) -> None:
    random = Random(seed)
    matcher, scan = Matcher(), LinearScan()
    live: list[int] = []
    seen: list[set[int]] = []
    snapshot, then, asked = matcher.snapshot(), 0, {}
    for step in range(STEPS):
        shrinks = step // 100 % 2  # it grows for a while, then shrinks
        if live and random.random() < (0.75 if shrinks else 0.25):
            key = live.pop(random.randrange(len(live)))
            matcher.remove(key)
            scan.remove(key)
        elif random.random() < 0.1:
            some = [(_filter(random), STEPS * (step + 1) + n) for n in range(20)]
            matcher.add_many(some)
            for each, key in some:
                scan.add(Subscription(each), key)
                live.append(key)
        else:
            each = _filter(random)
            matcher.add(each, step)
            scan.add(Subscription(each), step)
            live.append(step)
        if step % 100 == 50:
            snapshot, then, asked = matcher.snapshot(), len(matcher), _notification(random)
            expected_then = sorted(scan.match(asked))
        notification = _notification(random)
        assert sorted(matcher.match(notification)) == sorted(scan.match(notification)), step
        index = _index(matcher)
        packed = index.view().packed[one._CODES * WORDS :: WORDS].tolist()
        assert packed == _addresses(_arrays(index)), step
        for place, address in enumerate(packed):
            if place == len(seen):
                seen.append(set())
            seen[place].add(address)
        if then:
            assert len(snapshot) == then
            assert sorted(snapshot.match(asked)) == expected_then
    assert _index(matcher).slabs.count, "slabs were not tried"
    moved = [len(each) for each in seen]
    assert min(moved) > 1, f"something was never replaced: {moved}"


def test_the_kernel_takes_every_field_as_it_was_packed() -> None:
    random = Random(4)
    matcher = Matcher()
    matcher.add_many([(_filter(random), key) for key in range(3_000)])
    for key in range(0, 3_000, 9):
        matcher.remove(key)
    view = _index(matcher).view()
    assert view.slabs.slab_count
    assert view.trie.listed.size
    for given, taken in (
        (view.codes, one._codes(view.packed)),
        (view.trie, one._trie(view.packed)),
        (view.slabs, one._slabs(view.packed)),
        (view.lanes, one._lanes(view.packed)),
    ):
        assert given._fields == taken._fields
        for name, expected, found in zip(given._fields, given, taken, strict=True):
            if isinstance(expected, np.ndarray):
                assert found.dtype == expected.dtype, name
                assert found.ctypes.data == expected.ctypes.data, name
                assert found.shape == expected.shape, name
            else:
                assert found == expected, name


def test_a_pickled_matcher_does_not_look_into_the_one_it_came_from() -> None:
    matcher = Matcher()
    matcher.add("x < 3", "a")
    matcher.add("x < 4", "gone")
    matcher.remove("gone")
    assert list(matcher.match({"x": 1})) == ["a"]
    copy = pickle.loads(pickle.dumps(matcher))
    alive = _index(matcher).groups.alive
    alive[:] = 0
    assert not matcher.match({"x": 1})
    assert list(copy.match({"x": 1})) == ["a"]


def test_arrays_that_do_not_lie_in_a_row_are_not_packed() -> None:
    with pytest.raises(TypeError, match="cannot be packed"):
        pack((np.zeros((4, 4))[:, ::2],))
