"""What a coordinator answers to mistakes, lies and floods: a conversation without a network."""

from __future__ import annotations

from typing import Any

import pytest

from kbn.broker import AccessRules, Entry, Permission, digest_of, wire
from kbn.filters import Subscription
from kbn.peering import Coordinator, CoordinatorSettings, effects, messages
from kbn.peering.summary import filter_text


class Talk:
    """Connections with a coordinator, and what it says on each."""

    def __init__(self, **settings: Any) -> None:
        made = CoordinatorSettings("hub", lambda: "key", learn_s=0.0, **settings)
        self.now = 100.0
        self.core = Coordinator(made, self.now)
        self.said: dict[int, list[Any]] = {}
        self.closed: set[int] = set()
        self.do(self.core.start(self.now))

    def do(self, to_do: list[effects.Effect]) -> None:
        for effect in to_do:
            if isinstance(effect, effects.Send):
                self.said.setdefault(effect.connection, []).append(effect.message)
            elif isinstance(effect, effects.Close):
                self.closed.add(effect.connection)

    def say(self, connection: int, *said: messages.Message) -> list[Any]:
        """What it answers to somebody, new since the last time."""
        bodies = [wire.encode(each)[wire.HEADER_BYTES :] for each in said]
        before = len(self.said.get(connection, []))
        self.do(self.core.received(connection, bodies, self.now))
        return self.said.get(connection, [])[before:]

    def join(self, connection: int, name: str, token: str = "", epoch: int = 1) -> list[Any]:
        self.do(self.core.opened(connection, None, self.now))
        url = f"kbn://{name}:1"
        return self.say(connection, messages.Join(messages.VERSION, name, token, url, 2, epoch))

    def wait(self, seconds: float) -> None:
        for _ in range(int(seconds * 20)):
            self.now += 0.05
            self.do(self.core.tick(self.now))


def want(text: str, within_s: float = 0.0, probability: float = 0.95) -> messages.Want:
    filters = Subscription.parse(text).filters
    return messages.Want(1, tuple(map(filter_text, filters)), within_s, probability)


def test_a_flood_is_cut_off_and_others_are_served() -> None:
    talk = Talk()
    talk.join(1, "ann")
    talk.join(2, "eve")
    answers = talk.say(2, *[messages.Probe(0, 1.0)] * 5000)
    assert isinstance(answers[-1], messages.Refused) and "too much" in answers[-1].reason
    assert talk.closed == {2}
    (echo,) = talk.say(1, messages.Probe(0, 1.0))
    assert isinstance(echo, messages.Echo)


def test_a_limit_of_none_and_a_bound_without_sense_are_refused() -> None:
    talk = Talk()
    talk.join(1, "ann")
    (refused,) = talk.say(1, messages.Advertise(("price",), 0))
    assert refused.about == "advertise" and "at least one connection" in refused.reason
    (refused,) = talk.say(1, want("price any", 1.0, 0.2))
    assert refused.about == "want" and refused.id == 1 and "0.2" in refused.reason
    assert talk.closed == set()


def test_delays_that_cannot_be_are_not_taken_and_hurt_nobody() -> None:
    talk = Talk()
    talk.join(1, "ann")
    links = talk.core.arrangement.links
    assert not talk.say(1, messages.Report((messages.LinkDelay("ann", (0.1,)),)))  # of itself
    assert links.between("ann", "ann") is None
    with pytest.raises(Exception, match="expected"):
        wire.decode_with(  # no such delay has a form in bytes
            messages_decoder(), wire.encode(messages.LinkDelay("bob", (-1.0,)))[4:], "a delay"
        )


def messages_decoder() -> Any:
    from msgspec.msgpack import Decoder

    return Decoder(messages.LinkDelay)


def test_who_claims_to_be_near_gains_nothing() -> None:
    talk = Talk()
    for connection, name in enumerate(("ann", "liar"), start=1):
        talk.join(connection, name)
    talk.say(2, messages.Report((messages.LinkDelay("ann", (0.0001,) * 60),)))
    talk.say(1, messages.Report((messages.LinkDelay("liar", (0.2,) * 60),)))
    found = talk.core.arrangement.links.between("ann", "liar")
    assert found is not None and found.quantile(0.5) >= 0.2


def test_a_stranger_is_refused_as_peer_and_as_standby() -> None:
    reader = Entry(Permission(frozenset(), None, manage=False), digest_of("secret"))
    talk = Talk(authorizer=AccessRules({"ann": reader}))
    (refused,) = talk.join(1, "ann", "guess")
    assert isinstance(refused, messages.Refused) and talk.closed == {1}
    assert isinstance(talk.join(2, "ann", "secret")[0], messages.Joined)
    (refused,) = talk.say(2, messages.Advertise(("price",)))
    assert "may not publish" in refused.reason
    talk.do(talk.core.opened(3, None, talk.now))
    mirror = messages.Mirror(messages.VERSION, "ann", "secret", "kbn://eve:1")
    (refused,) = talk.say(3, mirror)
    assert "may not stand by" in refused.reason and talk.core.standbys == ()


def test_a_newer_process_of_a_name_takes_its_place_and_an_older_does_not() -> None:
    talk = Talk()
    talk.join(1, "ann", epoch=5)
    talk.say(1, messages.Advertise(("price",)))
    assert isinstance(talk.join(2, "ann", epoch=4)[0], messages.Refused)
    assert isinstance(talk.join(3, "ann", epoch=6)[0], messages.Joined)
    assert talk.core.arrangement.arrivals == {}


def test_one_who_is_silent_is_forgotten_and_one_who_comes_back_is_not() -> None:
    talk = Talk()
    talk.join(1, "ann")
    talk.say(1, messages.Advertise(("price",)))
    talk.do(talk.core.closed(1, talk.now))
    talk.wait(1.0)
    assert isinstance(talk.join(2, "ann")[0], messages.Joined)
    assert talk.core.arrangement.arrivals
    talk.wait(10.0)
    assert talk.core.peers == {} and talk.core.arrangement.arrivals == {}
