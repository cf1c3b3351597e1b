"""Why a DL reasoner finds no model: the classes without a member, the individuals that clash.

The reasoners only say that there is none. So the question is asked in two parts:

1. The reasoner is asked again, about the classes alone: with no individual there is nearly always a
   model, and it tells which classes can have no member, and what else holds between classes.
2. The RL and then the EL rules get the individuals back, with what step 1 found about the classes,
   and name those whose classes cannot all hold.

What only a DL reasoner can see of individuals stays unnamed, and the answer says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy

from kbn.errors import OntologyError
from kbn.ontology import rules_el, rules_rl
from kbn.ontology import vocabulary as v
from kbn.ontology.axioms import Axioms
from kbn.ontology.compiling import compile_axioms
from kbn.ontology.contradiction import Contradiction
from kbn.ontology.outside_dl import reason_dl
from kbn.ontology.tables import Facts
from kbn.ontology.triples import Triple

TIME_LIMIT_S = 30.0
"""How long the reasoner may take to explain; the caller waits for an error, not for an answer."""

_ABOUT_INDIVIDUALS = {
    v.OWL + "AllDifferent",
    v.OWL + "NegativePropertyAssertion",
}


def explained(
    found: Contradiction, axioms: Axioms, triples: Iterable[Triple], time_limit_s: float
) -> Contradiction:
    """`found` with the classes and individuals it comes from, as far as they can be told."""
    about_classes = deepcopy(axioms)
    try:
        limit_s = min(time_limit_s, TIME_LIMIT_S)
        reason_dl(about_classes, _without_individuals(axioms, list(triples)), limit_s)
    except Contradiction:
        return Contradiction(["what is said of the classes alone cannot be true"])
    except OntologyError:  # too slow, or refused: the rules have to do without
        about_classes = axioms
    empty = about_classes.unsatisfiable
    for rules in (rules_rl.reason_rl, rules_el.reason_el):
        tried = deepcopy(about_classes)
        try:
            rules(tried)
            compile_axioms(tried, Facts(reasoning="dl", digest=""))
        except Contradiction as ours:
            return Contradiction(ours.reasons, {*ours.unsatisfiable, *empty})
    return Contradiction(
        [*found.reasons, "which individuals clash, only the reasoner knows, and it does not tell"],
        empty,
    )


def _without_individuals(axioms: Axioms, triples: list[Triple]) -> Iterator[Triple]:
    """What is said of classes and properties only."""
    individuals = axioms.individuals - axioms.classes - axioms.properties
    statements = {
        subject
        for subject, predicate, node in triples
        if predicate == v.TYPE and node in _ABOUT_INDIVIDUALS
    }
    for triple in triples:
        subject, predicate, node = triple
        of_a_pun = subject in axioms.individuals and (
            predicate in axioms.properties or (predicate == v.TYPE and node in axioms.classes)
        )
        if subject not in individuals and subject not in statements and not of_a_pun:
            yield triple
