"""Where a notification goes from one broker."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import pytest

from kbn.broker.broker_move import BrokerMove, State
from kbn.broker.route import route
from kbn.broker.wanted import Wanted


class Hop(NamedTuple):
    name: str
    wants_everything: bool = False


A, B, C = Hop("a"), Hop("b"), Hop("c", wants_everything=True)
WANTED = Wanted({"b"}, {"ann": {1: None, 3: None}})


def test_it_goes_to_the_clients_and_neighbours_that_want_it() -> None:
    targets = route(WANTED, None, [A, B])
    assert targets.neighbours == [B]
    assert {name: tuple(ids) for name, ids in targets.clients.items()} == {"ann": (1, 3)}


def test_a_neighbour_that_wants_everything_gets_it() -> None:
    assert route(WANTED, None, [A, B, C]).neighbours == [B, C]


def test_it_never_goes_back() -> None:
    assert route(WANTED, "b", [A, B, C]).neighbours == [C]
    assert route(WANTED, "c", [A, B, C]).neighbours == [B]


def test_what_nobody_advertised_goes_everywhere_but_back() -> None:
    assert route(WANTED, "a", [A, B, C], everywhere=True).neighbours == [B, C]


def test_a_repetition_is_passed_on_and_not_delivered_again() -> None:
    targets = route(WANTED, "a", [A, B], is_repetition=True)
    assert targets.clients == {}
    assert targets.neighbours == [B]


MOVING = [State.JOINING, State.ROUND, State.CLEARING, State.DRAINING, State.HOLDING]


@pytest.mark.parametrize("state", MOVING)
@pytest.mark.parametrize("came_from", [None, "old", "new", "behind"])
def test_during_a_move_it_goes_by_one_of_the_two_ways_and_never_between_them(
    state: State, came_from: str | None
) -> None:
    hops = [Hop("old", True), Hop("new", True), Hop("behind", True)]
    move = BrokerMove("old", "new", lambda trouble: None, state)
    sent = {hop.name for hop in route(Wanted(set(), {}), came_from, hops, move=move).neighbours}
    assert ("behind" in sent) is (came_from != "behind")
    way = "new" if state in (State.DRAINING, State.HOLDING) else "old"
    expected = set() if came_from in ("old", "new") else {way}
    assert sent - {"behind"} == expected


def test_it_goes_to_those_and_only_those_that_the_rules_name() -> None:
    """All combinations, against the rules said the long way."""
    for is_wanted, wants_all, everywhere, is_source in product([False, True], repeat=4):
        wanted = Wanted({"n"} if is_wanted else set(), {})
        hop = Hop("n", wants_all)
        came_from = "n" if is_source else "other"
        sent = route(wanted, came_from, [hop], everywhere=everywhere).neighbours
        assert bool(sent) is (not is_source and (is_wanted or wants_all or everywhere))
