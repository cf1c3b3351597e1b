"""Placement: where clients belong. Semantic map, medoids, clusters of an ontology, plans."""

from __future__ import annotations

from kbn.placement.balancing import balance_plan
from kbn.placement.broker_clustering import (
    NEIGHBOURS_MAX,
    BrokerMove,
    Group,
    Split,
    apart_from,
    propose_move,
    propose_split,
)
from kbn.placement.delivery_file import read_deliveries
from kbn.placement.distances import Distances, overlay_distances
from kbn.placement.map_settings import MapSettings, weights_of
from kbn.placement.medoid import Medoid
from kbn.placement.medoid_groups import MedoidGroup, group_by_medoid
from kbn.placement.other_planners import brokers_traffic, relink
from kbn.placement.planning import PLANNERS, Planner, plan
from kbn.placement.plans import Plan, PlannedCluster
from kbn.placement.reclustering import MEAN_HOPS_MAX, Assignment, Move, mean_hops, propose_moves
from kbn.placement.running_medoid import RunningMedoid
from kbn.placement.semantic_map import SemanticMap, Ties, Weights
from kbn.placement.taxonomic import Clusters, clusters
from kbn.placement.traffic import Rating, rate_plan

__all__ = [
    "MEAN_HOPS_MAX",
    "NEIGHBOURS_MAX",
    "PLANNERS",
    "Assignment",
    "BrokerMove",
    "Clusters",
    "Distances",
    "Group",
    "MapSettings",
    "Medoid",
    "MedoidGroup",
    "Move",
    "Plan",
    "PlannedCluster",
    "Planner",
    "Rating",
    "RunningMedoid",
    "SemanticMap",
    "Split",
    "Ties",
    "Weights",
    "apart_from",
    "balance_plan",
    "brokers_traffic",
    "clusters",
    "group_by_medoid",
    "kernels",
    "mean_hops",
    "overlay_distances",
    "plan",
    "propose_move",
    "propose_moves",
    "propose_split",
    "rate_plan",
    "read_deliveries",
    "relink",
    "weights_of",
]
