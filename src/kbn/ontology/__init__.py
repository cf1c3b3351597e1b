"""Ontologies: terms, loading, reasoning levels, the compiled ontology and its cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbn.front_door import on_first_use

if TYPE_CHECKING:
    from kbn.ontology.cache_folder import cache_directory
    from kbn.ontology.chains import (
        SAME,
        Link,
        chain,
        chain_of_individual,
        links_between,
        links_between_same,
        links_of_relation,
    )
    from kbn.ontology.closest import suggesting_among
    from kbn.ontology.compiled import Ontology, Reasoning
    from kbn.ontology.differences import new_links
    from kbn.ontology.fetching import is_address
    from kbn.ontology.loading import LEVELS
    from kbn.ontology.mappings import Mapping, MappingFile, Mappings, mapping_file
    from kbn.ontology.names import NameIndex, fold, telling_label
    from kbn.ontology.prefixes import full_iri
    from kbn.ontology.proofs import Proofs, Step
    from kbn.ontology.steps import FAR, STEPS_MAX, Steps
    from kbn.ontology.terms import Class, Individual, Property, Term
    from kbn.ontology.vocabulary import NOTHING, THING, WELL_KNOWN_PREFIXES

__all__ = [
    "FAR",
    "LEVELS",
    "NOTHING",
    "SAME",
    "STEPS_MAX",
    "THING",
    "WELL_KNOWN_PREFIXES",
    "Class",
    "Individual",
    "Link",
    "Mapping",
    "MappingFile",
    "Mappings",
    "NameIndex",
    "Ontology",
    "Proofs",
    "Property",
    "Reasoning",
    "Step",
    "Steps",
    "Term",
    "cache_directory",
    "chain",
    "chain_of_individual",
    "fold",
    "full_iri",
    "is_address",
    "links_between",
    "links_between_same",
    "links_of_relation",
    "mapping_file",
    "new_links",
    "suggesting_among",
    "telling_label",
]

__getattr__ = on_first_use(
    __name__,
    {
        "Class": "kbn.ontology.terms",
        "Individual": "kbn.ontology.terms",
        "SAME": "kbn.ontology.chains",
        "Link": "kbn.ontology.chains",
        "LEVELS": "kbn.ontology.loading",
        "NOTHING": "kbn.ontology.vocabulary",
        "NameIndex": "kbn.ontology.names",
        "Ontology": "kbn.ontology.compiled",
        "Proofs": "kbn.ontology.proofs",
        "Property": "kbn.ontology.terms",
        "Reasoning": "kbn.ontology.compiled",
        "FAR": "kbn.ontology.steps",
        "STEPS_MAX": "kbn.ontology.steps",
        "Step": "kbn.ontology.proofs",
        "Steps": "kbn.ontology.steps",
        "THING": "kbn.ontology.vocabulary",
        "Term": "kbn.ontology.terms",
        "WELL_KNOWN_PREFIXES": "kbn.ontology.vocabulary",
        "cache_directory": "kbn.ontology.cache_folder",
        "chain": "kbn.ontology.chains",
        "chain_of_individual": "kbn.ontology.chains",
        "fold": "kbn.ontology.names",
        "full_iri": "kbn.ontology.prefixes",
        "is_address": "kbn.ontology.fetching",
        "links_between": "kbn.ontology.chains",
        "links_between_same": "kbn.ontology.chains",
        "links_of_relation": "kbn.ontology.chains",
        "Mapping": "kbn.ontology.mappings",
        "MappingFile": "kbn.ontology.mappings",
        "Mappings": "kbn.ontology.mappings",
        "mapping_file": "kbn.ontology.mappings",
        "new_links": "kbn.ontology.differences",
        "suggesting_among": "kbn.ontology.closest",
        "telling_label": "kbn.ontology.names",
    },
)
