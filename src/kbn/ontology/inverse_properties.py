"""The subproperties that follow from inverses.

If mainEntity is a subproperty of about, then the inverse of the one is a subproperty of the inverse
of the other. Each property stands in the order twice, as itself and turned round. A subproperty
axiom orders both, and an inverse axiom makes each of two properties equivalent to the other turned
round; a symmetric property is equivalent to itself turned round. The closure of that order has
everything that follows from these axioms.
"""

from __future__ import annotations

from kbn.ontology.axioms import Axioms, Pair
from kbn.ontology.hierarchy import compile_hierarchy


def subproperties_by_inverses(axioms: Axioms) -> set[Pair]:
    """The (narrower, wider) pairs that inverses add to what subproperty axioms alone give."""
    inverses = axioms.inverses | {(name, name) for name in axioms.symmetric}
    if not inverses:
        return set()
    names = sorted(axioms.properties)
    ids = {name: number for number, name in enumerate(names)}
    count = len(names)
    plain = [(ids[a], ids[b]) for a, b in axioms.subproperties if a in ids and b in ids]
    both = plain + [(a + count, b + count) for a, b in plain]
    for a, b in ((ids[a], ids[b]) for a, b in inverses if a in ids and b in ids):
        both += [(a, b + count), (b + count, a), (b, a + count), (a + count, b)]
    before, after = compile_hierarchy(count, plain), compile_hierarchy(2 * count, both)
    found: set[Pair] = set()
    for number, name in enumerate(names):
        known = {number, *before.above(number)}
        wider = (one for one in after.above(number) if one < count and one not in known)
        found.update((name, names[one]) for one in wider)
    return found
