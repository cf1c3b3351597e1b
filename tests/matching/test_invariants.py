"""The matcher checks itself: what is whole passes, and any one thing out of place is noticed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.matching.worlds import world_of

from kbn.filters import Constraint, Filter
from kbn.matching import Matcher
from kbn.matching.index import Index
from kbn.matching.invariants import check_invariants
from kbn.matching.kernels.code import EMPTY
from kbn.matching.kernels.listing import BEHIND, DEPTH, TOKEN
from kbn.matching.kernels.slab import ALL_FAIL, NOBODY_FAILS, SLAB
from kbn.matching.matcher import subscriptions_of
from kbn.matching.subscribers import TOMBSTONE


def index_of(matcher: Matcher) -> Index:
    return subscriptions_of(matcher).index


def _filter(random: Random) -> Filter:
    if random.random() < 0.2:  # one of many values, and more that must be verified: for the trie
        below = Constraint("b", "<", random.randrange(9))
        rare = [Constraint(name, "=", random.randrange(200)) for name in ("id", "of", "by")]
        return Filter([*rare, below])
    constraints = []
    for attribute in random.sample(range(6), random.randint(1, 3)):
        name, low = f"a{attribute}", random.randrange(1000)
        drawn = random.random()
        if drawn < 0.4:
            constraints.append(Constraint(name, "=", random.randrange(random.choice((3, 300)))))
        elif drawn < 0.5:
            constraints.append(Constraint(name, "!=", random.randrange(3)))
        else:
            constraints.append(Constraint(name, ">=", low))
            constraints.append(Constraint(name, "<", low + random.randrange(1, 300)))
    return Filter(constraints)


def _priced(random: Random) -> Filter:
    """One of many filters with a range of one attribute: a slab of them has a hull."""
    low = random.randrange(1000)
    return Filter(
        [
            Constraint("price", ">=", low),
            Constraint("price", "<", low + random.randrange(1, 300)),
            Constraint(f"a{random.randrange(6)}", "<", random.randrange(1000)),
        ]
    )


@pytest.fixture(scope="module")
def whole() -> bytes:
    """A matcher with something in every part: blocks, chains, whole slabs, an open one, a hull."""
    random = Random(5)
    matcher = Matcher()
    some = [(_filter(random), key) for key in range(1500)]
    matcher.add_many([*some, *((_priced(random), key) for key in range(1500, 3000))])
    for key in range(3000, 3060):
        matcher.add(_filter(random), key)
    for key in random.sample(range(3060), 40):
        matcher.remove(key)
    index = index_of(matcher)
    assert index.slabs.slab_count > 1 and index.slabs.open_free > 0
    assert index.trie.loose_count and (index.trie.listed[:, DEPTH] > 0).any()
    assert index.trie.blocks.shape[0] and (index.trie.chains[: index.trie.node_count] >= 0).any()
    check_invariants(matcher)
    return pickle.dumps(matcher)


def _used_slot(matcher: Matcher) -> int:
    return int(np.flatnonzero(index_of(matcher).trie.slots[:, 0] != EMPTY)[0])


def _forget_a_key(matcher: Matcher) -> None:
    keys = subscriptions_of(matcher).subscribers.keys()
    assert isinstance(keys, list)
    keys[next(n for n, key in enumerate(keys) if key is not TOMBSTONE)] = TOMBSTONE


def _name_an_unknown_token(matcher: Matcher) -> None:
    groups = index_of(matcher).groups
    headers = groups.code[groups.code_start[: groups.group_count]]
    with_tokens = np.flatnonzero(headers & 0xFFFFF)
    groups.code[groups.code_start[with_tokens[0]] + 1] = len(index_of(matcher).table)


def _lose_a_chain(matcher: Matcher) -> None:
    chains = index_of(matcher).trie.chains
    chains[np.flatnonzero(chains[: index_of(matcher).trie.node_count] >= 0)[0]] = EMPTY


def _turn_two_ranks(matcher: Matcher) -> None:
    rank = index_of(matcher).trie.rank
    rank[:] = rank[::-1].copy()


def _say_leaf(matcher: Matcher) -> None:
    slots = index_of(matcher).trie.slots
    inner = np.flatnonzero((slots[:, 0] != EMPTY) & (slots[:, 1] & 1 == 1))
    slots[inner[0], 1] &= ~np.int64(1)


def _move_a_slot(matcher: Matcher) -> None:
    slots = index_of(matcher).trie.slots
    used, free = _used_slot(matcher), int(np.flatnonzero(slots[:, 0] == EMPTY)[-1])
    slots[free] = slots[used]
    slots[used] = EMPTY


def _put_a_member_twice(matcher: Matcher) -> None:
    index_of(matcher).slabs.members[1] = index_of(matcher).slabs.members[0]


def _fail_where_it_may_pass(matcher: Matcher) -> None:
    slabs = index_of(matcher).slabs
    rows = slabs.row_of[0, 1:]
    slabs.rows[rows[rows > ALL_FAIL]] = ~slabs.idle[0]


def _pass_where_it_is_decided(matcher: Matcher) -> None:
    """No row says no any more: an equality that only its rows decide is left open."""
    index_of(matcher).slabs.row_of[:] = NOBODY_FAILS


def _shrink_a_hull(matcher: Matcher) -> None:
    slabs = index_of(matcher).slabs
    slab = int(np.flatnonzero(slabs.hull_lane[: slabs.slab_count, 0] < slabs.lanes.count)[0])
    slabs.hull_mask[slab, 0] = 1


def _busy_a_free_place(matcher: Matcher) -> None:
    slabs = index_of(matcher).slabs
    slabs.idle[slabs.slab_count - 1, -1] &= ~np.uint64(1)


def _free_a_place(matcher: Matcher) -> None:
    index_of(matcher).slabs.idle[0, 0] |= np.uint64(1)


def _widen_a_check(matcher: Matcher) -> None:
    checks = index_of(matcher).slabs.checks
    checks.view(np.float32)[np.flatnonzero(checks[:, 0] >= 0)[0], 1] -= 1


def _skip_a_check(matcher: Matcher) -> None:
    slabs = index_of(matcher).slabs
    place = int(np.flatnonzero(np.diff(slabs.check_start[: SLAB + 1] >> 1))[0])
    slabs.check_start[place] += 2


def _unsort_a_grid(matcher: Matcher) -> None:
    lanes = index_of(matcher).slabs.lanes
    lane = int(np.flatnonzero(lanes.grid_size > 1)[0])
    lanes.grid[lane, :2] = lanes.grid[lane, 1::-1]


def _share_an_exact_cell(matcher: Matcher) -> None:
    cells = index_of(matcher).slabs.lanes.token_cell
    exact = np.flatnonzero((cells >= 0) & (cells & 1 == 1))
    cells[exact[1]] = cells[exact[0]]


def _damage_a_block(matcher: Matcher) -> None:
    index_of(matcher).trie.blocks[-1] += 1


def _list_another_token(matcher: Matcher) -> None:
    trie = index_of(matcher).trie
    deep = np.flatnonzero(trie.listed[:, DEPTH] > 0)
    trie.listed[deep[0], TOKEN] += 1


def _skip_listed_nodes(matcher: Matcher) -> None:
    index_of(matcher).trie.listed[0, BEHIND] += 1


def _lose_a_root(matcher: Matcher) -> None:
    root_of = index_of(matcher).trie.root_of
    root_of[np.flatnonzero(root_of >= 0)[0]] = EMPTY


def _lose_a_loose_one(matcher: Matcher) -> None:
    index_of(matcher).trie.loose_count -= 1


def _count(part: str, name: str) -> Callable[[Matcher], None]:
    def damage(matcher: Matcher) -> None:
        owner = index_of(matcher) if part == "index" else getattr(index_of(matcher), part)
        setattr(owner, name, getattr(owner, name) + 1)

    damage.__name__ = f"_miscount_{name}"
    return damage


DAMAGES = [
    _forget_a_key, _name_an_unknown_token, _lose_a_chain, _turn_two_ranks, _say_leaf, _move_a_slot,
    _put_a_member_twice, _fail_where_it_may_pass, _pass_where_it_is_decided, _shrink_a_hull,
    _busy_a_free_place, _free_a_place, _widen_a_check, _skip_a_check, _unsort_a_grid,
    _share_an_exact_cell, _damage_a_block, _list_another_token, _skip_listed_nodes, _lose_a_root,
    _lose_a_loose_one,
    _count("groups", "dead_groups"), _count("trie", "node_count"), _count("slabs", "count"),
    _count("slabs", "open_free"), _count("slabs", "check_count"), _count("index", "placed_count"),
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__.strip("_"))
def test_one_thing_out_of_place_is_noticed(whole: bytes, damage: Callable[[Matcher], None]) -> None:
    matcher: Matcher = pickle.loads(whole)
    damage(matcher)
    with pytest.raises(AssertionError):
        check_invariants(matcher)


@pytest.mark.parametrize("number", range(6))
def test_random_worlds_stay_whole_through_changes_compaction_and_files(
    number: int, tmp_path: Path
) -> None:
    world, random = world_of(number), Random(number)
    matcher = Matcher(world.ontology)
    drawn = [world.random_filter(random) for _ in range(3000)]
    usable = [one for one in drawn if _is_known(world.ontology, one)]
    matcher.add_many((one, key) for key, one in enumerate(usable))
    check_invariants(matcher)
    before = index_of(matcher).groups
    for key in range(len(usable) - 100):
        matcher.remove(key)
    assert index_of(matcher).groups is not before, "nothing was compacted"
    check_invariants(matcher)
    for key, one in enumerate(usable[:50]):
        matcher.add(one, key)
    matcher.save(tmp_path / "saved")
    loaded = Matcher.load(tmp_path / "saved", world.ontology)
    check_invariants(loaded)
    loaded.add(usable[0], "another")
    check_invariants(loaded)


def _is_known(ontology: object, one: Filter) -> bool:
    from kbn.errors import InvalidInputError

    try:
        Matcher(ontology).add(one, 0)  # type: ignore[arg-type]
    except InvalidInputError:
        return False
    return True
