"""The unacked queue: sent in order, kept until acknowledged, sent again after a rewind."""

from __future__ import annotations

from itertools import count

from kbn.broker.messages import Peer
from kbn.broker.store import MemoryStore
from kbn.broker.unacked import AHEAD_MAX, UnackedQueue

ANN = Peer("client", "ann")


class Queue:
    """A queue for one peer, and the store behind it."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.sequences = count(10)
        self.queue = UnackedQueue(self.store, ANN, self.sequences)

    def push(self, *bodies: bytes) -> None:
        for body in bodies:
            self.queue.push(self.store.keep(body), b"", body)

    def send_all(self) -> list[bytes]:
        return [found.envelope for found in iter(self.queue.next, None)]


def test_what_is_pushed_is_sent_once_and_in_order() -> None:
    one = Queue()
    one.push(b"a", b"b")
    assert one.send_all() == [b"a", b"b"]
    one.push(b"c")
    assert one.send_all() == [b"c"]
    assert len(one.queue) == one.queue.in_flight == 3


def test_each_says_which_was_sent_before_it() -> None:
    one = Queue()
    one.push(b"a", b"b")
    first, second = one.queue.next(), one.queue.next()
    assert first is not None and second is not None
    assert (first.after, second.after) == (0, first.sequence)


def test_an_acknowledgement_is_for_everything_up_to_it() -> None:
    one = Queue()
    one.push(b"a", b"b", b"c")
    found = [one.queue.next() for _ in range(3)]
    assert found[1] is not None
    one.queue.ack(found[1].sequence)
    assert len(one.queue) == one.queue.in_flight == 1
    one.queue.rewind()
    assert one.send_all() == [b"c"]


def test_what_was_not_sent_cannot_be_acknowledged() -> None:
    one = Queue()
    one.push(b"a", b"b")
    one.queue.next()
    one.queue.ack(10**9)
    assert one.send_all() == [b"b"]
    assert len(one.queue) == 1


def test_more_than_is_read_ahead_comes_from_the_store() -> None:
    one = Queue()
    bodies = [str(n).encode() for n in range(2 * AHEAD_MAX + 3)]
    one.push(*bodies)
    assert one.send_all() == bodies


def test_what_was_sent_up_to_a_sequence_is_known_also_after_a_restart() -> None:
    one = Queue()
    one.push(b"a", b"b")
    last = one.queue.last
    assert not one.queue.has_sent(last)
    one.send_all()
    assert one.queue.has_sent(last)
    again = UnackedQueue(one.store, ANN, one.sequences)
    assert not again.has_sent(last)
    assert again.last > last, "a sequence is never used twice"


def test_a_queue_that_is_emptied_gives_up_what_was_in_it() -> None:
    one = Queue()
    one.push(b"a", b"b")
    one.queue.next()
    assert one.queue.take_all() == [b"a", b"b"]
    assert len(one.queue) == one.queue.in_flight == 0
    assert one.send_all() == []
