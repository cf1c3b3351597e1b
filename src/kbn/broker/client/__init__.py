"""The pure client, in parts: publisher, subscriptions, deliveries, requests, move."""

from __future__ import annotations

from kbn.broker.client.core import ClientCore
from kbn.broker.client.effects import (
    Confirmed,
    Delivered,
    Dial,
    Effect,
    Failed,
    HangUp,
    Lost,
    Moved,
    OntologyChanged,
    TermsUnknown,
)
from kbn.broker.client.settings import ClientSettings

__all__ = [
    "ClientCore",
    "ClientSettings",
    "Confirmed",
    "Delivered",
    "Dial",
    "Effect",
    "Failed",
    "HangUp",
    "Lost",
    "Moved",
    "OntologyChanged",
    "TermsUnknown",
]
