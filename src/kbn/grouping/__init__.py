"""Grouping: publisher groups that bound connections, and trees that keep delay bounds."""

from __future__ import annotations

from kbn.grouping.advertisement_file import read_advertisements
from kbn.grouping.all_at_once import publisher_groups
from kbn.grouping.combinations import Advertisement, Attributes, Combination, attributes_of
from kbn.grouping.delay_tree import DelayTree, Placement, Satisfaction
from kbn.grouping.distribution import Distribution, worst_of
from kbn.grouping.families import hashed_families, learned_families
from kbn.grouping.group_tables import Delivery, PublisherCluster
from kbn.grouping.links import Links, MeasuredLinks
from kbn.grouping.publisher_groups import Groups, Regrouping
from kbn.grouping.splitting import SplittingPolicy
from kbn.grouping.strategies import WITHOUT_LIMITS
from kbn.grouping.tree_members import Bound, Moves

__all__ = [
    "WITHOUT_LIMITS",
    "Advertisement",
    "Attributes",
    "Bound",
    "Combination",
    "DelayTree",
    "Delivery",
    "Distribution",
    "Groups",
    "Links",
    "MeasuredLinks",
    "Moves",
    "Placement",
    "PublisherCluster",
    "Regrouping",
    "Satisfaction",
    "SplittingPolicy",
    "attributes_of",
    "hashed_families",
    "kernels",
    "learned_families",
    "publisher_groups",
    "read_advertisements",
    "worst_of",
]
