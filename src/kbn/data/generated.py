"""Ontologies of a stated size, grown from a shipped one by a fixed rule.

The 2006 paper times the loading and the reasoning of an event ontology with 147 classes and 563
individuals. That ontology is not public; `event_ontology` makes one of the same size and shape:
the shipped `events` file, then families of managed elements in a tree, then devices spread over
the classes, mounted in racks, each connected to the one before. There is no randomness: the same
sizes give the same text.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbn.data import namespace, path
from kbn.errors import InvalidInputError

__all__ = ["PAPER_CLASSES", "PAPER_INDIVIDUALS", "event_ontology"]

PAPER_CLASSES = 147
PAPER_INDIVIDUALS = 563

# Every sixth generated class starts a family directly below Device; the next five are below it.
_FAMILY_SIZE = 6
# Every twentieth generated individual is a rack; the nineteen after it are devices in that rack.
_RACK_SIZE = 20


def event_ontology(classes: int = PAPER_CLASSES, individuals: int = PAPER_INDIVIDUALS) -> str:
    """The Turtle text of the event ontology grown to exactly that many classes and individuals.

    Smaller than the shipped file it cannot be: that is an InvalidInputError.
    """
    text = path("events").read_text(encoding="utf-8")
    new_classes = classes - _count(text, "Class")
    new_individuals = individuals - _count(text, "NamedIndividual")
    if new_classes < 0 or new_individuals < 0:
        raise InvalidInputError(
            f"the event ontology has at least {classes - new_classes} classes and "
            f"{individuals - new_individuals} individuals; asked for {classes} and {individuals}"
        )
    grown = [*_class_lines(new_classes), *_individual_lines(new_individuals, new_classes)]
    return "\n".join([text, "# Grown to the asked size", "", *grown, ""])


def _class_lines(count: int) -> Iterator[str]:
    for number in range(count):
        family = number - number % _FAMILY_SIZE
        parent = "Device" if number == family else f"DeviceModel{family:03d}"
        yield (
            f":DeviceModel{number:03d} a owl:Class ; "
            f'rdfs:label "Device model {number}"@en ; rdfs:subClassOf :{parent} .'
        )


def _individual_lines(count: int, classes: int) -> Iterator[str]:
    for number in range(count):
        rack = number - number % _RACK_SIZE
        if number == rack:
            yield (
                f":GeneratedRack{number:04d} a owl:NamedIndividual , :Rack ; "
                f'rdfs:label "Generated rack {number}"@en ; :locatedIn :MachineRoom .'
            )
            continue
        model = f"DeviceModel{number % classes:03d}" if classes else "Device"
        peer = "EdgeSwitch" if number == rack + 1 else f"GeneratedDevice{number - 1:04d}"
        yield (
            f":GeneratedDevice{number:04d} a owl:NamedIndividual , :{model} ; "
            f'rdfs:label "Generated device {number}"@en ; '
            f":mountedIn :GeneratedRack{rack:04d} ; :connectedTo :{peer} ."
        )


def _count(text: str, kind: str) -> int:
    import pyoxigraph

    wanted = pyoxigraph.NamedNode(f"http://www.w3.org/2002/07/owl#{kind}")
    triples = pyoxigraph.parse(text, format=pyoxigraph.RdfFormat.TURTLE)
    own = namespace("events")
    return len(
        {
            triple.subject.value
            for triple in triples
            if triple.object == wanted
            and isinstance(triple.subject, pyoxigraph.NamedNode)
            and triple.subject.value.startswith(own)
        }
    )
