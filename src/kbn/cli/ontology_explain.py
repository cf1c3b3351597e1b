"""`kbn ontology explain`: why an ontology relates two terms, axiom by axiom."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbn.cli.ontology import Reading, find_term, named, ontology_source
from kbn.cli.options import with_options
from kbn.cli.output import AsJson, print_json, remark
from kbn.errors import KbnError

if TYPE_CHECKING:
    from kbn.ontology import Link, Ontology, Step

Name = Annotated[
    str, typer.Argument(show_default=False, help="An IRI, a CURIE, a local name or a label.")
]


@with_options
def explain(
    *,
    first: Name,
    second: Name,
    ontology_files: Annotated[
        list[str] | None,
        typer.Option(
            "--ontology",
            "-o",
            metavar="FILE",
            parser=ontology_source,
            help="Ontology file, its address, or the name of a shipped one; may be repeated.",
        ),
    ] = None,
    reading: Reading,
    as_json: AsJson = False,
) -> None:
    """Say why FIRST is a kind of SECOND, is one of them, or is related to it, axiom by axiom.

    The way goes link by link. Below each link are its axioms: where each is written, and the rule
    by which what is not written follows. At level dl a link may be known to the reasoner alone.

    \b
    Example:
      kbn ontology explain John Animal -o animals
    """
    from kbn.ontology import links_between

    if not ontology_files:
        raise typer.BadParameter("give the ontology with -o", param_hint="--ontology")
    ontology = reading.load(ontology_files)
    one, other = find_term(ontology, first), find_term(ontology, second)
    links = links_between(ontology, one, other)
    axioms = Axioms(ontology)
    if as_json:
        said = [{**link._asdict(), **axioms.to_json(link)} for link in links]
        print_json({"first": one, "second": other, "related": bool(links), "links": said})
        return
    if one == other:
        typer.echo(f"both are {named(ontology, one)}")
    elif not links:
        between = f"{named(ontology, one)} to {named(ontology, other)}"
        back = bool(links_between(ontology, other, one))
        way = "; the other way round there is a way" if back else ""
        typer.echo(f"at level {ontology.reasoning} nothing leads from {between}{way}")
    for link in links:
        axioms.print(link)


class Axioms:
    """The axioms behind the links of one ontology, for people to read."""

    def __init__(self, ontology: Ontology) -> None:
        from kbn.ontology import Proofs

        self._ontology = ontology
        self._proofs = Proofs(ontology)
        self._can_read = True

    def print(self, link: Link, indent: int = 0) -> None:
        """Print a link, and below it the steps that prove it unless it is plainly written."""
        space = " " * indent
        if link.source != "ontology":
            typer.echo(f"{space}{self._said(link)}    [{link.source}]")
            return
        steps = self._steps(link)
        if len(steps) == 1:
            typer.echo(f"{space}{self._said(link)}    {_origin(steps[0])}")
            return
        unread = f"    {self._without_proof()}" if not steps else ""
        typer.echo(f"{space}{self._said(link)}{unread}")
        for number, step in enumerate(steps, start=1):
            typer.echo(f"{space}  {number}. {step.text(self._named)}    {_origin(step)}")

    def to_json(self, link: Link) -> dict[str, Any]:
        """The steps that prove a link, as JSON-ready data."""
        steps = self._steps(link)
        found = [
            {
                "says": step.text(self._named),
                "rule": step.rule,
                "from": [place + 1 for place in step.premises],
                "file": step.file,
                "line": step.line,
            }
            for step in steps
        ]
        return {"steps": found, "remark": None if steps else self._without_proof()}

    def _steps(self, link: Link) -> tuple[Step, ...]:
        try:
            return self._proofs.of(link) if self._can_read else ()
        except KbnError as error:
            # The answer stands without its axioms; why they cannot be told is told once.
            self._can_read = False
            remark(f"the axioms cannot be told: {error}")
            return ()

    def _without_proof(self) -> str:
        if not self._can_read:
            return "axioms unknown"
        by = "inferred by the reasoner"
        return by if self._ontology.reasoning == "dl" else "inferred"

    def _named(self, iri: str) -> str:
        return named(self._ontology, iri)

    def _said(self, link: Link) -> str:
        relation = link.relation
        if self._ontology.kinds(relation):
            relation = f"has {self._named(relation)}"
        return f"{self._named(link.first)} {relation} {self._named(link.second)}"


def _origin(step: Step) -> str:
    """Where a step is written, or what it follows from."""
    if not step.is_asserted:
        listed = ", ".join(str(place + 1) for place in step.premises)
        return f"[{step.rule}{' of ' + listed if listed else ''}]"
    if step.file is None:
        return "[asserted, line unknown]"
    line = "line unknown" if step.line is None else f"line {step.line}"
    return f"[{Path(step.file).name}, {line}]"
