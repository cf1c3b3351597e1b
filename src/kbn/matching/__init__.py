"""Matching: which subscriptions accept a notification, and which cover which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbn.front_door import on_first_use

if TYPE_CHECKING:
    from kbn.matching.batch import count_batch
    from kbn.matching.columns import TERM_KIND_METADATA, TERM_KINDS, AttributeColumn
    from kbn.matching.indexed_subscriptions import IndexedSubscriptions
    from kbn.matching.json_table import NO_ATTRIBUTES, table_from_json, unreadable_rows
    from kbn.matching.linear_scan import LinearScan
    from kbn.matching.matcher import Matcher
    from kbn.matching.matches import Matches
    from kbn.matching.metering import Meter, OutOfWork, costs_of, metered
    from kbn.matching.parted_match import PartedMatch
    from kbn.matching.poset import Poset, PosetChange
    from kbn.matching.shard import FoundPairs, GroupCounts, Shard, ShardBuilder, ShardReport
    from kbn.matching.store import SubscriptionStore
    from kbn.matching.store_view import GROUP_BITS, StoreView
    from kbn.matching.tables import notification_table

__all__ = [
    "GROUP_BITS",
    "NO_ATTRIBUTES",
    "TERM_KINDS",
    "TERM_KIND_METADATA",
    "AttributeColumn",
    "FoundPairs",
    "GroupCounts",
    "IndexedSubscriptions",
    "LinearScan",
    "Matcher",
    "Matches",
    "Meter",
    "OutOfWork",
    "PartedMatch",
    "Poset",
    "PosetChange",
    "Shard",
    "ShardBuilder",
    "ShardReport",
    "StoreView",
    "SubscriptionStore",
    "costs_of",
    "count_batch",
    "kernels",
    "metered",
    "notification_table",
    "table_from_json",
    "unreadable_rows",
]

__getattr__ = on_first_use(
    __name__,
    {
        "PosetChange": "kbn.matching.poset",
        "AttributeColumn": "kbn.matching.columns",
        "GroupCounts": "kbn.matching.shard",
        "IndexedSubscriptions": "kbn.matching.indexed_subscriptions",
        "FoundPairs": "kbn.matching.shard",
        "GROUP_BITS": "kbn.matching.store_view",
        "TERM_KIND_METADATA": "kbn.matching.columns",
        "LinearScan": "kbn.matching.linear_scan",
        "Matcher": "kbn.matching.matcher",
        "Matches": "kbn.matching.matches",
        "Meter": "kbn.matching.metering",
        "OutOfWork": "kbn.matching.metering",
        "costs_of": "kbn.matching.metering",
        "metered": "kbn.matching.metering",
        "PartedMatch": "kbn.matching.parted_match",
        "Poset": "kbn.matching.poset",
        "ShardReport": "kbn.matching.shard",
        "Shard": "kbn.matching.shard",
        "ShardBuilder": "kbn.matching.shard",
        "SubscriptionStore": "kbn.matching.store",
        "TERM_KINDS": "kbn.matching.columns",
        "StoreView": "kbn.matching.store_view",
        "count_batch": "kbn.matching.batch",
        "table_from_json": "kbn.matching.json_table",
        "unreadable_rows": "kbn.matching.json_table",
        "NO_ATTRIBUTES": "kbn.matching.json_table",
        "notification_table": "kbn.matching.tables",
    },
)
