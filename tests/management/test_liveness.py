"""Liveness: a broker is dead when it is silent and all its neighbours have lost it; not before."""

from __future__ import annotations

from itertools import chain, combinations
from random import Random

import pytest

from kbn.management.liveness import DEAD_AFTER_S, BrokerSign, Liveness

ROW = {"a": ("b",), "b": ("a", "c"), "c": ("b", "d"), "d": ("c",)}


def heard(*brokers: str, at: float = 0.0) -> Liveness:
    liveness = Liveness()
    for broker in brokers or ROW:
        liveness.heard_of(broker, at)
    return liveness


def test_silence_alone_makes_nobody_dead() -> None:
    liveness = heard()
    liveness.signed(BrokerSign("c"), 50.0)
    assert not liveness.look(ROW, 50.0) and not liveness.dead


def test_nor_does_the_word_of_neighbours_about_one_that_gives_signs() -> None:
    liveness = heard()
    for now in range(20):
        liveness.signed(BrokerSign("c", ("d",)), float(now))
        liveness.signed(BrokerSign("d", ("c",)), float(now))
        assert not liveness.look(ROW, float(now))


def test_one_neighbour_that_reaches_it_is_enough_to_live() -> None:
    liveness = heard()
    liveness.signed(BrokerSign("b", ("c",)), 9.0)
    liveness.signed(BrokerSign("d"), 9.0)
    assert not liveness.look(ROW, 9.0)
    liveness.signed(BrokerSign("d", ("c",)), 9.5)
    assert liveness.look(ROW, 9.5) and liveness.dead == {"c"}


def test_one_whose_neighbours_are_all_dead_and_that_is_silent_is_dead_too() -> None:
    liveness = heard()
    liveness.signed(BrokerSign("b", ("c",)), 9.0)
    assert not liveness.look(ROW, 9.0), "d may reach c"
    liveness.signed(BrokerSign("d", ("c",)), 9.0)
    assert liveness.look(ROW, 9.0 + DEAD_AFTER_S) and liveness.dead == {"c", "d"}


def test_it_is_dead_until_it_is_heard_of_again_also_when_nobody_has_it_as_a_neighbour() -> None:
    liveness = heard()
    liveness.signed(BrokerSign("c", ("d",)), 5.0)
    assert liveness.look(ROW, 5.0)
    liveness.signed(BrokerSign("c"), 6.0)
    without = {"a": ("b",), "b": ("a", "c"), "c": ("b",)}
    assert not liveness.look(without, 6.0) and liveness.dead == {"d"}
    liveness.listen_again(7.0)
    assert not liveness.look(without, 7.0) and liveness.dead == {"d"}
    liveness.heard_of("d", 8.0)
    assert liveness.look(without, 8.0) and not liveness.dead


def test_who_says_to_be_a_neighbour_and_is_none_is_no_witness() -> None:
    liveness = heard(*ROW, "mallory")
    liveness.signed(BrokerSign("c", ("d",)), 9.0)
    liveness.signed(BrokerSign("mallory"), 9.0)
    assert liveness.look({**ROW, "mallory": ("d",)}, 9.0) and liveness.dead == {"d"}


def test_what_could_not_be_heard_is_not_held_against_anybody() -> None:
    liveness = heard()
    liveness.signed(BrokerSign("c", ("d",)), 1.0)
    liveness.listen_again(100.0)
    assert not liveness.look(ROW, 100.0)
    assert liveness.look(ROW, 100.0 + DEAD_AFTER_S)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_least_set_that_the_rule_adds_nothing_to(seed: int) -> None:
    """Against the definition, asked of every set of silent brokers."""
    print(f"seed {seed}")
    rng = Random(seed)
    names = "abcdef"
    pairs = [pair for pair in combinations(names, 2) if rng.random() < 0.4]
    links = {n: tuple(m for m in names if (n, m) in pairs or (m, n) in pairs) for n in names}
    lost = {n: tuple(m for m in links[n] if rng.random() < 0.7) for n in names}
    silent = {n for n in names if rng.random() < 0.6}
    liveness = heard(*names)
    for name in names:
        liveness.signed(BrokerSign(name, lost[name]), 0.0 if name in silent else 10.0)
    liveness.look(links, 10.0)

    def is_dead(name: str, dead: set[str]) -> bool:
        return bool(links[name]) and all(m in dead or name in lost[m] for m in links[name])

    # The least fixed point: the intersection of all sets that are closed under the rule.
    sets = chain.from_iterable(combinations(sorted(silent), k) for k in range(len(silent) + 1))
    closed = [set(s) for s in sets if not any(is_dead(n, set(s)) for n in silent - set(s))]
    assert liveness.dead == set.intersection(*closed)
