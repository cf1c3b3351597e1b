"""What an ontology's files say, claim by claim, each with the triple that says it.

A claim is a tuple that starts with what it claims, over the expressions of `forms.py`:

    ("below", x, y)       everything that is an x is a y; for ("one", i): i is in y
    ("equivalent", x, y)  ("disjoint", x, y)
    ("subproperty", p, q)  ("same property", p, q)  ("inverse", p, q)  ("chain", q, p1, ..., pn)
    ("domain", p, c)  ("range", p, c)  ("key", c, p1, ..., pn)
    ("symmetric", p)  ("transitive", p)  ("reflexive", p)  ("functional", p)
    ("inverse functional", p)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from kbn.ontology import vocabulary as v
from kbn.ontology.axioms import Axioms
from kbn.ontology.forms import Form, FormReader, is_one, one, parts, spoken
from kbn.ontology.triples import Triple

Claim = tuple[Form | str | int, ...]
Place = tuple[str, int | None]
"""A file, and a line of it where that is known."""
Above = dict[Form, list[tuple[Form, Claim]]]

_SUBCLASS = (v.SUB_CLASS_OF, v.BROADER, v.BROADER_TRANSITIVE)
_NARROWER = (v.NARROWER, v.NARROWER_TRANSITIVE)
_WRITTEN = (
    *(v.INTERSECTION_OF, v.UNION_OF, v.DISJOINT_UNION_OF, v.COMPLEMENT_OF, v.ONE_OF),
    v.ON_PROPERTY,
)


class Told:
    """The claims of some axioms, as they were before any level reasoned with them."""

    def __init__(self, axioms: Axioms, where: dict[Triple, Place]) -> None:
        self.axioms = axioms
        self._where = where
        self._reader = FormReader(axioms)
        self.places: dict[Claim, Place | None] = {}
        """Each claim, and where it is written."""
        self.above: Above = defaultdict(list)
        self.wider: dict[str, list[tuple[str, Claim]]] = defaultdict(list)
        """Property -> the properties directly above it, and the claim that says so."""
        self.domains: Above = defaultdict(list)
        self.ranges: Above = defaultdict(list)
        self.inverses: dict[str, list[tuple[str, Claim]]] = defaultdict(list)
        self.chains: list[tuple[tuple[str, ...], str, Claim]] = []
        self.disjoint: Above = defaultdict(list)
        self.keys: list[tuple[Form, tuple[str, ...], Claim]] = []
        self.known: set[Form] = set()
        """Every expression that is written somewhere, and its parts."""
        self._read_classes()
        self._read_individuals()
        self._read_properties()

    def claim(self, claim: Claim, *triples: Triple) -> Claim:
        """Note that the files make a claim, in one of these triples."""
        if claim not in self.places:
            found = (self._where[each] for each in triples if each in self._where)
            self.places[claim] = next(found, None)
            for form in claim[1:]:
                if isinstance(form, tuple):
                    self.known.update(parts(form))
        return claim

    # Classes.

    def _read_classes(self) -> None:
        expressions = self.axioms.expressions
        pairs = expressions.pairs | self.axioms.subclasses
        for narrower, wider in sorted(pairs):
            if narrower != wider:
                self._read_pair(narrower, wider)
        tables = (
            *(expressions.intersections, expressions.unions, expressions.enumerations),
            *(expressions.complements, expressions.somes, expressions.alls, expressions.values),
            *(expressions.selves, expressions.at_most, expressions.at_least),
        )
        for node in sorted({node for table in tables for node in table}):
            form = self._reader.form(node)
            for written in self._reader.written(node):
                if written != form:
                    triples = self._structure_of(node)
                    self._equal(form, written, *triples)
        for group in sorted(self.axioms.disjoint):
            self._read_disjoint(group)

    def _structure_of(self, node: str) -> list[Triple]:
        heads = ((node, predicate) for predicate in _WRITTEN)
        return [
            (node, predicate, other)
            for node, predicate in heads
            for other in self._objects.get((node, predicate), ())
        ]

    @property
    def _objects(self) -> dict[tuple[str, str], list[str]]:
        if not hasattr(self, "_objects_found"):
            found: dict[tuple[str, str], list[str]] = defaultdict(list)
            for subject, predicate, node in self._where:
                if predicate in _WRITTEN and isinstance(node, str):
                    found[subject, predicate].append(node)
            self._objects_found = found
        return self._objects_found

    def _read_pair(self, narrower: str, wider: str) -> None:
        x, y = self._reader.form(narrower), self._reader.form(wider)
        plain: list[Triple] = [(narrower, each, wider) for each in _SUBCLASS]
        plain += [(wider, each, narrower) for each in _NARROWER]
        if any(triple in self._where for triple in plain):
            self.above[x].append((y, self.claim(("below", x, y), *plain)))
            return
        alike: list[Triple] = [
            (narrower, v.EQUIVALENT_CLASS, wider),
            (wider, v.EQUIVALENT_CLASS, narrower),
        ]
        self._equal(x, y, *alike)

    def _equal(self, x: Form, y: Form, *triples: Triple) -> None:
        claim = ("equivalent", x, y)
        if ("equivalent", y, x) in self.places:
            claim = ("equivalent", y, x)
        self.claim(claim, *triples)
        self.above[x].append((y, claim))
        self.above[y].append((x, claim))

    def _read_disjoint(self, group: tuple[str, ...]) -> None:
        for name in group:
            for other in group:
                if name != other:
                    pair = [(name, v.DISJOINT_WITH, other), (other, v.DISJOINT_WITH, name)]
                    if len(group) > 2 or any(each in self._where for each in pair):
                        first, second = sorted((name, other))
                        claim = self.claim(("disjoint", first, second), *pair)
                        self.disjoint[name].append((other, claim))

    # Individuals.

    def _read_individuals(self) -> None:
        axioms = self.axioms
        for individual, kind in sorted(axioms.types | axioms.expressions.types):
            form = self._reader.form(kind)
            triple = (individual, v.TYPE, kind)
            claim = self.claim(("below", one(individual), form), triple)
            self.above[one(individual)].append((form, claim))
        for first, second in sorted(axioms.same):
            self._equal(one(first), one(second), (first, v.SAME_AS, second))
        for subject, name, node in sorted(axioms.facts):
            form = ("some", name, one(node))
            claim = self.claim(("below", one(subject), form), (subject, name, node))
            self.above[one(subject)].append((form, claim))

    # Properties.

    def _read_properties(self) -> None:
        axioms, expressions = self.axioms, self.axioms.expressions
        for p, q in sorted(axioms.subproperties):
            self._read_subproperty(p, q)
        for p, q in sorted(axioms.inverses):
            claim = self.claim(("inverse", p, q), (p, v.INVERSE_OF, q), (q, v.INVERSE_OF, p))
            self.inverses[p].append((q, claim))
            self.inverses[q].append((p, claim))
        for word, names, kind in (
            ("symmetric", axioms.symmetric, v.SYMMETRIC_PROPERTY),
            ("transitive", axioms.transitive, v.TRANSITIVE_PROPERTY),
            ("reflexive", axioms.reflexive, v.REFLEXIVE_PROPERTY),
            ("functional", expressions.functional, v.FUNCTIONAL_PROPERTY),
            ("inverse functional", expressions.inverse_functional, v.INVERSE_FUNCTIONAL_PROPERTY),
        ):
            for p in sorted(names):
                self.claim((word, p), (p, v.TYPE, kind))
        self._read_ends("domain", self.domains, v.DOMAIN, axioms.domains | expressions.domains)
        self._read_ends("range", self.ranges, v.RANGE, axioms.ranges | expressions.ranges)
        for q, links in sorted(axioms.chains):
            claim = self.claim(("chain", q, *links))
            self.chains.append((links, q, claim))
        for node, keys in sorted(expressions.keys):
            form = self._reader.form(node)
            self.keys.append((form, keys, self.claim(("key", form, *keys))))

    def _read_subproperty(self, p: str, q: str) -> None:
        plain: Triple = (p, v.SUB_PROPERTY_OF, q)
        if plain in self._where:
            self.wider[p].append((q, self.claim(("subproperty", p, q), plain)))
            return
        first, second = sorted((p, q))
        alike: list[Triple] = [(p, v.EQUIVALENT_PROPERTY, q), (q, v.EQUIVALENT_PROPERTY, p)]
        self.wider[p].append((q, self.claim(("same property", first, second), *alike)))

    def _read_ends(
        self, word: str, found: Above, predicate: str, pairs: Iterable[tuple[str, str]]
    ) -> None:
        for p, node in sorted(pairs):
            form = self._reader.form(node)
            triple = (p, predicate, node)
            if triple in self._where:  # the parts of an intersection are read from the whole
                found[p].append((form, self.claim((word, p, form), triple)))


def said(claim: Claim, name: Callable[[str], str]) -> str:
    """A claim as a sentence; `name` says how a term is shown."""

    def shown(form: Form) -> str:
        return spoken(form, name)

    word, *forms = claim
    first: Form = forms[0]  # type: ignore[assignment]
    rest: list[Form] = list(forms[1:])  # type: ignore[arg-type]
    match word:
        case "below" if is_one(first):
            return f"{shown(first)} {_said_of_one(rest[0], shown)}"
        case "below":
            return f"{shown(first)} is a kind of {shown(rest[0])}"
        case "equivalent":
            both = is_one(first) and is_one(rest[0])
            return (
                f"{shown(first)} is {'the same as' if both else 'equivalent to'} {shown(rest[0])}"
            )
        case "disjoint":
            return f"nothing is both {shown(first)} and {shown(rest[0])}"
        case "subproperty":
            return f"{shown(first)} is a subproperty of {shown(rest[0])}"
        case "same property":
            return f"{shown(first)} is the same property as {shown(rest[0])}"
        case "inverse":
            return f"{shown(first)} is the inverse of {shown(rest[0])}"
        case "chain":
            return f"{' o '.join(map(shown, rest))} makes {shown(first)}"
        case "domain":
            return f"whatever has {shown(first)} is one of the {shown(rest[0])}"
        case "range":
            return f"every value of {shown(first)} is one of the {shown(rest[0])}"
        case "key":
            return f"{', '.join(map(shown, rest))} identify each {shown(first)}"
    return f"{shown(first)} is {word}"


def _said_of_one(form: Form, shown: Callable[[Form], str]) -> str:
    if isinstance(form, tuple) and form[0] == "some" and is_one(form[2]):
        return f"has {shown(form[1])} {shown(form[2])}"
    if is_one(form):
        return f"is the same as {shown(form)}"
    return f"is one of the {shown(form)}"
