"""So many durable clients and no more: whoever is known comes and goes as ever."""

from __future__ import annotations

from kbn.broker import Broker, MemoryStore
from kbn.broker.limits import BrokerLimits
from kbn.broker.messages import AnyMessage, ConnAck, Connect, Leave, Left, Peer, Refused

LIMITS = BrokerLimits(durable_clients=3)


def answers(broker: Broker, name: str, *said: AnyMessage) -> list[AnyMessage]:
    peer, found = Peer("client", name), list[AnyMessage]()
    for message in said:
        found += [send.message for send in broker.receive(message, peer, 1.0) if send.to == peer]
    return found


def comes(broker: Broker, name: str, *, durable: bool = True) -> AnyMessage:
    return answers(broker, name, Connect(name, 1, durable=durable))[0]


def test_one_more_durable_client_is_refused_and_nobody_is_forgotten_for_it() -> None:
    store = MemoryStore()
    broker = Broker("b", store=store, broker_limits=LIMITS)
    assert all(isinstance(comes(broker, f"d{n}"), ConnAck) for n in range(3))
    refused = comes(broker, "d3")
    assert isinstance(refused, Refused) and "durable clients: the limit is 3" in refused.reason
    assert "d3" not in broker.clients
    assert isinstance(comes(broker, "other", durable=False), ConnAck)
    broker.disconnected(Peer("client", "d1"), 1.0)
    assert isinstance(comes(broker, "d1"), ConnAck), "it is known"
    assert isinstance(comes(broker, "d3"), Refused)


def test_a_restart_counts_those_that_are_kept_and_one_that_leaves_makes_room() -> None:
    store = MemoryStore()
    broker = Broker("b", store=store, broker_limits=LIMITS)
    for n in range(3):
        comes(broker, f"d{n}")
    broker = Broker("b", store=store, broker_limits=LIMITS)
    assert isinstance(comes(broker, "new"), Refused)
    assert isinstance(comes(broker, "d0"), ConnAck)
    assert Left(1) in answers(broker, "d0", Leave(1))
    assert isinstance(comes(broker, "new"), ConnAck)
    assert isinstance(comes(broker, "d0"), Refused)
