"""The brokers that a client speaks with, and what it says to them.

A client is at *home* at one broker. While it moves there is an *other*: the new broker until it is
home, then the old one. Brokers that it left without their leave are *former*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kbn.broker.client.effects import Effect, HangUp
from kbn.broker.client.inbox import Inbox
from kbn.broker.client.publisher import Publisher
from kbn.broker.client.requests import CHANGES, Request, Requests
from kbn.broker.client.session import BrokerSession
from kbn.broker.client.settings import ClientSettings
from kbn.broker.messages import Connect, Leave, Message, Send


class BrokerSessions:
    """The conversations of the client of a name, in one epoch.

    `effects` is what is to be done: all parts of a client write there.
    """

    def __init__(
        self, name: str, broker: str, epoch: int, settings: ClientSettings, publisher: Publisher
    ) -> None:
        self.settings = settings
        self.effects: list[Effect] = []
        self.home = self._session(broker, "", is_home=True)
        self.by_broker = {broker: self.home}
        self._name = name
        self._epoch = epoch
        self._publisher = publisher
        self._last_request = 0

    def _session(self, broker: str, url: str, *, is_home: bool) -> BrokerSession:
        settings = self.settings
        return BrokerSession(
            broker,
            url,
            Inbox(
                settings.window,
                acknowledges_each=settings.retransmit_s is not None,
                holds=not is_home,
            ),
            Requests(holds_barriers=not is_home),
        )

    def add(self, broker: str, url: str) -> None:
        """Speak with another broker; what it delivers is held until it is home."""
        self.by_broker[broker] = self._session(broker, url, is_home=False)

    @property
    def other(self) -> BrokerSession:
        """The broker that is not home, nor former; only while moving."""
        sessions = self.by_broker.values()
        [other] = (each for each in sessions if each is not self.home and not each.is_former)
        return other

    def former(self) -> list[BrokerSession]:
        """The brokers that the client left without their leave."""
        return [each for each in self.by_broker.values() if each.is_former]

    def use_token(self, token: str) -> None:
        """Show another token from now on."""
        self.settings = replace(self.settings, token=token)

    def connect(self, session: BrokerSession) -> None:
        """Tell a broker who we are."""
        session.state = "connecting"
        session.told_stored = self._publisher.stored_up_to
        session.told_unknown = 0
        settings = self.settings
        self.send(
            session,
            Connect(
                self._name, self._epoch, token=settings.token, durable=settings.durable,
                window=settings.window, when_slow=settings.when_slow,
                published=self._publisher.stored_up_to, with_path=settings.with_path,
                strand=self._publisher.strand,
            ),
        )  # fmt: skip

    # Requests and answers.

    def next_request(self, what: str) -> Request:
        """A request that nobody has made before."""
        self._last_request += 1
        return Request(what, self._last_request)

    def ask(self, session: BrokerSession, request: Request, message: Message) -> None:
        """Ask a broker something, now or when it can be asked."""
        sendable = session.requests.add(request, message)
        if session.state == "attached":
            self.send_all(session, sendable)

    def answered(self, request: Request, session: BrokerSession) -> bool:
        """Whether an answer was expected; sends the barriers that waited for it."""
        was_waiting = session.requests.answered(request)
        if was_waiting and request.what in CHANGES:
            self.send_all(session, session.requests.barriers())
        return was_waiting

    def leave(self, session: BrokerSession) -> None:
        """Ask a broker to forget us, after it has delivered what is on its way.

        One that is not home needs to know only that nothing is on its way between it and home. Who
        leaves home wants no more than what can come: nobody waits for a broker that is away.
        """
        request = self.next_request("leave")
        reaching = () if session is self.home else (self.home.broker,)
        self.send_all(session, session.inbox.acknowledge())
        self.ask(session, request, Leave(request.number, reaching))

    def hang_up(self, session: BrokerSession) -> None:
        """Speak with a broker no longer."""
        del self.by_broker[session.broker]
        self.effects.append(HangUp(session.broker))

    def send(self, session: BrokerSession, message: Any) -> None:
        self.effects.append(Send(session.peer, message))

    def send_all(self, session: BrokerSession, messages: Sequence[Any]) -> None:
        for message in messages:
            self.effects.append(Send(session.peer, message))

    def send_barriers(self, session: BrokerSession) -> None:
        """Send the barriers that can be sent, if the broker is there."""
        if session.state == "attached":
            self.send_all(session, session.requests.barriers())

    def take_effects(self) -> list[Effect]:
        """What is to be done, once."""
        effects, self.effects = self.effects, []
        return effects
