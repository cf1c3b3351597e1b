"""Neighbour sessions, two brokers' ends of one link, without brokers."""

from __future__ import annotations

from itertools import count

import pytest

from kbn.broker.best_effort import AHEAD_BYTES_MAX, AHEAD_MAX, BestEffortQueue
from kbn.broker.broker_move import BrokerMove
from kbn.broker.channel import Channel
from kbn.broker.kept import Kept
from kbn.broker.messages import (
    Ack,
    Announce,
    BestEffort,
    Body,
    Envelope,
    Forward,
    Frame,
    Greet,
    Heard,
    Wave,
)
from kbn.broker.neighbour import Neighbour
from kbn.broker.neighbour_sessions import NeighbourSessions
from kbn.broker.neighbour_traffic import FORWARDED_AHEAD_MAX, UNHEARD_BYTES_MAX
from kbn.broker.outbox import Outbox
from kbn.broker.set_aside import Aside
from kbn.broker.store import MemoryStore
from kbn.broker.topology import Routing
from kbn.broker.unacked import UnackedQueue
from kbn.errors import InvalidInputError


class End:
    """One broker's end of a link: its sessions, store and outbox."""

    def __init__(self, name: str, other: str, routing: Routing = "acyclic") -> None:
        self.store, self.outbox, sequences = MemoryStore(), Outbox(1.0), count(1)
        self.sessions = NeighbourSessions(
            name,
            1,
            routing,
            self.store,
            self.outbox,
            lambda peer: UnackedQueue(self.store, peer, sequences, Aside(self.store, self.outbox)),
        )
        self.neighbour: Neighbour = self.sessions.add(other, "peer")
        self.bodies: list[Body] = []
        self.envelopes: list[int] = []

    def hear(self, other: End, lose: type | None = None) -> None:
        """Handle what the other end has sent, but for messages of a kind that is lost."""
        for _, message in other.outbox.take():
            match message:
                case _ if lose is not None and isinstance(message, lose):
                    continue
                case Greet():
                    self._greeted(message)
                case Frame():
                    body = self.sessions.traffic.receive_frame(message, self.neighbour)
                    if body is not None:
                        self.bodies.append(body)
                        self._framed(body)
                case BestEffort():
                    if self.sessions.traffic.receive_best_effort(message, self.neighbour):
                        self.envelopes.append(message.envelope.number)
                case Heard():
                    self.sessions.traffic.heard(message, self.neighbour)

    def _greeted(self, greet: Greet) -> None:
        greeted = self.sessions.greetings.greeted(greet, self.neighbour)
        if greeted is None:
            return
        may_stand = self.sessions.greetings.answer_greeting(
            greet, self.neighbour, greeted.is_new_epoch
        )
        if may_stand and self.neighbour.link.channel is None:
            self.neighbour.begin_session()
        elif may_stand:
            self.sessions.traffic.repeat_unheard(self.neighbour)

    def _framed(self, body: Body) -> None:
        if isinstance(body, Forward) and self.sessions.traffic.receive_forward(
            body.sequence, self.neighbour
        ):
            self.envelopes.append(body.envelope.number)
        if isinstance(body, Ack):
            self.sessions.traffic.acked(body.sequence, self.neighbour)

    def pass_on(self, number: int, durable: bool) -> None:
        envelope = Envelope("ann", 1, number, 0.0, b"", durable)
        self.sessions.traffic.pass_on(self.neighbour, Kept(self.store, envelope))


def linked() -> tuple[End, End]:
    """Two ends in a session."""
    a, b = End("a", "b"), End("b", "a")
    for end in (a, b):
        end.sessions.greetings.connected(end.neighbour)
    talk(a, b)
    assert a.neighbour.link.channel is not None and b.neighbour.link.channel is not None
    return a, b


def talk(a: End, b: End) -> None:
    """Let both hear each other until nobody has anything to say."""
    for _ in range(10):
        a.sessions.traffic.answer()
        b.hear(a)
        b.sessions.traffic.answer()
        a.hear(b)


def test_a_session_begins_when_both_have_greeted_the_others_epoch() -> None:
    a, b = End("a", "b"), End("b", "a")
    a.sessions.greetings.connected(a.neighbour)
    b.hear(a)
    assert b.neighbour.link.channel is None, "a has not heard of it"
    a.hear(b)
    assert a.neighbour.link.channel is not None
    b.hear(a)
    assert b.neighbour.link.channel is not None


def test_a_greeting_of_an_older_epoch_is_not_heard() -> None:
    a, b = linked()
    b.sessions.greetings.greet(b.neighbour)
    [old] = [send.message for send in b.outbox.take()]
    b.neighbour.link.our_epoch = b.sessions.next_epoch()
    b.sessions.greetings.greet(b.neighbour)
    a.hear(b)
    assert isinstance(old, Greet)
    assert a.sessions.greetings.greeted(old, a.neighbour) is None


def test_durable_notifications_are_acknowledged_and_then_gone() -> None:
    a, b = linked()
    for number in range(3):
        a.pass_on(number, durable=True)
    assert len(a.neighbour.unacked) == 3
    talk(a, b)
    assert b.envelopes == [0, 1, 2]
    assert len(a.neighbour.unacked) == 0


def test_what_was_not_acknowledged_is_sent_in_the_next_session_and_handled_once() -> None:
    a, b = linked()
    a.pass_on(1, durable=True)
    b.hear(a)
    b.sessions.traffic.answer()
    b.outbox.take()  # the acknowledgement is lost, and the session with it
    epoch = a.sessions.next_epoch()
    a.neighbour.link.our_epoch, a.neighbour.link.channel = epoch, None
    a.sessions.greetings.connected(a.neighbour)
    talk(a, b)
    a.sessions.traffic.forward(a.neighbour)
    talk(a, b)
    assert b.envelopes == [1]
    assert len(a.neighbour.unacked) == 0


def test_no_more_is_forwarded_ahead_than_the_bound() -> None:
    a, b = linked()
    for number in range(FORWARDED_AHEAD_MAX + 5):
        a.pass_on(number, durable=True)
    b.hear(a)
    assert len(b.envelopes) == FORWARDED_AHEAD_MAX
    talk(a, b)
    assert b.envelopes == list(range(FORWARDED_AHEAD_MAX + 5))


def test_a_frame_that_was_lost_is_repeated_when_it_is_overdue() -> None:
    a, b = linked()
    a.pass_on(1, durable=True)
    a.outbox.take()
    a.outbox.now = 9.0
    a.sessions.traffic.repeat_overdue(after_s=2.0)
    talk(a, b)
    assert b.envelopes == [1]


def test_a_wave_stays_behind_what_was_queued_before_it() -> None:
    a, b = linked()
    wave = Wave("a", 1, 1)
    for number in range(FORWARDED_AHEAD_MAX + 1):
        a.pass_on(number, durable=True)
    a.sessions.traffic.send_wave("b", wave)
    b.hear(a)
    assert wave not in b.bodies
    talk(a, b)
    assert b.bodies[-1] == wave or wave in b.bodies[-2:]
    forwards = [body for body in b.bodies if isinstance(body, Forward)]
    assert b.bodies.index(wave) > b.bodies.index(forwards[-1])


def test_to_a_paused_neighbour_nothing_goes_but_the_waves_of_the_move() -> None:
    a, b = linked()
    a.sessions.traffic.paused = "b"
    a.pass_on(1, durable=True)
    a.pass_on(2, durable=False)
    a.sessions.traffic.send_wave("b", Wave("a", 1, 1, "barrier"))
    a.sessions.traffic.send_wave("b", Wave("a", 1, 1, "move"))
    talk(a, b)
    assert b.envelopes == []
    assert b.bodies == [Wave("a", 1, 1, "move")]
    a.sessions.traffic.paused = None
    a.sessions.traffic.forward(a.neighbour)
    a.sessions.traffic.send_best_effort(a.neighbour)
    talk(a, b)
    assert sorted(b.envelopes) == [1, 2]
    assert Wave("a", 1, 1, "barrier") in b.bodies


def test_when_the_tree_changes_what_is_unacked_comes_back_once() -> None:
    a = End("a", "b", "general")
    other = a.sessions.add("c", "peer")
    envelope = Envelope("ann", 1, 1, 0.0, b"", True)
    kept = Kept(a.store, envelope)
    for neighbour in (a.neighbour, other):
        a.sessions.traffic.pass_on(neighbour, kept)
    assert a.sessions.end_all() == [envelope]
    assert len(a.neighbour.unacked) == len(other.unacked) == 0


def test_nobody_is_complete_until_all_others_are() -> None:
    a, b = linked()
    third = a.sessions.add("c", "peer")
    a.neighbour.announced.is_complete = True
    a.sessions.tell_complete(parents_tell=False)
    assert not a.neighbour.told.is_complete, "c has not said all"
    third.announced.is_complete = third.link.agrees = True
    a.sessions.tell_complete(parents_tell=False)
    assert a.neighbour.told.is_complete
    assert b.sessions.silent(since=0.5) == []
    assert b.sessions.silent(since=2.0) == ["a"]


@pytest.mark.parametrize(
    ("routing", "name", "role", "reason"),
    [
        ("acyclic", "a", "peer", "its own neighbour"),
        ("acyclic", "x", "child", "same routing"),
        ("hierarchical", "x", "peer", "same routing"),
        ("hierarchical", "x", "parent", "one parent"),
    ],
)
def test_a_link_that_makes_no_sense_is_refused(
    routing: Routing, name: str, role: str, reason: str
) -> None:
    a = End("a", "b", routing)
    a.neighbour.role = "parent"
    with pytest.raises(InvalidInputError, match=reason):
        a.sessions.check_link(name, role)  # type: ignore[arg-type]


def test_one_that_moves_may_have_two_parents_for_a_while() -> None:
    a = End("a", "b", "hierarchical")
    a.neighbour.role = "parent"
    a.sessions.move = BrokerMove("b", "new", lambda trouble: None)
    a.sessions.check_link("new", "parent")


def test_why_a_neighbour_was_left_is_known_until_it_is_forgotten() -> None:
    a = End("a", "b")
    assert a.sessions.left("b") is None
    for cause in ("moved", "unlinked"):
        a.sessions.leave("b", cause)
        assert a.sessions.left("b") == cause
    a.sessions.forget_leaving("b")
    assert a.sessions.left("b") is None


def test_of_too_many_best_effort_ones_the_oldest_are_dropped() -> None:
    queue = BestEffortQueue(bytes_max=1 << 20)
    for number in range(200):
        queue.push(Envelope("ann", 1, number, 0.0, b"x" * 10_000))
    waiting = [each.number for each in queue.waiting]
    assert waiting == list(range(queue.dropped, 200))
    assert sum(len(each.content) for each in queue.waiting) + 512 * 104 > (1 << 20) - 11_000
    assert queue.size <= 1 << 20


def test_best_effort_ones_go_so_far_ahead_of_what_was_handled() -> None:
    queue, channel = BestEffortQueue(64 << 20), Channel(1, 1)
    for number in range(AHEAD_MAX + 2):
        queue.push(Envelope("ann", 1, number, 0.0, b""))
    assert len(list(queue.sendable(channel))) == AHEAD_MAX
    queue.heard(1)
    assert [each.number for each in queue.sendable(channel)] == [AHEAD_MAX + 1]
    queue.skip()
    assert [each.number for each in queue.sendable(channel)] == [AHEAD_MAX + 2]


def test_best_effort_ones_go_so_many_bytes_ahead() -> None:
    queue, channel = BestEffortQueue(64 << 20), Channel(1, 1)
    for number in range(40):
        queue.push(Envelope("ann", 1, number, 0.0, b"x" * (1 << 20)))
    first = [each.number for each in queue.sendable(channel)]
    assert len(first) == AHEAD_BYTES_MAX >> 20
    queue.heard(first[2])
    assert len(list(queue.sendable(channel))) == 3
    queue.skip()
    assert queue.ahead_bytes == 0


def test_a_session_in_which_too_much_was_not_heard_ends_and_is_begun_anew() -> None:
    a, b = linked()
    link, text = a.neighbour.link, "x" * (1 << 20)
    before = link.our_epoch
    for number in range(UNHEARD_BYTES_MAX >> 20):
        assert link.channel is not None and link.channel.unheard_bytes <= UNHEARD_BYTES_MAX
        a.sessions.traffic.send_to(a.neighbour, Announce("interest", ((number, text),)))
        a.sessions.traffic.answer()
        a.sessions.end_overfull()
    assert link.channel is None and link.our_epoch > before
    talk(a, b)
    assert link.channel is not None
    a.pass_on(1, durable=True)
    talk(a, b)
    assert b.envelopes == [1]


def test_what_was_heard_in_a_session_that_has_ended_says_nothing_of_the_next() -> None:
    a, b = linked()
    for number in range(1, 9):
        a.pass_on(number, durable=True)
    talk(a, b)
    assert b.neighbour.link.channel is not None
    late = b.neighbour.link.channel.answer(best_effort=0)
    b.sessions.end(b.neighbour)  # it begins anew, and `a` goes on in its epoch
    talk(a, b)
    a.pass_on(9, durable=True)
    a.outbox.take()  # what was sent in the new session is lost
    a.sessions.traffic.heard(late, a.neighbour)
    a.outbox.now = 9.0
    a.sessions.traffic.repeat_overdue(after_s=2.0)
    talk(a, b)
    assert b.envelopes == list(range(1, 10))
