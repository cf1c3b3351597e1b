"""Clustering: the semantic map, medoids, clusters of an ontology, plans, and publisher groups."""

from __future__ import annotations

from kbn.clustering.medoid import Medoid
from kbn.clustering.planning import PLANNERS, Plan, PlannedCluster, Planner, plan
from kbn.clustering.publisher_groups import Delivery, Groups, PublisherCluster, publisher_groups
from kbn.clustering.semantic_map import SemanticMap, Weights
from kbn.clustering.taxonomic import Clusters, clusters

__all__ = [
    "PLANNERS",
    "Clusters",
    "Delivery",
    "Groups",
    "Medoid",
    "Plan",
    "PlannedCluster",
    "Planner",
    "PublisherCluster",
    "SemanticMap",
    "Weights",
    "clusters",
    "plan",
    "publisher_groups",
]
