"""A hierarchy the size of the Gene Ontology: 45,000 classes, up to three parents each.

It loads, compiles, comes back from the cache, and matches as the closure computed here by hand.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kbn.filters import Bag, Constraint, Filter, Notification, Subscription
from kbn.matching import Matcher, Poset
from kbn.ontology import Class, Ontology

CLASSES = 45_000
SUBCLASS = "<http://www.w3.org/2000/01/rdf-schema#subClassOf>"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
OWL_CLASS = "<http://www.w3.org/2002/07/owl#Class>"


def iri(number: int) -> str:
    return f"urn:large#C{number:05d}"


@pytest.fixture(scope="module")
def parents() -> list[list[int]]:
    rng = random.Random(45)
    return [
        sorted({rng.randrange(1 + n // 2) for _ in range(rng.randint(1, 3))} - {n})
        for n in range(CLASSES)
    ]


@pytest.fixture(scope="module")
def large(parents: list[list[int]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "large.nt"
    lines = [f"<{iri(n)}> {TYPE} {OWL_CLASS} ." for n in range(CLASSES)]
    lines += [
        f"<{iri(n)}> {SUBCLASS} <{iri(p)}> ." for n, above in enumerate(parents) for p in above
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def ancestors(number: int, parents: list[list[int]]) -> set[int]:
    found, left = {number}, [number]
    while left:
        for parent in parents[left.pop()]:
            if parent not in found:
                found.add(parent)
                left.append(parent)
    return found


def test_forty_five_thousand_classes_load_and_match(
    large: Path, parents: list[list[int]], seed: int
) -> None:
    ontology = Ontology.load(large)
    assert len(ontology.classes) == CLASSES
    assert Ontology.load(large).digest == ontology.digest  # the second comes from the cache

    rng = random.Random(seed)
    wanted = [rng.randrange(CLASSES) // rng.choice((1, 10, 1000)) for _ in range(5_000)]
    filters = [Filter([Constraint("terms", "#>/@>", Bag(Class(iri(n))))]) for n in wanted]
    matcher = Matcher(ontology)
    matcher.add_many((Subscription(f), key) for key, f in enumerate(filters))
    for _ in range(50):
        terms = [rng.randrange(CLASSES) for _ in range(3)]
        above = set().union(*(ancestors(n, parents) for n in terms))
        expected = {key for key, n in enumerate(wanted) if n in above}
        notification = Notification({"terms": Bag(*(Class(iri(n)) for n in terms))})
        assert set(matcher.match(notification)) == expected


def test_covering_follows_a_large_hierarchy(large: Path, parents: list[list[int]]) -> None:
    poset = Poset(Ontology.load(large))
    numbers = [44_000, 30_000, 12_000, 500, 40]
    for n in numbers:
        poset.add(Filter([Constraint("term", "@>", Class(iri(n)))]), n)
    uncovered = [
        n for n in numbers if not any(m != n and m in ancestors(n, parents) for m in numbers)
    ]
    roots = {root.constraints[0].operand.iri for root in poset.roots}  # type: ignore[union-attr]
    assert roots == {iri(n) for n in uncovered}
