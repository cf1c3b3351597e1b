"""The OWL 2 EL level: classification by saturation, as ELK and its relatives do it.

Written here because the library that was tried (`py-whelk`) crashes the interpreter. Every concept
(a named class, a class expression, an individual as the class of itself) has a growing set of
subsumers S(x) and links x -r-> y ("some r of x is a y"). Starting from S(x) = {x}, these rules run
until nothing is new:

    c in S(x), c ⊑ d                                   →  d in S(x)
    all members of intersection n in S(x)              →  n in S(x)     (and n's members if n is)
    (∃r.c) in S(x)                                     →  x -r-> c
    x -r-> y, c in S(y), n = ∃r'.c, r ⊑ r'             →  n in S(x)
    x -r-> y, y -s-> z, r ∘ s ⊑ t                      →  x -t-> z
    x -r-> y, domain of r is c                         →  c in S(x)
    x -r-> y, Nothing in S(y)                          →  Nothing in S(x)
    two disjoint classes in S(x)                       →  Nothing in S(x)
    (∃r.Self) in S(x)                                  →  x -r-> x, and (∃r'.Self) in S(x), r ⊑ r'
    r reflexive                                        →  (∃r.Self) in S(x)

A range is met by linking to "y and the range" instead of y. Individuals are nominals, safely:
their types and statements are subsumers and links of their own concept, and two whose concepts
subsume each other are the same.

Some of what EL leaves out costs next to nothing and is sound, so it is read as well:

- what all members of a union (or of an enumeration) are below, the union is below;
- the range of a property is a domain of its inverse, and the other way round; the inverses of
  subproperties and of transitive properties are so, too; a link between two individuals has its
  inverse;
- "at least one" is an existential, "at least n" lies below one.

What there is no rule for (universals, complements, functional properties, most of what
cardinalities and inverses say) is left out here and stated.
"""

from __future__ import annotations

from collections import defaultdict

from kbn.ontology.axioms import Axioms
from kbn.ontology.contradiction import Contradiction
from kbn.ontology.hierarchy import Hierarchy, compile_hierarchy, lowest
from kbn.ontology.inverse_properties import subproperties_by_inverses
from kbn.ontology.vocabulary import NOTHING, THING

IGNORED = {
    "allValuesFrom",
    "hasKey",
    "hasValue of literals",
    "restrictions on inverses",
    "functional properties",
    "inverse functional properties",
    "asymmetric properties",
    "irreflexive properties",
    "disjoint properties",
    "negative assertions",
    "subproperties of inverses",
    "property chains over inverses",
}
PARTLY = {"unionOf", "oneOf", "cardinality", "complementOf", "inverse properties"}


def reason_el(axioms: Axioms) -> None:
    """Add to `axioms` the subclass, type and statement axioms EL saturation finds."""
    axioms.subproperties |= subproperties_by_inverses(axioms)
    saturation = _Saturation(axioms)
    saturation.run()
    saturation.hand_over()


class _Saturation:
    """Concepts are ints; `names[i]` is a class or node IRI, or an individual's behind a NUL."""

    def __init__(self, axioms: Axioms) -> None:
        self.axioms = axioms
        self.ids: dict[str, int] = {}
        self.names: list[str] = []
        self.bottom = self.concept(NOTHING)
        self.thing = self.concept(THING)
        self.started: set[int] = set()
        self.above: dict[int, list[int]] = defaultdict(list)
        self.conjunctions: dict[int, dict[int, list[tuple[int, frozenset[int]]]]] = {}
        """One member -> another -> the intersections of both, each with all its members."""
        self.links_of: dict[int, tuple[int, int]] = {}
        self.existentials: dict[int, dict[int, int]] = defaultdict(dict)
        """filler -> property -> the node ∃property.filler."""
        self.groups_of: dict[int, list[int]] = defaultdict(list)
        self._read_properties()
        self._read_classes()
        self._read_individuals()
        self.subsumers: list[set[int]] = []
        self.links: list[dict[int, set[int]]] = []
        """x -> property -> the y linked to; `back` is the same the other way."""
        self.fillers: list[list[int]] = []
        """x -> the members of S(x) that are fillers of some existential."""
        self.back: list[dict[int, set[int]]] = []
        self.todo: list[tuple[int, int]] = []
        self.aux: dict[tuple[int, frozenset[int]], int] = {}
        """(a concept, ranges) -> the concept that is all of them; `narrowed` the other way."""
        self.narrowed: dict[int, tuple[int, frozenset[int]]] = {}

    def concept(self, name: str) -> int:
        number = self.ids.get(name)
        if number is None:
            number = self.ids[name] = len(self.names)
            self.names.append(name)
        return number

    def individual(self, iri: str) -> int:
        return self.concept("\x00" + iri)

    def _read_properties(self) -> None:
        axioms = self.axioms
        listed = sorted(axioms.properties)
        self.property_names = listed
        self.property_ids = {name: number for number, name in enumerate(listed)}
        ids = self.property_ids
        self.inverses = self._read_inverses()
        pairs = [(ids[a], ids[b]) for a, b in axioms.subproperties if {a, b} <= ids.keys()]
        tree = compile_hierarchy(len(listed), pairs)
        self.wider = [tree.above(number) for number in range(len(listed))]
        self.chains: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.chains_back: dict[int, list[tuple[int, int]]] = defaultdict(list)
        transitive = {ids[name] for name in axioms.transitive & ids.keys()}
        for number in transitive.union(*(self.inverses.get(one, ()) for one in transitive)):
            self._chain(number, number, number)
        for name, links in axioms.chains:
            self._long_chain([ids[link] for link in links], ids[name])
        self._read_domains(tree)

    def _read_inverses(self) -> dict[int, set[int]]:
        """Property -> its inverses; a symmetric one is its own."""
        ids, found = self.property_ids, defaultdict(set)
        for one, other in self.axioms.inverses | {(name, name) for name in self.axioms.symmetric}:
            if one in ids and other in ids:
                found[ids[one]].add(ids[other])
                found[ids[other]].add(ids[one])
        return dict(found)

    def _read_domains(self, tree: Hierarchy) -> None:
        axioms, expressions, ids = self.axioms, self.axioms.expressions, self.property_ids
        self.domains: dict[int, set[int]] = defaultdict(set)
        self.ranges: dict[int, set[int]] = defaultdict(set)
        for name, kind in expressions.domains | axioms.domains:
            if name in ids:
                self._read_domain(ids[name], kind)
                for inverse in self.inverses.get(ids[name], ()):
                    self._read_range(inverse, kind, tree)
        for name, kind in expressions.ranges | axioms.ranges:
            if name in ids:
                self._read_range(ids[name], kind, tree)
                for inverse in self.inverses.get(ids[name], ()):
                    self._read_domain(inverse, kind)

    def _read_domain(self, number: int, kind: str) -> None:
        if kind != THING:
            self.domains[number].add(self.concept(kind))

    def _read_range(self, number: int, kind: str, tree: Hierarchy) -> None:
        if kind in self.axioms.classes or kind.startswith("_:"):
            for narrower in tree.below(number):
                self.ranges[narrower].add(self.concept(kind))

    def _long_chain(self, links: list[int], wide: int) -> None:
        if len(links) == 1:
            self.wider[links[0]] = sorted({*self.wider[links[0]], *self.wider[wide]})
            return
        first = links[0]
        for link in links[1:-1]:
            fresh = len(self.wider)
            self.wider.append([fresh])
            self._chain(first, link, fresh)
            first = fresh
        self._chain(first, links[-1], wide)

    def _chain(self, first: int, second: int, wide: int) -> None:
        self.chains[first].append((second, wide))
        self.chains_back[second].append((first, wide))

    def _read_classes(self) -> None:
        axioms, expressions, concept = self.axioms, self.axioms.expressions, self.concept
        for name in sorted(axioms.classes):
            concept(name)
        for node, (name, filler) in expressions.somes.items():
            if name in self.property_ids:
                self._existential(node, self.property_ids[name], concept(filler))
        for node, (name, one) in expressions.values.items():
            if name in self.property_ids:
                self._existential(node, self.property_ids[name], self.individual(one))
        self._read_at_least()
        self._read_selves()
        for narrower, wider in expressions.pairs | axioms.subclasses | axioms.unfolded:
            if wider != THING:
                self.above[concept(narrower)].append(concept(wider))
        for node, members in expressions.intersections.items():
            own = concept(node)
            parts = frozenset(concept(member) for member in members if member != THING)
            self.above[own].extend(parts)
            self._conjunction(own, parts)
        for node, members in expressions.unions.items():
            for member in members:
                self.above[concept(member)].append(concept(node))
        for node, members in expressions.enumerations.items():
            for member in members:
                self.above[self.individual(member)].append(concept(node))
            if len(members) == 1:
                self.above[concept(node)].append(self.individual(members[0]))
        for number, group in enumerate(sorted(axioms.disjoint)):
            for name in group:
                self.groups_of[concept(name)].append(number)
        for name in axioms.unsatisfiable:
            self.above[concept(name)].append(self.bottom)

    def _read_at_least(self) -> None:
        expressions = self.axioms.expressions
        for node, (name, number, filler) in expressions.at_least.items():
            if name in self.property_ids and number >= 1:
                some = f"\x02some of {node}"
                self._existential(some, self.property_ids[name], self.concept(filler))
                self.above[self.concept(node)].append(self.ids[some])
                if number == 1 and node not in expressions.exact:
                    self.above[self.ids[some]].append(self.concept(node))

    def _read_selves(self) -> None:
        """Every ∃r.Self that is asked about is a concept; nodes for the same one are joined."""
        self.self_of: dict[int, int] = {}
        """Property -> the concept ∃property.Self."""
        reflexive = {
            self.property_ids[name] for name in self.axioms.reflexive & self.property_ids.keys()
        }
        selves = self.axioms.expressions.selves
        asked = {self.property_ids[name] for name in selves.values() if name in self.property_ids}
        wide = {wider for one in asked | reflexive for wider in self.wider[one]}
        for number in asked | reflexive | wide:
            self.self_of[number] = self.concept(f"\x03self {number}")
        for number, own in self.self_of.items():
            self.above[own].extend(self.self_of[wider] for wider in self.wider[number])
        for node, name in selves.items():
            if name in self.property_ids:
                own = self.self_of[self.property_ids[name]]
                self.above[self.concept(node)].append(own)
                self.above[own].append(self.concept(node))
        self.above[self.thing].extend(self.self_of[number] for number in reflexive)
        self.self_links = {own: number for number, own in self.self_of.items()}

    def _conjunction(self, node: int, parts: frozenset[int]) -> None:
        """File an intersection under pairs of its members.

        A member alone would not do: ten thousand definitions share one genus in the Gene Ontology,
        and every class below that genus would look at each of them.
        """
        if len(parts) == 1:
            self.above[next(iter(parts))].append(node)
        for part in parts:
            for other in parts - {part}:
                row = self.conjunctions.setdefault(part, {})
                row.setdefault(other, []).append((node, parts))

    def _existential(self, node: str, name: int, filler: int) -> None:
        """Read `node` as ∃name.filler; nodes for the same expression become one concept."""
        existing = self.existentials[filler].get(name)
        if existing is None:
            number = self.concept(node)
            self.links_of[number] = (name, filler)
            self.existentials[filler][name] = number
        elif node not in self.ids:
            self.ids[node] = existing
        else:
            self.above[self.ids[node]].append(existing)
            self.above[existing].append(self.ids[node])

    def _read_individuals(self) -> None:
        axioms = self.axioms
        for iri in axioms.individuals:
            self.individual(iri)
        stated = axioms.types | axioms.members | axioms.expressions.types
        for iri, kind in stated:
            self.above[self.individual(iri)].append(self.concept(kind))
        for one, other in axioms.same:
            self.above[self.individual(one)].append(self.individual(other))
            self.above[self.individual(other)].append(self.individual(one))

    # Saturation.

    def run(self) -> None:
        """Apply the rules until nothing is new."""
        for name in self.axioms.classes:
            self._start(self.ids[name])
        for number, name in enumerate(list(self.names)):
            if name.startswith("\x00"):
                self._start(number)
        for subject, name, node in self.axioms.facts:
            if name in self.property_ids:
                one, other = self.individual(subject), self.individual(node)
                self._link(one, self.property_ids[name], other)
        while self.todo:
            while self.todo:
                self._subsume(*self.todo.pop())
            self._close_unions()

    def _close_unions(self) -> None:
        """Put each union below what all its members are below."""
        expressions = self.axioms.expressions
        groups = [
            *((node, [self.ids[one] for one in some]) for node, some in expressions.unions.items()),
            *(
                (node, [self.individual(one) for one in some])
                for node, some in expressions.enumerations.items()
            ),
        ]
        found: dict[int, set[int]] = {}
        for node, members in groups:
            for member in members:
                self._start(member)
            own = self.ids[node]
            above = [self.subsumers[member] for member in members]
            possible = [each for each in above if self.bottom not in each]
            common = set.intersection(*possible) if possible else {self.bottom}
            new = common - {own, self.thing, *self.above.get(own, ())}
            if new:
                found[own] = new
                self.above[own].extend(new)
        for x in self.started if found else ():
            # Each pair once: unions that are written alike, as in schema.org, give the same ones.
            mine = self.subsumers[x]
            more = set().union(*(found[own] for own in found.keys() & mine)) - mine
            self.todo.extend((x, c) for c in more)

    def _start(self, number: int) -> None:
        """Begin a concept's own set; expressions that nothing links to need none."""
        self._grow(number)
        if not self.subsumers[number] and number not in self.started:
            self.started.add(number)
            self.todo.append((number, number))
            self.todo.append((number, self.thing))

    def _grow(self, number: int) -> None:
        while len(self.subsumers) <= number:
            self.subsumers.append(set())
            self.links.append({})
            self.back.append({})
            self.fillers.append([])

    def _subsume(self, x: int, c: int) -> None:
        """c in S(x), and all that follows from it at once."""
        mine = self.subsumers[x]
        if c in mine:
            return
        mine.add(c)
        todo = self.todo
        for d in self.above.get(c, ()):
            if d not in mine:
                todo.append((x, d))
        partners = self.conjunctions.get(c)
        if partners:
            for other in partners.keys() & mine:
                todo.extend((x, node) for node, parts in partners[other] if parts <= mine)
        if c in self.links_of:
            self._link(x, *self.links_of[c])
        if c in self.self_links:
            self._link(x, self.self_links[c], x)
        if c in self.groups_of:
            self._check_groups(x, c)
        if c == self.bottom:
            todo.extend((z, c) for zs in self.back[x].values() for z in zs)
        wanted = self.existentials.get(c)
        if wanted:
            self.fillers[x].append(c)
            back = self.back[x]
            for name, node in wanted.items():
                todo.extend((z, node) for z in back.get(name, ()))

    def _check_groups(self, x: int, c: int) -> None:
        groups = set(self.groups_of[c])
        for other in self.subsumers[x]:
            if other != c and not groups.isdisjoint(self.groups_of.get(other, ())):
                self.todo.append((x, self.bottom))
                return

    def _link(self, x: int, name: int, y: int) -> None:
        waiting = [(x, name, y)]
        while waiting:
            x, name, y = waiting.pop()
            if y not in self.started:
                self._start(y)
            if self.ranges.get(name):
                y = self._within_range(x, name, y)
            for wide in self.wider[name]:
                linked = self.links[x].setdefault(wide, set())
                if y in linked:
                    continue
                linked.add(y)
                self.back[y].setdefault(wide, set()).add(x)
                self._follow(x, wide, y, waiting)

    def _follow(self, x: int, name: int, y: int, waiting: list[tuple[int, int, int]]) -> None:
        todo = self.todo
        todo.extend((x, kind) for kind in self.domains.get(name, ()))
        mine = self.subsumers[x]
        for c in self.fillers[y]:
            node = self.existentials[c].get(name)
            if node is not None and node not in mine:
                todo.append((x, node))
        if self.bottom in self.subsumers[y]:
            todo.append((x, self.bottom))
        if name in self.inverses and self._are_individuals(x, y):
            waiting.extend((y, inverse, x) for inverse in self.inverses[name])
        if x == y and name in self.self_of and self._are_individuals(x, y):
            todo.append((x, self.self_of[name]))
        for second, wide in self.chains.get(name, ()):
            waiting.extend((x, wide, z) for z in self.links[y].get(second, ()))
        for first, wide in self.chains_back.get(name, ()):
            waiting.extend((w, wide, y) for w in self.back[x].get(first, ()))

    def _are_individuals(self, *concepts: int) -> bool:
        return all(self.names[one].startswith("\x00") for one in concepts)

    def _within_range(self, x: int, name: int, y: int) -> int:
        """The concept "y and the range of `name`"; y itself when y already is below the range.

        An individual that another is linked to is in the range. One that a class is linked to need
        not be: the class may have no member.
        """
        missing = self.ranges[name] - self.subsumers[y]
        if not missing:
            return y
        if self._are_individuals(x, y):
            self.todo.extend((y, kind) for kind in missing)
            return y
        base, within = self.narrowed.get(y, (y, frozenset()))
        within |= missing
        found = self.aux.get((base, within))
        if found is None:
            found = self.concept(f"\x01{base} within {sorted(within)}")
            self.aux[base, within] = found
            self.narrowed[found] = (base, within)
            self.above[found].extend((base, *within))
            self._start(found)
        return found

    def hand_over(self) -> None:
        """Give the axioms what was found about named terms."""
        axioms = self.axioms
        named = {self.ids[name]: name for name in axioms.classes}
        above = {number: self.subsumers[number] & named.keys() for number in named}
        for number, name in named.items():
            if self.bottom in self.subsumers[number]:
                axioms.unsatisfiable.add(name)
                continue
            axioms.subclasses.update((name, named[c]) for c in lowest(number, above))
        self._hand_over_individuals(named)

    def _hand_over_individuals(self, named: dict[int, str]) -> None:
        axioms = self.axioms
        people = {n: name[1:] for n, name in enumerate(self.names) if name.startswith("\x00")}
        wrong = [iri for number, iri in people.items() if self.bottom in self.subsumers[number]]
        if wrong:
            reasons = [f"what is said of <{iri}> cannot all be true" for iri in wrong]
            raise Contradiction(reasons, axioms.unsatisfiable)
        properties = len(self.property_names)
        for number, iri in people.items():
            mine = self.subsumers[number]
            axioms.types.update((iri, named[c]) for c in mine if c in named)
            axioms.same.update((iri, people[c]) for c in mine if c in people and c != number)
            axioms.facts.update(
                (iri, self.property_names[name], people[y])
                for name, linked in self.links[number].items()
                if name < properties
                for y in linked
                if y in people
            )
