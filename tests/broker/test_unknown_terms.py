"""Terms that the ontology does not know: counted, told to their publisher, refused on request."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct, msgpack
from tests.broker.test_broker import ANN, BOB, Talk

from kbn import data
from kbn.broker import content
from kbn.broker.limits import ClientLimits
from kbn.broker.messages import (
    TERMS_TOLD_MAX,
    Alive,
    AnyMessage,
    Barrier,
    BarrierReached,
    Connect,
    Deliver,
    Grant,
    Peer,
    PubAck,
    Publish,
    Refused,
    Subscribe,
)
from kbn.broker.told_terms import AT_ONCE, TOLD_MAX
from kbn.broker.unknown_terms import FOUND_MAX, SENTENCE_CHARACTERS_MAX
from kbn.broker.wire import encode
from kbn.filters import Bag
from kbn.ontology import Class, Individual, Ontology
from kbn.wording import close_names

AHEAD = ClientLimits().publish_ahead


@pytest.fixture(scope="module")
def animals() -> Ontology:
    return Ontology.load(data.path("animals"))


def of(number: int, value: Any, *, durable: bool = False) -> Publish:
    return Publish(number, 0.0, content.encode({"k": value}), durable)


class Heard(Talk):
    """A talk whose answers are looked into."""

    def say(self, peer: Peer, *messages: AnyMessage) -> list[Any]:
        return super().say(peer, *messages)


def talk_in(ontology: Ontology | None, **settings: Any) -> Heard:
    talk = Heard(ontology=ontology, **settings)
    talk.say(ANN, Connect("ann", 1))
    return talk


def told(answers: list[Any]) -> list[str]:
    return [note.reason for each in answers if isinstance(each, Grant) for note in each.terms]


def test_a_publisher_is_told_a_misspelt_term_and_what_may_have_been_meant(
    animals: Ontology,
) -> None:
    talk = talk_in(animals)
    [grant] = talk.say(ANN, of(1, Class("animals:Humn")))
    assert grant.unknown == 1 and grant.total == AHEAD
    [note] = grant.terms
    assert (note.attribute, note.kind, note.iri) == ("k", "class", "animals:Humn")
    assert "animals#Human" in note.reason
    assert talk.broker.counts["unknown_terms"] == 1 == talk.broker.counts["published"]


def test_a_publisher_is_told_an_unknown_prefix(animals: Ontology) -> None:
    talk = talk_in(animals)
    assert "did you mean animals:?" in told(talk.say(ANN, of(1, Class("animls:Human"))))[0]


def test_a_publisher_is_told_that_a_class_is_no_individual(animals: Ontology) -> None:
    talk = talk_in(animals)
    [reason] = told(talk.say(ANN, of(1, Individual("animals:Cow"))))
    assert "as class, not as individual" in reason


def test_a_publisher_is_told_a_class_where_subscriptions_want_individuals(
    animals: Ontology,
) -> None:
    talk = talk_in(animals)
    talk.say(BOB, Connect("bob", 1), Subscribe(1, "k @= animals:Mammal", True))
    [reason] = told(talk.say(ANN, of(1, Class("animals:Cow"))))
    assert reason.startswith("k: <animals:Cow> is a class, and subscriptions ask for an individual")
    assert talk.say(ANN, of(2, Individual("animals:Colleen"))) == []
    assert len(talk.delivered(BOB)) == 1
    talk.say(BOB, Subscribe(2, "k @> animals:Mammal", True))
    assert talk.say(ANN, of(3, Class("animals:Cow"))) == []  # somebody wants it now


@pytest.mark.parametrize("value", [1, "tea", Class("animals:Cow"), Bag(Class("animals:Cow"), 3)])
def test_what_is_known_or_no_term_is_not_told(animals: Ontology, value: Any) -> None:
    talk = talk_in(animals)
    assert talk.say(ANN, of(1, value), Alive()) == [Grant(AHEAD)]


def test_without_an_ontology_no_term_is_unknown() -> None:
    for ontology in (None, Ontology.empty()):
        talk = talk_in(ontology)
        assert talk.say(ANN, of(1, Class("urn:Tea"))) == []
        assert talk.broker.counts["unknown_terms"] == 0


def test_it_is_passed_on_all_the_same(animals: Ontology) -> None:
    talk = talk_in(animals)
    talk.say(BOB, Connect("bob", 1), Subscribe(1, "k any", True))
    talk.say(ANN, of(1, Class("animals:Humn")))
    assert sum(isinstance(m, Deliver) for m in talk.heard[BOB]) == 1


def test_a_durable_one_is_told_before_it_is_acknowledged(animals: Ontology) -> None:
    talk = talk_in(animals)
    kinds = [type(each) for each in talk.say(ANN, of(1, Class("animals:Humn"), durable=True))]
    assert kinds == [Grant, PubAck]


def test_with_refuse_it_goes_nowhere_and_with_ignore_nobody_looks(animals: Ontology) -> None:
    talk = talk_in(animals, unknown_terms="refuse")
    talk.say(BOB, Connect("bob", 1), Subscribe(1, "k any", True))
    [refused] = talk.say(ANN, of(1, Class("animals:Humn")))
    assert isinstance(refused, Refused) and refused.kind == "UnknownTermError"
    assert "Human" in refused.reason and talk.delivered(BOB) == []
    assert talk.say(ANN, of(2, Class("animals:Human"))) == []
    assert talk.broker.counts["unknown_terms"] == 1 == talk.broker.counts["refused"]
    talk = talk_in(animals, unknown_terms="ignore")
    assert talk.say(ANN, of(1, Class("animals:Humn"))) == []
    assert talk.broker.counts["unknown_terms"] == 0


def test_what_subscriptions_want_is_told_and_refuses_nothing(animals: Ontology) -> None:
    talk = talk_in(animals, unknown_terms="refuse")
    talk.say(BOB, Connect("bob", 1), Subscribe(1, "k @= animals:Mammal", True))
    assert len(told(talk.say(ANN, of(1, Class("animals:Cow"))))) == 1


def test_a_term_is_told_once_on_a_connection_and_counted_each_time(animals: Ontology) -> None:
    talk = talk_in(animals)
    answers = talk.say(ANN, *(of(n, Class("animals:Humn")) for n in range(1, 4)))
    assert len(told(answers)) == 1
    assert talk.say(ANN, Alive()) == [Grant(AHEAD, unknown=3)]
    talk.say(ANN, Connect("ann", 2))
    assert len(told(talk.say(ANN, of(1, Class("animals:Humn"))))) == 1


def test_messages_are_one_a_second_after_the_first_and_a_barrier_brings_the_rest(
    animals: Ontology,
) -> None:
    talk = talk_in(animals)
    number = 3 * AT_ONCE
    at_once = talk.say(ANN, *(of(n, Class(f"animals:No{n}")) for n in range(1, number + 1)))
    assert len(at_once) == AT_ONCE == len(told(at_once))
    talk.now += 1.0
    [later] = talk.say(ANN, of(number + 1, 1), of(number + 2, Class("animals:No0")))
    assert len(later.terms) == TERMS_TOLD_MAX
    *rest, last = talk.say(ANN, Barrier(1))
    assert isinstance(last, BarrierReached)
    assert len(told([*at_once, later, *rest])) == number + 1
    assert talk.say(ANN, Barrier(2)) == [BarrierReached(2)]


def test_the_worst_publisher_is_told_little_and_costs_what_it_is_charged(
    animals: Ontology,
) -> None:
    talk = talk_in(animals)
    long = "x" * 3_000
    answers: list[Any] = []
    for number in range(1, 60):
        bag = Bag.of([Class(f"urn:{number}:{each}:{long}") for each in range(20)])
        answers += talk.say(ANN, of(number, bag))
        talk.now += 0.1
    answers += talk.say(ANN, Barrier(1))
    grants = [each for each in answers if isinstance(each, Grant)]
    assert sum(len(each.terms) for each in grants) <= TOLD_MAX
    assert max(len(encode(each)) for each in grants) < TERMS_TOLD_MAX * 3 * SENTENCE_CHARACTERS_MAX
    assert grants[-1].unknown == 59
    assert FOUND_MAX < 20


def test_the_closest_terms_are_not_looked_for_in_a_large_ontology(
    animals: Ontology, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbn.broker.unknown_terms.SUGGESTED_AMONG_MAX", 3)
    talk = talk_in(animals)
    [reason] = told(talk.say(ANN, of(1, Class("animals:Humn"))))
    assert reason == "k: the ontology does not know the class <animals:Humn>"


def test_a_prefix_is_expanded_in_what_comes_over_the_wire(animals: Ontology) -> None:
    talk = talk_in(animals)
    talk.say(BOB, Connect("bob", 1), Subscribe(1, "k @> animals:Mammal", True))
    talk.say(ANN, of(1, Class("animals:Cow")), of(2, Bag(Class("animals:Cow"))))
    talk.say(BOB, Subscribe(2, "k #>/@> {animals:Mammal}", True))
    talk.say(ANN, of(3, Bag(Class("animals:Cow"))))
    assert len(talk.delivered(BOB)) == 2


def test_a_new_ontology_knows_other_terms(animals: Ontology) -> None:
    talk = talk_in(animals)
    drinks = Ontology.load(data.path("drinks"))
    assert talk.say(ANN, of(1, Class("animals:Cow"))) == []
    talk.take(talk.broker.use_ontology(drinks, "d", talk.now))
    assert len(told(talk.say(ANN, of(2, Class("animals:Cow"))))) == 1


class OldGrant(Struct, frozen=True, array_like=True, tag="grant"):
    """As clients know it that were made before terms were told."""

    total: int
    dropped: int = 0


def test_an_older_client_reads_what_it_knows(animals: Ontology) -> None:
    [grant] = talk_in(animals).say(ANN, of(1, Class("animals:Humn")))
    body = encode(grant)[4:]
    assert msgpack.decode(body, type=OldGrant) == OldGrant(AHEAD)
    old = msgpack.encode(OldGrant(7, 2))
    assert msgpack.decode(old, type=Grant) == Grant(7, 2)


def test_a_subscriber_is_told_what_may_have_been_meant_and_it_is_counted(
    animals: Ontology, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = talk_in(animals)
    terms = len(animals.classes) + len(animals.properties) + len(animals.individuals)
    before = talk.broker.work.done
    [refused] = talk.say(ANN, Subscribe(1, "k @> animals:Humn", True))
    assert "did you mean" in refused.reason
    assert talk.broker.work.done - before >= 2 * terms
    monkeypatch.setattr("kbn.broker.client_subscribing.SUGGESTED_AMONG_MAX", 1)
    [refused] = talk.say(ANN, Subscribe(1, "k @> animals:Humn", True))
    assert "animals#Humn" in refused.reason and "did you mean" not in refused.reason


def test_nobody_looks_for_what_a_neighbour_or_a_store_may_have_meant(
    animals: Ontology, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(
        "kbn.ontology.closest.local_name", lambda iri: looked.append(iri) or iri[-4:]
    )
    monkeypatch.setattr(
        "kbn.ontology.closest._candidates", lambda ontology, kind: looked.append("")
    )
    talk = Heard()
    talk.say(ANN, Connect("ann", 1), *(Subscribe(n, f"k @> <x:{n}>", True) for n in range(3)))
    talk.take(talk.broker.use_ontology(animals, "x", talk.now))
    assert len([each for each in talk.heard[ANN] if isinstance(each, Refused)]) == 3
    assert looked and "" not in looked


def test_a_name_that_is_very_long_is_compared_with_nothing(animals: Ontology) -> None:
    talk = talk_in(animals)
    [grant] = talk.say(ANN, of(1, Class("x" * 60_000 + ":Human")))
    assert "did you mean" not in told([grant])[0]
    assert close_names("x" * 60_000, ["x" * 60_001]) == []
