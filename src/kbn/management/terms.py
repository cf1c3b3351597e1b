"""The terms of the management ontology that management messages are made of."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from kbn import data
from kbn.ontology import Individual, Ontology

NAMESPACE = data.namespace("management")

MESSAGE = "message"
"""The attribute that says of which type a management message is."""
TO = "publisherId"
"""The attribute that says for which publisher an instruction is."""


def path() -> Path:
    """The file of the management ontology, which a trigger broker runs on."""
    return data.path("management")


@cache
def ontology() -> Ontology:
    """The management ontology."""
    return Ontology.load(path())


def type_of(name: str) -> Individual:
    """The individual that stands for a type of message, such as `subscriber_info`."""
    return Individual(NAMESPACE + name)
