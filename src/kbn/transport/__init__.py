"""Brokers and clients over TCP: the shells that give the pure cores sockets and a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbn.front_door import on_first_use

if TYPE_CHECKING:
    from kbn.transport.access_file import AccessFile
    from kbn.transport.access_review import AccessReview, EntryAt, review_access
    from kbn.transport.client import Client
    from kbn.transport.clock import now
    from kbn.transport.connecting import connect
    from kbn.transport.dialling import ask_name
    from kbn.transport.ending import at_end_of_stdin, end, until_told
    from kbn.transport.feed import Delivery, Feed
    from kbn.transport.few_at_a_time import new_loop
    from kbn.transport.garbage import GarbageSearch
    from kbn.transport.group_coordinator import CoordinatorServer
    from kbn.transport.group_peer import GroupDelivery, GroupFeed, GroupPeer, connect_group
    from kbn.transport.item import Item
    from kbn.transport.logs import set_up
    from kbn.transport.managed_processes import Companion, ManagedOverlay
    from kbn.transport.managed_publisher import ManagedPublisher
    from kbn.transport.managed_subscriber import ManagedSubscriber
    from kbn.transport.metrics import state_of
    from kbn.transport.observing import Observing
    from kbn.transport.ontology_folder import OntologyFolder
    from kbn.transport.policy_server import PolicyServerShell
    from kbn.transport.processes import Overlay, tell
    from kbn.transport.reporting import Reporting
    from kbn.transport.security import client_tls, server_tls
    from kbn.transport.server import BrokerServer
    from kbn.transport.serving import serve
    from kbn.transport.settings import LinkTo, Listen, OntologyFiles, ServerLimits
    from kbn.transport.sync import SyncClient, SyncFeed, connect_sync
    from kbn.transport.topology_file import OverlayPlan, load_topology
    from kbn.transport.urls import parse_url
    from kbn.transport.watching import Watch, Watched, watched

__all__ = [
    "AccessFile",
    "AccessReview",
    "BrokerServer",
    "Client",
    "Companion",
    "CoordinatorServer",
    "Delivery",
    "EntryAt",
    "Feed",
    "GarbageSearch",
    "GroupDelivery",
    "GroupFeed",
    "GroupPeer",
    "Item",
    "LinkTo",
    "Listen",
    "ManagedOverlay",
    "ManagedPublisher",
    "ManagedSubscriber",
    "Observing",
    "OntologyFiles",
    "OntologyFolder",
    "Overlay",
    "OverlayPlan",
    "PolicyServerShell",
    "Reporting",
    "ServerLimits",
    "SyncClient",
    "SyncFeed",
    "Watch",
    "Watched",
    "ask_name",
    "at_end_of_stdin",
    "client_tls",
    "connect",
    "connect_group",
    "connect_sync",
    "end",
    "load_topology",
    "new_loop",
    "now",
    "parse_url",
    "review_access",
    "serve",
    "server_tls",
    "set_up",
    "state_of",
    "tell",
    "until_told",
    "watched",
]

__getattr__ = on_first_use(
    __name__,
    {
        "AccessFile": "kbn.transport.access_file",
        "AccessReview": "kbn.transport.access_review",
        "EntryAt": "kbn.transport.access_review",
        "review_access": "kbn.transport.access_review",
        "BrokerServer": "kbn.transport.server",
        "CoordinatorServer": "kbn.transport.group_coordinator",
        "GroupDelivery": "kbn.transport.group_peer",
        "GroupFeed": "kbn.transport.group_peer",
        "GroupPeer": "kbn.transport.group_peer",
        "connect_group": "kbn.transport.group_peer",
        "Client": "kbn.transport.client",
        "Companion": "kbn.transport.managed_processes",
        "Delivery": "kbn.transport.feed",
        "Feed": "kbn.transport.feed",
        "Item": "kbn.transport.item",
        "LinkTo": "kbn.transport.settings",
        "Listen": "kbn.transport.settings",
        "ManagedOverlay": "kbn.transport.managed_processes",
        "ManagedPublisher": "kbn.transport.managed_publisher",
        "ManagedSubscriber": "kbn.transport.managed_subscriber",
        "Observing": "kbn.transport.observing",
        "OntologyFiles": "kbn.transport.settings",
        "OntologyFolder": "kbn.transport.ontology_folder",
        "Overlay": "kbn.transport.processes",
        "OverlayPlan": "kbn.transport.topology_file",
        "PolicyServerShell": "kbn.transport.policy_server",
        "Reporting": "kbn.transport.reporting",
        "ServerLimits": "kbn.transport.settings",
        "SyncClient": "kbn.transport.sync",
        "SyncFeed": "kbn.transport.sync",
        "Watch": "kbn.transport.watching",
        "Watched": "kbn.transport.watching",
        "ask_name": "kbn.transport.dialling",
        "GarbageSearch": "kbn.transport.garbage",
        "at_end_of_stdin": "kbn.transport.ending",
        "client_tls": "kbn.transport.security",
        "connect": "kbn.transport.connecting",
        "connect_sync": "kbn.transport.sync",
        "end": "kbn.transport.ending",
        "load_topology": "kbn.transport.topology_file",
        "new_loop": "kbn.transport.few_at_a_time",
        "now": "kbn.transport.clock",
        "parse_url": "kbn.transport.urls",
        "serve": "kbn.transport.serving",
        "server_tls": "kbn.transport.security",
        "set_up": "kbn.transport.logs",
        "state_of": "kbn.transport.metrics",
        "tell": "kbn.transport.processes",
        "until_told": "kbn.transport.ending",
        "watched": "kbn.transport.watching",
    },
)
