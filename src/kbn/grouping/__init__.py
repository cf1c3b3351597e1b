"""Grouping: publisher groups that bound connections, and trees that keep delay bounds."""

from __future__ import annotations

from kbn.grouping.advertisement_file import read_advertisements
from kbn.grouping.combinations import Advertisement, Attributes, Combination, attributes_of
from kbn.grouping.delay_tree import DelayTree, Placement, Satisfaction
from kbn.grouping.distribution import Distribution, worst_of
from kbn.grouping.links import Links, MeasuredLinks
from kbn.grouping.publisher_groups import Delivery, Groups, PublisherCluster, publisher_groups
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
    "Satisfaction",
    "attributes_of",
    "kernels",
    "publisher_groups",
    "read_advertisements",
    "worst_of",
]
