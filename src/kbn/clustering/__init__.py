"""Clustering: the semantic map, medoids, clusters of an ontology, and plans for brokers."""

from __future__ import annotations

from kbn.clustering.medoid import Medoid
from kbn.clustering.semantic_map import SemanticMap, Weights

__all__ = ["Medoid", "SemanticMap", "Weights"]
