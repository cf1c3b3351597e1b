"""An ontology in a few figures, for a command that shows one."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from kbn.ontology.compiled import Ontology


class Summary(TypedDict):
    """What `summarise` finds; ready for JSON."""

    reasoning: str
    digest: str
    sources: list[str]
    classes: int
    properties: int
    individuals: int
    depth: int
    ancestor_pairs: int
    roots: list[str]
    unsatisfiable: list[str]
    unsupported: list[str]


def summarise(ontology: Ontology) -> Summary:
    """Counts, depth (classes on the longest way down), roots, and what was left out."""
    return Summary(
        reasoning=ontology.reasoning,
        digest=ontology.digest,
        sources=list(ontology.sources),
        classes=len(ontology.classes),
        properties=len(ontology.properties),
        individuals=len(ontology.individuals),
        depth=depth(ontology),
        ancestor_pairs=len(ontology.class_tree.ancestors.items),
        roots=list(ontology.roots),
        unsatisfiable=list(ontology.unsatisfiable),
        unsupported=list(ontology.unsupported),
    )


def depth(ontology: Ontology) -> int:
    """How many classes lie on the longest way from a root down; equivalents count once."""
    tree = ontology.class_tree
    levels = np.zeros(len(tree.members), dtype=np.int32)
    # Wider components have smaller numbers, so a parent's level is known before its child's.
    for component in range(len(levels)):
        parents = tree.parents[component]
        levels[component] = 1 + (levels[parents].max() if len(parents) else 0)
    return int(levels.max()) if len(levels) else 0
