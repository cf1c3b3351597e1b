"""Matching: which subscriptions accept a notification, and which cover which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbn.front_door import on_first_use

if TYPE_CHECKING:
    from kbn.matching.batch import count_batch
    from kbn.matching.columns import KIND, TERMS, Column
    from kbn.matching.json_table import table_from_json
    from kbn.matching.linear_scan import LinearScan
    from kbn.matching.matcher import Matcher
    from kbn.matching.matches import Matches
    from kbn.matching.poset import Change, Poset
    from kbn.matching.shard import Counted, Report, Shard, ShardBuilder
    from kbn.matching.store import GROUP_BITS, SubscriptionStore, View
    from kbn.matching.tables import to_table

__all__ = [
    "GROUP_BITS",
    "KIND",
    "TERMS",
    "Change",
    "Column",
    "Counted",
    "LinearScan",
    "Matcher",
    "Matches",
    "Poset",
    "Report",
    "Shard",
    "ShardBuilder",
    "SubscriptionStore",
    "View",
    "count_batch",
    "kernels",
    "table_from_json",
    "to_table",
]

__getattr__ = on_first_use(
    __name__,
    {
        "Change": "kbn.matching.poset",
        "Column": "kbn.matching.columns",
        "Counted": "kbn.matching.shard",
        "GROUP_BITS": "kbn.matching.store",
        "KIND": "kbn.matching.columns",
        "LinearScan": "kbn.matching.linear_scan",
        "Matcher": "kbn.matching.matcher",
        "Matches": "kbn.matching.matches",
        "Poset": "kbn.matching.poset",
        "Report": "kbn.matching.shard",
        "Shard": "kbn.matching.shard",
        "ShardBuilder": "kbn.matching.shard",
        "SubscriptionStore": "kbn.matching.store",
        "TERMS": "kbn.matching.columns",
        "View": "kbn.matching.store",
        "count_batch": "kbn.matching.batch",
        "table_from_json": "kbn.matching.json_table",
        "to_table": "kbn.matching.tables",
    },
)
