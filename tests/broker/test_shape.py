"""A broker that was not told the shape of its overlay takes that of its first neighbour."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.test_node import Talk

from kbn.broker import MemoryStore
from kbn.broker import node_events as events
from kbn.broker.messages import Bye, Greet


def greet(name: str, role: Any, view: str = "") -> Greet:
    return Greet(name, 1, 0, role, "", view)


@pytest.mark.parametrize(
    ("role", "view", "routing"),
    [("child", "", "hierarchical"), ("peer", "", "acyclic"), ("peer", "v", "general")],
)
def test_the_first_neighbour_decides_and_others_must_agree(
    role: str, view: str, routing: str
) -> None:
    store = MemoryStore()
    talk = Talk(adapts=True, store=store).opened(1).say(1, greet("c", role, view))
    assert talk.node.broker.routing == routing and list(talk.node.broker.neighbours) == ["c"]
    other = "peer" if role == "child" else "child"
    talk.opened(2).say(2, greet("d", other))
    assert list(talk.node.broker.neighbours) == ["c"]
    assert any(isinstance(each, Bye) for each in talk.sent(2))
    again = Talk(adapts=True, store=store)
    assert again.node.broker.routing == routing and list(again.node.broker.neighbours) == ["c"]


def test_one_that_was_told_its_shape_keeps_it() -> None:
    talk = Talk().opened(1).say(1, greet("c", "child"))
    assert not talk.node.broker.neighbours
    assert any(isinstance(each, Bye) for each in talk.sent(1))


def test_when_all_have_left_the_next_decides() -> None:
    talk = Talk(adapts=True).opened(1).say(1, greet("c", "child"))
    talk.tell(events.Unlink("c"))
    talk.opened(2).say(2, greet("d", "peer"))
    assert talk.node.broker.routing == "acyclic" and list(talk.node.broker.neighbours) == ["d"]
