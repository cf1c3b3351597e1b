"""Flow control: nobody is sent more than its socket takes.

A client whose socket does not drain is sent no deliveries (they wait in the broker's own bounded
queues, or in the store) and is not read from until it does. Whoever lets too much wait is dropped.
"""

from __future__ import annotations

from kbn.broker.client_session import ClientSession
from kbn.broker.messages import Credit, Peer
from kbn.broker.node import notes
from kbn.broker.node.batch import Batch
from kbn.broker.node.connections import NodeConnection, NodeConnections
from kbn.broker.node.settings import ServerLimits


class FlowControl:
    """Lets clients be sent what their sockets have room for."""

    __slots__ = ("_batch", "_clients", "_connections", "_room_bytes", "_unwritten_bytes")

    def __init__(
        self,
        limits: ServerLimits,
        clients: dict[str, ClientSession],
        connections: NodeConnections,
        batch: Batch,
    ) -> None:
        self._room_bytes = limits.room_bytes
        self._unwritten_bytes = limits.unwritten_bytes
        self._clients = clients
        self._connections = connections
        self._batch = batch

    def stalled(self, id: int, waiting_bytes: int) -> None:
        """What was written to a connection waits."""
        connection = self._connections.all.get(id)
        if connection is None:
            return
        self._check_reads(connection, waiting_bytes)
        session = self._session_of(connection)
        if session is not None:
            session.room_bytes = 0
        connection.is_stalled = True
        self._connections.pause_or_resume(connection)

    def writable(self, id: int, waiting_bytes: int) -> None:
        """A connection can be written to again."""
        connection = self._connections.all.get(id)
        if connection is None:
            return
        self._check_reads(connection, waiting_bytes)
        connection.is_stalled = False
        self._connections.pause_or_resume(connection)
        if connection.stage == "client" and connection.peer is not None:
            self.give_room(connection.peer, waiting_bytes)

    def _check_reads(self, connection: NodeConnection, waiting_bytes: int) -> None:
        if waiting_bytes > self._unwritten_bytes:
            self._connections.note(notes.NotReading(connection.peer))
            self._connections.close(connection, aborts=True)

    def give_room(self, peer: Peer, waiting_bytes: int) -> None:
        """Let a client be sent what its socket has room for."""
        session = self._clients.get(peer.name)
        if session is None:
            return
        if session.room_bytes <= 0:
            # No new credit, but a reason to look whether something waits for this client.
            self._batch.add([Credit(0)], peer)
        session.room_bytes = max(1, self._room_bytes - waiting_bytes)

    def is_cut_short(self, connection: NodeConnection) -> bool:
        """Whether a client is to be sent more than this, when its socket has taken it."""
        session = self._session_of(connection)
        if session is None:
            return False
        deliveries = session.deliveries
        if deliveries.room_bytes <= 0:
            return True
        deliveries.room_bytes = self._room_bytes
        return False

    def _session_of(self, connection: NodeConnection) -> ClientSession | None:
        if connection.stage != "client" or connection.peer is None:
            return None
        return self._clients.get(connection.peer.name)
