"""Proofs: how a claim follows from what the files say, found again when somebody asks.

A load keeps no trace of how it found what it found: that would cost every load for what few ask.
So the question is answered by rules of its own, which work forward from the one class that is
asked about and from whatever it leads to, and note for each claim the rule and the claims that it
came from. The first derivation stays, so a proof never rests on itself, and it is a short one
because claims are taken in the order in which they were found.

The rules are those of the levels `rdfs`, `rl` and `el` together (`rules_rl.py` and `rules_el.py`
explain them). Only what the compiled ontology holds is ever asked, so that a rule of another level
can shorten a proof and can never add to what holds. At `none` and `rdfs` only their own rules run.
"""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import combinations
from typing import Any

from kbn.errors import LimitError
from kbn.ontology.forms import Form, all_of, is_one, one
from kbn.ontology.property_rules import PropertyRules, Why
from kbn.ontology.told import Claim, Told
from kbn.ontology.vocabulary import NOTHING, THING

CLAIMS_MAX = 5_000_000
"""How many claims may be looked at for one answer."""

ASSERTED = "asserted"


class Prover:
    """Derivations of claims; it remembers what it found for the next question."""

    def __init__(self, told: Told, level: str) -> None:
        self._told = told
        self._written_only = level == "none"
        self._full = level not in ("none", "rdfs")
        self.why: Why = {}
        """Claim -> the rule and what it was applied to."""
        self._queue: deque[tuple[Form, Form]] = deque()
        self._above: dict[Form, dict[Form, None]] = defaultdict(dict)
        self._back: dict[Form, dict[tuple[Form, Form], None]] = defaultdict(dict)
        """y -> the (x, p) with x below "p some y"; only those that lead somewhere."""
        self._followers: dict[Form, dict[Form, None]] = defaultdict(dict)
        """Individual -> the x that are below it, and so below all it is below."""
        self._only_back: dict[Form, list[tuple[Form, Form]]] = defaultdict(list)
        self._started_individuals = False
        self._open_unions: dict[Form, None] = {}
        self._closed_unions: dict[Form, list[tuple[Form, Claim]]] = defaultdict(list)
        for claim in told.places:
            self.why[claim] = (ASSERTED, ())
        self._index_expressions()
        self._properties = PropertyRules(told, self.why, full=self._full)

    # Questions.

    def prove(self, claim: Claim) -> bool:
        """Whether a proof of `claim` is found, one of ("below", x, y) and ("subproperty", p, q)."""
        word, first, second = claim
        if claim in self.why:
            return True
        if word == "subproperty":
            return (second in self._properties.supers(str(first))) if first != second else False
        assert isinstance(first, (str, tuple)) and isinstance(second, (str, tuple))
        if second == THING:
            self.why[claim] = ("everything is a Thing", ())
        elif first == NOTHING:
            self.why[claim] = ("Nothing is a kind of everything", ())
        self._start(first)
        self._run(claim)
        return claim in self.why

    # Work.

    def _run(self, goal: Claim) -> None:
        while goal not in self.why:
            if self._queue:
                self._take(*self._queue.popleft())
                continue
            if self._full:
                self._close_unions()
                self._merge_by_keys()
            if not self._queue:
                return

    def _start(self, x: Form) -> None:
        if x in self._above:
            return
        self._above[x] = {}
        self._below(x, x, "itself")
        if self._full:
            self._below(x, THING, "everything is a Thing")
        if is_one(x) and not self._started_individuals:
            self._started_individuals = True
            for individual in sorted(self._told.axioms.individuals):
                self._start(one(individual))

    def _below(self, x: Form, y: Form, rule: str, *premises: Claim) -> None:
        claim = ("below", x, y)
        if x != y:
            if claim not in self.why:
                if len(self.why) > CLAIMS_MAX:
                    raise LimitError(
                        f"more than {CLAIMS_MAX:,} steps were tried",
                        limit="CLAIMS_MAX",
                        maximum=CLAIMS_MAX,
                    )
                self.why[claim] = (rule, tuple(dict.fromkeys(p for p in premises if not _idle(p))))
            elif y in self._above[x]:
                return
        if y not in self._above[x]:
            self._above[x][y] = None
            self._queue.append((x, y))

    def _take(self, x: Form, c: Form) -> None:
        """Everything that follows at once from x being below c."""
        held = ("below", x, c)
        for d, claim in self._told.above.get(c, ()):
            self._climb(x, c, d, claim)
        for d, claim in self._closed_unions.get(c, ()):
            self._climb(x, c, d, claim)
        for z in self._followers.get(x, ()):
            self._below(z, c, "subclass", ("below", z, x), held)
        if self._written_only:
            self._take_link(x, c, held)
            return
        for union in self._unions_of.get(c, ()):
            self._below(x, union, "part of a union", held)
        if isinstance(c, tuple):
            self._take_expression(x, c, held)
        if not self._full:
            return
        for whole in self._intersections_of.get(c, ()):
            if all(part in self._above[x] for part in whole[1:]):
                proofs = (("below", x, part) for part in whole[1:])
                self._below(x, whole, "all parts of an intersection", *proofs)
        self._take_as_filler(x, c)
        self._check(x, c, held)
        for p in sorted(self._told.axioms.reflexive) if c == THING else ():
            self._below(x, ("self", p), "reflexive property", ("reflexive", p))

    def _climb(self, x: Form, c: Form, d: Form, claim: Claim) -> None:
        if claim[0] == "equivalent":
            rule = "same" if is_one(c) and is_one(d) else "equivalence"
            self._below(x, d, rule, ("below", x, c), claim)
        elif x == c:
            self._below(x, d, ASSERTED)
        else:
            self._below(x, d, "subclass", ("below", x, c), claim)

    def _take_expression(self, x: Form, c: tuple[Any, ...], held: Claim) -> None:
        match c[0]:
            case "and":
                for part in c[1:]:
                    self._below(x, part, "part of an intersection", held)
            case "or":
                if self._full:
                    self._open_unions.setdefault(c)
                    for part in c[1:]:
                        self._start(part)
            case "some":
                self._take_link(x, c, held)
            case "one":
                self._take_individual(x, c, held)
            case "only" if self._full:
                self._take_only(x, c, held)
            case "self" if self._full:
                self._take_self(x, c, held)
            case "min" | "max" | "exactly" if self._full:
                self._take_bound(x, c, held)

    # Individuals.

    def _take_individual(self, x: Form, c: Form, held: Claim) -> None:
        """x is below an individual: below all that it is below, and the same if x is one."""
        if x == c:
            return
        self._start(c)
        self._followers[c].setdefault(x)
        for d in list(self._above[c]):
            self._below(x, d, "same" if is_one(x) else "subclass", held, ("below", c, d))
        if is_one(x):
            self._below(c, x, "same the other way round", held)
            for z, p in list(self._back[x]):
                if is_one(z):
                    linked = ("below", z, ("some", p, x))
                    self._below(z, ("some", p, c), "same value", linked, held)

    # Links: x is below "p some y".

    def _take_link(self, x: Form, c: Form, held: Claim) -> None:
        if not (isinstance(c, tuple) and c[0] == "some"):
            return
        _, p, y = c
        among_individuals = is_one(x) and is_one(y)
        if not (self._full or among_individuals):
            return
        for q, claim in self._told.wider.get(p, ()):
            self._below(x, ("some", q, y), "subproperty", held, claim)
        for q, claim in self._properties.more_wider.get(p, ()):
            self._below(x, ("some", q, y), "subproperty", held, claim)
        if self._written_only:
            for z, claim in self._told.above.get(y, ()):
                if is_one(z) and claim[0] == "equivalent":
                    self._below(x, ("some", p, z), "same value", held, claim)
            return
        self._start(y)
        self._back[y][x, p] = None
        for kind, claim in self._properties.domains.get(p, ()):
            self._below(x, kind, "domain", held, claim)
        self._take_range(x, p, y, held, among_individuals)
        if among_individuals:
            self._take_statement(x, p, y, held)
        if self._full:
            for d in list(self._above[y]):
                self._below_filler(x, p, y, d)
            if ("min", 1, p, y) in self._told.known:
                self._below(x, ("min", 1, p, y), "at least one", held)
        self._take_chains(x, p, y, held)

    def _take_range(self, x: Form, p: Form, y: Form, held: Claim, among_individuals: bool) -> None:
        missing: dict[Form, tuple[Claim, ...]] = {}
        for q in self._properties.supers(p) if isinstance(p, str) else ():
            for kind, claim in self._properties.ranges.get(q, ()):
                if kind not in self._above[y]:
                    way = () if p == q else (("subproperty", p, q),)
                    missing.setdefault(kind, (*way, claim))
        if among_individuals:
            for kind, claims in missing.items():
                self._below(y, kind, "range", held, *claims)
        elif missing:
            inside = y[1:] if isinstance(y, tuple) and y[0] == "and" else (y,)
            within = all_of((*inside, *missing))
            self._intersections_of_new(within)
            premises = [claim for claims in missing.values() for claim in claims]
            self._below(x, ("some", p, within), "range", held, *premises)

    def _take_statement(self, x: Form, p: Form, y: Form, held: Claim) -> None:
        for q, claim in self._told.inverses.get(str(p), ()):
            self._below(y, ("some", q, x), "inverse", held, claim)
        if ("symmetric", p) in self.why:
            self._below(y, ("some", p, x), "symmetry", held, ("symmetric", p))
        for other in [kind for kind in self._above[y] if is_one(kind) and kind != y]:
            self._below(x, ("some", p, other), "same value", held, ("below", y, other))
        if not self._full:
            return
        for word, subject, is_subject in (
            ("functional", x, True),
            ("inverse functional", y, False),
        ):
            if (word, p) in self.why:
                self._merge_values(word, subject, p, y if is_subject else x, held, is_subject)
        for kind in list(self._above[x]):
            if isinstance(kind, tuple) and kind[0] == "only" and kind[1] == p:
                self._below(y, kind[2], "only such values", ("below", x, kind), held)
            elif isinstance(kind, tuple) and kind[:3] == ("max", 1, p):
                self._merge_at_most_one(x, kind)
        if x == y and ("self", p) in self._told.known:
            self._below(x, ("self", p), "has itself as a value", held)

    def _merge_values(
        self, word: str, subject: Form, p: Form, value: Form, held: Claim, forward: bool
    ) -> None:
        """Two values of a functional property are one; two subjects of an inverse functional."""
        others = self._values(subject, p) if forward else self._subjects(subject, p)
        for other in others:
            if other != value:
                also = (
                    ("below", subject, ("some", p, other))
                    if forward
                    else ("below", other, ("some", p, subject))
                )
                self._below(value, other, f"{word} property", held, also, (word, p))

    def _values(self, x: Form, p: Form) -> list[Form]:
        return [
            kind[2]
            for kind in self._above[x]
            if isinstance(kind, tuple) and kind[:2] == ("some", p) and is_one(kind[2])
        ]

    def _subjects(self, y: Form, p: Form) -> list[Form]:
        return [x for x, q in self._back[y] if q == p and is_one(x)]

    def _take_chains(self, x: Form, p: Form, y: Form, held: Claim) -> None:
        for q, wide, claim in self._properties.chains.get(p, ()):
            for kind in list(self._above[y]):
                if isinstance(kind, tuple) and kind[:2] == ("some", q):
                    self._compose(x, wide, kind[2], held, ("below", y, kind), claim)
        for q, wide, claim in self._properties.chains_back.get(p, ()):
            for w, first in list(self._back[x]):
                if first == q:
                    self._compose(w, wide, y, ("below", w, ("some", q, x)), held, claim)

    def _compose(
        self, x: Form, wide: Form, z: Form, first: Claim, second: Claim, claim: Claim | None
    ) -> None:
        if claim is None:
            self._below(x, ("some", wide, z), "one after the other", first, second)
        else:
            rule = "transitivity" if claim[0] == "transitive" else "property chain"
            self._below(x, ("some", wide, z), rule, first, second, claim)

    # What expressions say.

    def _take_self(self, x: Form, c: tuple[Any, ...], held: Claim) -> None:
        p = str(c[1])
        self._below(x, ("some", p, x), "has itself as a value", held)
        for q in self._properties.supers(p):
            if ("self", q) in self._told.known and q != p:
                self._below(x, ("self", q), "subproperty", held, ("subproperty", p, q))

    def _take_only(self, x: Form, c: tuple[Any, ...], held: Claim) -> None:
        _, p, filler = c
        if is_one(x):
            for y in self._values(x, p):
                self._below(y, filler, "only such values", held, ("below", x, ("some", p, y)))
        self._start(filler)
        self._only_back[filler].append((x, p))
        for d in list(self._above[filler]):
            self._below_only(x, p, filler, d)

    def _below_only(self, x: Form, p: Form, filler: Form, d: Form) -> None:
        for q in self._onlys.get(d, ()):
            if p in self._properties.supers(str(q)):
                way = () if p == q else (("subproperty", q, p),)
                held = ("below", x, ("only", p, filler))
                premises = (held, ("below", filler, d), *way)
                self._below(x, ("only", q, d), "wider values", *premises)

    def _take_bound(self, x: Form, c: tuple[Any, ...], held: Claim) -> None:
        word, number, p, filler = c
        if word == "exactly":
            self._below(x, ("min", number, p, filler), "exactly so many", held)
            self._below(x, ("max", number, p, filler), "exactly so many", held)
        elif word == "min" and isinstance(number, int) and number >= 1:
            self._below(x, ("some", p, filler), "at least one", held)
        elif word == "max" and number == 1 and is_one(x):
            self._merge_at_most_one(x, c)

    def _merge_at_most_one(self, x: Form, c: tuple[Any, ...]) -> None:
        _, _, p, filler = c
        fitting = [
            y for y in self._values(x, p) if filler == THING or filler in self._above.get(y, ())
        ]
        for y, z in combinations(fitting, 2):
            kinds = () if filler == THING else (("below", y, filler), ("below", z, filler))
            links = (("below", x, ("some", p, y)), ("below", x, ("some", p, z)))
            self._below(y, z, "at most one value", ("below", x, c), *links, *kinds)

    def _take_as_filler(self, y: Form, c: Form) -> None:
        """y is below c: who has a value in y has one in c, and who has only y has only c."""
        for x, p in list(self._back[y]):
            self._below_filler(x, p, y, c)
            if is_one(x) and is_one(y):
                for kind in list(self._above[x]):
                    if isinstance(kind, tuple) and kind == ("max", 1, p, c):
                        self._merge_at_most_one(x, kind)
        for x, p in list(self._only_back.get(y, ())):
            self._below_only(x, p, y, c)

    def _below_filler(self, x: Form, p: Form, y: Form, c: Form) -> None:
        wanted = ("some", p, c)
        held, filled = ("below", x, ("some", p, y)), ("below", y, c)
        if c == NOTHING:
            self._below(x, NOTHING, "a value that cannot be", held, filled)
        elif c != y and (wanted in self._told.known or (is_one(c) and is_one(x))):
            self._below(x, wanted, "wider value", held, filled)

    def _check(self, x: Form, c: Form, held: Claim) -> None:
        for other, claim in self._told.disjoint.get(c, ()):
            if other in self._above[x]:
                self._below(x, NOTHING, "disjoint classes", held, ("below", x, other), claim)
        inside = c[1] if isinstance(c, tuple) and c[0] == "not" else ("not", c)
        if inside in self._above[x]:
            self._below(x, NOTHING, "a class and its complement", held, ("below", x, inside))

    def _close_unions(self) -> None:
        """Put each union below what all its members are below."""
        for union in list(self._open_unions):
            members = union[1:]
            possible = [m for m in members if NOTHING not in self._above[m]] or [members[0]]
            common = set(self._above[possible[0]]).intersection(*(self._above[m] for m in possible))
            done = {kind for kind, _ in self._closed_unions[union]}
            for kind in sorted(common - done - {union, THING}, key=repr):
                claims = tuple(
                    ("below", m, kind if m in possible else NOTHING) for m in members if m != kind
                )
                claim = ("below", union, kind)
                self.why.setdefault(claim, ("every part of a union", claims))
                self._closed_unions[union].append((kind, claim))
                for x in [each for each, above in self._above.items() if union in above]:
                    self._climb(x, union, kind, claim)

    def _merge_by_keys(self) -> None:
        for kind, names, claim in self._told.keys if self._started_individuals else ():
            named = [
                x
                for x, above in self._above.items()
                if is_one(x) and kind in above and not str(x[1]).startswith("_:")
            ]
            for x, y in combinations(named, 2):
                shared = [set(self._values(x, p)) & set(self._values(y, p)) for p in names]
                if all(shared) and shared:
                    premises: list[Claim] = [("below", x, kind), ("below", y, kind), claim]
                    for p, values in zip(names, shared, strict=True):
                        value = min(values, key=repr)
                        premises += [("below", each, ("some", p, value)) for each in (x, y)]
                    self._below(x, y, "key", *premises)

    # Set-up.

    def _index_expressions(self) -> None:
        self._intersections_of: dict[Form, list[tuple[Form, ...]]] = defaultdict(list)
        self._unions_of: dict[Form, list[Form]] = defaultdict(list)
        self._onlys: dict[Form, list[Form]] = defaultdict(list)
        for form in sorted(self._told.known, key=repr):
            if isinstance(form, tuple) and form[0] == "or":
                for part in form[1:]:
                    self._unions_of[part].append(form)
            elif isinstance(form, tuple) and form[0] == "and":
                self._intersections_of_new(form)
            elif isinstance(form, tuple) and form[0] == "only":
                self._onlys[form[2]].append(form[1])

    def _intersections_of_new(self, form: Form) -> None:
        if form in self._told.known and isinstance(form, tuple) and form[0] == "and":
            for part in form[1:]:
                if form not in self._intersections_of[part]:
                    self._intersections_of[part].append(form)


def _idle(claim: Claim) -> bool:
    """Whether a claim says nothing: x is below x."""
    return claim[0] == "below" and (claim[1] == claim[2])
