"""A broker's move: the table of its states, walked through completely."""

from __future__ import annotations

from collections import deque

import pytest

from kbn.broker.broker_move import (
    TRANSITIONS,
    Action,
    BrokerMove,
    Event,
    State,
    why_it_stayed,
)
from kbn.broker.messages import Envelope

OVER = {State.MOVED, State.STAYED}
GOING_ON = set(State) - OVER


def move(state: State = State.JOINING) -> BrokerMove:
    return BrokerMove("old", "new", lambda trouble: None, state)


def test_the_table_has_every_event_in_every_state_in_which_a_move_goes_on() -> None:
    assert set(TRANSITIONS) == {(state, event) for state in GOING_ON for event in Event}


def test_every_state_can_be_reached_and_every_move_can_end_both_ways() -> None:
    def reachable(start: State) -> set[State]:
        found, todo = {start}, deque([start])
        while todo:
            state = todo.popleft()
            for (before, _), (after, _) in TRANSITIONS.items():
                if before is state and after not in found:
                    found.add(after)
                    todo.append(after)
        return found

    assert reachable(State.JOINING) == set(State)
    for state in GOING_ON:
        assert reachable(state) >= OVER


def test_a_move_ends_with_leaving_or_staying_and_only_then() -> None:
    for (_, _), (after, actions) in TRANSITIONS.items():
        assert (after is State.MOVED) is (Action.LEAVE_OLD in actions)
        assert (after is State.STAYED) is (Action.STAY in actions)


def test_each_action_belongs_to_one_step() -> None:
    steps = {
        action: {(before, after) for (before, _), (after, found) in TRANSITIONS.items()
                 if action in found}
        for action in Action
    }  # fmt: skip
    assert steps[Action.ANSWER_UNSURE] == {(State.JOINING, State.ROUND)}
    assert steps[Action.CLEAR_BEHIND] == {(State.ROUND, State.CLEARING)}
    assert steps[Action.DRAIN_OLD] == {(State.CLEARING, State.DRAINING)}
    assert steps[Action.LEAVE_OLD] == {(State.HOLDING, State.MOVED)}
    assert steps[Action.KEEP_WAVE] == {
        (State.DRAINING, State.DRAINING),
        (State.HOLDING, State.HOLDING),
    }


@pytest.mark.parametrize(
    ("event", "stays_in"),
    [
        (Event.REFUSED, GOING_ON),
        (Event.RIVAL, {State.JOINING, State.ROUND, State.CLEARING}),
        (Event.ECHOED, {State.JOINING, State.DRAINING}),
        (Event.OLD_LOST, set()),
        (Event.CAME_BY_OLD, set()),
        (Event.CAME_BY_NEW, set()),
    ],
)
def test_the_broker_stays_when_it_must(event: Event, stays_in: set[State]) -> None:
    stays = {state for state in GOING_ON if TRANSITIONS[state, event][0] is State.STAYED}
    assert stays == stays_in


def test_a_move_without_trouble() -> None:
    moving = move()
    story = [
        (Event.CAME_BY_OLD, State.ROUND, (Action.ANSWER_UNSURE,)),
        (Event.ECHOED, State.CLEARING, (Action.CLEAR_BEHIND,)),
        (Event.ECHOED, State.DRAINING, (Action.DRAIN_OLD,)),
        (Event.CAME_BY_NEW, State.HOLDING, ()),
        (Event.ECHOED, State.MOVED, (Action.LEAVE_OLD,)),
    ]
    for event, state, actions in story:
        assert moving.on(event) == actions
        assert moving.state is state
    with pytest.raises(KeyError):
        moving.on(Event.ECHOED)


def test_a_move_goes_on_when_the_old_neighbour_is_lost_while_it_drains() -> None:
    moving = move(State.DRAINING)
    moving.on(Event.OLD_LOST)
    assert moving.on(Event.ECHOED) == (Action.LEAVE_OLD,)


@pytest.mark.parametrize("state", sorted(GOING_ON, key=lambda state: state.value))
def test_what_the_new_neighbour_brings_is_dropped_and_at_last_held_back(state: State) -> None:
    moving = move(state)
    assert moving.drops("new") is (state is not State.HOLDING)
    assert moving.holds_back("new") is (state is State.HOLDING)
    for other in ("old", "behind"):
        assert not moving.drops(other) and not moving.holds_back(other)


def test_the_newest_of_each_publisher_is_known_by_epoch_and_kind() -> None:
    moving = move()
    for epoch, number, durable in [(1, 4, True), (1, 3, True), (1, 9, False), (2, 1, True)]:
        moving.saw(Envelope("ann", epoch, number, 0.0, b"", durable))
    assert moving.newest == {
        ("ann", 1, True): 4,
        ("ann", 1, False): 9,
        ("ann", 2, True): 1,
    }


@pytest.mark.parametrize(
    ("state", "event", "detail", "reason"),
    [
        (State.JOINING, Event.ECHOED, "", "'new' hangs below 'x', or is not connected to 'old'"),
        (State.DRAINING, Event.ECHOED, "", "'new' has forgotten 'x'"),
        (State.ROUND, Event.RIVAL, "y", "'y' moves behind 'x': try again later"),
        (State.HOLDING, Event.REFUSED, "unlinked", "unlinked"),
    ],
)
def test_the_reason_for_staying_names_what_happened(
    state: State, event: Event, detail: str, reason: str
) -> None:
    assert why_it_stayed(move(), state, event, "x", detail) == reason
