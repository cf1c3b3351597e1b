"""Clustering: the semantic map, medoids, clusters of an ontology, plans, and publisher groups."""

from __future__ import annotations

from kbn.clustering.balancing import balanced
from kbn.clustering.distances import Distances, distances
from kbn.clustering.medoid import Medoid
from kbn.clustering.medoid_groups import MedoidGroup, groups
from kbn.clustering.planning import PLANNERS, Plan, PlannedCluster, Planner, plan
from kbn.clustering.publisher_groups import Delivery, Groups, PublisherCluster, publisher_groups
from kbn.clustering.reclustering import Move, Seat, mean_hops, moves
from kbn.clustering.running_medoid import RunningMedoid
from kbn.clustering.semantic_map import SemanticMap, Weights
from kbn.clustering.taxonomic import Clusters, clusters
from kbn.clustering.traffic import Rating, rated

__all__ = [
    "PLANNERS",
    "Clusters",
    "Delivery",
    "Distances",
    "Groups",
    "Medoid",
    "MedoidGroup",
    "Move",
    "Plan",
    "PlannedCluster",
    "Planner",
    "PublisherCluster",
    "Rating",
    "RunningMedoid",
    "Seat",
    "SemanticMap",
    "Weights",
    "balanced",
    "clusters",
    "distances",
    "groups",
    "mean_hops",
    "moves",
    "plan",
    "publisher_groups",
    "rated",
]
