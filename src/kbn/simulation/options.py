"""The options that all brokers of a simulated network share."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict

from kbn.broker import (
    AllowAll,
    Authorizer,
    BrokerLimits,
    ClientLimits,
    NodeSettings,
    Routing,
    ServerLimits,
)

LIMITS = ServerLimits(connect_timeout_s=1.0, silent_s=5.0)


class BrokerOptions(TypedDict, total=False):
    """Options of `Network`; `Settings` and `NodeSettings` say more about them.

    Brokers show each other `broker_token`. With `by_address` they are told where their neighbours
    are, and not their names. Those `down` have not been started yet. With little `turn_work` they
    need many turns.
    """

    advertisements: bool
    keeps_roots: bool
    authorizer: Authorizer | None
    broker_token: str
    by_address: bool
    down: tuple[str, ...]
    limits: ClientLimits | None
    broker_limits: BrokerLimits | None
    turn_work: int


def node_settings(routing: Routing, options: BrokerOptions) -> NodeSettings:
    """The settings of every node, but for its name, its store and its links."""
    return NodeSettings(
        "",
        routing,
        token=options.get("broker_token", ""),
        ontology_digest="",
        authorizer=options.get("authorizer") or AllowAll(),
        limits=options.get("limits") or ClientLimits(),
        broker_limits=options.get("broker_limits") or BrokerLimits(),
        server_limits=replace(LIMITS, turn_work=options.get("turn_work", LIMITS.turn_work)),
        advertisements=options.get("advertisements", False),
        keeps_roots=options.get("keeps_roots", False),
    )
