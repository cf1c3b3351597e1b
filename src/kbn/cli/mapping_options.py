"""The option `--mapping`: a layer of mappings over the ontology that a command reasons with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kbn.ontology import MappingFile, Ontology

MappingsGiven = Annotated[
    list[str],
    typer.Option(
        "--mapping",
        metavar="FILE",
        help="Mappings between vocabularies (SSSOM/TSV, an OAEI alignment, SKOS or OWL bridges), "
        "as in FILE or FILE?threshold=0.8&close; may be repeated.",
    ),
]


def mapping_files(given: list[str]) -> tuple[MappingFile, ...]:
    """The files that were named, with their settings."""
    from kbn.ontology import mapping_file

    return tuple(mapping_file(each) for each in given)


def mapped(ontology: Ontology | None, given: list[str]) -> Ontology | None:
    """The ontology with the mappings that were named, if any were."""
    if not given:
        return ontology
    if ontology is None:
        raise typer.BadParameter("--mapping goes with --ontology: give those of both vocabularies")
    from kbn.ontology import Mappings

    return ontology.with_mappings(Mappings.load(mapping_files(given)))
