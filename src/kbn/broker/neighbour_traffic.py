"""What flows between a broker and its neighbours once a session stands.

A session has a *channel*, which brings frames once and in order. Durable notifications travel in
frames and wait in the store until the neighbour acknowledges them. Best-effort notifications travel
beside the channel. Of both, only so many are sent ahead of what the neighbour has handled; waves
follow the notifications that were queued before them.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kbn.broker.kept import Kept
from kbn.broker.messages import Ack, BestEffort, Body, Echo, Forward, Frame, Heard, Wave
from kbn.broker.neighbour import Neighbour
from kbn.broker.outbox import Outbox
from kbn.broker.store import Store
from kbn.broker.unacked import UnackedQueue

FORWARDED_AHEAD_MAX = 512
FORWARDED_AHEAD_BYTES_MAX = 16 << 20
"""The most durable notifications sent ahead of what a neighbour has acknowledged."""

UNHEARD_BYTES_MAX = 64 << 20
"""The most that is kept to be repeated to a neighbour in one session; more ends the session."""


def has_room(unacked: UnackedQueue) -> bool:
    """Whether one more may be on its way."""
    is_little = unacked.in_flight_bytes < FORWARDED_AHEAD_BYTES_MAX
    return is_little and unacked.in_flight < FORWARDED_AHEAD_MAX


class NeighbourTraffic:
    """Sends to the neighbours, and takes in what they send.

    `paused` names a neighbour whose notifications wait for now, during a move. In the sessions of
    those that are `overfull`, too much was not heard.
    """

    def __init__(self, by_name: Mapping[str, Neighbour], store: Store, outbox: Outbox) -> None:
        self.paused: str | None = None
        self.uses_advertisements = False
        self.overfull: list[str] = []
        self._by_name = by_name
        self._store = store
        self._outbox = outbox

    # Sending.

    def send(self, name: str, body: Body) -> None:
        """Send a frame, if there is a session."""
        neighbour = self._by_name.get(name)
        if neighbour is not None:
            self.send_to(neighbour, body)

    def send_to(self, neighbour: Neighbour, body: Body) -> None:
        """Send a frame to a neighbour, if there is a session."""
        channel = neighbour.link.channel
        if channel is not None:
            self._outbox.send(neighbour.peer, channel.send(body, self._outbox.now))

    def send_wave(self, name: str, body: Wave | Echo) -> None:
        """Send a wave or an echo, after the notifications that wait.

        Notifications for a paused neighbour wait for the waves of our own move. The waves of a
        rival move are sent at once, or the two moves would wait for each other. All wait until the
        neighbour has been told what is wanted here.
        """
        neighbour = self._by_name.get(name)
        if neighbour is not None and neighbour.told.pending:
            neighbour.told.waves.append(body)
        elif name == self.paused and body.kind == "move":
            self.send(name, body)
        elif neighbour is not None and neighbour.link.channel is not None:
            neighbour.put_behind(body)
            self._follow(neighbour)

    def was_told(self, neighbour: Neighbour) -> None:
        """A neighbour has been told all for now: the waves that waited for it can go."""
        if not neighbour.told.pending:
            waves, neighbour.told.waves = neighbour.told.waves, []
            for body in waves:
                self.send_wave(neighbour.name, body)

    def pass_on(self, neighbour: Neighbour, kept: Kept) -> None:
        """Queue a notification for a neighbour, and send what can be sent."""
        if kept.envelope.durable:
            neighbour.unacked.push(kept)
            self.forward(neighbour, fresh=neighbour.unacked.last)
        else:
            neighbour.best_effort.push(kept.envelope)
            self.send_best_effort(neighbour)

    def forward(self, neighbour: Neighbour, *, fresh: int = 0) -> None:
        """Send durable notifications, at most `FORWARDED_AHEAD_MAX` that are not acknowledged.

        Where advertisements are used, one that has waited goes everywhere: whoever wanted it may
        have been told meanwhile that its publisher advertises no more. One is `fresh`.
        """
        if self.paused is not None and neighbour.name == self.paused:
            return
        unacked, channel = neighbour.unacked, neighbour.link.channel
        while channel is not None and has_room(unacked):
            found = unacked.next()
            if found is None:
                break
            envelope = found.envelope
            if self.uses_advertisements and found.sequence != fresh and not envelope.everywhere:
                envelope = replace(envelope, everywhere=True)
            self.send_to(neighbour, Forward(found.sequence, envelope))
        self._follow(neighbour)

    def send_best_effort(self, neighbour: Neighbour) -> None:
        """Send best-effort notifications, only so many ahead of what the neighbour has handled."""
        if self.paused is not None and neighbour.name == self.paused:
            return
        if neighbour.link.channel is not None:
            for message in neighbour.best_effort.sendable(neighbour.link.channel):
                self._outbox.send(neighbour.peer, message)
        self._follow(neighbour)

    def _follow(self, neighbour: Neighbour) -> None:
        """Send the waves that have nothing before them any more."""
        if neighbour.behind:
            for body in neighbour.no_longer_behind():
                self.send_to(neighbour, body)

    # Receiving.

    def receive_frame(self, frame: Frame, neighbour: Neighbour) -> Body | None:
        """The body of a frame, if it is the next of this session; None otherwise."""
        channel = neighbour.link.channel
        if channel is None or not channel.is_of(frame.sender_epoch, frame.receiver_epoch):
            return None
        return channel.receive(frame, self._outbox.now)

    def receive_best_effort(self, message: BestEffort, neighbour: Neighbour) -> bool:
        """Whether a best-effort notification is of this session and no repetition."""
        channel, received = neighbour.link.channel, neighbour.received
        if channel is None or not channel.is_of(message.sender_epoch, message.receiver_epoch):
            return False
        if message.number <= received.best_effort:
            return False
        received.best_effort = message.number
        return True

    def receive_forward(self, sequence: int, neighbour: Neighbour) -> bool:
        """Whether a durable notification is new; it is acknowledged in either case."""
        received = neighbour.received
        if sequence <= received.sequence:
            received.acked = 0  # say again how far we are
            return False
        received.sequence = sequence
        self._store.mark(f"received/{neighbour.name}", str(sequence).encode())
        return True

    def acked(self, sequence: int, neighbour: Neighbour) -> None:
        """A neighbour has stored everything up to this sequence."""
        neighbour.unacked.ack(sequence)
        self.forward(neighbour)

    def heard(self, heard: Heard, neighbour: Neighbour) -> None:
        """A neighbour says how far it is."""
        channel = neighbour.link.channel
        if channel is not None and channel.is_of(heard.sender_epoch, heard.receiver_epoch):
            channel.hear(heard.number, self._outbox.now)
            neighbour.best_effort.heard(heard.best_effort)
            self.send_best_effort(neighbour)

    # Acknowledging and repeating.

    def answer(self) -> None:
        """Acknowledge to each neighbour what has arrived from it."""
        for neighbour in self._by_name.values():
            channel, received = neighbour.link.channel, neighbour.received
            if channel is None:
                continue
            if channel.unheard_bytes > UNHEARD_BYTES_MAX:
                self.overfull.append(neighbour.name)
            if received.acked < received.sequence:
                received.acked = received.sequence
                self.send_to(neighbour, Ack(received.sequence))
            if channel.owes_answer or received.has_much_to_report:
                received.reported = received.best_effort
                self._outbox.send(neighbour.peer, channel.answer(received.best_effort))

    def repeat_overdue(self, after_s: float) -> None:
        """Repeat the frames that were not acknowledged within this time."""
        now = self._outbox.now
        for neighbour in self._by_name.values():
            if neighbour.link.channel is not None:
                for frame in neighbour.link.channel.overdue(now, after_s):
                    self._outbox.send(neighbour.peer, frame)

    def repeat_unheard(self, neighbour: Neighbour) -> None:
        """Repeat what may have been lost when the connection broke within a session."""
        channel = neighbour.link.channel
        if channel is not None and neighbour.link.may_have_lost:
            neighbour.link.may_have_lost = False
            for frame in channel.repeated(at_most=channel.unheard):
                self._outbox.send(neighbour.peer, frame)
