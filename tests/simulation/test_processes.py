"""Processes of one client, one after the other: what was for one never reaches the next."""

from __future__ import annotations

from kbn.broker import AnyMessage, Topology
from kbn.broker.messages import BarrierReached, Left
from kbn.simulation.client import SimulatedClient
from kbn.simulation.network import Network


def in_two_processes() -> tuple[Network, SimulatedClient, SimulatedClient]:
    """A client that asked for something across a link that is cut, and comes again."""
    net = Network(Topology.peers([("a", "b")]), ticks=True)
    ann = net.client("ann", at="a", durable=True, token="t")
    net.run_for(1.0)
    net.cut("a", "b")
    ann.subscribe("x > 1")
    ann.barrier()
    net.run_for(0.2)
    ann.leave()
    net.run_for(0.2)
    net.crash_client("ann")
    return net, ann, net.client_again(ann, "a", "t")


def test_what_an_older_process_asked_is_not_answered_to_the_newer() -> None:
    net, older, _ = in_two_processes()
    said: list[AnyMessage] = []
    net.watch = lambda client, message: said.append(message)
    net.run_for(0.2)
    net.mend("a", "b")
    net.run_for(3.0)
    assert said and not [each for each in said if isinstance(each, BarrierReached | Left)]
    assert older.core.name in net.broker("a").clients, "it has not left either"


def test_the_newer_is_answered_what_it_asks_itself() -> None:
    net, _, newer = in_two_processes()
    request = newer.barrier()
    net.run_for(0.2)
    assert not newer.has("barrier", request)
    net.mend("a", "b")
    net.run_for(3.0)
    assert newer.has("barrier", request)
