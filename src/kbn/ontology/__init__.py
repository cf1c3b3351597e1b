"""Ontologies: terms, loading, reasoning levels, the compiled ontology and its cache.

`Ontology` is fetched on first use, so that importing a term costs no NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbn.ontology.terms import Class, Individual, Property, Term

if TYPE_CHECKING:
    from kbn.ontology.compiled import Ontology

__all__ = ["Class", "Individual", "Ontology", "Property", "Term"]


def __getattr__(name: str) -> Any:
    if name == "Ontology":
        from kbn.ontology.compiled import Ontology

        return Ontology
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
