"""Why a link of an ontology holds: the axioms behind it, with the file and line of each.

A compiled ontology knows what holds and not why. Here its files are read again, when somebody asks,
and `proving.py` finds a way from what they say to the link. The steps of a proof are in order: each
is asserted in a file, or follows by a rule from steps before it.

At level dl a link may have no proof by rules: only the reasoner knows why it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kbn.errors import OntologyError
from kbn.ontology.axiom_extraction import extract_axioms
from kbn.ontology.axioms import Axioms
from kbn.ontology.chains import IS_ONE, KIND_OF, SAME, Link
from kbn.ontology.documents import Document, read_document
from kbn.ontology.fetching import Fetcher, is_address
from kbn.ontology.forms import Form, one
from kbn.ontology.loading import Corpus, Request
from kbn.ontology.proving import ASSERTED, Prover
from kbn.ontology.told import Claim, Place, Told, said
from kbn.ontology.triples import Triple

if TYPE_CHECKING:
    from kbn.ontology.compiled import Ontology

__all__ = ["Proofs", "Step"]


@dataclass(frozen=True)
class Step:
    """One step of a proof: a claim that is asserted, or follows from earlier steps by a rule."""

    claim: Claim
    """What is claimed; `told.py` lists the forms of claims."""
    rule: str
    """`asserted`, or the name of the rule."""
    premises: tuple[int, ...] = ()
    """The places of the steps it follows from."""
    file: str | None = None
    """Where an asserted claim is written, where that is known."""
    line: int | None = None

    @property
    def is_asserted(self) -> bool:
        """Whether a file says it."""
        return self.rule == ASSERTED

    def text(self, name: Callable[[str], str]) -> str:
        """The claim as a sentence; `name` says how a term is shown."""
        return said(self.claim, name)


class Proofs:
    """The proofs of one ontology; keep it for several questions, as it reads the files once.

    >>> from kbn.data import path
    >>> from kbn.ontology import Ontology, chain
    >>> animals = Ontology.load(path("animals"))
    >>> links = chain(animals, *map(animals.expand, ("animals:Human", "animals:Animal")))
    >>> for step in Proofs(animals).of(links[0]):
    ...     print(step.text(animals.shorten), step.rule, step.line)
    :Human is a kind of :Mammal asserted 55
    """

    def __init__(self, ontology: Ontology) -> None:
        self._ontology = ontology.unmapped
        self._prover: Prover | None = None
        self._places: dict[Claim, Place | None] = {}

    def of(self, link: Link) -> tuple[Step, ...]:
        """The proof of a link of this ontology; empty when only a reasoner can tell why it holds.

        An OntologyError when the ontology's files are not there, or not what they were.
        """
        prover = self._read()
        found: dict[Claim, int] = {}
        steps: list[Step] = []
        for claim in _claims(link, self._ontology):
            if not prover.prove(claim):
                return ()
            self._add(claim, prover, found, steps)
        return tuple(steps)

    def _add(self, goal: Claim, prover: Prover, found: dict[Claim, int], steps: list[Step]) -> None:
        """Add the steps up to `goal`, what a step rests on before the step."""
        waiting = [goal]
        while waiting:
            claim = waiting[-1]
            rule, premises = prover.why[claim]
            missing = [each for each in premises if each not in found]
            if missing and claim not in found:
                waiting.extend(reversed(missing))
                continue
            waiting.pop()
            if claim not in found:
                file, line = self._places.get(claim) or (None, None)
                if rule != ASSERTED:
                    file = line = None
                found[claim] = len(steps)
                places = tuple(found[each] for each in premises)
                steps.append(Step(claim, rule, places, file, line))

    def _read(self) -> Prover:
        if self._prover is None:
            axioms, where = _read_again(self._ontology)
            told = Told(axioms, where)
            self._places = told.places
            self._prover = Prover(told, self._ontology.reasoning)
        return self._prover


def _claims(link: Link, ontology: Ontology) -> tuple[Claim, ...]:
    """What a link claims: one thing, or two where terms are equivalent."""
    first, second = link.first, link.second
    both = ontology.kinds(first) & ontology.kinds(second)
    if link.relation == IS_ONE:
        return (("below", one(first), second),)
    if link.relation in (KIND_OF, SAME):
        word = "below" if "class" in both else "subproperty"
        there: Claim = (word, first, second)
        back: Claim = (word, second, first)
        if "class" not in both and "individual" in both:
            return (("below", one(first), one(second)),)
        return (there,) if link.relation == KIND_OF else (there, back)
    held: Form = ("some", link.relation, one(second))
    return (("below", one(first), held),)


def _read_again(ontology: Ontology) -> tuple[Axioms, dict[Triple, Place]]:
    """The axioms of the files that an ontology was read from, and where each triple is."""
    documents: list[Document] = []
    for source in ontology.sources:
        if is_address(source):
            documents.append(_kept(source))
        else:
            documents.append(read_document(Path(source)))
    where: dict[Triple, Place] = {}
    triples: list[Triple] = []
    for document in documents:
        for triple, line in document.located_triples():
            triples.append(triple)
            if isinstance(triple[2], str):
                where.setdefault(triple, (document.name, line))
    axioms = extract_axioms(triples, skos=ontology.is_skos)
    _check_digest(ontology, Corpus(documents), axioms)
    return axioms, where


def _kept(address: str) -> Document:
    found = Fetcher(offline=True).get(address)
    if found is None:
        raise OntologyError("came from the network and is no longer kept", path=address)
    return found


def _check_digest(ontology: Ontology, corpus: Corpus, axioms: Axioms) -> None:
    """Refuse files that are no longer what the ontology was read from."""
    corpus.notes = [note for note in ontology.unsupported if note.startswith("import <")]
    for skos in (None, True, False):
        request = Request(tuple(ontology.sources), ontology.reasoning, skos)
        if corpus.digest(request, axioms) == ontology.digest:
            return
    raise OntologyError(
        "the files have changed since the ontology was loaded; load it again",
        path=", ".join(ontology.sources),
    )
