"""A neighbour that we had before a restart is greeted as one that we have forgotten.

It may have moved away meanwhile, and then it must not let us in as if we had never met: that made a
ring (world 80000900, before turns were counted as they are now).
"""

from __future__ import annotations

import pytest

from kbn.broker import Broker
from kbn.broker.messages import Greet, Peer


@pytest.mark.parametrize(("again", "heard"), [(False, 0), (True, 1)])
def test_who_was_a_neighbour_before_a_restart_is_told_so(again: bool, heard: int) -> None:
    broker = Broker("b")
    broker.link("n", again=again)
    (greeting,) = [
        send.message
        for send in broker.connected(Peer("broker", "n"), 0.0)
        if isinstance(send.message, Greet)
    ]
    assert greeting.heard == heard
