"""The brokers next to a node: whom it dials, who dials it, who is kept, who has left.

**Crossing.** Two brokers that connect to each other keep the connection that the one with the
lesser name made.

**Leaving.** `Bye` takes a link down for good, so it must arrive. One that we dial is told until it
answers: the link stays as a *farewell*, over restarts too. One that dials us is told again when it
comes. Whoever is told does not come back on its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from kbn.broker.broker import Broker
from kbn.broker.broker_status import LinkStatus, MoveStatus
from kbn.broker.messages import Bye, Greet, Peer, Refused, Send, Who
from kbn.broker.node import notes
from kbn.broker.node.admission import kept_of_two
from kbn.broker.node.connections import NodeConnection, NodeConnections
from kbn.broker.node.effects import LimitFrames
from kbn.broker.node.events import MoveBroker
from kbn.broker.node.known_peers import Farewell, InterruptedMove, KnownPeers
from kbn.broker.node.outgoing_links import OutgoingLink, OutgoingLinks
from kbn.broker.node.settings import LinkTo, NodeSettings
from kbn.broker.store import Store
from kbn.errors import InvalidInputError, KbnError, RemotePeerError


class Neighbourhood:
    """Links to other brokers. For the `Node` only."""

    def __init__(
        self,
        settings: NodeSettings,
        broker: Broker,
        store: Store,
        connections: NodeConnections,
        jitter: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._broker = broker
        self._connections = connections
        self._known = KnownPeers(broker, store)
        self.links = OutgoingLinks(jitter)
        self.moves: list[notes.MoveEnded] = []
        self._moving_to: str | None = None
        self._met: set[str] = set()
        self._newly_linked: list[tuple[str, str]] = []
        self._byes: list[tuple[NodeConnection, Bye]] = []
        self._may_have_former = False

    def start(self, now: float) -> None:
        """Recall the neighbours from before a restart, and dial those we are to dial."""
        links = list(self._known.links(self._settings.links, self._settings.token))
        self._known.recall(links)
        for link in links:
            self.links.add(link, now)
        dialled = {link.url for link in links}
        for name, (url, bye) in self._known.farewells().items():
            if url in dialled:
                self._known.end_farewell(name)
            else:
                self.links.add(LinkTo(url, name=name), now, farewell=bye)
        interrupted = self._known.interrupted_move
        if interrupted is not None:
            self._resume(interrupted, now)

    def is_connected(self, name: str) -> bool:
        return self._connections.to_broker(name) is not None

    # Connections come and go.

    def named(self, connection: NodeConnection, answer: Who | Refused, now: float) -> list[Send]:
        """A broker that we connected to says its name, or that it will not have us."""
        link = connection.link
        assert link is not None
        if link.is_over:
            self._connections.close(connection)
            return []
        try:
            match answer:
                case Who():
                    return self._reached(connection, link, answer.broker, now)
                case Refused():
                    raise RemotePeerError(answer.reason, peer=link.to.url)
                case _:
                    assert_never(answer)
        except KbnError as error:
            self._failed(link, error)
            raise

    def _reached(
        self, connection: NodeConnection, link: OutgoingLink, name: str, now: float
    ) -> list[Send]:
        link.name = name
        if link.farewell is not None:
            self._connections.send(connection, link.farewell)
            connection.stage = "parting"
            return []
        sends: list[Send] = []
        if self._broker.expects(link.to.url):
            sends = self._broker.link(name, link.to.role, link.to.token, link.to.url)
        older = self._connections.to_broker(name)
        if older is not None and older.link is not None:
            raise InvalidInputError(f"{self._broker.name} is connected to {name} already")
        if older is not None and self._is_kept_theirs(name):
            self._connections.close(connection)
            return sends
        if link.replaces is not None:
            sends += self._begin_move(link, link.replaces, name, now)
        elif name not in self._broker.neighbours:
            sends += self._broker.link(name, link.to.role, link.to.token)
        elif link.to.token:  # it may have come to us first, and then we have shown it none
            self._broker.neighbours[name].token = link.to.token
        return sends + self._linked(connection, name, now)

    def _failed(self, link: OutgoingLink, error: KbnError) -> None:
        link.problem = str(error)
        self._connections.note(notes.DialFailed(link.to.url, link.problem))
        if link.replaces is not None:
            self._end_move(notes.MoveEnded(link.replaces, link.name, link.problem))
            self.links.end(link)

    def refused(self, connection: NodeConnection, refused: Refused) -> str | None:
        """A broker will not have us; its name when that ends a move there."""
        link = connection.link
        assert link is not None
        self._connections.close(connection)
        link.problem = refused.reason
        self._connections.note(notes.DialFailed(link.to.url, refused.reason))
        is_final = refused.kind == InvalidInputError.__name__
        return link.name if is_final and self._moving_to == link.name else None

    def came(self, connection: NodeConnection, greet: Greet, now: float) -> list[Send]:
        """A broker has connected to us."""
        older = self._connections.to_broker(greet.broker)
        is_crossing = older is not None and older.link is not None
        if is_crossing and not self._is_kept_theirs(greet.broker):
            name = self._broker.name
            raise InvalidInputError(f"{name} has connected to {greet.broker} itself")
        self.links.try_unnamed(now)
        return self._linked(connection, greet.broker, now)

    def _is_kept_theirs(self, name: str) -> bool:
        kept = kept_of_two(self._broker.name, name)
        self._connections.note(notes.ConnectionsCrossed(name, kept))
        return kept == "theirs"

    def _linked(self, connection: NodeConnection, name: str, now: float) -> list[Send]:
        peer = Peer("broker", name)
        self._connections.bind(connection, peer, "broker")
        bytes_max = self._settings.server_limits.broker_frame_bytes
        self._connections.effect(LimitFrames(connection.id, bytes_max))
        link = connection.link
        if link is not None:
            link.problem = ""
        self._newly_linked.append((name, "" if link is None else link.to.url))
        self._connections.note(notes.NeighbourConnected(name, name in self._met))
        self._met.add(name)
        return self._broker.connected(peer, now)

    def lost(self, connection: NodeConnection, peer: Peer | None, now: float) -> None:
        """A connection is closed; `peer` is whom it led to, unless another took its place."""
        if connection.link is not None:
            self.links.closed(connection.link, now)
        if peer is not None and peer.kind == "broker":
            self.links.lost(peer.name, now)
            self._connections.note(notes.NeighbourLost(peer.name))

    def access_changed(self, objection: Callable[[str, str], str | None]) -> list[Send]:
        """Turn away those who connected to us and may not come in any more.

        `objection` says what is wrong with a name and its token, if anything is. One that stands in
        the rules stays a neighbour, and may come back with the right token.
        """
        sends: list[Send] = []
        for name in list(self._broker.neighbours):
            connection = self._connections.to_broker(name)
            if self._dialled(name) is not None or name == self._moving_to:
                continue  # it was us who chose it
            if not self._knows_broker(name):
                sends += self._broker.expel(name, f"broker {name!r} is not admitted any more")
            elif connection is not None and connection.link is None:
                reason = objection(name, connection.token)
                if reason is not None:
                    self._connections.refuse(connection, reason, InvalidInputError.__name__)
        return sends

    def _knows_broker(self, name: str) -> bool:
        knows = getattr(self._settings.authorizer, "knows_broker", None)
        return knows is None or bool(knows(name))

    # Leaving and being left.

    def heard_bye(self, connection: NodeConnection, bye: Bye) -> None:
        """A neighbour takes the link down, or refuses it; the broker is told, too."""
        if connection.link is not None:
            connection.link.problem = bye.reason
        self._connections.note(notes.NeighbourLeft(bye.broker, bye.cause, bye.reason))
        self._byes.append((connection, bye))

    def say_bye(self, peer: Peer, bye: Bye, now: float) -> None:
        """The broker has left a neighbour, or refuses one: tell it, until it has heard."""
        self._may_have_former = True
        connection = self._connections.bound.get(peer)
        if connection is not None:
            self._connections.send(connection, bye)
        link = None if bye.cause == "refused" else self._dialled(peer.name)
        if link is not None:
            link.farewell = replace(bye, token=link.to.token)
            self._known.keep_farewell(peer.name, Farewell(link.to.url, link.farewell))
        if link is not None and connection is not None and connection.link is link:
            self._connections.unbind(connection)
            connection.stage = "parting"
        elif connection is not None:
            self._connections.close(connection)
        if link is not None and link.is_waiting:
            self.links.lost(peer.name, now)

    def _dialled(self, name: str) -> OutgoingLink | None:
        found = (link for link in self.links if link.name == name and link.farewell is None)
        return next(found, None)

    def part_again(self, connection: NodeConnection) -> None:
        """One that we have left may not have heard of it."""
        if connection.link is not None and connection.link.farewell is not None:
            self._connections.send(connection, connection.link.farewell)

    def parted(self, connection: NodeConnection) -> None:
        """One that we have left has heard of it."""
        if connection.link is not None:
            self._known.end_farewell(connection.link.name)
            self.links.end(connection.link)
        self._connections.close(connection)

    def end_turn(self, waiting: set[str]) -> None:
        """Keep what has changed in this turn; not yet of those whose messages wait for the next."""
        linked, self._newly_linked = self._newly_linked, []
        for name, url in linked:
            if name in waiting:
                self._newly_linked.append((name, url))
            elif name != self._moving_to:
                self._known.keep(name, url)
        byes, self._byes = self._byes, []
        for connection, bye in byes:
            if bye.broker in waiting:
                self._byes.append((connection, bye))
            else:
                self._left_by(connection, bye)
        if self._may_have_former:
            self._may_have_former = False
            self._known.forget_former()

    def _left_by(self, connection: NodeConnection, bye: Bye) -> None:
        if bye.broker in self._broker.neighbours or bye.cause == "refused":
            return  # it is an old one; or it does not want us, and may later
        self._may_have_former = True
        answer = Bye(self._broker.name, 0, "heard")
        self._connections.send(connection, answer)
        self._connections.unbind(connection)
        self._connections.close(connection)
        link = self._dialled(bye.broker)
        if link is not None:
            self.links.end(link)
            if bye.cause == "moved":
                self._known.ended(link.to.url)

    # Moving.

    def leaving(self, request: MoveBroker) -> str:
        """The neighbour that a move would leave; `InvalidInputError` when it cannot be made."""
        if self._broker.routing == "general":
            raise InvalidInputError("general peers do not move: link the new one, unlink the old")
        if self._moving_to is not None:
            raise InvalidInputError("one move must be over before the next")
        self._settings.check_url(request.url)
        ups = [n.name for n in self._broker.neighbours.values() if n.role != "child"]
        leaving = request.leaving or (ups[0] if len(ups) == 1 else None)
        if leaving not in ups:
            raise InvalidInputError(f"name the neighbour to leave: {', '.join(ups) or 'none'}")
        return leaving

    def move(self, request: MoveBroker, now: float) -> str:
        """Begin to move the broker; the name of the neighbour that it leaves."""
        leaving = self.leaving(request)
        self._give_up_dialling()
        self._forget_farewell(request.url)
        self._dial_instead_of(leaving, request.url, now)
        return leaving

    def _dial_instead_of(self, leaving: str, url: str, now: float) -> None:
        known = self._broker.neighbours[leaving]
        token = known.token or self._settings.token
        self.links.add(LinkTo(url, known.role, token), now, replaces=leaving)

    def _give_up_dialling(self) -> None:
        """A move to where nobody was reached yet is over when another is asked for."""
        for link in self.links:
            if link.replaces is not None:
                self.links.end(link)
                self._end_move(notes.MoveEnded(link.replaces, link.to.url, "told to go elsewhere"))

    def _forget_farewell(self, url: str) -> None:
        """It is about to be a neighbour again."""
        for link in self.links:
            if link.farewell is not None and link.to.url == url:
                self._known.end_farewell(link.name)
                self.links.end(link)
                for connection in self._connections.all.values():
                    if connection.link is link:
                        self._connections.close(connection)

    def _resume(self, move: InterruptedMove, now: float) -> None:
        if move.leaving in self._broker.neighbours:
            self._dial_instead_of(move.leaving, move.url, now)
        else:
            self._known.end_move()

    def _begin_move(self, link: OutgoingLink, leaving: str, to: str, now: float) -> list[Send]:
        def done(trouble: str | None) -> None:
            if trouble is not None and link.problem:
                trouble = f"{to!r} refuses: {link.problem}"
            if trouble is None:
                old = self._dialled(leaving)
                self._known.moved(None if old is None else old.to.url, link.to)
                self._newly_linked.append((to, link.to.url))
            self._end_move(notes.MoveEnded(leaving, to, trouble))

        sends = self._broker.rehome(leaving, to, now, token=link.to.token, done=done)
        link.replaces = None
        self._moving_to = to
        self._known.begin_move(InterruptedMove(leaving, link.to.url))
        return sends

    def _end_move(self, ended: notes.MoveEnded) -> None:
        self._moving_to = None
        self._known.end_move()
        self.moves.append(ended)
        self._connections.note(ended)

    def give_up(self, url: str) -> bool:
        """Dial a broker no longer that was never met; whether there was one."""
        found = [each for each in self.links if each.to.url == url and self._broker.expects(url)]
        for link in found:
            self.links.end(link)
        return bool(found)

    def link_statuses(self) -> tuple[LinkStatus, ...]:
        return tuple(
            LinkStatus(link.to.url, link.name, link.problem, self._broker.kept_for(link.to.url))
            for link in self.links
            if link.farewell is None
        )

    def move_statuses(self) -> tuple[MoveStatus, ...]:
        return tuple(MoveStatus(*move) for move in self.moves)
