"""The unacked queue: sent in order, kept until acknowledged, sent again after a rewind."""

from __future__ import annotations

from itertools import count

from kbn.broker.kept import Kept
from kbn.broker.messages import Envelope, Peer
from kbn.broker.occurrences import SetAside
from kbn.broker.outbox import Outbox
from kbn.broker.set_aside import Aside
from kbn.broker.store import MemoryStore
from kbn.broker.unacked import AHEAD_BYTES_MAX, AHEAD_MAX, UnackedQueue

ANN = Peer("client", "ann")


class Queue:
    """A queue for one peer, and the store behind it."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.sequences = count(10)
        self.outbox = Outbox()
        self.start()

    def start(self) -> None:
        """Begin, or begin again as after a restart."""
        self.aside = Aside(self.store, self.outbox)
        self.queue = UnackedQueue(self.store, ANN, self.sequences, self.aside)

    def push(self, *contents: bytes) -> None:
        for content in contents:
            self.queue.push(Kept(self.store, Envelope("eve", 1, 1, 0.0, content)), (7,))

    def send_all(self) -> list[bytes]:
        return [found.envelope.content for found in iter(self.queue.next, None)]


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
    again = UnackedQueue(one.store, ANN, one.sequences, one.aside)
    assert not again.has_sent(last)
    assert again.last > last, "a sequence is never used twice"


def test_a_queue_that_is_emptied_gives_up_what_was_in_it() -> None:
    one = Queue()
    one.push(b"a", b"b")
    one.queue.next()
    assert [each.content for each in one.queue.take_all()] == [b"a", b"b"]
    assert len(one.queue) == one.queue.in_flight == 0
    assert one.send_all() == []


def test_a_row_that_cannot_be_read_is_set_aside_and_told_and_the_rest_goes_on() -> None:
    one = Queue()
    one.push(b"a")
    for sequence, (body, note) in enumerate(
        [(b"\xc1 no envelope", b"\x91\x07"), (Kept(one.store, TEA).body(), b"no ids")], 100
    ):
        one.store.push(ANN, sequence, one.store.keep(body), note)
    one.sequences = count(200)
    one.start()
    one.push(b"b")
    assert one.send_all() == [b"a", b"b"]
    assert len(one.queue) == 2, "the bad ones are in nobody's way"
    assert one.aside.count == 2
    told = [each.what for each in one.outbox.take_occurred() if isinstance(each, SetAside)]
    assert told == ["client/ann/100", "client/ann/101"]
    assert set(one.store.marks("aside/")) == {"aside/client/ann/100", "aside/client/ann/101"}
    one.start()
    assert one.aside.count == 2, "also after a restart"


def test_no_more_bytes_are_read_ahead_than_the_bound() -> None:
    one = Queue()
    contents = [bytes([n]) * (AHEAD_BYTES_MAX // 4) for n in range(20)]
    one.push(*contents)
    one.start()
    ahead = []
    for content in contents:
        found = one.queue.next()
        assert found is not None and found.envelope.content == content
        ahead.append(sum(each.size for each in one.queue._ahead))
    assert 0 < max(ahead) <= AHEAD_BYTES_MAX + AHEAD_BYTES_MAX // 4
    one.queue.rewind()
    one.send_all()
    one.push(*contents)
    assert sum(each.size for each in one.queue._ahead) <= AHEAD_BYTES_MAX + AHEAD_BYTES_MAX // 4


def test_the_oldest_are_dropped_when_there_are_too_many_or_too_much() -> None:
    one = Queue()
    one.push(*(bytes([n]) for n in range(33)))
    assert one.queue.free(32, 10**9) == 3, "down to thirty: a sixteenth is free"
    assert one.send_all() == [bytes([n]) for n in range(3, 33)]
    one.queue.rewind()
    size = one.queue.size
    assert one.queue.free(10**9, size) == 0
    assert one.queue.free(10**9, size - 1) == 2
    assert one.queue.size <= (size - 1) * 15 / 16
    assert one.send_all() == [bytes([n]) for n in range(5, 33)]
    assert one.queue.free(0, 0) == 28
    assert not len(one.queue) and one.queue.in_flight == one.queue.in_flight_bytes == 0


TEA = Envelope("eve", 1, 1, 0.0, b"tea")
