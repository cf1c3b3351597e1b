"""What general peers have seen."""

from __future__ import annotations

from kbn.broker.messages import Envelope
from kbn.broker.seen import SeenViews
from kbn.broker.store import MemoryStore

DURABLE = Envelope("ann", 1, 1, 0.0, b"", durable=True)
BEST_EFFORT = Envelope("ann", 1, 1, 0.0, b"", durable=False)


def test_a_notification_is_known_by_the_view_it_was_handled_in_last() -> None:
    seen = SeenViews(MemoryStore())
    for envelope in (DURABLE, BEST_EFFORT):
        assert seen.see(envelope, "first") is None
        assert seen.see(envelope, "first") == "first"
        assert seen.see(envelope, "second") == "first"
        assert seen.see(envelope, "second") == "second"


def test_the_next_epoch_knows_durable_ones_but_not_their_view() -> None:
    store = MemoryStore()
    seen = SeenViews(store)
    seen.see(DURABLE, "first")
    seen.see(BEST_EFFORT, "first")
    again = SeenViews(store)
    assert again.see(DURABLE, "first") == ""
    assert again.see(BEST_EFFORT, "first") is None
