"""The IRIs this room knows by heart: RDF, RDFS, OWL, SKOS and the OBO annotations."""

from __future__ import annotations

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
XSD = "http://www.w3.org/2001/XMLSchema#"
SKOS = "http://www.w3.org/2004/02/skos/core#"
OBO = "http://purl.obolibrary.org/obo/"
OBO_IN_OWL = "http://www.geneontology.org/formats/oboInOwl#"

WELL_KNOWN_PREFIXES = {"owl": OWL, "rdf": RDF, "rdfs": RDFS, "skos": SKOS, "xsd": XSD}

THING = OWL + "Thing"
NOTHING = OWL + "Nothing"

TYPE = RDF + "type"
FIRST = RDF + "first"
REST = RDF + "rest"
NIL = RDF + "nil"

SUB_CLASS_OF = RDFS + "subClassOf"
SUB_PROPERTY_OF = RDFS + "subPropertyOf"
DOMAIN = RDFS + "domain"
RANGE = RDFS + "range"
LABEL = RDFS + "label"

CLASS = OWL + "Class"
ONTOLOGY = OWL + "Ontology"
RESTRICTION = OWL + "Restriction"
OBJECT_PROPERTY = OWL + "ObjectProperty"
DATATYPE_PROPERTY = OWL + "DatatypeProperty"
ANNOTATION_PROPERTY = OWL + "AnnotationProperty"
NAMED_INDIVIDUAL = OWL + "NamedIndividual"
SYMMETRIC_PROPERTY = OWL + "SymmetricProperty"
TRANSITIVE_PROPERTY = OWL + "TransitiveProperty"
REFLEXIVE_PROPERTY = OWL + "ReflexiveProperty"
FUNCTIONAL_PROPERTY = OWL + "FunctionalProperty"
INVERSE_FUNCTIONAL_PROPERTY = OWL + "InverseFunctionalProperty"
ALL_DISJOINT_CLASSES = OWL + "AllDisjointClasses"
ALL_DIFFERENT = OWL + "AllDifferent"

IMPORTS = OWL + "imports"
EQUIVALENT_CLASS = OWL + "equivalentClass"
EQUIVALENT_PROPERTY = OWL + "equivalentProperty"
SAME_AS = OWL + "sameAs"
DIFFERENT_FROM = OWL + "differentFrom"
DISJOINT_WITH = OWL + "disjointWith"
DISJOINT_UNION_OF = OWL + "disjointUnionOf"
COMPLEMENT_OF = OWL + "complementOf"
INTERSECTION_OF = OWL + "intersectionOf"
UNION_OF = OWL + "unionOf"
ONE_OF = OWL + "oneOf"
INVERSE_OF = OWL + "inverseOf"
PROPERTY_CHAIN = OWL + "propertyChainAxiom"
MEMBERS = OWL + "members"
DISTINCT_MEMBERS = OWL + "distinctMembers"
ON_PROPERTY = OWL + "onProperty"
SOME_VALUES_FROM = OWL + "someValuesFrom"
ALL_VALUES_FROM = OWL + "allValuesFrom"
HAS_VALUE = OWL + "hasValue"
HAS_LITERAL = HAS_VALUE + " literal"
"""No IRI: stands for `hasValue` where the value is a literal."""
HAS_SELF = OWL + "hasSelf"
HAS_KEY = OWL + "hasKey"
ON_CLASS = OWL + "onClass"
EXACT_CARDINALITIES = (OWL + "cardinality", OWL + "qualifiedCardinality")
MIN_CARDINALITIES = (OWL + "minCardinality", OWL + "minQualifiedCardinality")
MAX_CARDINALITIES = (OWL + "maxCardinality", OWL + "maxQualifiedCardinality")
CARDINALITIES = (*EXACT_CARDINALITIES, *MIN_CARDINALITIES, *MAX_CARDINALITIES)

CONCEPT = SKOS + "Concept"
BROADER = SKOS + "broader"
NARROWER = SKOS + "narrower"
BROADER_TRANSITIVE = SKOS + "broaderTransitive"
NARROWER_TRANSITIVE = SKOS + "narrowerTransitive"

SKOS_XL = "http://www.w3.org/2008/05/skos-xl#"
XL_LABEL = SKOS_XL + "Label"
LITERAL_FORM = SKOS_XL + "literalForm"

# How well a text names a term. What is HIDDEN or a CODE finds the term and is not shown.
PREFERRED, SYNONYM, NARROW, LOOSE, HIDDEN, CODE = range(6)

# Preferred names before alternative ones: the first label found is the one that is shown.
NAME_PROPERTIES = (
    (LABEL, PREFERRED),
    (SKOS + "prefLabel", PREFERRED),
    (SKOS + "altLabel", SYNONYM),
    (OBO_IN_OWL + "hasExactSynonym", SYNONYM),
    (OBO_IN_OWL + "hasBroadSynonym", LOOSE),
    (OBO_IN_OWL + "hasNarrowSynonym", NARROW),
    (OBO_IN_OWL + "hasRelatedSynonym", LOOSE),
    (OBO_IN_OWL + "hasSynonym", SYNONYM),
    (SKOS + "hiddenLabel", HIDDEN),
    (SKOS + "notation", CODE),
)
XL_PROPERTIES = {SKOS_XL + name: SKOS + name for name in ("prefLabel", "altLabel", "hiddenLabel")}

BUILT_IN_NAMESPACES = (OWL, RDF, RDFS, XSD)


def is_built_in(iri: str) -> bool:
    """Whether `iri` belongs to the languages themselves and so is no term of an ontology."""
    return iri.startswith(BUILT_IN_NAMESPACES)
