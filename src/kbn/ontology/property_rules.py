"""What follows for properties alone, before any class is looked at; part of `proving.py`.

Inverses turn domains into ranges and ranges into domains, and pass on subproperties and
transitivity. A chain of many links is cut into steps of two.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import product

from kbn.ontology.forms import Form
from kbn.ontology.told import Above, Claim, Told

Why = dict[Claim, tuple[str, tuple[Claim, ...]]]
"""Claim -> the rule and what it was applied to."""
Chains = dict[Form, list[tuple[Form, Form, Claim | None]]]


class PropertyRules:
    """The domains, ranges, chains and wider properties, each with the claim that says so."""

    def __init__(self, told: Told, why: Why, *, full: bool) -> None:
        self._told, self._why = told, why
        self.domains: Above = {p: list(found) for p, found in told.domains.items()}
        self.ranges: Above = {p: list(found) for p, found in told.ranges.items()}
        self.more_wider: dict[Form, list[tuple[str, Claim]]] = defaultdict(list)
        """Wider properties that no subproperty axiom gives."""
        self.chains: Chains = defaultdict(list)
        """p -> the (q, r) with p and then q making r; no claim where r is just that."""
        self.chains_back: Chains = defaultdict(list)
        """q -> the (p, r) of the same."""
        self._supers: dict[str, dict[str, None]] = {}
        if full:
            self._turn_round()
        for p in sorted(told.axioms.transitive):
            self._add_chain(p, p, p, ("transitive", p))
        for links, wide, claim in told.chains:
            self._cut(links, wide, claim)

    def supers(self, p: str) -> dict[str, None]:
        """The properties at or above p, each with its proof noted."""
        if p not in self._supers:
            found = [p]
            for q in found:  # grows while it is walked: breadth first
                for r, claim in (*self._told.wider.get(q, ()), *self.more_wider.get(q, ())):
                    if r not in found:
                        found.append(r)
                        way = () if p == q else (("subproperty", p, q),)
                        self._note(("subproperty", p, r), "subproperty", *way, claim)
            self._supers[p] = dict.fromkeys(found)
        return self._supers[p]

    def _note(self, claim: Claim, rule: str, *premises: Claim) -> Claim:
        self._why.setdefault(claim, (rule, premises))
        return claim

    def _cut(self, links: tuple[str, ...], wide: str, claim: Claim) -> None:
        first: Form = links[0]
        if len(links) == 1:
            self.more_wider[first].append((wide, claim))
            return
        for link in links[1:-1]:
            after = ("after", first, link)
            self._add_chain(first, link, after, None)
            first = after
        self._add_chain(first, links[-1], wide, claim)

    def _add_chain(self, first: Form, second: Form, wide: Form, claim: Claim | None) -> None:
        self.chains[first].append((second, wide, claim))
        self.chains_back[second].append((first, wide, claim))

    def _turn_round(self) -> None:
        told = self._told
        turned = {p: list(found) for p, found in told.inverses.items()}
        for p in sorted(told.axioms.symmetric):
            turned.setdefault(p, []).append((p, ("symmetric", p)))
        for p, inverses in turned.items():
            for q, inverse in inverses:
                self._turn_ends(p, q, inverse)
        # What is found in one round may make more properties wider in the next.
        while any([self._turn_order(p, turned) for p in turned]):
            self._supers.clear()

    def _turn_order(self, p: str, turned: dict[str, list[tuple[str, Claim]]]) -> bool:
        """Put the inverses of p below those of the properties at or above it; if any is new."""
        found = False
        for wide in self.supers(p):
            way = () if p == wide else (("subproperty", p, wide),)
            for (q, inverse), (other, also) in product(turned[p], turned.get(wide, ())):
                if q != other and other not in self.supers(q):
                    found = True
                    claim = self._note(("subproperty", q, other), "inverse", inverse, *way, also)
                    self.more_wider[q].append((other, claim))
                    self._supers.clear()
        return found

    def _turn_ends(self, p: str, q: str, inverse: Claim) -> None:
        for kind, claim in self._told.domains.get(p, ()):
            found = self._note(("range", q, kind), "inverse", claim, inverse)
            self.ranges.setdefault(q, []).append((kind, found))
        for kind, claim in self._told.ranges.get(p, ()):
            found = self._note(("domain", q, kind), "inverse", claim, inverse)
            self.domains.setdefault(q, []).append((kind, found))
        if p in self._told.axioms.transitive and q not in self._told.axioms.transitive:
            claim = self._note(("transitive", q), "inverse", ("transitive", p), inverse)
            self._add_chain(q, q, q, claim)
