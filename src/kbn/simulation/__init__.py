"""The overlay in one process: brokers, clients and the links between them, from a seed."""

from __future__ import annotations

from kbn.simulation.client import SimulatedClient
from kbn.simulation.group import SimulatedGroup, SimulatedPeer
from kbn.simulation.managed import ManagedNetwork, ManagedPublisher
from kbn.simulation.network import Network

__all__ = [
    "ManagedNetwork",
    "ManagedPublisher",
    "Network",
    "SimulatedClient",
    "SimulatedGroup",
    "SimulatedPeer",
]
