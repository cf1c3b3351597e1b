"""Brokers and clients over TCP: the shells that give the pure cores sockets and a clock."""

from kbn.transport.access_file import AccessFile
from kbn.transport.client import Client, Delivery, Feed, connect
from kbn.transport.security import client_tls, server_tls
from kbn.transport.server import BrokerServer, serve
from kbn.transport.settings import LinkTo, ServerLimits

__all__ = [
    "AccessFile",
    "BrokerServer",
    "Client",
    "Delivery",
    "Feed",
    "LinkTo",
    "ServerLimits",
    "client_tls",
    "connect",
    "serve",
    "server_tls",
]
