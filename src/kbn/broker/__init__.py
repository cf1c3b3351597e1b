"""Brokers: what they say to each other and to clients, and what they decide."""

from __future__ import annotations

from kbn.broker import (
    access,
    administration,
    content,
    store,
    wire,
)
from kbn.broker.access import AllowAll, Authorizer, NotAllowedError, Permission
from kbn.broker.access_rules import AccessRules, Entry, RulesInForce, Section, digest_of
from kbn.broker.access_trial import Caller, TrialRequest, refusal, refusal_of_broker
from kbn.broker.administration import AdminBody, AdminResult
from kbn.broker.broker import Broker, Routing
from kbn.broker.broker_status import BrokerStatus
from kbn.broker.client import (
    ClientCore,
    ClientSettings,
    Confirmed,
    Delivered,
    Dial,
    Effect,
    Failed,
    HangUp,
    Lost,
    Moved,
    OntologyChanged,
)
from kbn.broker.client_session import ClientSession
from kbn.broker.fields import NAME_CHARACTERS_MAX, TEXT_CHARACTERS_MAX
from kbn.broker.limits import BrokerLimits, ClientLimits, LimitsGiven
from kbn.broker.messages import (
    VERSION,
    Advertise,
    Alive,
    AnyMessage,
    BestEffort,
    Bye,
    ConnAck,
    Connect,
    Credit,
    Deliver,
    Envelope,
    Forward,
    Frame,
    Grant,
    Greet,
    NotificationId,
    Peer,
    Publish,
    Refused,
    Send,
    Subscribe,
    Who,
)
from kbn.broker.node import (
    LinkTo,
    Node,
    NodeSettings,
    Role,
    ServerLimits,
    notes,
)
from kbn.broker.node import effects as node_effects
from kbn.broker.node import events as node_events
from kbn.broker.routing_table import RoutingTable
from kbn.broker.sqlite_advice import advice
from kbn.broker.sqlite_store import SqliteStore
from kbn.broker.storage import VERSIONS as STORE_VERSIONS
from kbn.broker.storage import AfterDamage, Checked, StoreDamagedError, StoreVersion
from kbn.broker.storage import backup as backup_store
from kbn.broker.storage import check as check_store
from kbn.broker.storage import repair as repair_store
from kbn.broker.storage import restore as restore_store
from kbn.broker.store import MemoryStore, Store, StoreError
from kbn.broker.topology import Topology
from kbn.broker.warming import is_warm, warm_up
from kbn.broker.wire import (
    FrameError,
    FrameReader,
    decode_between_brokers,
    decode_from_client,
    decode_name,
    decode_opening,
)
from kbn.broker.wire_versions import WIRE, WireVersion, WireVersions

__all__ = [
    "NAME_CHARACTERS_MAX",
    "STORE_VERSIONS",
    "TEXT_CHARACTERS_MAX",
    "VERSION",
    "WIRE",
    "AccessRules",
    "AdminBody",
    "AdminResult",
    "Advertise",
    "AfterDamage",
    "Alive",
    "AllowAll",
    "AnyMessage",
    "Authorizer",
    "BestEffort",
    "Broker",
    "BrokerLimits",
    "BrokerStatus",
    "Bye",
    "Caller",
    "Checked",
    "ClientCore",
    "ClientLimits",
    "ClientSession",
    "ClientSettings",
    "Confirmed",
    "ConnAck",
    "Connect",
    "Credit",
    "Deliver",
    "Delivered",
    "Dial",
    "Effect",
    "Entry",
    "Envelope",
    "Failed",
    "Forward",
    "Frame",
    "FrameError",
    "FrameReader",
    "Grant",
    "Greet",
    "HangUp",
    "LimitsGiven",
    "LinkTo",
    "Lost",
    "MemoryStore",
    "Moved",
    "Node",
    "NodeSettings",
    "NotAllowedError",
    "NotificationId",
    "OntologyChanged",
    "Peer",
    "Permission",
    "Publish",
    "Refused",
    "Role",
    "Routing",
    "RoutingTable",
    "RulesInForce",
    "Section",
    "Send",
    "ServerLimits",
    "SqliteStore",
    "Store",
    "StoreDamagedError",
    "StoreError",
    "StoreVersion",
    "Subscribe",
    "Topology",
    "TrialRequest",
    "Who",
    "WireVersion",
    "WireVersions",
    "access",
    "administration",
    "advice",
    "backup_store",
    "check_store",
    "content",
    "decode_between_brokers",
    "decode_from_client",
    "decode_name",
    "decode_opening",
    "digest_of",
    "is_warm",
    "node_effects",
    "node_events",
    "notes",
    "refusal",
    "refusal_of_broker",
    "repair_store",
    "restore_store",
    "store",
    "warm_up",
    "wire",
]
