"""The OWL 2 RL level: forward rules over classes, class expressions and individuals.

Written here rather than taken from a library because the one that was tried (`reasonable`) is sound
but leaves out property chains, keys, enumerations, cardinalities and most of the schema rules. The
rules are those of the OWL 2 RL/RDF tables, applied round by round until a round adds nothing:

1. Class nodes (named classes and expressions alike) are ordered: an intersection lies below its
   members, a union above them, and a restriction below another of the same form whose property and
   filler are wider (scm-int, -uni, -svf, -avf, -hv).
2. Statements are closed under the property rules (`statements.py`; prp-spo, -inv, -symp, -trp).
3. Types are closed: domains, ranges, upwards, and what each expression says of its members
   (cls-int, -svf, -avf, -hv, -oo).
4. Functional and inverse functional properties, keys and "at most one" make individuals the same
   (prp-fp, -ifp, -key; cls-maxc, -maxqc); the two are merged and the next round starts.

Each round only adds to finite sets or merges individuals, so the rounds end. An individual in a
class and its complement, or with a value where none is allowed, is a contradiction; disjointness
is checked by the compiler for all levels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations, product

from kbn.ontology.axioms import Axioms, Fact
from kbn.ontology.contradiction import Contradiction
from kbn.ontology.hierarchy import compile_hierarchy, lowest
from kbn.ontology.inverse_properties import subproperties_by_inverses
from kbn.ontology.statements import Rules, entailed
from kbn.ontology.vocabulary import NOTHING, THING

IGNORED = {
    "hasSelf",
    "hasValue of literals",
    "restrictions on inverses",
    "negative assertions",
    "disjoint properties",
    "asymmetric properties",
    "irreflexive properties",
    "reflexive properties",
    "subproperties of inverses",
    "property chains over inverses",
}
"""Constructs of `Axioms.beyond` this level does not use at all."""

PARTLY = {"someValuesFrom", "unionOf", "cardinality", "complementOf", "oneOf", "allValuesFrom"}
"""Constructs used in one direction only, as the profile defines."""


def reason_rl(axioms: Axioms) -> None:
    """Add to `axioms` what the RL rules entail about named terms."""
    axioms.subproperties |= subproperties_by_inverses(axioms)
    engine = _Engine(axioms)
    engine.run()
    engine.hand_over()


class _Engine:
    def __init__(self, axioms: Axioms) -> None:
        self.axioms = axioms
        self.expressions = axioms.expressions
        self.wider_properties = _closure(axioms.subproperties, axioms.properties)
        narrower = {(wide, narrow) for narrow, wide in axioms.subproperties}
        self.narrower_properties = _closure(narrower, axioms.properties)
        self.wider = self._order_classes()
        self.intersections_of: dict[str, list[str]] = defaultdict(list)
        for node, members in self.expressions.intersections.items():
            for member in members:
                self.intersections_of[member].append(node)
        self.leader: dict[str, str] = {}
        self.types: dict[str, set[str]] = defaultdict(set)
        self.facts: set[Fact] = set(axioms.facts)
        self.by_property: dict[str, list[tuple[str, str]]] = {}

    # Classes.

    def _order_classes(self) -> dict[str, set[str]]:
        """Node -> every node at or above it."""
        expressions, axioms = self.expressions, self.axioms
        pairs = expressions.pairs | axioms.subclasses | axioms.unfolded
        for node, members in expressions.intersections.items():
            pairs |= {(node, member) for member in members}
        for node, members in expressions.unions.items():
            pairs |= {(member, node) for member in members}
        while True:
            wider = _closure(pairs, axioms.classes)
            more = self._wider_restrictions(wider) - pairs
            if not more:
                return wider
            pairs |= more

    def _wider_restrictions(self, wider: dict[str, set[str]]) -> set[tuple[str, str]]:
        expressions = self.expressions
        found: set[tuple[str, str]] = set()
        above, below = self.wider_properties, self.narrower_properties
        somes, alls = _indexed(expressions.somes), _indexed(expressions.alls)
        values = _indexed(expressions.values)
        for one, (p, c) in expressions.somes.items():
            for q, d in product(above.get(p, (p,)), (*wider.get(c, (c,)), THING)):
                found.update((one, other) for other in somes.get((q, d), ()))
        for one, (p, c) in expressions.alls.items():
            for q, d in product(below.get(p, (p,)), wider.get(c, (c,))):
                found.update((one, other) for other in alls.get((q, d), ()))
        for one, (p, i) in expressions.values.items():
            for q in above.get(p, (p,)):
                found.update((one, other) for other in values.get((q, i), ()))
        return {pair for pair in found if pair[0] != pair[1]}

    # Individuals, round by round.

    def run(self) -> None:
        """Apply the rules until nothing is new."""
        axioms = self.axioms
        for one, other in axioms.same:
            self._merge(one, other)
        stated = axioms.types | axioms.members | self.expressions.types
        for individual, kind in stated:
            self.types[individual].add(kind)
        for node, members in self.expressions.enumerations.items():
            for member in members:
                self.types[member].add(node)
        while True:
            before = self._size()
            self._adopt_leaders()
            self._close_statements()
            self._close_types()
            merged = self._merge_by_rules()
            if not merged and self._size() == before:
                break
        self._check()

    def _size(self) -> tuple[int, int]:
        return len(self.facts), sum(map(len, self.types.values()))

    def _adopt_leaders(self) -> None:
        """Speak only of the leaders of merged individuals."""
        lead = self._lead
        self.facts = {(lead(s), p, lead(o)) for s, p, o in self.facts}
        types: dict[str, set[str]] = defaultdict(set)
        for individual, kinds in self.types.items():
            types[lead(individual)] |= kinds
        self.types = types

    def _close_statements(self) -> None:
        axioms = self.axioms
        numbers: dict[str, int] = {}
        names: list[str] = []

        def number(name: str) -> int:
            if name not in numbers:
                numbers[name] = len(names)
                names.append(name)
            return numbers[name]

        rules = Rules(
            {number(p): tuple(number(q) for q in qs) for p, qs in self.wider_properties.items()}
        )
        for one, other in axioms.inverses:
            rules.add_inverse(number(one), number(other))
        for name in axioms.symmetric:
            rules.add_inverse(number(name), number(name))
        for name in axioms.transitive:
            rules.steps[number(name)].add((number(name), number(name)))
        stated = [(number(s), number(p), number(o)) for s, p, o in self.facts]
        chains = [
            (tuple(number(link) for link in links), number(name))
            for name, links in sorted(axioms.chains)
        ]
        fresh = len(names)
        for links, wide in chains:
            if len(links) > 1:
                fresh = rules.add_chain(links, wide, fresh)
            else:
                rules.wider[links[0]] = (*rules.wider.get(links[0], ()), wide)
        found = entailed(stated, rules)
        total = len(names)
        self.facts = {(names[s], names[p], names[o]) for s, p, o in found if p < total}
        self.by_property = defaultdict(list)
        for s, p, o in self.facts:
            self.by_property[p].append((s, o))

    def _close_types(self) -> None:
        """Types until no rule adds one; `hasValue` may add statements for the next round."""
        expressions = self.expressions
        domains = expressions.domains | self.axioms.domains
        ranges = expressions.ranges | self.axioms.ranges
        for name, kind in domains:
            for subject, _ in self.by_property.get(name, ()):
                self.types[subject].add(kind)
        for name, kind in ranges:
            for _, node in self.by_property.get(name, ()):
                self.types[node].add(kind)
        changed = True
        while changed:
            before = sum(map(len, self.types.values()))
            for kinds in self.types.values():
                self._rise(kinds)
            self._apply_restrictions()
            changed = sum(map(len, self.types.values())) != before

    def _rise(self, kinds: set[str]) -> None:
        """Close one individual's types upwards and under intersections."""
        waiting = list(kinds)
        while waiting:
            kind = waiting.pop()
            for wide in self.wider.get(kind, ()):
                if wide not in kinds:
                    kinds.add(wide)
                    waiting.append(wide)
            for node in self.intersections_of.get(kind, ()):
                members = self.expressions.intersections[node]
                if node not in kinds and all(m in kinds or m == THING for m in members):
                    kinds.add(node)
                    waiting.append(node)

    def _apply_restrictions(self) -> None:
        expressions, types, lead = self.expressions, self.types, self._lead
        for node, (name, filler) in expressions.somes.items():
            for subject, value in self.by_property.get(name, ()):
                if filler == THING or filler in types.get(value, ()):
                    types[subject].add(node)
        for node, (name, filler) in expressions.alls.items():
            for subject, value in self.by_property.get(name, ()):
                if node in types.get(subject, ()):
                    types[value].add(filler)
        for node, (name, given) in expressions.values.items():
            wanted = lead(given)
            for subject, value in self.by_property.get(name, ()):
                if value == wanted:
                    types[subject].add(node)
            for subject, kinds in types.items():
                if node in kinds:
                    self.facts.add((subject, name, wanted))

    # Sameness.

    def _lead(self, individual: str) -> str:
        while individual in self.leader:
            individual = self.leader[individual]
        return individual

    def _merge(self, one: str, other: str) -> bool:
        one, other = self._lead(one), self._lead(other)
        if one == other:
            return False
        # Named individuals lead blank nodes, so that answers speak of names.
        first, second = sorted((one, other), key=lambda name: (name.startswith("_:"), name))
        self.leader[second] = first
        return True

    def _merge_by_rules(self) -> bool:
        merged = False
        for name in self.expressions.functional:
            merged |= self._merge_groups((s, o) for s, o in self.by_property.get(name, ()))
        for name in self.expressions.inverse_functional:
            merged |= self._merge_groups((o, s) for s, o in self.by_property.get(name, ()))
        for node, (name, number, filler) in self.expressions.at_most.items():
            if number == 1:
                merged |= self._merge_groups(
                    (s, o)
                    for s, o in self.by_property.get(name, ())
                    if node in self.types.get(s, ())
                    and (filler == THING or filler in self.types.get(o, ()))
                )
        for node, names in self.expressions.keys:
            merged |= self._merge_by_key(node, names)
        return merged

    def _merge_groups(self, pairs: Iterable[tuple[str, str]]) -> bool:
        first: dict[str, str] = {}
        merged = False
        for key, individual in pairs:
            merged |= self._merge(first.setdefault(key, individual), individual)
        return merged

    def _merge_by_key(self, node: str, names: tuple[str, ...]) -> bool:
        held: dict[str, list[set[str]]] = {}
        for individual, kinds in self.types.items():
            if node in kinds and not individual.startswith("_:"):
                values = [
                    {o for s, o in self.by_property.get(name, ()) if s == individual}
                    for name in names
                ]
                if values and all(values):
                    held[individual] = values
        merged = False
        for one, other in combinations(sorted(held), 2):
            if all(a & b for a, b in zip(held[one], held[other], strict=True)):
                merged |= self._merge(one, other)
        return merged

    def _check(self) -> None:
        wrong: list[str] = []
        for individual, kinds in self.types.items():
            for node, other in self.expressions.complements.items():
                if node in kinds and other in kinds:
                    wrong.append(f"<{individual}> is in <{other}> and in its complement")
            if NOTHING in kinds:
                wrong.append(f"<{individual}> is in owl:Nothing")
        for node, (name, number, filler) in self.expressions.at_most.items():
            if number == 0:
                wrong += [
                    f"<{s}> may have no value of <{name}> but has <{o}>"
                    for s, o in self.by_property.get(name, ())
                    if node in self.types.get(s, ())
                    and (filler == THING or filler in self.types.get(o, ()))
                ]
        if wrong:
            dead = (name for name in self.axioms.classes if NOTHING in self.wider[name])
            raise Contradiction(wrong, {*self.axioms.unsatisfiable, *dead})

    def hand_over(self) -> None:
        """Give the axioms what was found about named terms."""
        axioms = self.axioms
        axioms.same |= set(self.leader.items())
        axioms.facts |= self.facts
        for individual, kinds in self.types.items():
            axioms.individuals.add(individual)
            axioms.types |= {(individual, kind) for kind in kinds & axioms.classes}
        above = {name: self.wider[name] & axioms.classes for name in axioms.classes}
        for name in axioms.classes:
            if NOTHING in self.wider[name]:
                axioms.unsatisfiable.add(name)
            axioms.subclasses.update((name, wider) for wider in lowest(name, above))


def _indexed(restrictions: dict[str, tuple[str, str]]) -> dict[tuple[str, str], list[str]]:
    """(property, filler) -> the nodes that stand for that restriction."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for node, key in restrictions.items():
        found[key].append(node)
    return found


def _closure(pairs: set[tuple[str, str]], names: set[str]) -> dict[str, set[str]]:
    """Name -> every name at or above it, for the reflexive-transitive closure of `pairs`."""
    listed = sorted(names | {name for pair in pairs for name in pair})
    ids = {name: number for number, name in enumerate(listed)}
    tree = compile_hierarchy(len(listed), [(ids[a], ids[b]) for a, b in pairs])
    return {name: {listed[i] for i in tree.above(number)} for name, number in ids.items()}
