"""Grouping: publisher groups that bound connections, and trees that keep delay bounds."""

from __future__ import annotations

from kbn.grouping.advertisement_file import read_advertisements
from kbn.grouping.combinations import Advertisement, Attributes, Combination, attributes_of
from kbn.grouping.delay_tree import SOURCE, Delays, DelayTree
from kbn.grouping.publisher_groups import Delivery, Groups, PublisherCluster, publisher_groups
from kbn.grouping.strategies import WITHOUT_LIMITS

__all__ = [
    "SOURCE",
    "WITHOUT_LIMITS",
    "Advertisement",
    "Attributes",
    "Combination",
    "DelayTree",
    "Delays",
    "Delivery",
    "Groups",
    "PublisherCluster",
    "attributes_of",
    "kernels",
    "publisher_groups",
    "read_advertisements",
]
