"""Brokers and clients over TCP: the shells that give the pure cores sockets and a clock."""

from kbn.transport.client import Client, Delivery, Feed, connect
from kbn.transport.guard import FileGuard
from kbn.transport.security import client_tls, server_tls
from kbn.transport.server import BrokerServer, serve
from kbn.transport.settings import LinkTo, ServerLimits

__all__ = [
    "BrokerServer",
    "Client",
    "Delivery",
    "Feed",
    "FileGuard",
    "LinkTo",
    "ServerLimits",
    "client_tls",
    "connect",
    "serve",
    "server_tls",
]
