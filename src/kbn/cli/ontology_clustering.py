"""`kbn ontology medoid` and `clusters`: what terms are about as one, and which belong together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbn.cli.map_options import MapOptions
from kbn.cli.ontology import Files, Reading, find_term, named
from kbn.cli.options import with_options
from kbn.cli.output import (
    AsJson,
    print_facts,
    print_json,
    print_table,
    remark_on_compiling_placement,
)
from kbn.errors import InvalidInputError
from kbn.wording import counted

if TYPE_CHECKING:
    from kbn.ontology import Ontology
    from kbn.placement import Medoid, SemanticMap

# How many members of a cluster a table names before it says how many more there are.
MEMBERS_SHOWN = 8
# And how many clusters.
CLUSTERS_SHOWN = 200

Order = Annotated[
    Path | None,
    typer.Option(
        "--order", exists=True, dir_okay=False, metavar="FILE",
        help="Terms, one a line: of the clusters a class could be in, the first listed gets it.",
    ),
]  # fmt: skip


@with_options
def medoid(
    *,
    files: Files,
    terms: Annotated[
        list[str] | None,
        typer.Option(
            "--terms", "-t", metavar="A,B,…",
            help="IRIs, CURIEs or local names; repeats count. May be repeated.",
        ),
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter", "-f", metavar="TEXT",
            help="Take the terms of this subscription. May be repeated.",
        ),
    ] = None,
    semantic_map: MapOptions,
    reading: Reading,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Find the term of FILES that is nearest to all the given ones: what they are about, as one.

    The spread is the standard deviation of the distances: a small one says that the medoid speaks
    for all terms alike.

    \b
    Examples:
      kbn ontology medoid animals --terms JackRussell,Gus
      kbn ontology medoid podcast --filter 'category #>/@> {podcast:Technology}'
      kbn ontology medoid animals --terms Cats,Dogs --weights to_superclass=30
    """
    if not terms and not filters:
        raise typer.BadParameter("there is nothing to find the medoid of: add --terms or --filter")
    settings = semantic_map.settings()
    ontology = reading.load(files)
    counted_terms = Counter(_terms(ontology, terms or [], filters or []))
    if not counted_terms:
        raise InvalidInputError("the filters name no terms, so they have no medoid")
    remark_on_compiling_placement()
    told = _medoid_told(settings.map_of(ontology), counted_terms)
    if as_json:
        print_json(told)
    else:
        _print_medoid(ontology, told)


def _terms(ontology: Ontology, terms: list[str], filters: list[str]) -> list[str]:
    """The IRIs that the options name, as often as they do."""
    from kbn.filters import Subscription, terms_named_in

    names = (name.strip() for text in terms for name in text.split(","))
    found = [find_term(ontology, name) for name in names if name]
    for text in filters:
        subscription = Subscription.parse(text, ontology.prefixes, ontology)
        found += [term.iri for term in terms_named_in(subscription)]
    return found


def _medoid_told(semantic_map: SemanticMap, terms: Counter[str]) -> dict[str, Any]:
    from kbn.placement import clusters as clusters_of

    ontology = semantic_map.ontology
    found: Medoid = semantic_map.medoid(terms)
    return {
        "medoid": found.term,
        "cost": found.cost,
        "spread": found.spread,
        "terms": found.terms,
        "reached": found.reached,
        "skipped": list(found.skipped),
        "complete": found.complete,
        "cluster": None if found.term is None else clusters_of(ontology).cluster_of(found.term),
        "named": dict(terms),
    }


def _print_medoid(ontology: Ontology, told: dict[str, Any]) -> None:

    def short(iri: str) -> str:
        return named(ontology, iri)

    print_facts(
        {
            "medoid": "none" if told["medoid"] is None else short(told["medoid"]),
            "cost": told["cost"],
            "spread": f"{told['spread']:.1f}",
            "reaches": _reach(told["reached"], told["terms"]),
            "no place on the map": [short(iri) for iri in told["skipped"]],
            "cluster": None if told["cluster"] is None else short(told["cluster"]),
        }
    )


def _reach(reached: int, terms: int) -> str:
    of = counted(terms, "term")
    if reached < terms:
        return f"{reached} of {of}"
    return of if terms == 1 else f"all {of}"


@with_options
def clusters(
    *,
    files: Files,
    order: Order = None,
    reading: Reading,
    as_json: AsJson = False,
) -> None:
    """Show the clusters of FILES: every root, and every class with subclasses, has one.

    They come from the most general to the most specific; each class, and each individual that has
    a class, is in exactly one.

    \b
    Examples:
      kbn ontology clusters animals
      kbn ontology clusters conference --order listed.txt --json
    """
    from kbn.placement import clusters as clusters_of

    ontology = reading.load(files)
    found = clusters_of(ontology, None if order is None else read_order(order, ontology))
    if as_json:
        told = [
            {"rank": rank, "key": key, "members": sorted(found.members(key))}
            for rank, key in enumerate(found, start=1)
        ]
        print_json({"ontology": ontology.digest, "clusters": told})
        return
    rows = []
    for rank, key in enumerate(found, start=1):
        members = found.members(key)
        shown = members_shown(ontology, members)
        rows.append((str(rank), named(ontology, key), str(len(members)), shown))
    print_clusters(rows, columns=("rank", "cluster", "terms", "members"))


def print_clusters(rows: Sequence[Sequence[str]], columns: Sequence[str]) -> None:
    """Print the first of many rows, and how many more there are."""
    print_table(rows[:CLUSTERS_SHOWN], columns=columns)
    if len(rows) > CLUSTERS_SHOWN:
        more = counted(len(rows) - CLUSTERS_SHOWN, "more cluster")
        typer.echo(f"… and {more} (--json shows all)")


def read_order(path: Path, ontology: Ontology) -> list[str]:
    """The terms listed in a file, one a line; lines that start with # are remarks."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path}: not UTF-8 text (byte {error.start})") from error
    found = []
    for number, line in enumerate(lines, start=1):
        name = line.strip()
        if name and not name.startswith("#"):
            try:
                found.append(find_term(ontology, name))
            except InvalidInputError as error:
                raise InvalidInputError(f"{path}:{number}: {error}") from error
    return found


def members_shown(ontology: Ontology, members: frozenset[str]) -> str:
    """The first members by name, and how many more there are."""
    names = [named(ontology, iri) for iri in sorted(members)]
    more = len(names) - MEMBERS_SHOWN
    shown = ", ".join(names[:MEMBERS_SHOWN])
    return shown if more <= 0 else f"{shown} and {more} more"
