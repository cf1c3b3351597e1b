"""`kbn ontology diff`: what a higher level finds and a lower one does not, or what has changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbn.cli.ontology import Files, Reading, Reasoning, named, ontology_source
from kbn.cli.ontology_explain import Axioms
from kbn.cli.options import with_options
from kbn.cli.output import AsJson, print_json
from kbn.wording import counted

if TYPE_CHECKING:
    from kbn.ontology import Link, Ontology

# How many links are printed before it is only said how many more there are.
MAX_SHOWN = 200


@with_options
def diff(
    *,
    files: Files,
    levels: Annotated[
        str | None,
        typer.Option("--levels", metavar="LOW,HIGH", help="Two levels to compare: rdfs,el."),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            metavar="FILE",
            parser=ontology_source,
            help="Files of another version to compare with; may be repeated.",
        ),
    ] = None,
    reading: Reading,
    as_json: AsJson = False,
) -> None:
    """Show what a higher level finds in FILES that a lower one does not, and why it holds.

    Only direct links are listed: everything else that is new follows from them. Below a link are
    its axioms, as in kbn ontology explain. With --against, FILES are compared with another version
    of them at the level of --reasoning, both ways.

    \b
    Examples:
      kbn ontology diff drinks --levels rdfs,el
      kbn ontology diff new.ttl --against old.ttl
    """
    if (levels is None) == (not against):
        raise typer.BadParameter("give either --levels or --against")
    if levels is not None:
        low, high = _levels(levels)
        before = replace(reading, reasoning=low).load(files)
        after = replace(reading, reasoning=high).load(files)
        names = low.value, high.value
    else:
        before, after = reading.load(against or []), reading.load(files)
        names = "before", "after"
    told = Difference(before, after)
    back = Difference(after, before)
    if as_json:
        print_json(
            {
                "before": {"sources": list(before.sources), "reasoning": before.reasoning},
                "after": {"sources": list(after.sources), "reasoning": after.reasoning},
                "added": told.to_json(),
                "removed": back.to_json(),
            }
        )
        return
    told.print(f"found at {names[1]} and not at {names[0]}" if levels else "new")
    if against or back.links or back.terms:
        back.print(f"found at {names[0]} and not at {names[1]}" if levels else "gone")


def _levels(text: str) -> tuple[Reasoning, Reasoning]:
    known = [level.value for level in Reasoning]
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not set(parts) <= set(known) or parts[0] == parts[1]:
        raise typer.BadParameter(
            f"two different ones of {', '.join(known)}, as in rdfs,el, not {text!r}",
            param_hint="--levels",
        )
    return Reasoning(parts[0]), Reasoning(parts[1])


class Difference:
    """What the second ontology has and the first does not."""

    def __init__(self, before: Ontology, after: Ontology) -> None:
        from kbn.ontology import new_links

        self._ontology = after
        self.links: tuple[Link, ...] = new_links(before, after)
        everything = (*after.classes, *after.properties, *after.individuals)
        self.terms = [name for name in everything if not before.kinds(name)]

    def print(self, title: str) -> None:
        """Print the terms, and the links with their axioms, for people."""
        axioms = Axioms(self._ontology)
        if self.terms:
            shown = [named(self._ontology, name) for name in self.terms[:MAX_SHOWN]]
            more = len(self.terms) - len(shown)
            rest = f" and {more} more" if more else ""
            typer.echo(f"{counted(len(self.terms), 'term')} {title}: {', '.join(shown)}{rest}")
        direct = counted(len(self.links), "direct link")
        typer.echo(f"{direct} {title}{':' if self.links else ''}")
        for link in self.links[:MAX_SHOWN]:
            axioms.print(link, indent=2)
        if len(self.links) > MAX_SHOWN:
            typer.echo(f"… and {len(self.links) - MAX_SHOWN:,} more (--json shows all)")

    def to_json(self) -> dict[str, Any]:
        """The same as JSON-ready data."""
        axioms = Axioms(self._ontology)
        links = [{**link._asdict(), **axioms.to_json(link)} for link in self.links]
        return {"terms": self.terms, "links": links}
