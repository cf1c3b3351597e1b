"""Clustering of subscriptions: nobody misses anything, and how near the best each comes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import combinations
from math import e
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbn.errors import InvalidInputError, LimitError
from kbn.grouping import Delivery, publisher_groups
from kbn.lab.baselines import cells, subscription_clusters
from kbn.lab.baselines.cells import SubscriptionClusters
from kbn.lab.baselines.subscription_clusters import (
    BASELINES,
    channels,
    k_means,
    no_loss,
    pairwise,
    spanning_tree,
)

LETTERS = "ABCDE"
GRID = [k_means, pairwise, spanning_tree]
EVERY = pytest.mark.parametrize("form", BASELINES.values(), ids=list(BASELINES))

Names = frozenset[str]
System = tuple[list[Names], dict[Names, int], dict[int, int]]


def named(*words: str) -> list[Names]:
    return [frozenset(word) for word in words]


def within(names: Names) -> list[Names]:
    return [
        frozenset(chosen)
        for size in range(1, len(names) + 1)
        for chosen in combinations(sorted(names), size)
    ]


@st.composite
def systems(draw: st.DrawFn) -> System:
    """What publishers send, how many want what, and how much each sends."""
    some = st.frozensets(st.sampled_from(LETTERS), min_size=1)
    sets = draw(st.lists(some, min_size=1, max_size=10))
    possible = st.sampled_from(within(frozenset().union(*sets)))
    wanted = draw(st.dictionaries(possible, st.integers(0, 4), max_size=12))
    sent = {place: draw(st.integers(0, 3)) for place in range(len(sets))}
    return sets, wanted, sent


def tiny_system(number: int) -> System:
    """Up to six cells of four attributes, so that all partitions can be looked at."""
    rng = random.Random(number)
    sets = sorted(rng.sample(within(frozenset("ABCD")), 6), key=sorted)
    advertised = sorted({part for each in sets for part in within(each)}, key=sorted)
    wanted = {part: rng.randint(1, 9) for part in rng.sample(advertised, min(6, len(advertised)))}
    sent = {place: rng.randint(1, 9) for place in range(len(sets))}
    return sets, wanted, sent


# The meaning of it all, slowly.


def counted(made: SubscriptionClusters, system: System) -> Delivery:
    """Every notification followed to every subscriber, one by one."""
    sets, wanted, sent = system
    connections, memberships, unicast = made.connections, made.memberships, made.unicast
    received = in_vain = 0
    for publisher, attributes in enumerate(sets):
        alone = 0
        for combination, subscribers in wanted.items():
            shared = set(connections[publisher]) & set(memberships.get(combination, ()))
            assert len(shared) <= 1, "twice"
            is_wanted = combination <= attributes
            alone += subscribers * (is_wanted and not shared)
            received += sent[publisher] * subscribers * (is_wanted or bool(shared))
            in_vain += sent[publisher] * subscribers * (bool(shared) and not is_wanted)
        assert unicast[publisher] == alone
    return Delivery(received, in_vain)


def waste(blocks: list[list[Names]], system: System) -> int:
    """The expected waste of a partition of the cells, from its definition."""
    sets, wanted, sent = system
    rates: dict[Names, int] = {}
    for publisher, attributes in enumerate(sets):
        rates[attributes] = rates.get(attributes, 0) + sent[publisher]
    total = 0
    for block in blocks:
        joined = {want for want in wanted if any(want <= cell for cell in block)}
        total += sum(
            rates[cell] * wanted[want] for cell in block for want in joined if not want <= cell
        )
    return total


def partitions(things: list[Names], most: int) -> Iterator[list[list[Names]]]:
    """All ways to put things into at most so many blocks."""
    if not things:
        yield []
        return
    for blocks in partitions(things[1:], most):
        for place in range(len(blocks)):
            yield [*blocks[:place], [things[0], *blocks[place]], *blocks[place + 1 :]]
        if len(blocks) < most:
            yield [[things[0]], *blocks]


def interesting(system: System) -> list[Names]:
    """The cells somebody is interested in."""
    sets, wanted, _ = system
    return sorted(
        {each for each in sets if any(want <= each for want, n in wanted.items() if n)}, key=sorted
    )


def blocks_of(made: SubscriptionClusters) -> list[list[Names]]:
    return [sorted(cluster.cells, key=sorted) for cluster in made.clusters]


# What holds for all of them.


@EVERY
@given(system=systems(), k=st.integers(1, 6))
def test_everyone_interested_gets_everything_once(form: Any, system: System, k: int) -> None:
    sets, wanted, sent = system
    made = form(sets, k, wanted, sent)
    made.check_invariants()
    assert made.deliveries() == counted(made, system)
    assert made.false_positive_rate() == made.deliveries().rate
    assert len(made.clusters) <= k
    if form is no_loss:
        assert made.deliveries().false_positives == 0
    else:
        assert set(made.unicast.values()) <= {0}


@EVERY
@settings(max_examples=20)
@given(system=systems(), k=st.integers(1, 6))
def test_clusters_tell_the_same_as_connections_and_in_any_order_of_publishers(
    form: Any, system: System, k: int
) -> None:
    sets, wanted, sent = system
    made = form(sets, k, wanted, sent)
    for cluster in made.clusters:
        senders = [p for p, used in made.connections.items() if cluster.number in used]
        members = {c for c, used in made.memberships.items() if cluster.number in used}
        assert cluster.publishers == len(senders) > 0
        assert cluster.cells == {sets[p] for p in senders}
        assert cluster.combinations == members
        assert cluster.subscribers == sum(wanted[c] for c in members) > 0
    turned = form({key: sets[key] for key in reversed(sent)}, k, wanted, sent)
    assert turned.clusters == made.clusters
    assert turned.connections == made.connections


@EVERY
def test_by_default_all_that_is_advertised_is_wanted_once_as_in_groups(form: Any) -> None:
    sets = named("AB", "AB", "AC", "ABC")
    advertised = {part for each in sets for part in within(each)}
    told = form(sets, 2, dict.fromkeys(advertised, 1), dict.fromkeys(range(4), 1))
    made = form(sets, 2)
    assert made.clusters == told.clusters
    assert made.deliveries() == told.deliveries()


@pytest.mark.parametrize("form", [*GRID, channels])
def test_one_cluster_delivers_what_one_publisher_group_does(form: Any) -> None:
    sets = named("AB", "AC", "AD", "ABD", "AC")
    groups = publisher_groups(sets, "3", connections=1)
    assert len(groups.clusters) == 1
    made = form(sets, 1)
    assert made.deliveries() == groups.deliveries()
    assert made.clusters[0].false_positive_rate == groups.clusters[0].false_positive_rate > 0
    assert {key: len(used) for key, used in made.connections.items()} == dict.fromkeys(range(5), 1)


@EVERY
def test_who_wants_what_nobody_sends_is_in_no_cluster(form: Any) -> None:
    sets = named("AB", "C")
    made = form(sets, 3, {frozenset("A"): 2, frozenset("AC"): 5})
    assert made.memberships == {frozenset("A"): (1,)}
    assert made.connections == {0: (1,), 1: ()}
    assert made.deliveries() == Delivery(2, 0)


@EVERY
def test_without_publishers_or_subscribers_there_are_no_clusters(form: Any) -> None:
    for made in (form([], 3), form(named("AB"), 3, {})):
        assert made.clusters == ()
        assert made.deliveries() == Delivery(0, 0)
        assert made.false_positive_rate() == 0


@EVERY
def test_a_thousand_publishers_and_thirty_thousand_subscribers(form: Any, seed: int) -> None:
    rng = random.Random(seed)
    letters = "ABCDEFGHIJ"
    sets = [frozenset(rng.sample(letters, rng.randint(3, 4))) for _ in range(1000)]
    advertised = sorted({part for each in sets for part in within(each)}, key=sorted)
    wanted: dict[Names, int] = dict.fromkeys(advertised, 0)
    for _ in range(30_000):
        wanted[rng.choice(advertised)] += 1
    made = form(sets, 50, wanted)
    made.check_invariants()
    assert 1 < len(made.clusters) <= 50
    needed = sum(n for each in sets for want, n in wanted.items() if want <= each)
    received, in_vain = made.deliveries()
    assert received - in_vain == needed


# How good each is.


@pytest.mark.parametrize("form", GRID)
@settings(max_examples=20)
@given(system=systems())
def test_a_cluster_for_each_cell_wastes_nothing(form: Any, system: System) -> None:
    sets, wanted, sent = system
    made = form(sets, max(1, len(interesting(system))), wanted, sent)
    assert made.deliveries().false_positives == 0


@pytest.mark.parametrize("number", range(20))
def test_pairwise_is_the_best_where_one_pair_is_joined(number: int) -> None:
    system = tiny_system(number)
    found = interesting(system)
    k = len(found) - 1
    made = pairwise(system[0], k, *system[1:])
    best = min(waste(blocks, system) for blocks in partitions(found, k))
    assert made.deliveries().false_positives == waste(blocks_of(made), system) == best


@pytest.mark.parametrize("number", range(5))
def test_pairwise_joins_what_the_definition_joins_at_every_step(number: int) -> None:
    rng = random.Random(number)
    sets = rng.sample(within(frozenset(LETTERS)), 14)
    advertised = sorted({part for each in sets for part in within(each)}, key=sorted)
    wanted = {part: rng.randint(1, 10_000) for part in rng.sample(advertised, 8)}
    system = sets, wanted, {place: rng.randint(1, 10_000) for place in range(len(sets))}
    blocks = [[cell] for cell in interesting(system)]
    while len(blocks) > 2:
        blocks = min(
            (
                [*(b for b in blocks if b not in (one, other)), one + other]
                for one, other in combinations(blocks, 2)
            ),
            key=lambda each: waste(each, system),
        )
        made = pairwise(sets, len(blocks), *system[1:])
        assert waste(blocks_of(made), system) == waste(blocks, system)


@pytest.mark.parametrize("number", range(20))
@pytest.mark.parametrize("k", [2, 3])
def test_no_move_of_one_cell_improves_k_means(number: int, k: int) -> None:
    system = tiny_system(number)
    blocks = blocks_of(k_means(system[0], k, *system[1:]))
    blocks += [[] for _ in range(k - len(blocks))]
    ours = waste(blocks, system)
    for here, block in enumerate(blocks):
        for cell in block:
            for there in set(range(k)) - {here}:
                moved = [[each for each in b if each != cell] for b in blocks]
                moved[there].append(cell)
                assert waste(moved, system) >= ours


@pytest.mark.parametrize(("form", "factor"), [(k_means, 1.1), (pairwise, 1.05)])
def test_the_waste_is_near_the_least_of_all_partitions(form: Any, factor: float) -> None:
    ours = best = 0
    for number in range(60):
        system = tiny_system(number)
        for k in (2, 3, 4):
            mine = form(system[0], k, *system[1:]).deliveries().false_positives
            least = min(waste(b, system) for b in partitions(interesting(system), k))
            assert mine >= least
            ours += mine
            best += least
    assert best > 0
    assert ours <= factor * best


@pytest.mark.parametrize("number", range(20))
@pytest.mark.parametrize("k", [2, 3])
def test_the_spanning_tree_keeps_clusters_the_furthest_apart(number: int, k: int) -> None:
    system = tiny_system(number)

    def spacing(blocks: list[list[Names]]) -> int:
        return min(
            waste([[one, other]], system)
            for mine, theirs in combinations(blocks, 2)
            for one in mine
            for other in theirs
        )

    made = blocks_of(spanning_tree(system[0], k, *system[1:]))
    assert len(made) == k
    every = [b for b in partitions(interesting(system), k) if len(b) == k]
    assert spacing(made) == max(map(spacing, every))


@pytest.mark.parametrize("number", range(20))
def test_no_loss_spares_nearly_what_the_best_clusters_would(number: int) -> None:
    sets, wanted, sent = tiny_system(number)
    k = 2

    def spared(chosen: tuple[Names, ...]) -> int:
        return sum(
            sent[p]
            * max(
                (
                    sum(n for want, n in wanted.items() if want <= each)
                    for each in chosen
                    if each <= attributes
                ),
                default=0,
            )
            for p, attributes in enumerate(sets)
        )

    made = no_loss(sets, k, wanted, sent)
    ours = made.deliveries().received - made.unicast_deliveries()
    best = max(map(spared, combinations(within(frozenset("ABCD")), k)))
    assert (1 - 1 / e) * best <= ours <= best


def test_no_loss_multicasts_what_many_want_and_sends_the_rest_one_by_one() -> None:
    wanted = {frozenset("A"): 10, frozenset("B"): 1}
    made = no_loss(named("AB", "A"), 1, wanted)
    assert [cluster.combinations for cluster in made.clusters] == [{frozenset("A")}]
    assert made.connections == {0: (1,), 1: (1,)}
    assert made.unicast == {0: 1, 1: 0}
    assert made.deliveries() == Delivery(21, 0)
    assert made.unicast_deliveries() == 1


def test_channels_are_hierarchies_while_there_are_enough() -> None:
    sets = named("AB", "BC", "D", "BC")
    wanted = dict.fromkeys(named("A", "B", "AB", "BC", "D"), 1)
    made = channels(sets, 9, wanted)
    # AB is covered by A and by B, and A is heard less: it overlaps more.
    assert {cluster.combinations for cluster in made.clusters} == {
        frozenset(named("A", "AB")),
        frozenset(named("B", "BC")),
        frozenset(named("D")),
    }
    assert [len(used) for used in made.connections.values()] == [2, 1, 1, 1]
    assert made.deliveries() == Delivery(9, 1)


def test_channels_that_overlap_are_merged_and_others_kept_apart() -> None:
    sets = named("AB", "BC", "D", "D")
    wanted = dict.fromkeys(named("A", "B", "D"), 1)
    made = channels(sets, 2, wanted)
    assert {cluster.combinations for cluster in made.clusters} == {
        frozenset(named("A", "B")),
        frozenset(named("D")),
    }
    assert made.deliveries() == Delivery(6, 1)


@given(system=systems(), k=st.integers(1, 6))
def test_a_subscriber_is_in_one_channel_with_one_that_covers_it(system: System, k: int) -> None:
    sets, wanted, sent = system
    made = channels(sets, k, wanted, sent)
    there = {each for each in wanted if each in made.memberships}
    roots = {each for each in there if not any(other < each for other in there)}
    assert len(made.clusters) == min(k, len(roots))
    assert all(len(used) == 1 for used in made.memberships.values())
    for cluster in made.clusters:
        mine = roots & cluster.combinations
        assert all(any(root <= each for root in mine) for each in cluster.combinations)


# Bad input.


@EVERY
@pytest.mark.parametrize("k", [0, -1, True, 2.0, "3"])
def test_k_must_be_a_number_of_clusters(form: Any, k: Any) -> None:
    with pytest.raises(InvalidInputError, match="k is the most clusters"):
        form(named("AB"), k)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"wanted": {frozenset("A"): -1}}, r"the subscribers of \['A'\] must be a whole number"),
        ({"wanted": {frozenset("A"): 1.5}}, r"the subscribers of \['A'\] must be a whole number"),
        ({"wanted": {frozenset("Z"): 1}}, "a combination wanted has the attribute 'Z'"),
        ({"wanted": {frozenset(): 1}}, "a combination wanted has no attribute"),
        ({"sent": {0: -2}}, "what 0 sends must be a whole number"),
        ({"sent": {"nobody": 1}}, "there is no publisher 'nobody'"),
    ],
)
@EVERY
def test_bad_subscribers_and_rates_are_refused(
    form: Any, arguments: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        form(named("AB"), 2, **arguments)


@EVERY
def test_bad_advertisements_are_refused(form: Any) -> None:
    with pytest.raises(InvalidInputError, match="not the one string"):
        form(["AB"], 2)
    with pytest.raises(InvalidInputError, match="the publisher 1 has no attribute"):
        form([["A"], []], 2)
    with pytest.raises(LimitError, match="17 attributes"):
        form([[str(number) for number in range(17)]], 2)


@EVERY
def test_more_than_fits_is_refused(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "TABLE_MAX", 5)
    with pytest.raises(LimitError, match="2 sets of attributes with 3 combinations"):
        form(named("AB", "A"), 2)


@pytest.mark.parametrize("form", [pairwise, spanning_tree, channels])
def test_more_than_can_be_compared_is_refused(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_clusters, "COMPARED_MAX", 2)
    with pytest.raises(LimitError, match="too many to compare each with each"):
        form(named("A", "B", "C"), 1)
