"""Covering: whether one filter makes another redundant."""

from __future__ import annotations

from kbn.filters.implication import implies
from kbn.filters.model import Filter
from kbn.filters.vocabulary import Vocabulary

__all__ = ["covers"]


def covers(wider: Filter, narrower: Filter, ontology: Vocabulary | None = None) -> bool:
    """Whether `wider` matches every notification that `narrower` matches.

    Sound but incomplete: True is a proof, False only means that none was found. A router may
    therefore stop forwarding `narrower` on True, and must keep forwarding it on False.

    >>> from kbn.filters import Constraint
    >>> cheap, cheaper = Filter([Constraint("x", "<", 9)]), Filter([Constraint("x", "<", 5)])
    >>> covers(cheap, cheaper), covers(cheaper, cheap)
    (True, False)
    """
    return all(
        any(implies(premise, conclusion, ontology) for premise in narrower.constraints)
        for conclusion in wider.constraints
    )
