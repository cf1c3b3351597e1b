"""The reasoning levels: what each one adds to the axioms as written, and what it leaves out.

- `none`: what is written. Subclass and subproperty links are followed, equivalence and sameAs are
  mutual, types rise along the links; no rule adds anything that was not written.
- `rdfs` (the default): also domains and ranges, and what is cheap and sound beyond RDFS: inverses,
  symmetry, transitivity, property chains, the named parts of intersections, unions and
  enumerations, inherited disjointness. A second or so for tens of thousands of classes.
- `rl`: also the OWL 2 RL rules over restrictions, functional properties, keys (`rules_rl.py`).
- `el`: also OWL 2 EL classification by existential restrictions (`rules_el.py`).
- `dl`: a complete DL reasoner (`outside_dl.py`), joined with the RL rules for sameAs, which the
  reasoner does not report. Minutes for large ontologies.

Every level's result is then compiled like the rest, so each entails at least what `rdfs` does.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kbn.ontology import rules_el, rules_rl
from kbn.ontology.axioms import Axioms
from kbn.ontology.contradiction import Contradiction

if TYPE_CHECKING:
    from kbn.ontology.loading import Corpus, Request


def reason(axioms: Axioms, corpus: Corpus, request: Request) -> None:
    """Add to `axioms` what the requested level entails, and note what it ignores."""
    beyond = Counter(axioms.beyond)
    match request.reasoning:
        case "none":
            _note_unread_rules(axioms, beyond)
            axioms.notes += _ignored("none", beyond, set(beyond), set())
        case "rdfs":
            axioms.notes += _ignored("rdfs", beyond, set(beyond) - _READ_BY_RDFS, _READ_BY_RDFS)
        case "rl":
            rules_rl.reason_rl(axioms)
            axioms.notes += _ignored("rl", beyond, rules_rl.IGNORED, rules_rl.PARTLY)
        case "el":
            beyond["inverse properties"] = len({frozenset(pair) for pair in axioms.inverses})
            rules_el.reason_el(axioms)
            axioms.notes += _ignored("el", beyond, rules_el.IGNORED, rules_el.PARTLY)
        case "dl":
            _reason_dl(axioms, corpus, request)
            rules_rl.reason_rl(axioms)


def _reason_dl(axioms: Axioms, corpus: Corpus, request: Request) -> None:
    from kbn.ontology.explaining import explained
    from kbn.ontology.outside_dl import reason_dl

    try:
        reason_dl(axioms, corpus.triples(), request.time_limit_s)
    except Contradiction as found:
        raise explained(found, axioms, corpus.triples(), request.time_limit_s) from None


_READ_BY_RDFS = {"unionOf", "oneOf", "complementOf"}


def _note_unread_rules(axioms: Axioms, beyond: Counter[str]) -> None:
    """Count what only `none` leaves out."""
    for name, found in (
        ("inverse properties", axioms.inverses),
        ("symmetric properties", axioms.symmetric),
        ("transitive properties", axioms.transitive),
        ("property chains", axioms.chains),
        ("domains", axioms.domains),
        ("ranges", axioms.ranges),
        ("parts of class expressions", axioms.unfolded),
    ):
        beyond[name] += len(found)


def _ignored(level: str, beyond: Counter[str], wholly: set[str], partly: set[str]) -> list[str]:
    found = [f"{name} ({beyond[name]})" for name in sorted(wholly) if beyond[name]]
    notes = [f"{level}: not used: {', '.join(found)}"] if found else []
    found = [f"{name} ({beyond[name]})" for name in sorted(partly) if beyond[name]]
    if found:
        notes.append(f"{level}: used in part: {', '.join(found)}")
    return notes
