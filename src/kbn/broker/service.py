"""Service: what a broker does for its clients."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isfinite
from typing import Any, assert_never

from msgspec import msgpack

from kbn.broker.access import NotGreetedError, Permission
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
from kbn.broker.owed import OwedQueue
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
        attached = self._clients.get(sender.name)
        try:
            if isinstance(message, Connect):
                self._hello(message, sender, attached)
            elif attached is None or not attached.is_connected:
                self._from_stranger(message, sender)
            else:
                attached.heard_at = self._now
                self._request(message, attached)
        except KbnError as error:
            self._refuse(sender, message, error)

    def _from_stranger(self, message: FromClient, sender: Peer) -> None:
        if (
            isinstance(message, Leave) and sender.name not in self._clients
        ):  # it has left before, and did not hear our answer
            self._send(sender, Left(message.request))
            return
        raise NotGreetedError("say hello first: this broker does not know you (any more)")

    def _request(self, message: FromClient, attached: ClientSession) -> None:
        match message:
            case Publish():
                self._publish(message, attached)
            case Acknowledge(number):
                if attached.owed is not None:
                    attached.owed.settle(number)
                attached.progress_at = self._now
                self._to_pump[attached.peer.name] = attached
            case Credit(total):
                attached.credit = max(attached.credit, total)
                self._to_pump[attached.peer.name] = attached
            case Subscribe(id, subscription, is_text):
                self._subscribe(attached, id, self._parsed(subscription, is_text))
                self._send(attached.peer, Done("subscribe", id))
            case Unsubscribe(id):
                self._unsubscribe(attached, id)
                self._send(attached.peer, Done("unsubscribe", id))
            case Advertise(id, advertisement, is_text):
                self._advertise(attached, id, self._parsed(advertisement, is_text))
            case Unadvertise(id):
                self._unadvertise(attached, id)
                self._send(attached.peer, Done("unadvertise", id))
            case Barrier(request):
                peer = attached.peer
                self._wave(lambda: self._send(peer, BarrierReached(request)))
            case Leave(request):
                self._leave(attached, request)
            case Ask(request, what, about):
                self._answer(attached, request, what, about)
            case Hops():
                self._told_hops(message, attached)
            case Alive():
                self._send(attached.peer, Grant(attached.granted))
            case Connect():
                raise AssertionError("a greeting is handled before")
            case _:
                assert_never(message)

    def _hello(self, connect: Connect, sender: Peer, known: ClientSession | None) -> None:
        permission = self._authorizer.admit(connect.client, connect.token)
        if permission is None:
            raise InvalidInputError(f"client {connect.client!r} is not admitted: check its token")
        if known is not None and connect.run < known.run:
            raise InvalidInputError(f"a newer run of {connect.client!r} is attached")
        if connect.durable and not self._keeps:
            raise InvalidInputError("this broker keeps nothing: start it with a store")
        attached = known or ClientSession(
            sender,
            connect.run,
            permission,
            connect.window,
            connect.when_slow,
            self._owed_to(sender, connect),
        )
        resumed = known is not None and known.run == connect.run
        self._clients[sender.name] = attached
        attached.permission = permission
        attached.greet(connect, self.limits)
        attached.taken = max(attached.taken, self._taken_of(connect))
        attached.heard_at = self._now
        if attached.owed is not None:
            self._store.keep_client(sender.name, attached.window, attached.when_slow)
        self._to_pump[sender.name] = attached
        self._send(
            sender,
            ConnAck(
                self.name, self.run, self._ontology_digest, attached.taken, attached.granted,
                self._keeps, resumed, self.routing != "general",
            ),
        )  # fmt: skip
        if attached.redirect is not None:
            self._send(sender, Redirect(*attached.redirect))

    def _owed_to(self, peer: Peer, connect: Connect) -> OwedQueue | None:
        return OwedQueue(self._store, peer, self._rows) if connect.durable else None

    def _taken_of(self, connect: Connect) -> int:
        """The last durable notification taken of this run of a publisher."""
        known = self._store.marked(f"publisher/{connect.client}")
        if known is None:
            return 0
        run, number = msgpack.decode(known)
        return int(number) if run == connect.run else 0

    def _publish(self, publish: Publish, attached: ClientSession) -> None:
        if publish.durable:
            if publish.number <= attached.taken:
                self._send(attached.peer, Taken(attached.taken))
                return
            if publish.number != attached.taken + 1:
                return  # one before it is missing, and will be repeated
        elif publish.number <= attached.last_fired:
            return
        if attached.published >= attached.granted:
            if attached.waits_for:
                return
            raise LimitError(
                f"more than {self.limits.publish_ahead} notifications ahead of what was granted",
                limit="notifications published ahead",
                maximum=self.limits.publish_ahead,
            )
        self._count_publication(publish, attached)
        try:
            self.limits.check_content(len(publish.content))
            if not isfinite(publish.time):
                raise InvalidInputError("a notification's time of publication is no number")
            notification = self._read_content(publish.content)
            attached.permission.check_publish(notification)
            if publish.durable and not self._keeps:
                raise InvalidInputError("this broker keeps nothing: start it with a store")
        except KbnError as error:
            self._refuse(attached.peer, publish, error)  # before `Taken`, which would confirm it
            return
        finally:
            self._grant(attached)
            if publish.durable:
                self._send(attached.peer, Taken(publish.number))
        self.counts["published"] += 1
        envelope = Envelope(
            attached.peer.name,
            attached.run,
            publish.number * 2 + publish.durable,
            publish.time,
            publish.content,
            publish.durable,
            everywhere=self._advertises
            and not self._is_advertised(notification, publish.content, attached),
            path=() if attached.with_path else None,
        )
        self._route(envelope, notification, None, attached)

    def _count_publication(self, publish: Publish, attached: ClientSession) -> None:
        """The number is used up, whether the notification is good or refused."""
        if not publish.durable:
            attached.published += publish.number - attached.last_fired  # those lost count as well
            attached.last_fired = publish.number
            return
        attached.published += 1
        attached.taken = publish.number
        mark = msgpack.encode((attached.run, publish.number))
        self._store.mark(f"publisher/{attached.peer.name}", mark)

    def _grant(self, attached: ClientSession) -> None:
        """Let a publisher go on before it has to wait, unless a slow subscriber stops it."""
        ahead = self.limits.publish_ahead
        if not attached.waits_for and attached.granted - attached.published <= ahead // 2:
            attached.granted = attached.published + ahead
            self._send(attached.peer, Grant(attached.granted))

    def _is_advertised(
        self, notification: Notification, content_of: bytes, attached: ClientSession
    ) -> bool:
        if NOTHING in content_of:  # below every class, so no two advertisements are apart for it
            return False
        return any(
            attached.advertisements[id].matches(notification, self.table.ontology)
            for id in attached.in_force
        )

    def _subscribe(self, attached: ClientSession, id: int, subscription: Subscription) -> None:
        known = attached.subscriptions.get(id)
        if known == subscription:
            return
        self.limits.check_subscription(subscription, len(attached.subscriptions))
        attached.permission.check_subscribe(subscription)
        if known is not None:
            raise InvalidInputError(f"your subscription {id} is another: unsubscribe it first")
        self._tell_interest(self.table.add((attached.peer, id), subscription))
        if not attached.subscriptions and self._hops_every_s:
            self._send(attached.peer, ReportHops(self._hops_every_s))
        attached.subscriptions[id] = subscription
        self.changes.of_wishes(attached.peer.name)
        if attached.owed is not None:
            text = json.dumps(subscription.to_json(), separators=(",", ":"))
            self._store.keep_subscription(attached.peer.name, id, text)

    def _unsubscribe(self, attached: ClientSession, id: int) -> None:
        if attached.subscriptions.pop(id, None) is None:
            return
        self._tell_interest(self.table.remove((attached.peer, id)))
        self.changes.of_wishes(attached.peer.name)
        if attached.owed is not None:
            self._store.forget_subscription(attached.peer.name, id)

    def _advertise(self, attached: ClientSession, id: int, advertisement: Subscription) -> None:
        attached.permission.check_publish(
            {c.attribute for filter in advertisement.filters for c in filter}
        )
        peer = attached.peer
        if id not in attached.advertisements:
            self.limits.check_subscription(advertisement, len(attached.advertisements))
            attached.advertisements[id] = advertisement
            if self._advertises:
                self._tell_offer(self.offers.add((peer, id), advertisement))

        def in_force() -> None:
            attached.in_force.add(id)
            self._send(peer, Done("advertise", id))

        self._wave(in_force)

    def _unadvertise(self, attached: ClientSession, id: int) -> None:
        attached.in_force.discard(id)
        if attached.advertisements.pop(id, None) is not None:
            self._tell_offer(self.offers.remove((attached.peer, id)))

    def _leave(self, attached: ClientSession, request: int) -> None:
        if attached.leaving == request:
            return
        attached.leaving = request
        self._wave(lambda: self._drained(attached))

    def _drained(self, attached: ClientSession) -> None:
        """All that was on its way to a leaving client is here; nothing more need come."""
        for id in list(attached.subscriptions):
            self._unsubscribe(attached, id)
        attached.is_drained = True
        self._to_pump[attached.peer.name] = attached

    def _detach(self, attached: ClientSession) -> None:
        """A client is away: a durable one is kept, another forgotten."""
        attached.is_connected = False
        self._release_publishers(attached)
        for id in list(attached.advertisements):
            self._unadvertise(attached, id)
        if attached.owed is None:
            self._forget(attached)

    def _forget(self, attached: ClientSession) -> None:
        for id in list(attached.subscriptions):
            self._unsubscribe(attached, id)
        for id in list(attached.advertisements):
            self._unadvertise(attached, id)
        if attached.owed is not None:
            self._store.forget_client(attached.peer.name)
            self._store.unmark(f"redirect/{attached.peer.name}")
        self._clients.pop(attached.peer.name, None)
        self._to_pump.pop(attached.peer.name, None)
        self._release_publishers(attached)

    def _answer(
        self, attached: ClientSession, request: int, what: str, about: dict[str, Any]
    ) -> None:
        answer = self.answers.get(what)
        if answer is None:
            known = ", ".join(sorted(self.answers))
            raise InvalidInputError(f"this broker cannot be asked {what!r}; it knows {known}")
        attached.permission.check_manage()
        self._send(attached.peer, Answer(request, answer(about)))

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
            attached
            for name, attached in self._clients.items()
            if attached.is_connected and attached.subscriptions and name in wanted
        ]
        for attached in asked:
            self._send(attached.peer, ReportHops(float(every_s)))
        return {"asked": len(asked)}

    def _told_hops(self, hops: Hops, attached: ClientSession) -> None:
        if max(len(hops.counts), len(hops.publishers)) > HOPS_MAX:
            raise LimitError(
                f"a report of hops has at most {HOPS_MAX} lines",
                limit="lines of a report",
                maximum=HOPS_MAX,
            )
        attached.hops = hops
        self.changes.of_hops(attached.peer.name)

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
            attached = self._clients[name]
            attached.redirect = (broker, url)
            if attached.owed is not None:
                self._store.mark(f"redirect/{name}", msgpack.encode(attached.redirect))
            if attached.is_connected:
                self._send(attached.peer, Redirect(broker, url))
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
        if isinstance(message, Publish):
            reference = message.number * 2 + message.durable  # as in the notification's id
        self._send(sender, Refused(what, reference, type(error).__name__, str(error)))

    def _pump(self, attached: ClientSession) -> None:
        """Send a client what it is owed, as far as its credit goes."""
        for delivery in attached.deliveries():
            self.counts["delivered"] += 1
            self._send(attached.peer, delivery)
        if attached.when_slow == "block" and attached.has_room(self.limits):
            self._release_publishers(attached)
        if attached.is_drained and attached.is_empty and attached.leaving is not None:
            self._send(attached.peer, Left(attached.leaving))
            self._forget(attached)

    def _release_publishers(self, slow: ClientSession) -> None:
        """Those that a slow client had stopped need not wait for it any longer."""
        stopped, slow.stops = slow.stops, set()
        for name in sorted(stopped):
            publisher = self._clients.get(name)
            if publisher is not None:
                publisher.waits_for.discard(slow.peer.name)
                self._grant(publisher)

    def _deliver_again(self, attached: ClientSession, after_s: float) -> None:
        unheard = attached.owed is not None and attached.owed.in_flight
        is_stuck = unheard or attached.sent >= attached.credit
        if attached.is_connected and is_stuck and self._now - attached.progress_at >= after_s:
            attached.start_again(self._now)
            self._to_pump[attached.peer.name] = attached

    def _restore(self) -> None:
        """Attach the durable clients that the store has kept."""
        for kept in self._store.clients():
            peer = Peer("client", kept.name)
            permission = self._authorizer.admit(kept.name, "") or _UNTIL_IT_COMES
            attached = ClientSession(
                peer, 0, permission, kept.window, kept.when_slow,  # type: ignore[arg-type]
                OwedQueue(self._store, peer, self._rows), is_connected=False,
            )  # fmt: skip
            redirect = self._store.marked(f"redirect/{kept.name}")
            attached.redirect = (
                None if redirect is None else msgpack.decode(redirect, type=tuple[str, str])
            )
            self._clients[kept.name] = attached
            for id, text in kept.subscriptions.items():
                self._restore_subscription(attached, id, text)

    def _restore_subscription(self, attached: ClientSession, id: int, text: str) -> None:
        subscription = self._parsed(text, is_text=False)
        attached.subscriptions[id] = subscription
        self.table.add((attached.peer, id), subscription)

    def _client_status(self, attached: ClientSession) -> dict[str, Any]:
        owed = attached.owed
        return {
            "client": attached.peer.name,
            "connected": attached.is_connected,
            "durable": owed is not None,
            "subscriptions": len(attached.subscriptions),
            "queued": len(attached.queue) if owed is None else len(owed),
            "dropped": attached.dropped,
            "published": attached.published,
        }


def client_names(about: dict[str, Any]) -> list[str] | None:
    """The clients that a request names; None when it is about all of them."""
    names = about.get("clients")
    if names is None:
        return None
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidInputError(f"'clients' is a list of names, not {names!r:.100}")
    return list(names)
