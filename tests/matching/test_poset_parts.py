"""A poset in parts: what was told always covers what is stored, and is right in the end."""

from __future__ import annotations

from random import Random

import pytest
from tests.matching.test_poset import Order, assert_roots_are_right

from kbn.filters import Filter, Subscription
from kbn.matching import poset as poset_module
from kbn.matching import root_index
from kbn.matching.poset import Poset, PosetChange

MOVED_MAX = 2 * root_index.AT_ONCE + poset_module.ORPHANS_AT_ONCE


class Upstream:
    """What is told, and what is stored."""

    def __init__(self) -> None:
        self.poset = Poset(in_parts=True)
        self.order = Order()
        self.live: dict[int, Subscription] = {}
        self.told: set[Filter] = set()

    def apply(self, change: PosetChange) -> None:
        assert not set(change.send) & self.told
        assert set(change.withdraw) <= self.told
        self.told = (self.told - set(change.withdraw)) | set(change.send)

    def check(self) -> None:
        assert self.told == set(self.poset.roots)
        for subscription in self.live.values():
            for part in subscription.filters:
                assert any(self.order.covers(root, part) for root in self.told), part

    def finish(self) -> None:
        while self.poset.has_more:
            self.apply(self.poset.go_on())
            self.check()
        self.poset.check_invariants()
        assert_roots_are_right(self.poset, self.live.values(), self.order)


def drawn(random: Random) -> Subscription:
    """One of few, so that much covers much, and all kinds of filters are among them."""
    bound = random.randrange(12)
    texts = [
        "k any",
        f"k = {bound}",
        f"k < {bound}",
        f"k >= {bound} and k < {bound + random.randrange(1, 9)}",
        f"k = {bound} and l = {random.randrange(3)}",
        f"k < {bound} and l any",
        f"l * '{'ab'[bound % 2] * (1 + bound % 3)}'",
        f"l >* '{'ab'[bound % 2] * (1 + bound % 3)}' and k != {bound}",
        f"m #> {{{bound}}}",
        f"m #> {{{bound}, {bound + 1}}} and k any",
    ]
    return Subscription.parse(" or ".join(random.sample(texts, random.choice((1, 1, 1, 2)))))


@pytest.mark.parametrize("at_once", [1, 3])
def test_what_was_told_always_covers_what_is_stored(
    at_once: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root_index, "AT_ONCE", at_once)
    monkeypatch.setattr(poset_module, "ORPHANS_AT_ONCE", at_once)
    monkeypatch.setattr(poset_module, "LISTED_AT_ONCE", 2)
    for number in range(12):
        random, upstream = Random(f"{seed}/{number}"), Upstream()
        for step in range(60):
            if upstream.live and random.random() < 0.45:
                key = random.choice(list(upstream.live))
                del upstream.live[key]
                upstream.apply(upstream.poset.remove(key))
            else:
                upstream.live[step] = drawn(random)
                upstream.apply(upstream.poset.add(upstream.live[step], step))
            upstream.check()
            while upstream.poset.has_more and random.random() < 0.4:
                upstream.apply(upstream.poset.go_on())
                upstream.check()
        upstream.finish()


@pytest.mark.parametrize("wide", ["k any", "k >= 0", "k != -1"])
def test_no_part_moves_very_many(wide: str) -> None:
    poset = Poset(in_parts=True)
    for n in range(2_000):
        poset.add(f"k = {n} and l = {n % 7}", n)
    assert not poset.has_more and len(poset.roots) == 2_000
    changes = [poset.add(wide, "wide")]
    while poset.has_more:
        changes.append(poset.go_on())
    assert len(changes) > 10 and [str(root) for root in poset.roots] == [wide]
    changes.append(poset.remove("wide"))
    assert len(poset.roots) < 100, "those below it take parts, too"
    while poset.has_more:
        changes.append(poset.go_on())
    assert len(poset.roots) == 2_000
    assert max(len(each.send) + len(each.withdraw) for each in changes) <= MOVED_MAX


def test_one_that_is_asked_for_again_while_it_goes_stays() -> None:
    poset = Poset(in_parts=True)
    poset.add("k any", "wide")
    for n in range(100):
        poset.add(f"k = {n}", n)
    told = set(poset.roots)
    for change in (poset.remove("wide"), poset.go_on(), poset.add("k any", "again")):
        told = (told - set(change.withdraw)) | set(change.send)
    while poset.has_more:
        change = poset.go_on()
        told = (told - set(change.withdraw)) | set(change.send)
    assert [str(root) for root in poset.roots] == ["k any"] and told == set(poset.roots)
    poset.check_invariants()


def test_very_many_that_must_be_asked_are_not_all_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether `k * "a"` follows cannot be looked up: a few are asked at once, all others later."""
    asked = 0
    poset = Poset(in_parts=True)
    implies = poset._implications.implies

    def counted(*pair: object) -> bool:
        nonlocal asked
        asked += 1
        return implies(*pair)  # type: ignore[arg-type]

    for n in range(1_200):
        poset.add(f"k * 'x{n}y'", n)
        while poset.has_more:
            poset.go_on()
    monkeypatch.setattr(poset._implications, "implies", counted)
    poset.add("k * 'new'", "new")
    assert poset.has_more and asked <= 2 * poset_module.ASKED_MAX
    while poset.has_more:
        asked = 0
        poset.go_on()
        assert asked <= 2 * root_index.AT_ONCE
