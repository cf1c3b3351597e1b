"""Reading: what the frames of a known peer say, in whatever version it speaks."""

from __future__ import annotations

from typing import Any

from kbn.broker.messages import AnyMessage, Bye, Connect, Greet, Peer, Refused
from kbn.broker.node.batch import Batch
from kbn.broker.node.connections import NodeConnection, NodeConnections
from kbn.broker.node.events import Unlink
from kbn.broker.node.neighbourhood import Neighbourhood
from kbn.broker.node.turn import Turn
from kbn.broker.wire import (
    FrameError,
    decode_between_brokers,
    decode_farewell,
    decode_from_client,
)
from kbn.broker.wire_versions import WireVersions
from kbn.broker.work import BYTES_DECODED, MESSAGE, Work
from kbn.errors import InvalidInputError

LOOKED_AT = frozenset({Connect, Greet, Bye})


class Reading:
    """Decodes frames into the batch; whoever sends what cannot be read is refused."""

    def __init__(
        self,
        wire: WireVersions,
        work: Work,
        connections: NodeConnections,
        neighbours: Neighbourhood,
        batch: Batch,
        turn: Turn,
    ) -> None:
        self._wire = wire
        self._work = work
        self._connections = connections
        self._neighbours = neighbours
        self._batch = batch
        self._turn = turn

    def read(self, connection: NodeConnection, peer: Peer, frames: list[bytes]) -> None:
        """Add what the frames say to the batch, as far as they can be understood."""
        decode: Any = decode_from_client if peer.kind == "client" else decode_between_brokers
        messages: list[AnyMessage] = []
        work, body = self._work, b""
        try:
            if connection.is_older:
                frames = [each for each in map(self._newer, frames) if each is not None]
            for body in frames:
                work.done += MESSAGE + len(body) // BYTES_DECODED
                message = decode(body)
                if type(message) in LOOKED_AT:
                    self._look_at(message, connection, peer)
                messages.append(message)
        except FrameError as error:
            if not self._is_refusal(connection, body):
                self._connections.refuse(connection, str(error), FrameError.__name__)
        self._batch.add(messages, peer)

    def _newer(self, body: bytes) -> bytes | None:
        """A message of the version before in the form of the newest."""
        try:
            return self._wire.newer(body)
        except InvalidInputError as error:
            raise FrameError(str(error)) from None

    def _is_refusal(self, connection: NodeConnection, body: bytes) -> bool:
        """Whether a broker that we have greeted says that it will not have us."""
        if connection.link is None:
            return False
        try:
            answer = decode_farewell(body)
        except FrameError:
            return False
        assert isinstance(answer, Refused), "a last word has been understood before"
        given_up = self._neighbours.refused(connection, answer)
        if given_up is not None:
            self._turn.unlinks.append(Unlink(given_up))
        return True

    def _look_at(
        self, message: Connect | Greet | Bye, connection: NodeConnection, peer: Peer
    ) -> None:
        name = message.client if isinstance(message, Connect) else message.broker
        if name != peer.name:
            raise FrameError(f"this connection is {peer.name}'s: {name!r} cannot greet on it")
        if isinstance(message, Bye):
            self._neighbours.heard_bye(connection, message)
        elif connection.link is None and message.token != connection.token:
            raise FrameError("another token than before: make another connection to show it")

    def read_farewell(self, connection: NodeConnection, frames: list[bytes]) -> None:
        """Wait until one that we have left answers; while it goes on, tell it again."""
        try:
            decode_farewell(frames[-1])
        except FrameError:
            self._neighbours.part_again(connection)
        else:
            self._neighbours.parted(connection)
