"""Triple sorting: the first pass of axiom extraction.

It places what needs no knowledge of other triples and files blank nodes under their id. What can
only be understood when all declarations have been seen is kept for the second pass, which is in
`axiom_extraction`.
"""

from __future__ import annotations

from kbn.ontology import vocabulary as v
from kbn.ontology.axioms import Axioms, Fact, Pair
from kbn.ontology.expressions import Nodes
from kbn.ontology.triples import Literal, Object

_DECLARES_CLASS = {v.CLASS, v.RDFS + "Class"}
_DECLARES_PROPERTY = {
    v.OBJECT_PROPERTY,
    v.DATATYPE_PROPERTY,
    v.ANNOTATION_PROPERTY,
    v.RDF + "Property",
    v.OWL + "DeprecatedProperty",
    v.SYMMETRIC_PROPERTY,
    v.TRANSITIVE_PROPERTY,
    v.FUNCTIONAL_PROPERTY,
    v.INVERSE_FUNCTIONAL_PROPERTY,
    v.OWL + "AsymmetricProperty",
    v.OWL + "IrreflexiveProperty",
    v.REFLEXIVE_PROPERTY,
}
_CHARACTERISTICS_BEYOND = {
    v.FUNCTIONAL_PROPERTY: "functional properties",
    v.INVERSE_FUNCTIONAL_PROPERTY: "inverse functional properties",
    v.OWL + "AsymmetricProperty": "asymmetric properties",
    v.OWL + "IrreflexiveProperty": "irreflexive properties",
    v.REFLEXIVE_PROPERTY: "reflexive properties",
}
_STRUCTURE = {
    v.FIRST,
    v.REST,
    v.INTERSECTION_OF,
    v.UNION_OF,
    v.COMPLEMENT_OF,
    v.ONE_OF,
    v.MEMBERS,
    v.DISTINCT_MEMBERS,
    v.ON_PROPERTY,
    v.SOME_VALUES_FROM,
    v.ALL_VALUES_FROM,
    v.HAS_VALUE,
    v.HAS_KEY,
    v.DISJOINT_UNION_OF,
    v.PROPERTY_CHAIN,
    v.ON_CLASS,
}
_ABOUT_PROPERTIES = {
    v.OWL + "propertyDisjointWith": "disjoint properties",
    v.OWL + "assertionProperty": "negative assertions",
}
_NAMES = {iri: (rank, quality) for rank, (iri, quality) in enumerate(v.NAME_PROPERTIES)}
_Name = tuple[int, bool, str, int]


class SortedTriples:
    """What the first pass found: axioms so far, blank nodes by id, statements left for later."""

    def __init__(self) -> None:
        self.axioms = Axioms()
        self.nodes: Nodes = {}
        self.blank_types: dict[str, str] = {}
        self.later: list[Fact] = []
        self.equivalent: list[Pair] = []
        self.above: list[Pair] = []
        self.annotations: set[str] = set()
        self.datatypes: set[str] = set()
        self.data_properties: set[str] = set()
        self.functional: set[str] = set()
        self.inverse_functional: set[str] = set()
        self.characteristics: set[tuple[str, str]] = set()
        """(property or statement, the name of a construct that no class expression holds)."""
        self.headers: set[str] = set()
        self.concepts: set[str] = set()
        self.broader: list[Pair] = []
        self.names: dict[str, list[_Name]] = {}
        self.xl_names: list[tuple[str, str, str]] = []
        self.xl_forms: dict[str, list[Literal]] = {}
        self.handlers = {
            v.TYPE: self._type,
            v.SUB_CLASS_OF: self._subclass,
            v.EQUIVALENT_CLASS: self._equivalent,
            v.DISJOINT_WITH: self._disjoint,
            v.SUB_PROPERTY_OF: self._subproperty,
            v.EQUIVALENT_PROPERTY: self._equivalent_property,
            v.INVERSE_OF: self._inverse,
            v.DOMAIN: self._domain,
            v.RANGE: self._range,
            v.SAME_AS: self._same,
            v.DIFFERENT_FROM: self._different,
            v.BROADER: self._broader,
            v.BROADER_TRANSITIVE: self._broader,
            v.NARROWER: self._narrower,
            v.NARROWER_TRANSITIVE: self._narrower,
        }

    def take(self, subject: str, predicate: str, node: Object) -> None:
        """Place one triple, or keep it for the second pass."""
        if isinstance(node, Literal):
            self._take_literal(subject, predicate, node)
            return
        handler = self.handlers.get(predicate)
        if handler is not None:
            handler(subject, node)
        elif predicate in _STRUCTURE:
            self._file(subject, predicate, node)
        elif predicate in _ABOUT_PROPERTIES:
            self.characteristics.add((subject, _ABOUT_PROPERTIES[predicate]))
        elif predicate in v.XL_PROPERTIES:
            self.xl_names.append((subject, v.XL_PROPERTIES[predicate], node))
        elif not v.is_built_in(predicate):
            self.later.append((subject, predicate, node))

    def _take_literal(self, subject: str, predicate: str, literal: Literal) -> None:
        if predicate in _NAMES:
            self.add_name(subject, predicate, literal)
        elif predicate == v.LITERAL_FORM:
            self.xl_forms.setdefault(subject, []).append(literal)
        elif predicate in v.CARDINALITIES or predicate == v.HAS_SELF:
            self._file(subject, predicate, literal.value)
        elif predicate == v.HAS_VALUE:
            # The value itself says nothing of terms; that there is one is told.
            self._file(subject, v.HAS_LITERAL, literal.value)

    def _file(self, subject: str, predicate: str, node: str) -> None:
        self.nodes.setdefault(subject, {}).setdefault(predicate, []).append(node)

    # Declarations and axioms between named terms.

    def add_name(self, subject: str, predicate: str, literal: Literal) -> None:
        """Keep a name of a term."""
        if not subject.startswith("_:") and literal.value.strip():
            rank, quality = _NAMES[predicate]
            # Texts in English or in no language come first, so that label() is predictable.
            foreign = literal.language != "" and not literal.language.startswith("en")
            self.names.setdefault(subject, []).append((rank, foreign, literal.value, quality))

    def _type(self, subject: str, node: str) -> None:
        axioms = self.axioms
        blank = subject.startswith("_:")
        if node in _DECLARES_CLASS:
            if not blank and not v.is_built_in(subject):
                axioms.classes.add(subject)
        elif node in _DECLARES_PROPERTY:
            self._declare_property(subject, node)
        elif node == v.NAMED_INDIVIDUAL:
            axioms.individuals.add(subject)
        elif node == v.ONTOLOGY:
            self.headers.add(subject)
        elif node in (v.RDFS + "Datatype", v.OWL + "DataRange"):
            self.datatypes.add(subject)
        elif node in (v.ALL_DISJOINT_CLASSES, v.ALL_DIFFERENT):
            self.blank_types[subject] = node
        elif node == v.OWL + "AllDisjointProperties":
            self.characteristics.add((subject, "disjoint properties"))
        elif node == v.CONCEPT:
            self.concepts.add(subject)
        elif node == v.XL_LABEL:
            pass  # A name of a term, and no term itself.
        elif node == v.THING:
            axioms.individuals.add(subject)
        elif node == v.NOTHING:
            axioms.individuals.add(subject)
            axioms.types.add((subject, v.NOTHING))
        elif not v.is_built_in(node):
            axioms.types.add((subject, node))

    def _declare_property(self, subject: str, kind: str) -> None:
        axioms = self.axioms
        if subject.startswith("_:") or v.is_built_in(subject):
            return
        axioms.properties.add(subject)
        if kind == v.ANNOTATION_PROPERTY:
            self.annotations.add(subject)
        elif kind == v.DATATYPE_PROPERTY:
            self.data_properties.add(subject)
        elif kind == v.SYMMETRIC_PROPERTY:
            axioms.symmetric.add(subject)
        elif kind == v.TRANSITIVE_PROPERTY:
            axioms.transitive.add(subject)
        elif kind == v.REFLEXIVE_PROPERTY:
            axioms.reflexive.add(subject)
        elif kind == v.FUNCTIONAL_PROPERTY:
            self.functional.add(subject)
        elif kind == v.INVERSE_FUNCTIONAL_PROPERTY:
            self.inverse_functional.add(subject)
        if kind in _CHARACTERISTICS_BEYOND:
            self.characteristics.add((subject, _CHARACTERISTICS_BEYOND[kind]))

    def _subclass(self, subject: str, node: str) -> None:
        self.above.append((subject, node))

    def _equivalent(self, subject: str, node: str) -> None:
        self.equivalent.append((subject, node))

    def _disjoint(self, subject: str, node: str) -> None:
        self.axioms.disjoint.add((subject, node))

    def _subproperty(self, subject: str, node: str) -> None:
        self.axioms.subproperties.add((subject, node))

    def _equivalent_property(self, subject: str, node: str) -> None:
        self.axioms.subproperties.update(((subject, node), (node, subject)))

    def _inverse(self, subject: str, node: str) -> None:
        if subject.startswith("_:"):
            self._file(subject, v.INVERSE_OF, node)
        else:
            self.axioms.inverses.add((subject, node))

    def _domain(self, subject: str, node: str) -> None:
        self.axioms.domains.add((subject, node))

    def _range(self, subject: str, node: str) -> None:
        self.axioms.ranges.add((subject, node))

    def _same(self, subject: str, node: str) -> None:
        self.axioms.same.add((subject, node))

    def _different(self, subject: str, node: str) -> None:
        self.axioms.different.add((subject, node))

    def _broader(self, subject: str, node: str) -> None:
        self.broader.append((subject, node))

    def _narrower(self, subject: str, node: str) -> None:
        self.broader.append((node, subject))
