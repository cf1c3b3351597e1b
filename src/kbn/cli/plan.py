"""`kbn plan`: which cluster of an ontology lives on which broker."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbn.cli.ontology import Files, Level, Reasoning, find_term, load
from kbn.cli.ontology_clustering import Order, members_shown, print_clusters, read_order
from kbn.cli.output import AsJson, print_facts, print_json, require_folder, write_json
from kbn.errors import InvalidInputError

if TYPE_CHECKING:
    from kbn.ontology import Ontology
    from kbn.placement import Plan

TRAFFIC = "traffic"
LOAD_MAX = 2.0

Link = tuple[str, str]


def plan(
    files: Files,
    brokers: Annotated[
        str,
        typer.Option(
            "--brokers", "-b", metavar="A,B,…", help="Their names, the top of the hierarchy first."
        ),
    ],
    planner: Annotated[
        str, typer.Option("--planner", "-p", metavar="NAME", help="taxonomic or traffic.")
    ] = "taxonomic",
    links: Annotated[
        str | None,
        typer.Option("--links", metavar="A-B,…", help="With traffic: which brokers are linked."),
    ] = None,
    deliveries: Annotated[
        Path | None,
        typer.Option(
            "--deliveries", exists=True, dir_okay=False, metavar="FILE",
            help="With traffic: CSV or JSON lines of publisher_medoid, subscriber_medoid, count.",
        ),
    ] = None,
    load_max: Annotated[
        float | None,
        typer.Option(
            "--load-max", min=1.0, show_default=str(LOAD_MAX),
            help="With traffic: the most a broker takes, in fair shares of the load.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, show_default="0", help="With traffic.")
    ] = None,
    order: Order = None,
    reasoning: Level = Reasoning.RDFS,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", dir_okay=False, metavar="FILE", help="Keep the plan here."),
    ] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Plan which cluster of FILES lives on which broker.

    taxonomic lays the clusters over the brokers, the most general at the top. traffic puts clusters
    near to those they exchange notifications with, as --deliveries counts them, and keeps each
    broker under --load-max. What --output keeps is what a policy server reads.

    \b
    Examples:
      kbn plan animals --brokers top,left,right --output plan.json
      kbn plan animals --brokers top,left,right --planner traffic --links top-left,top-right
        --deliveries deliveries.csv
    """
    from kbn.placement import plan as planned

    if output is not None:
        require_folder(output.absolute().parent)
    named = [name.strip() for name in brokers.split(",")]
    for_traffic = {"links": links, "deliveries": deliveries, "load-max": load_max, "seed": seed}
    _check_given(planner, for_traffic)
    linked = _links(links, named) if links is not None else []
    ontology = load(files, reasoning, None, None, False)
    listed = None if order is None else read_order(order, ontology)
    options: dict[str, Any] = {}
    if planner == TRAFFIC:
        options = _options(ontology, linked, deliveries, load_max, seed)
    made = planned(ontology, named, planner, order=listed, **options)
    if output is not None:
        write_json(made.to_json(), output)
    if as_json:
        print_json(made.to_json())
    else:
        _print_for_people(ontology, made, _gained(ontology, made, options, listed))


def _check_given(planner: str, for_traffic: Mapping[str, object]) -> None:
    given = [f"--{name}" for name, value in for_traffic.items() if value is not None]
    if planner != TRAFFIC and given:
        raise typer.BadParameter(f"{', '.join(given)}: only with --planner traffic")
    missing = [f"--{name}" for name in ("links", "deliveries") if for_traffic[name] is None]
    if planner == TRAFFIC and missing:
        raise typer.BadParameter(f"--planner traffic needs {' and '.join(missing)}")


def _links(text: str, brokers: list[str]) -> list[Link]:
    return [_link(part.strip(), brokers) for part in text.split(",") if part.strip()]


def _link(text: str, brokers: list[str]) -> Link:
    """The two brokers a link joins; their names may have dashes of their own."""
    parts = text.split("-")
    cuts = [("-".join(parts[:n]), "-".join(parts[n:])) for n in range(1, len(parts))]
    known = [cut for cut in cuts if set(cut) <= set(brokers)]
    if len(known) == 1:
        return known[0]
    if known:
        raise InvalidInputError(f"the link {text!r} can be read as several pairs of brokers")
    if len(cuts) != 1:
        raise InvalidInputError(
            f"{text!r} is no link between two of the brokers {', '.join(brokers)}; "
            "a link is written a-b"
        )
    stranger = next(name for name in cuts[0] if name not in brokers)
    close = difflib.get_close_matches(stranger, brokers, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(brokers)}"
    raise InvalidInputError(f"the link {text!r}: there is no broker {stranger!r}; {hint}")


def _options(
    ontology: Ontology,
    links: list[Link],
    deliveries: Path | None,
    load_max: float | None,
    seed: int | None,
) -> dict[str, Any]:
    from kbn.placement import read_deliveries

    assert deliveries is not None, "checked before"
    return {
        "links": links,
        "deliveries": read_deliveries(deliveries, lambda name: find_term(ontology, name)),
        "load_max": LOAD_MAX if load_max is None else load_max,
        "seed": seed or 0,
    }


def _gained(
    ontology: Ontology, made: Plan, options: dict[str, Any], order: list[str] | None
) -> dict[str, str]:
    """For the traffic planner, hops per delivery and load over the limit, beside taxonomic's."""
    from kbn.placement import overlay_distances, rate_plan
    from kbn.placement import plan as planned

    if not options:
        return {}
    deliveries, load_max = options["deliveries"], options["load_max"]
    apart = overlay_distances(made.brokers, options["links"])
    plain = planned(ontology, made.brokers, order=order)
    now, before = (rate_plan(one, apart, deliveries, None, load_max) for one in (made, plain))
    total = sum(deliveries.values()) or 1
    return {
        "hops per delivery": f"{now.hops / total:.2f} (taxonomic: {before.hops / total:.2f})",
        "load over the limit": f"{now.excess:g} (taxonomic: {before.excess:g})",
    }


def _print_for_people(ontology: Ontology, made: Plan, gained: dict[str, str]) -> None:
    empty = [name for name in made.brokers if not any(name in one.brokers for one in made.clusters)]
    print_facts(
        {
            "planner": made.planner,
            "clusters": len(made.clusters),
            "brokers": len(made.brokers),
            "without a cluster": ", ".join(empty),
            **gained,
        }
    )
    print_clusters(
        [
            (
                str(cluster.rank),
                ontology.shorten(cluster.key),
                ", ".join(cluster.brokers),
                str(len(cluster.members)),
                members_shown(ontology, cluster.members),
            )
            for cluster in made.clusters
        ],
        columns=("rank", "cluster", "broker", "terms", "members"),
    )
