"""A broker explains to a client: what the library says, of the client's own, within bounds."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from tests.broker.test_broker import ANN, BOB
from tests.broker.test_unknown_terms import Heard
from tests.matching.worlds import World, bag_world_of, world_of

from kbn import data
from kbn.broker import content
from kbn.broker.access import Permission
from kbn.broker.administration import GetStatus
from kbn.broker.client_explaining import ANSWER_BYTES_MAX
from kbn.broker.limits import ClientLimits
from kbn.broker.messages import (
    AdminRequest,
    ConnAck,
    Connect,
    Explain,
    Explained,
    Refused,
    Subscribe,
)
from kbn.broker.wire import encode
from kbn.filters import Bag, Subscription, explain
from kbn.filters.semantics import accepts_by_definition
from kbn.ontology import Class, Ontology
from kbn.transport.explained import explanation_of


@pytest.fixture(scope="module")
def animals() -> Ontology:
    return Ontology.load(data.path("animals"))


def talk_in(ontology: Ontology | None, **settings: Any) -> Heard:
    talk = Heard(ontology=ontology, **settings)
    talk.say(ANN, Connect("ann", 1))
    return talk


COW = content.encode({"k": Class("animals:Cow"), "age": 7})


def test_a_broker_says_that_it_explains_and_does(animals: Ontology) -> None:
    talk = Heard(ontology=animals)
    [welcome] = talk.say(ANN, Connect("ann", 1))
    assert isinstance(welcome, ConnAck) and welcome.explains
    talk.say(ANN, Subscribe(4, "k @> animals:Animal and age < 3", True))
    [answer] = talk.say(ANN, Explain(9, COW, 4))
    assert isinstance(answer, Explained) and answer.request == 9
    [[first, second]] = answer.filters
    assert (first.accepted, first.reason) == (False, "age: 7 is not less than 3")
    assert second.accepted and [link[1] for link in second.links] == ["is a kind of"] * 2
    assert talk.broker.counts["published"] == 0 == talk.broker.counts["unknown_terms"]


def test_it_explains_what_it_is_given_and_what_is_unknown(animals: Ontology) -> None:
    talk = talk_in(animals)
    given = content.encode({"k": Class("animals:Cw")})
    [answer] = talk.say(ANN, Explain(1, given, 0, "k @> animals:Animal", True))
    assert [[note.accepted for note in each] for each in answer.filters] == [[False]]
    assert [(note.attribute, note.iri) for note in answer.unknown] == [("k", "animals:Cw")]


def test_another_clients_subscription_is_not_explained(animals: Ontology) -> None:
    talk = talk_in(animals)
    talk.say(BOB, Connect("bob", 1), Subscribe(1, "k any", True))
    [refused] = talk.say(ANN, Explain(3, COW, 1))
    assert isinstance(refused, Refused)
    assert (refused.what, refused.reference) == ("explain", 3)
    assert refused.reason == "you have no subscription 1"


class Held:
    """Lets everybody subscribe to `age` alone, and manage nothing."""

    def admit(self, name: str, token: str) -> Permission:
        return Permission(subscribe=frozenset({"age"}), manage=False)


def test_a_client_without_rights_is_explained_only_what_it_might_ask_for(
    animals: Ontology,
) -> None:
    talk = talk_in(animals, authorizer=Held())
    [refused] = talk.say(ANN, Explain(1, COW, 0, "k any", True))
    assert isinstance(refused, Refused) and refused.kind == "NotAllowedError"
    [answer] = talk.say(ANN, Explain(2, COW, 0, "age > 3", True))
    assert isinstance(answer, Explained)
    [refused] = talk.say(ANN, AdminRequest(1, GetStatus()))
    assert isinstance(refused, Refused)


@pytest.mark.parametrize(
    "asked",
    [
        Explain(1, b"\xc1", 0, "k any", True),
        Explain(1, COW, 0, "k = = 3", True),
        Explain(1, COW, 0, "{", False),
        Explain(1, b"\xc4" + bytes(2 << 20), 0, "k any", True),
        Explain(1, COW, 0, "k any" + " " * (1 << 17), True),
    ],
)
def test_what_cannot_be_read_or_is_too_large_is_refused(animals: Ontology, asked: Explain) -> None:
    [refused] = talk_in(animals).say(ANN, asked)
    assert isinstance(refused, Refused) and refused.what == "explain"


def test_the_largest_is_explained_in_turns_and_the_answer_is_bounded(animals: Ontology) -> None:
    limits = ClientLimits()
    words = [f"{number:04}" + "x" * 20 for number in range(60)]
    bag = "{" + ", ".join(f'"{word[:18]}"' for word in words[:5]) + "}"
    text = " or ".join(
        f"(k #>/* {bag} and " + " and ".join(f"z{n} != {m}" for n in range(7)) + ")"
        for m in range(60)
    )
    assert len(text) < limits.text_bytes
    talk = talk_in(animals, limits=limits)
    talk.broker.work.budget = 5_000
    talk.broker.work.begin()
    given = content.encode({"k": Bag.of(words), **{f"z{n}": "y" * 60_000 for n in range(7)}})
    assert talk.say(ANN, Explain(1, given, 0, text, True)) == []
    turns, most = 0, 0
    while talk.broker.has_more:
        talk.broker.work.begin()
        talk.take(talk.broker.work_on(talk.now))
        turns, most = turns + 1, max(most, talk.broker.work.done)
    [answer] = [each for each in talk.heard[ANN] if isinstance(each, Explained)]
    assert turns > 3 and most < 10_000
    assert len(encode(answer)) < 3 * ANSWER_BYTES_MAX
    assert len(answer.filters) == 60


@pytest.mark.parametrize("number", range(12))
def test_what_a_broker_says_is_what_the_oracle_says(number: int) -> None:
    make = (world_of, bag_world_of)[number % 2]
    world: World = make(number)
    random = Random(f"a broker explains {number}")
    talk = talk_in(world.ontology, limits=ClientLimits(elements=10_000, nested=10))
    seen = {True: 0, False: 0}
    for request in range(1, 40):
        wanted = Subscription([world.random_filter(random) for _ in range(random.randrange(1, 3))])
        given = world.random_notification(random)
        text = json.dumps(wanted.to_json())
        [answer] = talk.say(ANN, Explain(request, content.encode(given), 0, text))
        if isinstance(answer, Refused):  # a term that the ontology does not know
            continue
        told = explanation_of(answer, given)
        for verdict in (verdict for each in told.filters for verdict in each):
            value = given.attributes.get(verdict.constraint.attribute)
            right = value is not None and accepts_by_definition(
                verdict.constraint, value, world.ontology
            )
            assert verdict.accepted == right, (number, verdict)
            seen[right] += 1
        assert told.matches == wanted.matches(given, world.ontology)
        said = explain(wanted, given, world.ontology)
        assert sorted(verdict.reason for each in told.filters for verdict in each) == sorted(
            verdict.reason for each in said.filters for verdict in each
        )
    assert min(seen.values()) > 5
