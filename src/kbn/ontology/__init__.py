"""Ontologies: terms, loading, reasoning levels, the compiled ontology and its cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbn.front_door import on_first_use

if TYPE_CHECKING:
    from kbn.ontology.cache import cache_directory
    from kbn.ontology.compiled import Ontology, Reasoning
    from kbn.ontology.loading import LEVELS
    from kbn.ontology.names import NameIndex
    from kbn.ontology.terms import Class, Individual, Property, Term
    from kbn.ontology.vocabulary import NOTHING, THING

__all__ = [
    "LEVELS",
    "NOTHING",
    "THING",
    "Class",
    "Individual",
    "NameIndex",
    "Ontology",
    "Property",
    "Reasoning",
    "Term",
    "cache_directory",
]

__getattr__ = on_first_use(
    __name__,
    {
        "Class": "kbn.ontology.terms",
        "Individual": "kbn.ontology.terms",
        "LEVELS": "kbn.ontology.loading",
        "NOTHING": "kbn.ontology.vocabulary",
        "NameIndex": "kbn.ontology.names",
        "Ontology": "kbn.ontology.compiled",
        "Property": "kbn.ontology.terms",
        "Reasoning": "kbn.ontology.compiled",
        "THING": "kbn.ontology.vocabulary",
        "Term": "kbn.ontology.terms",
        "cache_directory": "kbn.ontology.cache",
    },
)
