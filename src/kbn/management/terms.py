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
OVERLAY = "overlayId"
"""The attribute that says which overlay a management message is about."""
PUBLICATION_TIME = "publicationTime"
"""The attribute that says when a management message was published, in milliseconds."""
MAIN = "main"
"""The overlay, where nothing else is said."""


def path() -> Path:
    """The file of the management ontology, which a trigger broker runs on."""
    return data.path("management")


@cache
def ontology() -> Ontology:
    """The management ontology."""
    return Ontology.load(path())


def name_at_trigger(name: str, overlay: str) -> str:
    """What a broker, publisher or policy server is called at a trigger broker.

    Several overlays may share one, and each have a broker of the same name.

    >>> name_at_trigger("root", MAIN), name_at_trigger("root", "north")
    ('root', 'north/root')
    """
    return name if overlay == MAIN else f"{overlay}/{name}"


def type_of(name: str) -> Individual:
    """The individual that stands for a type of message, such as `subscriber_info`."""
    return Individual(NAMESPACE + name)
