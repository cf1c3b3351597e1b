"""Clustering: the semantic map, medoids, clusters of an ontology, and plans for brokers."""

from __future__ import annotations

from kbn.clustering.medoid import Medoid
from kbn.clustering.planning import PLANNERS, Plan, PlannedCluster, Planner, plan
from kbn.clustering.semantic_map import SemanticMap, Weights
from kbn.clustering.taxonomic import Clusters, clusters

__all__ = [
    "PLANNERS",
    "Clusters",
    "Medoid",
    "Plan",
    "PlannedCluster",
    "Planner",
    "SemanticMap",
    "Weights",
    "clusters",
    "plan",
]
