"""The reasoning levels: what each one adds to the axioms as written, and what it leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbn.ontology.axioms import Axioms

if TYPE_CHECKING:
    from kbn.ontology.loading import Corpus, Request


def reason(axioms: Axioms, corpus: Corpus, request: Request) -> None:
    """Add to `axioms` what the requested level entails, and note what it ignores."""
