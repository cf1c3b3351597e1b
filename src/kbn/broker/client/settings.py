"""What a client is set to when it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

WhenSlow: TypeAlias = Literal["drop", "block"]


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How a client presents itself to its broker.

    `durable`: the broker keeps its subscriptions and deliveries until it leaves.
    `window`: how many notifications at most wait here for the application.
    `when_slow`: what the broker does with more than that: drop the oldest, or stop the publishers.
    `with_path`: what it publishes notes the brokers on its way.
    `published`: a publisher that continues an earlier epoch says how many durable notifications of
    it are published; what a broker has of the following ones is not published twice.
    `stays`: it waits for its broker for as long as that is away, and does not go elsewhere.
    `retransmit_s`: how long to wait for an answer before asking again; None on links that lose
    nothing.
    """

    durable: bool = False
    window: int = 1000
    when_slow: WhenSlow = "drop"
    token: str = ""
    with_path: bool = False
    published: int = 0
    stays: bool = False
    heartbeat_s: float = 1.0
    retransmit_s: float | None = None
