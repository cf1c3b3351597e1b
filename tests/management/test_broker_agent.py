"""A broker's agent: what it keeps as clients come and go is what would be worked out anew."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from msgspec import ValidationError, msgpack

from kbn import data
from kbn.broker.administration import Report
from kbn.errors import InvalidInputError
from kbn.filters import Subscription
from kbn.filters.mentions import terms_named_in
from kbn.management.broker_agent import AT_ONCE_MAX, TEXTS_MAX, BrokerAgent
from kbn.management.liveness import BrokerSign
from kbn.management.reports import (
    BrokerInfo,
    BrokerMedoid,
    BrokerUtilisation,
    Departure,
    NotificationReport,
    SubscriberInfo,
)
from kbn.ontology import Ontology
from kbn.placement import SemanticMap
from kbn.simulation import Network

HERE = data.namespace("conference")


@pytest.fixture(scope="module")
def semantic_map() -> SemanticMap:
    return SemanticMap(Ontology.load(data.path("conference")))


def make(semantic_map: SemanticMap) -> tuple[Network, BrokerAgent]:
    network = Network({"root": None, "east": "root"}, semantic_map.ontology)
    agent = BrokerAgent(network.broker("east"), "kbn://east", semantic_map, groups_every_s=0.0)
    return network, agent


def test_it_says_who_the_broker_is_once_and_again_after_a_while(semantic_map: SemanticMap) -> None:
    _, agent = make(semantic_map)
    info = BrokerInfo("east", "kbn://east", "root", ("root",))
    assert agent.reports(0.0) == [info]
    assert agent.reports(1.0) == []
    assert agent.reports(31.0) == [info]


def test_it_tells_of_a_subscriber_when_its_subscriptions_change_and_when_it_is_gone(
    semantic_map: SemanticMap,
) -> None:
    network, agent = make(semantic_map)
    agent.reports(0.0)
    ann = network.client("ann", "east")
    network.run()
    assert agent.reports(0.0) == [], "who wants nothing is no subscriber"
    first = ann.subscribe(f"a @> <{HERE}Paper>")
    network.run()
    assert agent.reports(0.0) == [SubscriberInfo("ann", "east", HERE + "Paper", 0.0, 1)]
    ann.subscribe(f"a @> <{HERE}Paper> and b @= <{HERE}Contribution>")
    network.run()
    [told] = agent.reports(0.0)
    assert isinstance(told, SubscriberInfo) and told.subscriptions == 2 and told.spread > 0
    ann.unsubscribe(first)
    ann.unsubscribe(2)
    network.run()
    assert agent.reports(0.0) == [Departure("subscriber", "ann", "east")]


def test_texts_of_subscriptions_are_told_when_asked_for_and_no_longer_when_not(
    semantic_map: SemanticMap,
) -> None:
    network, agent = make(semantic_map)
    ann, boss = network.client("ann", "east"), network.client("boss", "east")
    ann.subscribe('price > 3 and kind = "book"')
    ann.subscribe(f"a @> <{HERE}Paper>")
    network.run()

    def texts() -> tuple[str, ...]:
        network.run()
        [told] = [each for each in agent.reports(0.0) if isinstance(each, SubscriberInfo)]
        return told.texts

    assert texts() == ()
    boss.admin(Report("subscribers", texts=True))
    wanted = texts()
    assert len(wanted) == 2 and "price > 3" in wanted[0]
    assert [Subscription.parse(each) for each in wanted]  # they can be read again
    ann.subscribe('x = "' + "y" * TEXTS_MAX + '"')  # this one is too long
    assert texts() == wanted
    boss.admin(Report("subscribers"))
    assert texts() == wanted
    boss.admin(Report("subscribers", texts=False))
    assert texts() == ()


def test_a_broker_says_its_port_and_its_parent(semantic_map: SemanticMap) -> None:
    network = Network({"root": None, "east": "root"}, semantic_map.ontology)
    agent = BrokerAgent(network.broker("east"), "kbn://[::1]:7421", semantic_map)
    [info] = [each for each in agent.reports(0.0) if isinstance(each, BrokerInfo)]
    assert (info.port, info.parent) == (7421, "root")
    network.client("boss", "east").admin(Report("medoids"))
    network.run()
    [medoid] = [each for each in agent.reports(1.0) if isinstance(each, BrokerMedoid)]
    assert (medoid.address, medoid.port, medoid.parent) == ("kbn://[::1]:7421", 7421, "root")


@pytest.mark.parametrize("seed", range(5))
def test_what_it_keeps_is_what_would_be_worked_out_anew(
    seed: int, semantic_map: SemanticMap
) -> None:
    print(f"seed {seed}")
    rng = Random(seed)
    network, agent = make(semantic_map)
    classes = sorted(semantic_map.ontology.classes)
    clients = [network.client(f"c{n}", "east") for n in range(6)]
    boss = network.client("boss", "east")
    held: dict[str, list[int]] = {client.name: [] for client in clients}
    medoids: dict[str, str | None] = {}
    for _ in range(40):
        client = rng.choice(clients)
        if held[client.name] and rng.random() < 0.4:
            client.unsubscribe(held[client.name].pop(rng.randrange(len(held[client.name]))))
        else:
            named = " and ".join(f"{a} @= <{rng.choice(classes)}>" for a in "abc")
            held[client.name].append(client.subscribe(named))
        if rng.random() < 0.3:
            boss.admin(Report("medoids", groups=rng.randint(1, 3)))
        network.run()
        for report in agent.reports(0.0):
            if isinstance(report, SubscriberInfo):
                medoids[report.subscriber] = report.medoid
            elif isinstance(report, Departure):
                medoids.pop(report.name, None)
            elif isinstance(report, BrokerMedoid):
                check(report, network, semantic_map)
    wanted = {
        name: semantic_map.medoid(terms).term for name, terms in terms_of(network).items() if terms
    }
    assert medoids == wanted


def terms_of(network: Network) -> dict[str, list[str]]:
    return {
        name: [
            term.iri
            for subscription in attached.subscriptions.values()
            for term in terms_named_in(subscription)
        ]
        for name, attached in network.broker("east").clients.items()
    }


def check(report: BrokerMedoid, network: Network, semantic_map: SemanticMap) -> None:
    everything = Counter(iri for terms in terms_of(network).values() for iri in terms)
    anew = semantic_map.medoid(everything)
    assert (report.medoid, report.spread) == (anew.term, anew.spread)
    assert report.subscribers == sum(map(bool, terms_of(network).values()))
    assert sum(group.subscribers for group in report.groups) == report.subscribers


def test_it_reports_what_it_is_asked_for_now_or_every_so_often(semantic_map: SemanticMap) -> None:
    network, agent = make(semantic_map)
    ann, boss = network.client("ann", "east"), network.client("boss", "east")
    ann.subscribe("price > 3")
    network.run()
    agent.reports(0.0)
    boss.admin(Report("utilisation", every_s=10.0))
    boss.admin(Report("hops"))
    network.client("bob", "root").publish({"price": 5})
    network.run()
    boss.admin(Report("hops"))
    network.run()
    told = agent.reports(0.0, load=0.25, memory=100)
    assert NotificationReport.of("ann", "east", {2: 1}, {"bob": 1}) in told
    assert BrokerUtilisation("east", 1, 1, 0, 1, 0.25, 100) in told
    assert agent.reports(9.0) == []
    assert [type(each) for each in agent.reports(10.0)] == [BrokerUtilisation]


def test_wrong_requests_are_refused_and_change_nothing(semantic_map: SemanticMap) -> None:
    network, agent = make(semantic_map)
    boss = network.client("boss", "east")
    agent.reports(0.0)
    wrong: list[dict[str, Any]] = [
        {"what": "weather"},
        {"what": "medoids", "groups": 0},
        {"what": "hops", "every_s": -1},
        {"what": "hops", "clients": "ann"},
        {"what": "subscribers", "clients": 7},
        {"what": "subscribers", "clients": (7,)},
    ]
    for about in wrong:
        with pytest.raises(InvalidInputError):
            boss.admin(Report(**about))
        said = msgpack.encode({"kind": "report", **about})
        with pytest.raises(ValidationError):
            msgpack.decode(said, type=Report)
    network.run()
    assert agent.reports(0.0) == []


def test_many_at_once_are_told_of_in_turns(semantic_map: SemanticMap) -> None:
    network, agent = make(semantic_map)
    for number in range(AT_ONCE_MAX + 20):
        network.client(f"c{number}", "east").subscribe("price > 3")
    network.run()
    first, second = (agent.reports(0.0) for _ in range(2))
    assert sum(isinstance(each, SubscriberInfo) for each in first) == AT_ONCE_MAX
    assert len(second) == 20


def test_an_unmanaged_broker_keeps_no_changes() -> None:
    network = Network({"root": None})
    network.client("ann", "root").subscribe("price > 3")
    network.run()
    assert network.broker("root").changes.take_subscriptions(10) == []


def test_nobody_can_ask_a_broker_not_to_say_that_it_is_there(semantic_map: SemanticMap) -> None:
    network, agent = make(semantic_map)
    boss = network.client("boss", "east")
    for every in (0.0, 10_000.0):
        boss.admin(Report("info", every_s=every))
        network.run()
        agent.reports(0.0)
        assert [type(each) for each in agent.reports(31.0)] == [BrokerInfo]


def test_one_who_wants_nothing_any_more_is_not_told_of_as_a_subscriber(
    semantic_map: SemanticMap,
) -> None:
    network, agent = make(semantic_map)
    ann, boss = network.client("ann", "east"), network.client("boss", "east")
    subscription = ann.subscribe("price > 3")
    network.run()
    boss.admin(Report("hops"))
    network.run()
    ann.unsubscribe(subscription)
    network.run()
    assert agent.reports(0.0)[1:] == [Departure("subscriber", "ann", "east")]


def test_it_gives_a_sign_every_second_and_when_a_neighbour_is_lost(
    semantic_map: SemanticMap,
) -> None:
    network, agent = make(semantic_map)
    network.run()
    assert agent.sign(0.0) == BrokerSign("east")
    assert agent.sign(0.9) is None
    assert agent.sign(1.0) == BrokerSign("east")
    network.crash("root")
    network.run()
    assert agent.sign(1.1) == BrokerSign("east", ("root",))
    assert agent.sign(1.2) is None
