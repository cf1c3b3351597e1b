"""The OWL 2 DL level: HermiT, and Pellet where HermiT gives up, as Java programs of their own.

The jars come with owlready2; its Python side is not used, so a reasoner here is a program with a
file to read and text to print. It ends with its time limit, with any error on our side, and with
this process (`bounded_process.py`). What it prints is read as subclass, equivalence, type and
property statements between named terms.

HermiT refuses a whole ontology for one literal or range of a datatype it does not know (xsd:date,
xsd:time, xsd:duration, xsd:gYear, ...). Those are not needed to relate named terms, so such
literals are dropped and such datatypes read as xsd:string, and that is stated.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

from kbn.errors import MissingDependencyError, OntologyError
from kbn.ontology import vocabulary as v
from kbn.ontology.axioms import Axioms
from kbn.ontology.bounded_process import run_bounded
from kbn.ontology.contradiction import Contradiction
from kbn.ontology.triples import STRING, Literal, Triple, serialise

MEMORY_MB = 2_000

# The OWL 2 datatype map, which HermiT implements (XMLLiteral apart).
_XSD_KNOWN = """
    string normalizedString token language Name NCName NMTOKEN boolean decimal integer
    nonNegativeInteger nonPositiveInteger positiveInteger negativeInteger long int short byte
    unsignedLong unsignedInt unsignedShort unsignedByte double float hexBinary base64Binary
    anyURI dateTime dateTimeStamp
"""
_KNOWN = {v.XSD + name for name in _XSD_KNOWN.split()} | {
    v.RDF + "PlainLiteral",
    v.RDF + "langString",
    v.RDFS + "Literal",
    v.OWL + "real",
    v.OWL + "rational",
}


def reason_dl(axioms: Axioms, triples: Iterable[Triple], time_limit_s: float) -> None:
    """Add to `axioms` what a DL reasoner entails; Contradiction when there is no model.

    A reasoner that finds no model does not say why: `explaining.py` finds that out.
    """
    jars = _jars()
    java = _java()
    with tempfile.TemporaryDirectory(prefix="kbn-dl-") as directory:
        path = str(Path(directory) / "ontology.nt")
        changed: dict[str, int] = {}
        accepted = list(_acceptable(triples, changed))
        added = (*_declarations(axioms), *_untyped_expressions(accepted))
        serialise(chain(added, accepted), path, xml=False)
        if changed:
            axioms.notes.append(
                "dl: datatypes the reasoner does not know were dropped or read as xsd:string: "
                + ", ".join(f"{_short(name)} ({count})" for name, count in sorted(changed.items()))
            )
        output = _answer(java, jars, path, time_limit_s, axioms)
    read_answer(output, axioms)


def _answer(java: str, jars: Path, path: str, time_limit_s: float, axioms: Axioms) -> str:
    """What HermiT prints, or Pellet when HermiT does not take the ontology."""
    code, output, errors = run_bounded(
        _hermit(java, jars, path), time_limit_s, "HermiT", Path(path).parent
    )
    if code == 0:
        return output
    if re.search("nconsistent ontology|InconsistentOntologyException", output + errors):
        raise Contradiction(["HermiT finds that it cannot be true"])
    first = _reason(errors or output)
    code, output, more = run_bounded(
        _pellet(java, jars, path), time_limit_s, "Pellet", Path(path).parent
    )
    if "Ontology is inconsistent" in output + more:
        raise Contradiction(["Pellet finds that it cannot be true"])
    if code == 0:
        axioms.notes.append(f"dl: HermiT did not take the ontology ({first}); Pellet answered")
        return output
    second = _reason(more or output)
    raise OntologyError(
        "neither DL reasoner takes the ontology; try reasoning='el' or 'rl'",
        explanation=(f"HermiT: {first}", f"Pellet: {second}"),
    )


def _hermit(java: str, jars: Path, path: str) -> list[str]:
    home = jars / "hermit"
    classpath = os.pathsep.join([str(home), str(home / "HermiT.jar")])
    main = "org.semanticweb.HermiT.cli.CommandLine"
    address = Path(path).as_uri()
    memory = f"-Xmx{MEMORY_MB}M"
    return [java, memory, "-cp", classpath, main, "-c", "-O", "-D", "-I", address, "-Y"]


def _pellet(java: str, jars: Path, path: str) -> list[str]:
    classpath = os.pathsep.join(str(jar) for jar in sorted((jars / "pellet").glob("*.jar")))
    options = ["realize", "--loader", "Jena", "--input-format", "N-Triples", "--ignore-imports"]
    memory = f"-Xmx{MEMORY_MB}M"
    return [
        java,
        memory,
        "-cp",
        classpath,
        "pellet.Pellet",
        *options,
        "--infer-prop-values",
        path,
    ]


def _jars() -> Path:
    spec = find_spec("owlready2")
    if spec is None or spec.origin is None:
        raise MissingDependencyError("reasoning='dl'", extra="dl")
    return Path(spec.origin).parent


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    if home:
        own = shutil.which("java", path=str(Path(home) / "bin"))
        if own:
            return own
    found = shutil.which("java")
    if found is None:
        raise OntologyError(
            "reasoning='dl' needs a Java runtime and none was found; install Java 17 or newer "
            "(for instance the package openjdk-17-jre-headless or temurin-17-jre) so that `java` "
            "is on the PATH or JAVA_HOME points to it, or choose reasoning='el', 'rl' or 'rdfs'"
        )
    return found


def _declarations(axioms: Axioms) -> Iterator[Triple]:
    """What each term is, which a reasoner wants written and many files leave out."""
    for names, kind in (
        (axioms.classes, v.CLASS),
        (axioms.object_properties, v.OBJECT_PROPERTY),
        (axioms.individuals, v.NAMED_INDIVIDUAL),
    ):
        yield from ((name, v.TYPE, kind) for name in sorted(names) if not name.startswith("_:"))


def _untyped_expressions(triples: list[Triple]) -> Iterator[Triple]:
    """The kind of each blank class expression that does not state its own."""
    typed = {subject for subject, predicate, _ in triples if predicate == v.TYPE}
    for subject, predicate, _ in triples:
        if subject.startswith("_:") and predicate in _KINDS and subject not in typed:
            typed.add(subject)
            yield subject, v.TYPE, _KINDS[predicate]


_KINDS = {
    v.ON_PROPERTY: v.RESTRICTION,
    v.INTERSECTION_OF: v.CLASS,
    v.UNION_OF: v.CLASS,
    v.COMPLEMENT_OF: v.CLASS,
    v.ONE_OF: v.CLASS,
}


def _acceptable(triples: Iterable[Triple], changed: dict[str, int]) -> Iterator[Triple]:
    """The triples a DL reasoner takes: no imports (they are merged), no unknown datatypes."""
    for subject, predicate, node in triples:
        if predicate == v.IMPORTS:
            continue
        if isinstance(node, Literal):
            if not node.language and node.datatype not in _KNOWN:
                changed[node.datatype] = changed.get(node.datatype, 0) + 1
                continue
        elif node.startswith(v.XSD) and node not in _KNOWN:
            changed[node] = changed.get(node, 0) + 1
            node = STRING
        yield subject, predicate, node


# Reading what the reasoners print.

_AXIOM = re.compile(r"^([A-Za-z]+)\( ((?:<[^>]+>\s*)+) \)$", re.MULTILINE)
_INSTANCES = re.compile(r"^<([^>]+)> \(known instances:\s*(.*?)\s*\|", re.MULTILINE)
_PAIR = re.compile(r"\(<([^>]+)>, <([^>]+)>\)")
_PELLET_FACT = re.compile(r"^PROPINST: (\S+) (\S+) (\S+)$", re.MULTILINE)
_IRI = re.compile(r"<([^>]+)>")


def read_answer(output: str, axioms: Axioms) -> None:
    """Add what HermiT or Pellet printed to `axioms`."""
    output = output.replace("\r", "")
    if _AXIOM.search(output):
        _read_hermit(output, axioms)
    else:
        _read_pellet(output, axioms)


def _read_hermit(output: str, axioms: Axioms) -> None:
    for kind, text in _AXIOM.findall(output):
        names = _IRI.findall(text)
        match kind:
            case "SubClassOf":
                _add_subclass(axioms, names[0], names[1])
            case "EquivalentClasses":
                _add_equivalents(axioms, names)
            case "SubObjectPropertyOf" | "SubDataPropertyOf" | "SubPropertyOf":
                _add_subproperty(axioms, names[0], names[1])
            case "EquivalentObjectProperties" | "EquivalentDataProperties":
                for one in names:
                    for other in names:
                        _add_subproperty(axioms, one, other)
            case "Type":
                _add_type(axioms, names[0], names[1])
    for name, known in _INSTANCES.findall(output):
        if name in axioms.properties:
            for one, other in _PAIR.findall(known):
                _add_fact(axioms, one, name, other)


def _add_subclass(axioms: Axioms, narrower: str, wider: str) -> None:
    if narrower in axioms.classes and wider in axioms.classes:
        axioms.subclasses.add((narrower, wider))
    elif narrower in axioms.classes and wider == v.NOTHING:
        axioms.unsatisfiable.add(narrower)


def _add_equivalents(axioms: Axioms, names: list[str]) -> None:
    if v.NOTHING in names:
        axioms.unsatisfiable.update(name for name in names if name in axioms.classes)
        return
    for one, other in zip(names, names[1:] + names[:1], strict=True):
        _add_subclass(axioms, one, other)


def _add_subproperty(axioms: Axioms, narrower: str, wider: str) -> None:
    if narrower != wider and narrower in axioms.properties and wider in axioms.properties:
        axioms.subproperties.add((narrower, wider))


def _add_type(axioms: Axioms, individual: str, kind: str) -> None:
    if individual in axioms.individuals and kind in axioms.classes:
        axioms.types.add((individual, kind))


def _add_fact(axioms: Axioms, subject: str, name: str, node: str) -> None:
    if subject in axioms.individuals and node in axioms.individuals:
        axioms.facts.add((subject, name, node))


def _read_pellet(output: str, axioms: Axioms) -> None:
    """Pellet prints the hierarchy as an indented tree: `A = B - (instances)` a line."""
    path: list[list[str]] = []
    for line in output.split("\n"):
        text = line.strip()
        if not text or text.startswith(("PROPINST", "DATAPROPVAL", "* ")):
            continue
        depth = (len(line) - len(line.lstrip(" "))) // 3
        heading, _, listed = text.partition(" - (")
        names = [name.strip() for name in heading.split(" = ")]
        del path[depth:]
        path.append(names)
        _add_equivalents(axioms, names)
        if depth and v.NOTHING not in names:
            for name in names:
                _add_subclass(axioms, name, path[depth - 1][0])
        for individual in listed.rstrip(")").split(", ") if listed else ():
            for same in individual.split(" = "):
                _add_type(axioms, same.strip(), names[0])
    for subject, name, node in _PELLET_FACT.findall(output):
        if name in axioms.properties:
            _add_fact(axioms, subject, name, node)


def _reason(text: str) -> str:
    """The telling line of a Java program's complaint."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith("at ")]
    for line in telling:
        if "Exception" in line or "Error" in line or "nconsistent" in line:
            return line[:300]
    return telling[0][:300] if telling else "no message"


def _short(iri: str) -> str:
    return iri.replace(v.XSD, "xsd:").replace(v.RDF, "rdf:")
