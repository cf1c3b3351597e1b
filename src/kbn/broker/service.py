"""Service: what a broker does for its clients."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isfinite
from typing import Any, assert_never

from msgspec import msgpack

from kbn.broker.access import NotConnectedError, Permission
from kbn.broker.client_session import ClientSession
from kbn.broker.links import Links
from kbn.broker.messages import (
    Acknowledge,
    Advertise,
    Alive,
    Answer,
    Ask,
    Barrier,
    BarrierReached,
    ConnAck,
    Connect,
    Credit,
    Done,
    Envelope,
    FromClient,
    Grant,
    Hops,
    Leave,
    Left,
    Peer,
    Publish,
    Redirect,
    Refused,
    ReportHops,
    Subscribe,
    Taken,
    Unadvertise,
    Unsubscribe,
)  # fmt: skip
from kbn.broker.unacked import UnackedQueue
from kbn.errors import InvalidInputError, KbnError, LimitError
from kbn.filters import Notification, Subscription

NOTHING = b"http://www.w3.org/2002/07/owl#Nothing"

# A report of hops names no more numbers of hops, and no more publishers.
HOPS_MAX = 1024

# A kept client may do nothing until it comes and shows its token; what it wanted stays.
_UNTIL_IT_COMES = Permission(frozenset(), frozenset(), manage=False)


class Service(Links):
    """Greets clients, takes what they publish, keeps what they want and delivers it.

    `answers` is what the broker itself can be asked, and who answers it.
    """

    answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]]

    def _from_client(self, message: FromClient, sender: Peer) -> None:
        session = self._clients.get(sender.name)
        try:
            if isinstance(message, Connect):
                self._hello(message, sender, session)
            elif session is None or not session.is_connected:
                self._from_stranger(message, sender)
            else:
                session.heard_at = self._now
                self._request(message, session)
        except KbnError as error:
            self._refuse(sender, message, error)

    def _from_stranger(self, message: FromClient, sender: Peer) -> None:
        if (
            isinstance(message, Leave) and sender.name not in self._clients
        ):  # it has left before, and did not hear our answer
            self._send(sender, Left(message.request))
            return
        raise NotConnectedError("send Connect first: this broker does not know you (any more)")

    def _request(self, message: FromClient, session: ClientSession) -> None:
        match message:
            case Publish():
                self._publish(message, session)
            case Acknowledge(number):
                if session.unacked is not None:
                    session.unacked.ack(number)
                session.progress_at = self._now
                self._to_pump[session.peer.name] = session
            case Credit(total):
                session.credit = max(session.credit, total)
                self._to_pump[session.peer.name] = session
            case Subscribe(id, subscription, is_text):
                self._subscribe(session, id, self._parsed(subscription, is_text))
                self._send(session.peer, Done("subscribe", id))
            case Unsubscribe(id):
                self._unsubscribe(session, id)
                self._send(session.peer, Done("unsubscribe", id))
            case Advertise(id, advertisement, is_text):
                self._advertise(session, id, self._parsed(advertisement, is_text))
            case Unadvertise(id):
                self._unadvertise(session, id)
                self._send(session.peer, Done("unadvertise", id))
            case Barrier(request):
                peer = session.peer
                self._wave(lambda: self._send(peer, BarrierReached(request)))
            case Leave(request):
                self._leave(session, request)
            case Ask(request, what, about):
                self._answer(session, request, what, about)
            case Hops():
                self._told_hops(message, session)
            case Alive():
                self._send(session.peer, Grant(session.granted))
            case Connect():
                raise AssertionError("a greeting is handled before")
            case _:
                assert_never(message)

    def _hello(self, connect: Connect, sender: Peer, known: ClientSession | None) -> None:
        permission = self._authorizer.admit(connect.client, connect.token)
        if permission is None:
            raise InvalidInputError(f"client {connect.client!r} is not admitted: check its token")
        if known is not None and connect.epoch < known.epoch:
            raise InvalidInputError(f"a newer process of {connect.client!r} is attached")
        if connect.durable and not self._keeps:
            raise InvalidInputError("this broker keeps nothing: start it with a store")
        session = known or ClientSession(
            sender,
            connect.epoch,
            permission,
            connect.window,
            connect.when_slow,
            self._unacked_of(sender, connect),
        )
        resumed = known is not None and known.epoch == connect.epoch
        self._clients[sender.name] = session
        session.permission = permission
        session.greet(connect, self.limits)
        session.taken = max(session.taken, self._taken_of(connect))
        session.heard_at = self._now
        if session.unacked is not None:
            self._store.keep_client(sender.name, session.window, session.when_slow)
        self._to_pump[sender.name] = session
        self._send(
            sender,
            ConnAck(
                self.name, self.epoch, self._ontology_digest, session.taken, session.granted,
                self._keeps, resumed, self.routing != "general",
            ),
        )  # fmt: skip
        if session.redirect is not None:
            self._send(sender, Redirect(*session.redirect))

    def _unacked_of(self, peer: Peer, connect: Connect) -> UnackedQueue | None:
        return UnackedQueue(self._store, peer, self._sequences) if connect.durable else None

    def _taken_of(self, connect: Connect) -> int:
        """The last durable notification taken of this epoch of a publisher."""
        known = self._store.marked(f"publisher/{connect.client}")
        if known is None:
            return 0
        epoch, number = msgpack.decode(known)
        return int(number) if epoch == connect.epoch else 0

    def _publish(self, publish: Publish, session: ClientSession) -> None:
        if publish.durable:
            if publish.number <= session.taken:
                self._send(session.peer, Taken(session.taken))
                return
            if publish.number != session.taken + 1:
                return  # one before it is missing, and will be repeated
        elif publish.number <= session.last_fired:
            return
        if session.published >= session.granted:
            if session.waits_for:
                return
            raise LimitError(
                f"more than {self.limits.publish_ahead} notifications ahead of what was granted",
                limit="notifications published ahead",
                maximum=self.limits.publish_ahead,
            )
        self._count_publication(publish, session)
        try:
            self.limits.check_content(len(publish.content))
            if not isfinite(publish.time):
                raise InvalidInputError("a notification's time of publication is no number")
            notification = self._read_content(publish.content)
            session.permission.check_publish(notification)
            if publish.durable and not self._keeps:
                raise InvalidInputError("this broker keeps nothing: start it with a store")
        except KbnError as error:
            self._refuse(session.peer, publish, error)  # before `Taken`, which would confirm it
            return
        finally:
            self._grant(session)
            if publish.durable:
                self._send(session.peer, Taken(publish.number))
        self.counts["published"] += 1
        envelope = Envelope(
            session.peer.name,
            session.epoch,
            publish.number,
            publish.time,
            publish.content,
            publish.durable,
            everywhere=self._advertises
            and not self._is_advertised(notification, publish.content, session),
            path=() if session.with_path else None,
        )
        self._route(envelope, notification, None, session)

    def _count_publication(self, publish: Publish, session: ClientSession) -> None:
        """The number is used up, whether the notification is good or refused."""
        if not publish.durable:
            session.published += publish.number - session.last_fired  # those lost count as well
            session.last_fired = publish.number
            return
        session.published += 1
        session.taken = publish.number
        mark = msgpack.encode((session.epoch, publish.number))
        self._store.mark(f"publisher/{session.peer.name}", mark)

    def _grant(self, session: ClientSession) -> None:
        """Let a publisher go on before it has to wait, unless a slow subscriber stops it."""
        ahead = self.limits.publish_ahead
        if not session.waits_for and session.granted - session.published <= ahead // 2:
            session.granted = session.published + ahead
            self._send(session.peer, Grant(session.granted))

    def _is_advertised(
        self, notification: Notification, content_of: bytes, session: ClientSession
    ) -> bool:
        if NOTHING in content_of:  # below every class, so no two advertisements are apart for it
            return False
        return any(
            session.advertisements[id].matches(notification, self.table.ontology)
            for id in session.in_force
        )

    def _subscribe(self, session: ClientSession, id: int, subscription: Subscription) -> None:
        known = session.subscriptions.get(id)
        if known == subscription:
            return
        self.limits.check_subscription(subscription, len(session.subscriptions))
        session.permission.check_subscribe(subscription)
        if known is not None:
            raise InvalidInputError(f"your subscription {id} is another: unsubscribe it first")
        self._tell_interest(self.table.add((session.peer, id), subscription))
        if not session.subscriptions and self._hops_every_s:
            self._send(session.peer, ReportHops(self._hops_every_s))
        session.subscriptions[id] = subscription
        self.changes.of_wishes(session.peer.name)
        if session.unacked is not None:
            text = json.dumps(subscription.to_json(), separators=(",", ":"))
            self._store.keep_subscription(session.peer.name, id, text)

    def _unsubscribe(self, session: ClientSession, id: int) -> None:
        if session.subscriptions.pop(id, None) is None:
            return
        self._tell_interest(self.table.remove((session.peer, id)))
        self.changes.of_wishes(session.peer.name)
        if session.unacked is not None:
            self._store.forget_subscription(session.peer.name, id)

    def _advertise(self, session: ClientSession, id: int, advertisement: Subscription) -> None:
        session.permission.check_publish(
            {c.attribute for filter in advertisement.filters for c in filter}
        )
        peer = session.peer
        if id not in session.advertisements:
            self.limits.check_subscription(advertisement, len(session.advertisements))
            session.advertisements[id] = advertisement
            if self._advertises:
                self._tell_offer(self.offers.add((peer, id), advertisement))

        def in_force() -> None:
            session.in_force.add(id)
            self._send(peer, Done("advertise", id))

        self._wave(in_force)

    def _unadvertise(self, session: ClientSession, id: int) -> None:
        session.in_force.discard(id)
        if session.advertisements.pop(id, None) is not None:
            self._tell_offer(self.offers.remove((session.peer, id)))

    def _leave(self, session: ClientSession, request: int) -> None:
        if session.leaving == request:
            return
        session.leaving = request
        self._wave(lambda: self._drained(session))

    def _drained(self, session: ClientSession) -> None:
        """All that was on its way to a leaving client is here; nothing more need come."""
        for id in list(session.subscriptions):
            self._unsubscribe(session, id)
        session.is_drained = True
        self._to_pump[session.peer.name] = session

    def _detach(self, session: ClientSession) -> None:
        """A client is away: a durable one is kept, another forgotten."""
        session.is_connected = False
        self._release_publishers(session)
        for id in list(session.advertisements):
            self._unadvertise(session, id)
        if session.unacked is None:
            self._forget(session)

    def _forget(self, session: ClientSession) -> None:
        for id in list(session.subscriptions):
            self._unsubscribe(session, id)
        for id in list(session.advertisements):
            self._unadvertise(session, id)
        if session.unacked is not None:
            self._store.forget_client(session.peer.name)
            self._store.unmark(f"redirect/{session.peer.name}")
        self._clients.pop(session.peer.name, None)
        self._to_pump.pop(session.peer.name, None)
        self._release_publishers(session)

    def _answer(
        self, session: ClientSession, request: int, what: str, about: dict[str, Any]
    ) -> None:
        answer = self.answers.get(what)
        if answer is None:
            known = ", ".join(sorted(self.answers))
            raise InvalidInputError(f"this broker cannot be asked {what!r}; it knows {known}")
        session.permission.check_manage()
        self._send(session.peer, Answer(request, answer(about)))

    def _report_hops(self, about: dict[str, Any]) -> dict[str, Any]:
        """Have subscribers say how far their notifications came: now, and then `every` so often.

        Those who come later are asked too, unless `every` is 0 or left out. `clients` names some.
        """
        every_s = about.get("every", 0.0)
        if isinstance(every_s, bool) or not isinstance(every_s, int | float) or not every_s >= 0:
            raise InvalidInputError(f"'every' is a number of seconds, not {every_s!r}")
        names = client_names(about)
        if names is None:
            self._hops_every_s = float(every_s)
        wanted = self._clients.keys() if names is None else set(names)
        asked = [
            session
            for name, session in self._clients.items()
            if session.is_connected and session.subscriptions and name in wanted
        ]
        for session in asked:
            self._send(session.peer, ReportHops(float(every_s)))
        return {"asked": len(asked)}

    def _told_hops(self, hops: Hops, session: ClientSession) -> None:
        if max(len(hops.counts), len(hops.publishers)) > HOPS_MAX:
            raise LimitError(
                f"a report of hops has at most {HOPS_MAX} lines",
                limit="lines of a report",
                maximum=HOPS_MAX,
            )
        session.hops = hops
        self.changes.of_hops(session.peer.name)

    def _move_clients(self, about: dict[str, Any]) -> dict[str, Any]:
        """Send clients to another: `clients` names them; `broker` and `url` say where."""
        broker, url = about.get("broker"), about.get("url")
        if not isinstance(broker, str) or not isinstance(url, str) or broker == self.name:
            raise InvalidInputError("to move clients, name another broker and its url")
        names = client_names(about)
        if names is None:
            names = [name for name, each in self._clients.items() if each.subscriptions]
        unknown = [name for name in names if name not in self._clients]
        if unknown:
            raise InvalidInputError(f"no client here is called {unknown[0]!r}")
        for name in names:
            session = self._clients[name]
            session.redirect = (broker, url)
            if session.unacked is not None:
                self._store.mark(f"redirect/{name}", msgpack.encode(session.redirect))
            if session.is_connected:
                self._send(session.peer, Redirect(broker, url))
        return {"moving": len(names)}

    def _refuse(self, sender: Peer, message: FromClient, error: KbnError) -> None:
        self.counts["refused"] += 1
        what = str(message.__struct_config__.tag)
        reference = next(
            (
                getattr(message, name)
                for name in ("id", "number", "request")
                if hasattr(message, name)
            ),
            0,
        )
        durable = isinstance(message, Publish) and message.durable
        kind, reason = type(error).__name__, str(error)
        self._send(sender, Refused(what, reference, kind, reason, durable))

    def _pump(self, session: ClientSession) -> None:
        """Send a client what it is unacked, as far as its credit goes."""
        for delivery in session.deliveries():
            self.counts["delivered"] += 1
            self._send(session.peer, delivery)
        if session.when_slow == "block" and session.has_room(self.limits):
            self._release_publishers(session)
        if session.is_drained and session.is_empty and session.leaving is not None:
            self._send(session.peer, Left(session.leaving))
            self._forget(session)

    def _release_publishers(self, slow: ClientSession) -> None:
        """Those that a slow client had stopped need not wait for it any longer."""
        stopped, slow.stops = slow.stops, set()
        for name in sorted(stopped):
            publisher = self._clients.get(name)
            if publisher is not None:
                publisher.waits_for.discard(slow.peer.name)
                self._grant(publisher)

    def _deliver_again(self, session: ClientSession, after_s: float) -> None:
        unheard = session.unacked is not None and session.unacked.in_flight
        is_stuck = unheard or session.sent >= session.credit
        if session.is_connected and is_stuck and self._now - session.progress_at >= after_s:
            session.start_again(self._now)
            self._to_pump[session.peer.name] = session

    def _restore(self) -> None:
        """Attach the durable clients that the store has kept."""
        for kept in self._store.clients():
            peer = Peer("client", kept.name)
            permission = self._authorizer.admit(kept.name, "") or _UNTIL_IT_COMES
            session = ClientSession(
                peer, 0, permission, kept.window, kept.when_slow,  # type: ignore[arg-type]
                UnackedQueue(self._store, peer, self._sequences), is_connected=False,
            )  # fmt: skip
            redirect = self._store.marked(f"redirect/{kept.name}")
            session.redirect = (
                None if redirect is None else msgpack.decode(redirect, type=tuple[str, str])
            )
            self._clients[kept.name] = session
            for id, text in kept.subscriptions.items():
                self._restore_subscription(session, id, text)

    def _restore_subscription(self, session: ClientSession, id: int, text: str) -> None:
        subscription = self._parsed(text, is_text=False)
        session.subscriptions[id] = subscription
        self.table.add((session.peer, id), subscription)

    def _client_status(self, session: ClientSession) -> dict[str, Any]:
        unacked = session.unacked
        return {
            "client": session.peer.name,
            "connected": session.is_connected,
            "durable": unacked is not None,
            "subscriptions": len(session.subscriptions),
            "queued": len(session.queue) if unacked is None else len(unacked),
            "dropped": session.dropped,
            "published": session.published,
        }


def client_names(about: dict[str, Any]) -> list[str] | None:
    """The clients that a request names; None when it is about all of them."""
    names = about.get("clients")
    if names is None:
        return None
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidInputError(f"'clients' is a list of names, not {names!r:.100}")
    return list(names)
