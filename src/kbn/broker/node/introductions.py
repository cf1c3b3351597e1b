"""Introductions: whose connection it is, by its first message.

A connection is nobody's until its first message. It may first ask for our name (`Who`). `Connect`
makes it a client's, `Greet` a neighbour's, when the authorizer admits the name; behind mutual TLS
the name must be the certificate's. A newer connection takes the place of an older one of the same
client and epoch. `neighbourhood.py` decides between crossing ones.
"""

from __future__ import annotations

from typing import assert_never

from kbn.broker.broker import Broker
from kbn.broker.messages import Bye, Connect, Greet, Peer, Who
from kbn.broker.node import notes
from kbn.broker.node.admission import Admission
from kbn.broker.node.batch import Batch
from kbn.broker.node.connections import NodeConnection, NodeConnections
from kbn.broker.node.effects import LimitFrames
from kbn.broker.node.flow_control import FlowControl
from kbn.broker.node.neighbourhood import Neighbourhood
from kbn.broker.node.settings import NodeSettings
from kbn.broker.node.turn import Turn
from kbn.broker.wire import FrameError, decode_name, decode_opening
from kbn.broker.work import BYTES_DECODED, CONNECTED, OPENED
from kbn.errors import InvalidInputError, KbnError


class Introductions:
    """Learns who is at the other end of new connections, and lets them in or not."""

    def __init__(
        self,
        settings: NodeSettings,
        broker: Broker,
        connections: NodeConnections,
        neighbours: Neighbourhood,
        batch: Batch,
        flow: FlowControl,
        turn: Turn,
    ) -> None:
        self.admission = Admission(settings)
        self._settings = settings
        self._broker = broker
        self._connections = connections
        self._neighbours = neighbours
        self._batch = batch
        self._flow = flow
        self._turn = turn

    def who(self) -> Who:
        """Our name, and the versions that we speak."""
        wire = self._settings.wire
        newest = wire.newest if wire.newest > wire.oldest else 0
        return Who(self._settings.name, wire.oldest, newest)

    def read(self, connection: NodeConnection, frames: list[bytes]) -> list[bytes]:
        """Learn whose connection it is; what remains of the frames is for the broker."""
        turn = self._turn
        try:
            while frames and connection.is_open_to_anybody and not connection.is_closing:
                if connection.stage == "asked":
                    answer = decode_name(frames[0])
                    if isinstance(answer, Who):
                        agreed = self._settings.wire.agreed(answer.version, answer.newest)
                        self._speak(connection, agreed)
                    turn.sends += self._neighbours.named(connection, answer, turn.now)
                    frames = frames[1:]
                else:
                    frames = self._opening(connection, frames)
        except KbnError as error:
            self._connections.refuse(connection, str(error), type(error).__name__)
        return frames

    def _speak(self, connection: NodeConnection, version: int) -> None:
        """Speak a version with the other side from now on."""
        connection.is_older = version != self._settings.wire.newest

    def _opening(self, connection: NodeConnection, frames: list[bytes]) -> list[bytes]:
        wire, turn = self._settings.wire, self._turn
        self._broker.work.done += OPENED + len(frames[0]) // BYTES_DECODED
        opening = decode_opening(frames[0])
        match opening:
            case Who():
                wire.agreed(opening.version, opening.newest)
                if connection.stage == "introduced":
                    raise FrameError("you have asked before: say connect, or greet")
                connection.stage = "introduced"
                self._connections.send(connection, self.who())
                return frames[1:]
            case Connect():
                self._speak(connection, wire.agreed(opening.version))
                if not self._client_came(connection, opening):
                    connection.inbox.put_back(frames)
                    return []
            case Greet():
                self._speak(connection, wire.agreed(opening.version))
                self.admission.check_broker(opening, connection, turn.now)
                turn.sends += self._neighbours.came(connection, opening, turn.now)
            case Bye():
                self.admission.check_broker(opening, connection, turn.now)
                peer = Peer("broker", opening.broker)
                turn.sends += self._broker.receive(opening, peer, turn.now)
                self._neighbours.heard_bye(connection, opening)
                return []
            case _:
                assert_never(opening)
        return frames

    def _client_came(self, connection: NodeConnection, connect: Connect) -> bool:
        """Let a client in; False while what it said on another connection is not handled yet."""
        turn = self._turn
        self._broker.work.done += CONNECTED
        permission = self.admission.check_client(connect, connection, turn.now)
        self._broker.check_owner(connect, permission, turn.now)
        peer = Peer("client", connect.client)
        older = self._connections.bound.get(peer)
        if older is not None and connect.epoch < older.epoch:
            raise InvalidInputError(f"{connect.client!r} is attached with a newer epoch")
        if older is not None and (older.inbox or self._batch.has_from(peer)):
            older.is_superseded = True
            return False
        if older is not None and connect.epoch > older.epoch:
            # Of the older epoch nothing remains.
            turn.sends += self._broker.disconnected(peer, turn.now)
        if older is None:
            self._connections.note(notes.ClientAttached(peer.name, connection.address))
        connection.epoch = connect.epoch
        self._connections.bind(connection, peer, "client")
        turn.came(peer)
        bytes_max = self._settings.server_limits.frame_bytes
        self._connections.effect(LimitFrames(connection.id, bytes_max))
        self._flow.give_room(peer, 0)
        return True
