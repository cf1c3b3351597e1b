"""Whether a proof holds, judged by what OWL means and not by how the proof was found.

An asserted step must be said by a triple of the files, which are read here from RDF again. Any
other step must follow from its premises: there must be no interpretation that makes the premises
true and the conclusion false. All interpretations over one and two elements are tried, and those
over three where there are few; parts that are not decided yet are kept as bounds, so that most of
the search is cut off. Steps of the same shape are judged once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pyoxigraph as ox

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
SEARCH_MAX = 40_000
"""How many partial interpretations are tried over three elements."""

# What the files say.


class Graph:
    """The triples of some files, and the claims that they make."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.objects: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.triples: set[tuple[str, str, str]] = set()
        for path in paths:
            content = Path(path).read_bytes()
            is_turtle = path.endswith(".ttl")
            form = ox.RdfFormat.TURTLE if is_turtle else ox.RdfFormat.RDF_XML
            base = "file:///" + Path(path).name
            for quad in ox.parse(content, form, base_iri=base, rename_blank_nodes=True):
                s, p, o = (_name(each) for each in (quad.subject, quad.predicate, quad.object))
                self.objects[s, p].append(o)
                self.triples.add((s, p, o))
        self.claims = set(self._claims())

    def says(self, claim: tuple[Any, ...]) -> bool:
        """Whether the files make this claim."""
        return claim in self.claims

    def _claims(self) -> Iterator[tuple[Any, ...]]:
        yield from self._group_claims()
        kinds = {"Symmetric", "Transitive", "Reflexive", "Functional", "InverseFunctional"}
        for s, p, o in self.triples:
            x, y = self.expression(s), self.expression(o)
            if p == RDFS + "subClassOf":
                yield ("below", x, y)
            elif p == OWL + "equivalentClass":
                yield from (("equivalent", x, y), ("equivalent", y, x))
            elif p == OWL + "sameAs":
                a, b = ("one", s), ("one", o)
                yield from (("equivalent", a, b), ("equivalent", b, a))
            elif p == RDF + "type":
                yield ("below", ("one", s), y)
                if o.startswith(OWL) and o.endswith("Property"):
                    word = o.removeprefix(OWL).removesuffix("Property")
                    if word in kinds:
                        yield (word.lower().replace("inversef", "inverse f"), s)
            elif p == RDFS + "subPropertyOf":
                yield ("subproperty", s, o)
            elif p == OWL + "equivalentProperty":
                yield from (("same property", s, o), ("same property", o, s))
            elif p == OWL + "inverseOf":
                yield from (("inverse", s, o), ("inverse", o, s))
            elif p == RDFS + "domain":
                yield ("domain", s, y)
            elif p == RDFS + "range":
                yield ("range", s, y)
            elif p == OWL + "disjointWith":
                yield from (("disjoint", s, o), ("disjoint", o, s))
            elif p == OWL + "propertyChainAxiom":
                yield ("chain", s, *self.list(o))
            elif p == OWL + "hasKey":
                yield ("key", x, *self.list(o))
            else:
                yield ("below", ("one", s), ("some", p, ("one", o)))

    def _group_claims(self) -> Iterator[tuple[Any, ...]]:
        for s in {s for s, _, _ in self.triples}:
            if not s.startswith("_:"):
                for form in self._written(s):
                    yield from (("equivalent", s, form), ("equivalent", form, s))
            heads = self.objects[s, OWL + "members"] + self.objects[s, OWL + "disjointUnionOf"]
            for head in heads:
                for a, b in product(self.list(head), repeat=2):
                    yield ("disjoint", a, b)

    def list(self, head: str) -> list[str]:
        found = []
        while head != RDF + "nil":
            found.append(self.objects[head, RDF + "first"][0])
            head = self.objects[head, RDF + "rest"][0]
        return found

    def expression(self, node: str) -> Any:
        """A named class, or what a blank node stands for."""
        if not node.startswith("_:"):
            return node
        written = self._written(node)
        return written[0] if len(written) == 1 else ("unread", node)

    def _written(self, node: str) -> list[Any]:
        def get(word: str) -> list[str]:
            return self.objects.get((node, OWL + word), [])

        found: list[Any] = []
        for word, kind in (("intersectionOf", "and"), ("unionOf", "or"), ("disjointUnionOf", "or")):
            for head in get(word):
                found.append(_set(kind, [self.expression(each) for each in self.list(head)]))
        found += [_set("or", [("one", i) for i in self.list(head)]) for head in get("oneOf")]
        found += [("not", self.expression(other)) for other in get("complementOf")]
        for p in get("onProperty"):
            found += [("some", p, self.expression(c)) for c in get("someValuesFrom")]
            found += [("only", p, self.expression(c)) for c in get("allValuesFrom")]
            found += [("some", p, ("one", i)) for i in get("hasValue")]
            found += [("self", p) for _ in get("hasSelf")]
            filler = next(map(self.expression, get("onClass")), OWL + "Thing")
            for kind, words in (
                ("min", ("minCardinality", "minQualifiedCardinality")),
                ("max", ("maxCardinality", "maxQualifiedCardinality")),
                ("exactly", ("cardinality", "qualifiedCardinality")),
            ):
                found += [(kind, int(n), p, filler) for word in words for n in get(word)]
        return found


def _name(node: Any) -> str:
    return "_:" + node.value if isinstance(node, ox.BlankNode) else node.value


def _set(kind: str, members: list[Any]) -> Any:
    listed = sorted(set(members), key=repr)
    return listed[0] if len(listed) == 1 else (kind, *listed)


# What follows from what.

Bounds = tuple[int, int]
"""Which elements are certainly in a set, and which may be: two bit sets."""


class Interpretation:
    """A domain of some elements, and what is decided of the names so far.

    `sets` has a class's members as bits, `pairs` a property's rows of bits, `places` the element
    that an individual is. What is missing may be anything.
    """

    def __init__(self, size: int) -> None:
        self.size, self.all = size, (1 << size) - 1
        self.sets: dict[str, int] = {}
        self.pairs: dict[str, tuple[int, ...]] = {}
        self.places: dict[str, int] = {}

    def members(self, form: Any) -> Bounds:
        if form == OWL + "Thing":
            return self.all, self.all
        if form == OWL + "Nothing":
            return 0, 0
        if isinstance(form, str):
            return (self.sets[form],) * 2 if form in self.sets else (0, self.all)
        kind = form[0]
        if kind == "one":
            place = self.places.get(form[1])
            return (
                (1 << place,) * 2
                if place is not None
                else (self.all if self.size == 1 else 0, self.all)
            )
        if kind in ("and", "or"):
            low, high = (self.all, self.all) if kind == "and" else (0, 0)
            for a, b in map(self.members, form[1:]):
                low, high = (low & a, high & b) if kind == "and" else (low | a, high | b)
            return low, high
        if kind == "not":
            low, high = self.members(form[1])
            return self.all & ~high, self.all & ~low
        if kind == "only":
            low, high = self.members(("some", form[1], ("not", form[2])))
            return self.all & ~high, self.all & ~low
        return self._by_values(form)

    def _by_values(self, form: Any) -> Bounds:
        if form[0] == "self":
            rows = self.rows(form[1])
            return tuple(sum(row[k] & (1 << d) for d, row in enumerate(rows)) for k in (0, 1))  # type: ignore[return-value]
        number = 1 if form[0] == "some" else form[1]
        prop, filler = form[-2], self.members(form[-1])
        low = high = 0
        for d, (sure, may) in enumerate(self.rows(prop)):
            least, most = (sure & filler[0]).bit_count(), (may & filler[1]).bit_count()
            if form[0] in ("some", "min"):
                is_low, is_high = least >= number, most >= number
            elif form[0] == "max":
                is_low, is_high = most <= number, least <= number
            else:
                assert form[0] == "exactly"
                is_low, is_high = least == most == number, least <= number <= most
            low |= is_low << d
            high |= is_high << d
        return low, high

    def rows(self, prop: Any) -> list[Bounds]:
        """For each element, its values."""
        if isinstance(prop, tuple):
            assert prop[0] == "after"
            first, second = self.rows(prop[1]), self.rows(prop[2])
            return [
                tuple(  # type: ignore[misc]
                    _union(second[e][k] for e in range(self.size) if row[k] >> e & 1)
                    for k in (0, 1)
                )
                for row in first
            ]
        known = self.pairs.get(prop)
        return [(0, self.all)] * self.size if known is None else [(row, row) for row in known]

    def holds(self, claim: tuple[Any, ...]) -> bool | None:
        """Whether a claim is true; None when it is not decided."""
        word, *rest = claim
        both = _and_all
        match word:
            case "below":
                return self._within(self.members(rest[0]), self.members(rest[1]))
            case "equivalent":
                x, y = map(self.members, rest)
                return both([self._within(x, y), self._within(y, x)])
            case "disjoint":
                x, y = map(self.members, rest)
                return False if x[0] & y[0] else (True if not x[1] & y[1] else None)
            case "domain":
                return self.holds(("below", ("some", rest[0], OWL + "Thing"), rest[1]))
            case "range":
                return self.holds(("below", OWL + "Thing", ("only", rest[0], rest[1])))
            case "subproperty":
                return self._rows_within(self.rows(rest[0]), self.rows(rest[1]))
            case "same property":
                p, q = map(self.rows, rest)
                return both([self._rows_within(p, q), self._rows_within(q, p)])
            case "inverse":
                p, q = self.rows(rest[0]), self._turned(self.rows(rest[1]))
                return both([self._rows_within(p, q), self._rows_within(q, p)])
            case "symmetric":
                return self.holds(("inverse", rest[0], rest[0]))
            case "transitive":
                return self._rows_within(self.rows(("after", rest[0], rest[0])), self.rows(rest[0]))
            case "chain":
                first = rest[1]
                for link in rest[2:]:
                    first = ("after", first, link)
                return self._rows_within(self.rows(first), self.rows(rest[0]))
            case "reflexive":
                return self.holds(("below", OWL + "Thing", ("self", rest[0])))
            case "functional":
                return self.holds(("below", OWL + "Thing", ("max", 1, rest[0], OWL + "Thing")))
            case "inverse functional":
                rows = self._turned(self.rows(rest[0]))
                if any(low.bit_count() > 1 for low, _ in rows):
                    return False
                return True if all(high.bit_count() <= 1 for _, high in rows) else None
        raise AssertionError(f"no meaning is known for {claim}")

    def _within(self, x: Bounds, y: Bounds) -> bool | None:
        if x[0] & ~y[1]:
            return False
        return True if not x[1] & ~y[0] else None

    def _rows_within(self, p: list[Bounds], q: list[Bounds]) -> bool | None:
        return _and_all([self._within(a, b) for a, b in zip(p, q, strict=True)])

    def _turned(self, rows: list[Bounds]) -> list[Bounds]:
        return [
            tuple(  # type: ignore[misc]
                _union((row[k] >> e & 1) << d for d, row in enumerate(rows)) for k in (0, 1)
            )
            for e in range(self.size)
        ]


def _union(sets: Iterable[int]) -> int:
    found = 0
    for each in sets:
        found |= each
    return found


def _and_all(values: list[bool | None]) -> bool | None:
    if False in values:
        return False
    return None if None in values else True


def follows(premises: Iterable[tuple[Any, ...]], conclusion: tuple[Any, ...]) -> bool:
    """Whether no interpretation tried makes the premises true and the conclusion false."""
    names: dict[str, str] = {}
    claims = tuple(_renamed(claim, names) for claim in (conclusion, *premises))
    general = _with_unions_named(claims)
    return (general != claims and _follows(general)) or _follows(claims)


def _with_unions_named(claims: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same with a name for each union that is there twice or more.

    What follows whatever the members of such a class are, follows for the union; and a name has far
    fewer interpretations than a union of many classes.
    """
    listed = [union for claim in claims for union in _unions(claim)]
    named = {union: f"u{place}" for place, union in enumerate(dict.fromkeys(listed))}
    chosen = {union: name for union, name in named.items() if listed.count(union) > 1}

    def general(form: Any) -> Any:
        if not isinstance(form, tuple):
            return form
        return chosen.get(form) or (form[0], *map(general, form[1:]))

    return tuple(map(general, claims))


def _unions(form: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(form, tuple):
        if form[0] == "or":
            yield form
        for part in form[1:]:
            yield from _unions(part)


def _renamed(form: Any, names: dict[str, str]) -> Any:
    """The same with names that only tell terms apart."""
    if isinstance(form, tuple):
        return (form[0], *(_renamed(each, names) for each in form[1:]))
    if isinstance(form, int) or form in (OWL + "Thing", OWL + "Nothing"):
        return form
    return names.setdefault(form, f"n{len(names)}")


@cache
def _follows(claims: tuple[Any, ...]) -> bool:
    for size in (1, 2, 3):
        budget = [SEARCH_MAX if size == 3 else 10_000_000]
        if _has_counterexample(Interpretation(size), claims, budget):
            return False
        assert budget[0] > 0 or size == 3, f"too much to try for {claims}"
    return True


def _has_counterexample(world: Interpretation, claims: tuple[Any, ...], budget: list[int]) -> bool:
    budget[0] -= 1
    if budget[0] < 0:
        return False
    undecided = None
    for place, claim in enumerate(claims):  # the first of them is the conclusion
        value = world.holds(claim)
        if value is (place == 0):
            return False
        if value is None and undecided is None:
            undecided = claim
    if undecided is None:
        return True
    table, name = next(
        (table, name)
        for table, name in sorted(_atoms(undecided), key=lambda atom: _ORDER.index(atom[0]))
        if name not in getattr(world, table)
    )
    found: dict[str, Any] = getattr(world, table)
    options: Iterable[Any] = range(world.size)
    if table == "sets":
        options = range(world.all + 1)
    elif table == "pairs":
        options = product(range(world.all + 1), repeat=world.size)
    for option in options:
        found[name] = option
        if _has_counterexample(world, claims, budget):
            return True
    del found[name]
    return False


_ORDER = ("sets", "pairs", "places")
_ABOUT_PROPERTIES = {
    *("subproperty", "same property", "inverse", "chain", "symmetric", "transitive"),
    *("reflexive", "functional", "inverse functional"),
}


def _atoms(form: Any, table: str = "sets") -> Iterator[tuple[str, str]]:
    """The names in a claim or an expression, each with the table it is decided in."""
    if isinstance(form, str):
        if form not in (OWL + "Thing", OWL + "Nothing"):
            yield table, form
        return
    if isinstance(form, int):
        return
    kind, *rest = form
    if kind in _ABOUT_PROPERTIES or kind == "after":
        tables = ["pairs"] * len(rest)
    elif kind == "one":
        tables = ["places"]
    elif kind in ("some", "only", "self", "domain", "range"):
        tables = ["pairs", "sets"]
    elif kind in ("min", "max", "exactly"):
        tables = ["sets", "pairs", "sets"]
    else:
        tables = ["sets"] * len(rest)
    for each, where in zip(rest, tables, strict=False):
        yield from _atoms(each, where)


def judge(steps: Iterable[Any], graph: Graph) -> None:
    """Raise an AssertionError for the first step that does not hold."""
    listed = list(steps)
    for place, step in enumerate(listed):
        if step.is_asserted:
            assert graph.says(step.claim), f"no file says {step.claim}"
            continue
        assert all(premise < place for premise in step.premises), "a step rests on a later one"
        premises = [listed[premise].claim for premise in step.premises]
        assert follows(premises, step.claim), f"{step.rule}: {premises} do not give {step.claim}"
