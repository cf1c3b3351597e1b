"""What the rules find when an ontology cannot be true, and the error callers see of it."""

from __future__ import annotations

from collections.abc import Iterable

from kbn.errors import OntologyError


class Contradiction(Exception):
    """The axioms cannot all hold: why, a sentence each, and the classes without a member.

    Within this room only; `loading` knows the files and turns it into an OntologyError.
    """

    def __init__(self, reasons: Iterable[str], unsatisfiable: Iterable[str] = ()) -> None:
        self.reasons = sorted(set(reasons))
        self.unsatisfiable = sorted(set(unsatisfiable))
        super().__init__("; ".join(self.reasons))


def inconsistent(found: Contradiction, sources: Iterable[str]) -> OntologyError:
    """The error for an ontology no world satisfies, with the files that were asked for."""
    empty = (f"unsatisfiable class <{name}>" for name in found.unsatisfiable)
    return OntologyError(
        "the ontology is inconsistent",
        path=", ".join(sources),
        explanation=(*found.reasons, *empty),
    )
