"""Links: what carries messages over simulated connections, with latency, faults and cuts."""

from __future__ import annotations

from random import Random

from kbn.broker import AnyMessage, Peer, wire
from kbn.simulation.connection import End, SimulatedConnection
from kbn.simulation.faults import Faults
from kbn.simulation.timeline import Timeline

Pair = frozenset[Peer]


def broker_pair(one: str, other: str) -> Pair:
    """The two brokers at the ends of a link."""
    return frozenset((Peer("broker", one), Peer("broker", other)))


class Links:
    """The links of a network; `faults` are those of every link that has none of its own."""

    def __init__(self, timeline: Timeline, rng: Random, faults: Faults) -> None:
        self.faults = faults
        self.messages = 0
        self._timeline = timeline
        self._rng = rng
        self._faults_between: dict[Pair, Faults] = {}
        self._cut: set[tuple[Peer, Peer]] = set()  # from whom, to whom

    def set_faults(self, faults: Faults) -> None:
        """Set how all links behave from now on."""
        self.faults = faults
        self._faults_between.clear()

    def set_faults_between(self, pair: Pair, faults: Faults) -> None:
        """Set how one link behaves from now on."""
        self._faults_between[pair] = faults

    def cut(self, pair: Pair) -> None:
        """Let nothing pass between two from now on."""
        one, other = pair
        self._cut |= {(one, other), (other, one)}

    def cut_one_way(self, sender: Peer, receiver: Peer) -> None:
        """Let nothing pass from the one to the other; what the other sends arrives."""
        self._cut.add((sender, receiver))

    def mend(self, pair: Pair) -> None:
        """Undo cuts between two."""
        one, other = pair
        self._cut -= {(one, other), (other, one)}

    def is_cut(self, pair: Pair) -> bool:
        """Whether two cannot both hear each other: neither can connect to the other then."""
        one, other = pair
        return (one, other) in self._cut or (other, one) in self._cut

    def heal(self) -> None:
        """Make all links perfect, and mend them."""
        self._cut.clear()
        self.set_faults(Faults(self.faults.latency_s))

    def close(self, end: End) -> None:
        """Close one end: it is told, and nothing reaches it any more."""
        if end.is_open:
            end.is_open = False
            self._timeline.at(self._timeline.now, end.closed)

    def close_other(self, connection: SimulatedConnection, end: End) -> None:
        """Let the other end learn that this one is closed, unless the link is cut."""
        other = connection.other(end)
        if (end.peer, other.peer) not in self._cut:
            latency_s = self._faults_of(connection).latency_s
            arrives = max(self._timeline.now + latency_s, other.nothing_before)
            self._timeline.at(arrives, lambda: self.close(other))

    def transmit(self, connection: SimulatedConnection, end: End, message: AnyMessage) -> None:
        """Send a message from one end to the other, as the faults of the link allow."""
        self.messages += 1
        is_opening = connection.is_opening(end, message)
        now, to = self._timeline.now, connection.other(end)
        if (end.peer, to.peer) in self._cut:
            return
        faults = self._faults_of(connection)
        delays = [faults.latency_s] if is_opening else faults.arrivals(self._rng)
        body = wire.encode(message)[wire.HEADER_BYTES :]
        for delay in delays:
            arrives = max(now + delay, to.nothing_before)
            self._timeline.at(arrives, lambda: self._arrive(connection, to, body))
        if is_opening:
            to.nothing_before = now + faults.latency_s

    def _arrive(self, connection: SimulatedConnection, to: End, body: bytes) -> None:
        if to.is_open:
            to.received(body)
        elif to.answers:
            self.close_other(connection, to)  # nobody listens: the sender learns of it

    def _faults_of(self, connection: SimulatedConnection) -> Faults:
        return self._faults_between.get(connection.pair, self.faults)
