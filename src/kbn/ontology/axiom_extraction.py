"""Axiom extraction: from triples to axioms, in two passes.

The first pass, over all triples, is in `triple_sorting`. The second, here, goes over what had to
wait: it reads class expressions, groups and lists, and decides which statements are about
individuals, for which all declarations must have been seen.

Which IRIs count as terms:

- a class is what is declared one, or stands where only a class can (either side of `subClassOf`,
  the object of `rdf:type`, a domain, an object property's range, ...);
- a property is what is declared one, stands where only a property can, or is the predicate of a
  statement about individuals; annotation properties are properties nobody can reason with;
- an individual is what is declared one, has a class as type, or takes part in a statement with
  such a property. The subject of a statement that is only known as a class or property is not
  made an individual by it: schema.org and the OBO ontologies describe their classes that way.

One IRI may be several of these (punning). `owl:Thing` and `owl:Nothing` are left out here; the
compiled ontology knows where they stand. Blank nodes take part in statements but never appear in
answers. Class expressions are read for what they say about named classes cheaply and soundly (the
named members of an intersection lie above it, those of a union below it); the rest is counted in
`Axioms.beyond`, so that a level can say what it ignored.
"""

from __future__ import annotations

from collections.abc import Iterable

from kbn.ontology import vocabulary as v
from kbn.ontology.axioms import Axioms, Pair
from kbn.ontology.constructs import count_constructs
from kbn.ontology.expressions import read_expressions, read_list
from kbn.ontology.triple_sorting import SortedTriples
from kbn.ontology.triples import Triple

# Annotation vocabularies that are seldom declared where they are used.
_ANNOTATION_NAMESPACES = (
    "http://purl.org/dc/",
    v.OBO_IN_OWL,
    "http://www.w3.org/2003/06/sw-vocab-status/",
    "http://purl.org/vocab/vann/",
    "http://creativecommons.org/ns#",
)


def extract_axioms(triples: Iterable[Triple], *, skos: bool | None) -> Axioms:
    """The axioms of `triples`; `skos` says whether SKOS concepts are classes (None: detect)."""
    found = SortedTriples()
    for subject, predicate, node in triples:
        found.take(subject, predicate, node)
    return _SecondPass(found).axioms_read(skos)


class _SecondPass:
    """Reads what the first pass kept, and completes its axioms."""

    def __init__(self, found: SortedTriples) -> None:
        self.sorted = found
        self.axioms = found.axioms

    def axioms_read(self, skos: bool | None) -> Axioms:
        """All axioms; each step relies on those before it."""
        axioms = self.axioms
        axioms.beyond = count_constructs(self.sorted)
        self._read_skos(skos)
        axioms.expressions = read_expressions(
            self.sorted.nodes,
            self.sorted.above,
            self.sorted.equivalent,
            axioms.types,
            axioms.domains,
            axioms.ranges,
        )
        axioms.expressions.functional = self.sorted.functional
        axioms.expressions.inverse_functional = self.sorted.inverse_functional
        self._read_hierarchy()
        self._read_property_expressions()
        self._read_groups()
        self._read_enumerations()
        self._read_domains()
        self._count_parts()
        self._count_types()
        self._read_facts()
        self._drop_what_is_no_term()
        self._read_names()
        return axioms

    def _read_names(self) -> None:
        for subject, predicate, node in self.sorted.xl_names:
            for literal in self.sorted.xl_forms.get(node, ()):
                self.sorted.add_name(subject, predicate, literal)
        for iri, names in self.sorted.names.items():
            best: dict[str, int] = {}
            for _, _, text, quality in sorted(names):
                best.setdefault(text, quality)
            self.axioms.names[iri] = [(quality, text) for text, quality in best.items()]

    def _read_skos(self, skos: bool | None) -> None:
        axioms = self.axioms
        concepts = self.sorted.concepts | {iri for pair in self.sorted.broader for iri in pair}
        if skos is None:
            # The SKOS vocabulary's own classes do not make a file of concepts an OWL ontology.
            owl = {iri for iri in axioms.classes if not iri.startswith(v.SKOS)}
            skos = bool(concepts) and not owl
        axioms.is_skos = bool(skos and concepts)
        if axioms.is_skos:
            axioms.classes |= concepts
            axioms.subclasses.update(self.sorted.broader)
            axioms.types = {pair for pair in axioms.types if not pair[1].startswith(v.SKOS)}
            axioms.notes.append(
                f"SKOS: {len(concepts)} concepts read as classes, broader as subclass of"
            )
            return
        axioms.types.update((concept, v.CONCEPT) for concept in self.sorted.concepts)
        for narrower, wider in self.sorted.broader:
            self.sorted.later.append((narrower, v.BROADER, wider))

    def _read_hierarchy(self) -> None:
        axioms = self.axioms
        for narrower, wider in self.sorted.above:
            self._place(narrower, wider)
        for left, right in self.sorted.equivalent:
            self._place(left, right)
            self._place(right, left)
        for node, structure in self.sorted.nodes.items():
            if node.startswith("_:"):
                continue
            # OWL 1 style: the named class itself carries the intersection, union or enumeration.
            for predicate in (v.INTERSECTION_OF, v.UNION_OF, v.DISJOINT_UNION_OF):
                for head in structure.get(predicate, ()):
                    members = self._named(self._list(head))
                    pairs = (
                        ((node, member) for member in members)
                        if predicate == v.INTERSECTION_OF
                        else ((member, node) for member in members)
                    )
                    axioms.unfolded.update(pairs)
                    if predicate == v.DISJOINT_UNION_OF:
                        axioms.disjoint.add(tuple(members))
            for other in structure.get(v.COMPLEMENT_OF, ()):
                axioms.disjoint.add((node, other))
            if structure.keys() & {v.INTERSECTION_OF, v.UNION_OF, v.ONE_OF, v.DISJOINT_UNION_OF}:
                axioms.classes.add(node)

    def _place(self, narrower: str, wider: str) -> None:
        """`narrower ⊑ wider` where either may be a blank class expression."""
        if narrower == wider:
            return
        axioms = self.axioms
        if narrower.startswith("_:"):
            if wider.startswith("_:"):
                return
            for head in self.sorted.nodes.get(narrower, {}).get(v.UNION_OF, ()):
                axioms.unfolded.update((one, wider) for one in self._named(self._list(head)))
            axioms.classes.add(wider)
        elif wider.startswith("_:"):
            structure = self.sorted.nodes.get(wider, {})
            for head in structure.get(v.INTERSECTION_OF, ()):
                axioms.unfolded.update((narrower, one) for one in self._named(self._list(head)))
            for other in structure.get(v.COMPLEMENT_OF, ()):
                axioms.disjoint.add((narrower, other))
            axioms.classes.add(narrower)
        elif wider == v.NOTHING:
            axioms.unsatisfiable.add(narrower)
            axioms.classes.add(narrower)
        else:
            axioms.subclasses.add((narrower, wider))

    def _read_property_expressions(self) -> None:
        axioms = self.axioms
        for node, structure in self.sorted.nodes.items():
            for head in structure.get(v.PROPERTY_CHAIN, ()):
                links = self._list(head)
                if links and not any(link.startswith("_:") for link in links):
                    axioms.chains.add((node, tuple(links)))
                else:
                    axioms.beyond["property chains over inverses"] += 1
        for narrower, wider in list(axioms.subproperties):
            for one, other in ((narrower, wider), (wider, narrower)):
                for inverted in self.sorted.nodes.get(one, {}).get(v.INVERSE_OF, ()):
                    # inverse(p) ⊑ q is read only when it is an equivalence, as an inverse pair.
                    if (other, one) in axioms.subproperties and (
                        one,
                        other,
                    ) in axioms.subproperties:
                        axioms.inverses.add((other, inverted))
                    else:
                        axioms.beyond["subproperties of inverses"] += 1

    def _read_groups(self) -> None:
        axioms = self.axioms
        for node, kind in self.sorted.blank_types.items():
            structure = self.sorted.nodes.get(node, {})
            for predicate in (v.MEMBERS, v.DISTINCT_MEMBERS):
                for head in structure.get(predicate, ()):
                    members = tuple(self._named(self._list(head)))
                    group = axioms.disjoint if kind == v.ALL_DISJOINT_CLASSES else axioms.different
                    group.add(members)

    def _read_enumerations(self) -> None:
        axioms = self.axioms
        for node, structure in self.sorted.nodes.items():
            for head in structure.get(v.ONE_OF, ()):
                members = self._list(head)
                axioms.individuals.update(members)
                if not node.startswith("_:"):
                    axioms.members.update((one, node) for one in members)
        enumerations = {
            node: structure[v.ONE_OF]
            for node, structure in self.sorted.nodes.items()
            if v.ONE_OF in structure and node.startswith("_:")
        }
        for pair in self.sorted.equivalent:
            for named, blank in (pair, pair[::-1]):
                if blank in enumerations and not named.startswith("_:"):
                    for head in enumerations[blank]:
                        axioms.members.update((one, named) for one in self._list(head))

    def _read_domains(self) -> None:
        """Named domains and ranges, and the named members of those that are intersections."""
        axioms = self.axioms
        for pairs, mentioned in (
            (axioms.domains, axioms.named_domains),
            (axioms.ranges, axioms.named_ranges),
        ):
            for named, node in list(pairs):
                if node.startswith("_:"):
                    pairs.discard((named, node))
                    structure = self.sorted.nodes.get(node, {})
                    for head in structure.get(v.INTERSECTION_OF, ()):
                        pairs.update((named, one) for one in self._named(self._list(head)))
                    for head in structure.get(v.UNION_OF, ()):
                        mentioned.update((named, one) for one in self._named(self._list(head)))
            mentioned |= pairs

    def _count_parts(self) -> None:
        """What stands inside a class expression is a class or an individual by its place."""
        axioms, expressions = self.axioms, self.axioms.expressions
        for table in (expressions.intersections, expressions.unions):
            for node, members in table.items():
                if node not in self.sorted.datatypes:
                    axioms.classes.update(members)
        axioms.classes.update(expressions.complements.values())
        for fillers in (expressions.somes, expressions.alls):
            for name, filler in fillers.values():
                axioms.properties.add(name)
                if name not in self.sorted.data_properties:
                    axioms.classes.add(filler)
        for name, individual in expressions.values.values():
            axioms.properties.add(name)
            axioms.individuals.add(individual)
        axioms.properties.update(expressions.selves.values())
        bounds = (*expressions.at_most.values(), *expressions.at_least.values())
        for name, _, filler in bounds:
            axioms.properties.add(name)
            if name not in self.sorted.data_properties:
                axioms.classes.add(filler)

    def _count_types(self) -> None:
        axioms = self.axioms
        for individual, kind in list(axioms.types):
            if kind.startswith("_:"):
                axioms.types.discard((individual, kind))
                axioms.individuals.add(individual)
                for head in self.sorted.nodes.get(kind, {}).get(v.INTERSECTION_OF, ()):
                    named = self._named(self._list(head))
                    axioms.members.update((individual, one) for one in named)
        axioms.types = {
            (individual, kind)
            for individual, kind in axioms.types
            if kind not in self.sorted.datatypes and individual not in self.sorted.headers
        }
        typed = axioms.types | axioms.members
        axioms.individuals.update(individual for individual, _ in typed)
        axioms.individuals.update(one for pair in axioms.same for one in pair)
        axioms.individuals.update(one for group in axioms.different for one in group)
        pairs = axioms.subclasses | axioms.unfolded
        axioms.classes.update(iri for pair in pairs for iri in pair)
        axioms.classes.update(kind for _, kind in typed)
        axioms.classes.update(iri for group in axioms.disjoint for iri in group)
        axioms.classes.update(iri for _, iri in axioms.domains)
        axioms.classes.update(
            iri for name, iri in axioms.ranges if name not in self.sorted.data_properties
        )
        axioms.properties.update(name for pair in axioms.subproperties for name in pair)
        axioms.properties.update(name for pair in axioms.inverses for name in pair)
        axioms.properties.update(name for name, _ in axioms.domains | axioms.ranges)
        for name, links in axioms.chains:
            axioms.properties.update((name, *links))

    def _read_facts(self) -> None:
        axioms = self.axioms
        vocabulary = (
            axioms.classes | axioms.properties | self.sorted.headers | self.sorted.datatypes
        )
        only_vocabulary = vocabulary - axioms.individuals
        structural = self.sorted.nodes.keys() - axioms.individuals
        for subject, predicate, node in self.sorted.later:
            if subject in only_vocabulary or subject in structural:
                continue
            if predicate in self.sorted.annotations or predicate in self.sorted.data_properties:
                continue
            if predicate not in axioms.properties and (
                predicate.startswith(_ANNOTATION_NAMESPACES) or node in only_vocabulary
            ):
                continue
            if predicate.startswith(v.SKOS) and axioms.is_skos:
                continue
            axioms.properties.add(predicate)
            axioms.facts.add((subject, predicate, node))
            axioms.individuals.add(subject)
            # Even where the object is a class: as a real property's object it is a pun.
            axioms.individuals.add(node)

    def _drop_what_is_no_term(self) -> None:
        """Leave blank nodes, datatypes and the languages' own terms out of the three kinds.

        The languages' own terms may stand anywhere in a file (SHACL: `sh:datatype xsd:double`). A
        statement that takes one for an individual, class or property of ours is left out with it,
        so that whatever is left speaks of terms that are there.
        """
        axioms = self.axioms
        axioms.classes = {iri for iri in axioms.classes if _is_term(iri)} - self.sorted.datatypes
        axioms.properties = {iri for iri in axioms.properties if _is_term(iri)}
        axioms.object_properties = (
            axioms.properties - self.sorted.annotations - self.sorted.data_properties
        )
        axioms.individuals = {iri for iri in axioms.individuals if not v.is_built_in(iri)}
        self._drop_about_classes()
        self._drop_about_properties()
        self._drop_about_individuals()

    def _drop_about_classes(self) -> None:
        axioms, classes = self.axioms, self.axioms.classes
        axioms.subclasses = _within(axioms.subclasses, classes, classes)
        axioms.unfolded = _within(axioms.unfolded, classes, classes)
        axioms.disjoint = _groups_within(axioms.disjoint, classes)

    def _drop_about_properties(self) -> None:
        axioms, classes, properties = self.axioms, self.axioms.classes, self.axioms.properties
        axioms.subproperties = _within(axioms.subproperties, properties, properties)
        axioms.inverses = _within(axioms.inverses, properties, properties)
        axioms.domains = _within(axioms.domains, properties, classes)
        axioms.ranges = _within(axioms.ranges, properties, classes)
        axioms.named_domains = _within(axioms.named_domains, properties, classes)
        axioms.named_ranges = _within(axioms.named_ranges, properties, classes)
        axioms.chains = {
            (name, links)
            for name, links in axioms.chains
            if name in properties and all(link in properties for link in links)
        }

    def _drop_about_individuals(self) -> None:
        axioms, individuals = self.axioms, self.axioms.individuals
        axioms.types = _within(axioms.types, individuals, axioms.classes | {v.NOTHING})
        axioms.members = _within(axioms.members, individuals, axioms.classes)
        axioms.same = _within(axioms.same, individuals, individuals)
        axioms.different = _groups_within(axioms.different, individuals)
        axioms.facts = {
            (subject, name, node)
            for subject, name, node in axioms.facts
            if subject in individuals and name in axioms.properties and node in individuals
        }
        axioms.expressions.keep_individuals(individuals, axioms.properties)

    def _named(self, nodes: Iterable[str]) -> list[str]:
        return [node for node in nodes if _is_term(node)]

    def _list(self, head: str) -> list[str]:
        return read_list(self.sorted.nodes, head)


def _is_term(iri: str) -> bool:
    return not iri.startswith("_:") and not v.is_built_in(iri)


def _within(pairs: set[Pair], first: set[str], second: set[str]) -> set[Pair]:
    return {(one, other) for one, other in pairs if one in first and other in second}


def _groups_within(groups: set[tuple[str, ...]], kept: set[str]) -> set[tuple[str, ...]]:
    """The groups without what is not in `kept`, and without those that then say nothing."""
    found = (tuple(dict.fromkeys(one for one in group if one in kept)) for group in groups)
    return {group for group in found if len(group) > 1}
