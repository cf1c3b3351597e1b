"""The overlay in one process: brokers, clients and the links between them, from a seed."""

from kbn.simulation.network import Network, SimulatedClient

__all__ = ["Network", "SimulatedClient"]
