"""`kbn ontology`: compile ontology files, and look at what came out."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbn.cli.options import option_group, with_options
from kbn.cli.output import AsJson, console, print_facts, print_json, print_table, progress, remark
from kbn.errors import UnknownTermError
from kbn.wording import counted

if TYPE_CHECKING:
    from rich.tree import Tree

    from kbn.ontology import Ontology

# How much of a large class tree `show` prints before it says how much more there is.
MAX_SHOWN = 200

# A DL reasoner may run for ever; this bounds it unless the user says otherwise.
TIME_LIMIT_S = 600.0

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Compile ontologies and look at them."
)


class Reasoning(StrEnum):
    """How much of what follows from an ontology is worked out when it is loaded."""

    NONE = "none"
    RDFS = "rdfs"
    RL = "rl"
    EL = "el"
    DL = "dl"


def ontology_file(given: str) -> Path:
    """The file of that name or, where there is none, the ontology that ships under that name."""
    file = Path(given)
    if file.exists() and not file.is_dir():
        return file
    from kbn import data
    from kbn.config import did_you_mean

    if given in data.names():
        return data.path(given)
    if "://" in given:
        raise typer.BadParameter(
            f"{given}: only kbn ontology commands fetch, by http and https; give a file here"
        )
    wrong = "is a folder" if file.is_dir() else "there is no such file"
    ships = f"kbn ships {', '.join(data.names())}"
    raise typer.BadParameter(f"{given}: {wrong}{did_you_mean(given, data.names()) or '; ' + ships}")


def ontology_source(given: str) -> str:
    """The file, the shipped ontology, or the address of one, that a user means."""
    from kbn.ontology import is_address

    if is_address(given):
        return given
    if "://" in given:
        raise typer.BadParameter(
            f"{given}: only http and https are fetched; give a file of this machine by its path"
        )
    return str(ontology_file(given))


Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES",
        parser=ontology_source,
        show_default=False,
        help=(
            "Ontology files (Turtle, RDF/XML, N-Triples, OWL functional syntax, OWL/XML, JSON-LD, "
            "OBO), their http or https addresses, or the name of one that ships with kbn, such as "
            "animals."
        ),
    ),
]
Ontologies = Annotated[
    list[Path],
    typer.Option(
        "--ontology",
        "-o",
        metavar="FILE",
        parser=ontology_file,
        help="Ontology file, or the name of a shipped one; may be repeated.",
    ),
]
Level = Annotated[
    Reasoning,
    typer.Option("--reasoning", "-r", help="none, rdfs, rl, el or dl (dl needs Java)."),
]


@option_group
class OntologyOptions:
    """Which ontology a command reasons with, if with any."""

    ontology: Ontologies = field(default_factory=list)
    reasoning: Level = Reasoning.RDFS

    def load(self) -> Ontology | None:
        """The ontology of the files; None when there are none."""
        from kbn.ontology import Ontology

        if not self.ontology:
            return None
        return Ontology.load(self.ontology, reasoning=self.reasoning.value)


@option_group
class Reading:
    """How ontology files are read."""

    reasoning: Level = Reasoning.RDFS
    skos: Annotated[
        bool | None,
        typer.Option(
            "--skos/--no-skos",
            show_default="by detection",
            help="Read SKOS concepts as classes, broader as subclass-of.",
        ),
    ] = None
    catalogue: Annotated[
        Path | None,
        typer.Option(help="Where owl:imports are found: a folder, or a catalog-v001.xml."),
    ] = None
    network: Annotated[
        bool, typer.Option("--network", help="Fetch imports that no local file provides.")
    ] = False
    offline: Annotated[
        bool, typer.Option("--offline", help="Fetch nothing: use what was fetched before.")
    ] = False

    def load(
        self, files: list[str], cache: bool = True, time_limit_s: float = TIME_LIMIT_S
    ) -> Ontology:
        """The ontology of the files, with what is being done shown on stderr."""
        from kbn.ontology import Ontology

        told: list[str] = []

        def say(what: str) -> None:
            show(what, 0, 0)
            if "kept copy" in what:
                told.append(what)

        with progress() as show:
            found = Ontology.load(
                files,
                reasoning=self.reasoning.value,
                skos=self.skos,
                cache=cache,
                catalogue=self.catalogue,
                network=self.network,
                offline=self.offline,
                time_limit_s=time_limit_s,
                progress=say,
            )
        for what in told:
            remark(what)
        return found


@app.command("compile", short_help="Compile files into one ontology, and keep it.")
@with_options
def compile_(
    *,
    files: Files,
    reading: Reading,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Neither read nor write the cache.")
    ] = False,
    time_limit: Annotated[
        float, typer.Option(min=0.1, help="Seconds an external reasoner may take.")
    ] = TIME_LIMIT_S,
    as_json: AsJson = False,
) -> None:
    """Read, reason over and compile FILES into one ontology, and keep it for the next load.

    The result is kept by the content of the files, so a second load is instant. Axioms the level
    does not understand are listed, not silently dropped.

    \b
    Example:
      kbn ontology compile conference services --reasoning el
    """
    from time import perf_counter

    started = perf_counter()
    ontology = reading.load(files, not no_cache, time_limit)
    facts = {**_facts(ontology), "seconds": round(perf_counter() - started, 3)}
    if as_json:
        print_json(facts)
    else:
        print_facts(_for_people(facts))


@app.command("show", short_help="Show the classes and properties, or one term.")
@with_options
def show(
    *,
    files: Files,
    term: Annotated[
        str | None,
        typer.Option(
            "--term",
            "-t",
            metavar="TERM",
            help="The term to show: an IRI, a CURIE, a local name or a label.",
        ),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            "--search",
            "-s",
            metavar="TEXT",
            help="List the terms with all these words in a label, a synonym or the name.",
        ),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option("--depth", min=1, help="Show so many levels of the class tree."),
    ] = None,
    reading: Reading,
    as_json: AsJson = False,
) -> None:
    """Show the class tree of FILES and the properties, or everything known about one term.

    A term is shown by its short name, and by its label where that says more. Behind a property are
    its domain and its range.

    \b
    Examples:
      kbn ontology show animals --depth 2
      kbn ontology show podcast --search tech
      kbn ontology show animals --term Cats --json
    """
    if term is not None and search is not None:
        raise typer.BadParameter("--term shows one term, --search finds some: give one of them")
    ontology = reading.load(files)
    if search is not None:
        _print_found(ontology, search, as_json)
    elif term is not None:
        facts = _term_facts(ontology, find_term(ontology, term))
        print_json(facts) if as_json else print_facts(_shortened(ontology, facts))
    elif as_json:
        properties = {iri: _ends(ontology, iri) for iri in ontology.properties}
        children = _children(ontology)
        print_json({**_facts(ontology), "children": children, "property_ends": properties})
    else:
        print_facts(_for_people(_facts(ontology)))
        console().print(_tree(ontology, depth))
        _print_properties(ontology)


def _facts(ontology: Ontology) -> dict[str, object]:
    return {
        "sources": [str(source) for source in ontology.sources],
        "reasoning": ontology.reasoning,
        "classes": len(ontology.classes),
        "properties": len(ontology.properties),
        "individuals": len(ontology.individuals),
        "unsupported": list(ontology.unsupported),
        "digest": ontology.digest,
    }


def _for_people(facts: dict[str, object]) -> dict[str, object]:
    # What could not be used, and whatever else a reader should know about the reading.
    return {"remarks" if name == "unsupported" else name: fact for name, fact in facts.items()}


def _print_found(ontology: Ontology, text: str, as_json: bool) -> None:
    from kbn.ontology import NameIndex

    found = NameIndex(ontology).search(text)
    if as_json:
        terms = [
            {"iri": term.iri, "kinds": sorted(ontology.kinds(term.iri)), "name": name}
            for term, name in found
        ]
        print_json({"search": text, "terms": terms})
        return
    if not found:
        typer.echo(f"no term has {text!r} in a label or in its name")
        return
    rows = []
    for term, name in found[:MAX_SHOWN]:
        above = ontology.parents(term.iri) or ontology.direct_types(term.iri)
        parents = ", ".join(named(ontology, each) for each in sorted(above))
        kinds = ", ".join(sorted(ontology.kinds(term.iri)))
        rows.append((named(ontology, term.iri), kinds, name, parents))
    print_table(rows, columns=("term", "kind", "found in", "directly below"))
    if len(found) > MAX_SHOWN:
        typer.echo(f"… and {len(found) - MAX_SHOWN:,} more (--json shows all)")


def _ends(ontology: Ontology, iri: str) -> dict[str, list[str]]:
    return {
        "domains": sorted(ontology.domains(iri)),
        "ranges": sorted(ontology.ranges(iri)),
    }


def _print_properties(ontology: Ontology) -> None:
    """The properties, each with what it goes from and to, where that is said."""
    rows = []
    for iri in ontology.properties[:MAX_SHOWN]:
        ends = _ends(ontology, iri).values()
        domain, reach = (", ".join(named(ontology, each) for each in end) for end in ends)
        rows.append((named(ontology, iri), domain, reach))
    if rows:
        print_table(rows, columns=("property", "domain", "range"))
    if len(ontology.properties) > MAX_SHOWN:
        more = counted(len(ontology.properties) - MAX_SHOWN, "more property", "more properties")
        typer.echo(f"… and {more} (--term shows one, --json all)")


def find_term(ontology: Ontology, term: str) -> str:
    """The IRI a user means by an IRI, a CURIE, a local name or a label that only one term has."""
    from kbn.ontology import NameIndex

    names = NameIndex(ontology)
    if names.find(term) is not None and not names.is_ambiguous(term):
        return names.all(term)[0].iri
    if "://" in term:
        iri = term.strip("<>")
    elif ":" in term:
        iri = ontology.expand(term)
    else:
        everything = (*ontology.classes, *ontology.properties, *ontology.individuals)
        named = sorted({iri for iri in everything if iri.endswith(("#" + term, "/" + term))})
        iri = named[0] if len(named) == 1 else term
    try:
        ontology.require(iri)
    except UnknownTermError as error:
        if error.closest:
            raise
        reason = f"{error}; kbn ontology show --search finds terms by words of their labels"
        raise UnknownTermError(iri, reason=reason) from error
    return iri


def _term_facts(ontology: Ontology, iri: str) -> dict[str, object]:
    kinds = ontology.kinds(iri)
    facts: dict[str, object] = {
        "iri": iri,
        "kinds": sorted(kinds),
        "labels": list(ontology.labels(iri)),
    }
    if "class" in kinds:
        facts["equivalents"] = sorted(ontology.equivalents(iri) - {iri})
        facts["parents"] = sorted(ontology.parents(iri))
        facts["children"] = sorted(ontology.children(iri))
        facts["ancestors"] = sorted(ontology.ancestors(iri) - {iri})
        facts["instances"] = sorted(ontology.instances(iri))
    if "property" in kinds:
        facts["superproperties"] = sorted(ontology.property_ancestors(iri) - {iri})
        facts["subproperties"] = sorted(ontology.property_descendants(iri) - {iri})
        facts["domains"] = sorted(ontology.domains(iri))
        facts["ranges"] = sorted(ontology.ranges(iri))
    if "individual" in kinds:
        facts["same as"] = sorted(ontology.same_as(iri) - {iri})
        facts["types"] = sorted(ontology.types(iri))
        facts["relations"] = [list(pair) for pair in sorted(ontology.relations(iri))]
    return facts


def _shortened(ontology: Ontology, facts: dict[str, object]) -> dict[str, object]:
    """The same facts as a person reads them: CURIEs, and a relation on one line."""

    def short(value: object) -> object:
        if isinstance(value, list) and value and isinstance(value[0], list):
            return [" ".join(named(ontology, iri) for iri in pair) for pair in value]
        if isinstance(value, list):
            return [named(ontology, item) for item in value]
        return value

    plain = ("labels", "kinds")
    return {name: value if name in plain else short(value) for name, value in facts.items()}


def named(ontology: Ontology, iri: str) -> str:
    """A term as a person reads it: its CURIE, and its label where that says more.

    >>> from kbn.ontology import Ontology
    >>> named(Ontology.empty(), "http://www.w3.org/2002/07/owl#Thing")
    'owl:Thing'
    """
    from kbn.ontology import telling_label

    short, label = ontology.shorten(iri), telling_label(ontology, iri)
    return short if label is None else f"{short} ({label})"


def _children(ontology: Ontology) -> dict[str, list[str]]:
    return {iri: sorted(ontology.children(iri)) for iri in ontology.classes}


def _tree(ontology: Ontology, depth: int | None = None) -> Tree:
    """The class tree, nearest the roots first, cut off at MAX_SHOWN classes, or below `depth`.

    A class with several parents stands under each; a class is never opened below itself.
    """
    from rich.text import Text
    from rich.tree import Tree

    trunk = Tree("", hide_root=True, guide_style="dim")
    roots = sorted(ontology.roots)[:MAX_SHOWN]
    branches = [(trunk.add(Text(named(ontology, root))), root, 1) for root in roots]
    shown = len(branches)
    for branch, iri, level in branches:  # grows while it is walked: breadth first
        for child in sorted(ontology.children(iri)) if level != depth else ():
            if shown >= MAX_SHOWN:
                break
            branches.append((branch.add(Text(named(ontology, child))), child, level + 1))
            shown += 1
    hidden = len(ontology.classes) - len({iri for _, iri, _ in branches})
    if hidden > 0:
        more = counted(hidden, "more class")
        trunk.add(Text(f"… and {more} (--term shows one, --json all)"))
    return trunk
