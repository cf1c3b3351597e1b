"""A shipped ontology with short ways to write terms, and to ask what matches and what covers.

`world("animals").matches("x @= animals:Human", x=...)` reads like the sentence in the document it
comes from. Worlds are built once per process; `with_axioms` gives one that knows a little more.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from kbn.data import namespace, path
from kbn.filters import Bag, Notification, Subscription
from kbn.ontology import Class, Individual, Ontology, Property
from kbn.ontology.compiled import Reasoning

__all__ = ["World", "plain", "with_axioms", "world"]

PREFIX_LINES = """
@prefix : <https://kbn.example/ontology/extra#> .
@prefix extra: <https://kbn.example/ontology/extra#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""


class World:
    """An ontology, its prefixes, and the questions the examples ask."""

    def __init__(self, ontology: Ontology, prefixes: dict[str, str]) -> None:
        self.ontology = ontology
        self.prefixes = prefixes

    def iri(self, curie: str) -> str:
        prefix, _, name = curie.partition(":")
        return self.prefixes[prefix] + name

    def a_class(self, curie: str) -> Class:
        return Class(self.iri(curie))

    def a_property(self, curie: str) -> Property:
        return Property(self.iri(curie))

    def individual(self, curie: str) -> Individual:
        return Individual(self.iri(curie))

    def classes(self, *curies: str) -> Bag:
        return Bag(*(self.a_class(curie) for curie in curies))

    def individuals(self, *curies: str) -> Bag:
        return Bag(*(self.individual(curie) for curie in curies))

    def subscription(self, text: str) -> Subscription:
        return Subscription.parse(text, prefixes=self.prefixes, ontology=self.ontology)

    def matches(self, text: str, **attributes: object) -> bool:
        """Whether a notification with these attributes meets the subscription written so."""
        return self.subscription(text).matches(Notification(attributes), self.ontology)

    def covers(self, wider: str, narrower: str) -> bool:
        """Whether the first subscription makes the second redundant."""
        return self.subscription(wider).covers(self.subscription(narrower), self.ontology)


@cache
def world(name: str, reasoning: Reasoning = "rdfs") -> World:
    """The shipped ontology of that name; its prefix is its name."""
    ontology = Ontology.load(path(name), reasoning=reasoning, cache=False)
    return World(ontology, {name: namespace(name)})


@cache
def plain() -> World:
    """No ontology at all: numbers, strings and bags."""
    return World(Ontology.empty(), {})


def with_axioms(directory: Path, axioms: str, *names: str) -> World:
    """Shipped ontologies and a few more axioms in Turtle, whose own names are `extra:`."""
    prefixes = {"extra": "https://kbn.example/ontology/extra#"}
    prefixes |= {name: namespace(name) for name in names}
    lines = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in prefixes.items())
    extra = directory / "extra.ttl"
    extra.write_text(PREFIX_LINES + lines + axioms, encoding="utf-8")
    files = [*(path(name) for name in names), extra]
    return World(Ontology.load(files, reasoning="rdfs", cache=False), prefixes)
