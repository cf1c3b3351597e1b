"""Connections are made again when they break, and given up only on the way to a new broker."""

from __future__ import annotations

import asyncio

import pytest
from tests.transport.overlay import make_server, run, until

from kbn.broker import AnyMessage, ConnAck, Connect
from kbn.errors import TransportError
from kbn.transport import client_connections
from kbn.transport.client_connections import MOVE_ATTEMPTS_MAX, ClientConnections
from kbn.transport.clock import Backoff
from kbn.transport.connection import Connection


class Recorder:
    """Notes what it is told."""

    def __init__(self, *, gives_up: bool = False) -> None:
        self.told: list[object] = []
        self.gives_up = gives_up

    def connected(self, broker: str) -> None:
        self.told.append(("connected", broker))

    def received(self, broker: str, message: AnyMessage, time: float) -> None:
        self.told.append(message)

    def disconnected(self, broker: str) -> None:
        self.told.append(("disconnected", broker))

    def drained(self) -> None:
        pass

    def may_give_up(self, broker: str) -> bool:
        return self.gives_up

    def unreachable(self, broker: str, reason: str) -> None:
        self.told.append(("unreachable", broker, reason))


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The attempts to reach a broker that is not there, without waiting between them."""
    made: list[str] = []

    async def dial(url: str, *_: object) -> Connection:
        made.append(url)
        raise TransportError(f"{url} cannot be reached")

    monkeypatch.setattr(client_connections, "dial", dial)
    monkeypatch.setattr(Backoff, "next_s", _at_once)
    return made


def _at_once(backoff: Backoff) -> float:
    backoff.attempts += 1
    return 0.0


def test_a_broker_on_the_way_is_given_up_after_some_attempts(attempts: list[str]) -> None:
    async def story() -> None:
        recorder = Recorder(gives_up=True)
        connections = ClientConnections(recorder, None)
        connections.open("b", "kbn://b")
        await until(lambda: bool(recorder.told))
        assert recorder.told == [("unreachable", "b", "kbn://b cannot be reached")]
        assert len(attempts) == MOVE_ATTEMPTS_MAX + 1
        await connections.shut()

    run(story())


def test_a_broker_that_has_something_for_us_is_never_given_up(attempts: list[str]) -> None:
    async def story() -> None:
        recorder = Recorder()
        connections = ClientConnections(recorder, None)
        connections.open("a", "kbn://a")
        await until(lambda: len(attempts) > 10 * MOVE_ATTEMPTS_MAX)
        assert recorder.told == []
        connections.close("a")
        count = len(attempts)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(attempts) == count
        await connections.shut()

    run(story())


def test_a_connection_that_breaks_is_made_again() -> None:
    async def story() -> None:
        async with make_server("home") as server:
            recorder = Recorder()
            connections = ClientConnections(recorder, None)
            connections.open("home", server.url)
            await until(lambda: ("connected", "home") in recorder.told)
            connections.send("home", Connect("ann", 1))
            await until(lambda: isinstance(recorder.told[-1], ConnAck))
            connections.admitted("home")
            connections.drop_silent(time=float("inf"))
            await until(lambda: recorder.told.count(("connected", "home")) == 2)
            assert ("disconnected", "home") in recorder.told
            assert connections.url_of("home") == server.url
            await connections.shut()
            assert connections.url_of("home") is None

    run(story())


def test_what_is_sent_to_a_broker_that_is_away_is_dropped(attempts: list[str]) -> None:
    async def story() -> None:
        connections = ClientConnections(Recorder(), None)
        connections.send("a", Connect("ann", 1))
        connections.open("a", "kbn://a")
        connections.send("a", Connect("ann", 1))
        assert not connections.is_paused("a")
        await connections.shut()

    run(story())
