"""`kbn plan`: which cluster of an ontology lives on which broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbn.cli.ontology import Files, Level, Reading, Reasoning, find_term, named
from kbn.cli.ontology_clustering import Order, members_shown, print_clusters, read_order
from kbn.cli.options import option_group, with_options
from kbn.cli.output import AsJson, print_facts, print_json, require_folder, write_json
from kbn.config import or_one_of
from kbn.errors import InvalidInputError

if TYPE_CHECKING:
    from kbn.ontology import Ontology
    from kbn.placement import Plan

TRAFFIC = "traffic"
TOPIC = "topic"
LOAD_MAX = 2.0

Link = tuple[str, str]


@option_group
class Planning:
    """Which planner, and what the traffic planner goes by."""

    planner: Annotated[
        str,
        typer.Option(
            "--planner",
            "-p",
            metavar="NAME",
            help="taxonomic, traffic, balanced, topic or rendezvous.",
        ),
    ] = "taxonomic"
    links: Annotated[
        str | None,
        typer.Option("--links", metavar="A-B,…", help="With traffic: which brokers are linked."),
    ] = None
    deliveries: Annotated[
        Path | None,
        typer.Option(
            "--deliveries",
            exists=True,
            dir_okay=False,
            metavar="FILE",
            help="With traffic or topic: CSV or JSON lines of publisher_medoid, subscriber_medoid, "
            "count.",
        ),
    ] = None
    load_max: Annotated[
        float | None,
        typer.Option(
            "--load-max",
            min=1.0,
            show_default=str(LOAD_MAX),
            help="With traffic: the most a broker takes, in fair shares of the load.",
        ),
    ] = None
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", min=0, show_default="0", help="With traffic: the seed of the search."
        ),
    ] = None

    @property
    def is_by_traffic(self) -> bool:
        return self.planner == TRAFFIC

    def check(self) -> None:
        """Refuse options of the traffic planner for another, and that planner without them."""
        given = {
            "--links": self.links, "--deliveries": self.deliveries, "--load-max": self.load_max,
            "--seed": self.seed,
        }  # fmt: skip
        named = [option for option, value in given.items() if value is not None]
        if self.planner == TOPIC:
            if self.deliveries is None:
                raise typer.BadParameter("--planner topic needs --deliveries")
            named.remove("--deliveries")
        if not self.is_by_traffic and named:
            raise typer.BadParameter(f"{', '.join(named)}: only with --planner traffic")
        missing = [option for option in ("--links", "--deliveries") if given[option] is None]
        if self.is_by_traffic and missing:
            raise typer.BadParameter(f"--planner traffic needs {' and '.join(missing)}")

    def options(self, ontology: Ontology, links: list[Link]) -> dict[str, Any]:
        """What the planner is given beside clusters and brokers."""
        from kbn.placement import read_deliveries

        if self.deliveries is None:
            return {}
        deliveries = read_deliveries(self.deliveries, lambda name: find_term(ontology, name))
        if not self.is_by_traffic:
            return {"deliveries": deliveries}
        return {
            "links": links,
            "deliveries": deliveries,
            "load_max": LOAD_MAX if self.load_max is None else self.load_max,
            "seed": self.seed or 0,
        }


@with_options
def plan(
    *,
    files: Files,
    brokers: Annotated[
        str,
        typer.Option(
            "--brokers",
            "-b",
            metavar="A,B,…",
            help="Names of the brokers, the top of the hierarchy first.",
        ),
    ],
    planning: Planning,
    order: Order = None,
    reasoning: Level = Reasoning.RDFS,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            dir_okay=False,
            metavar="FILE",
            help="Also write the plan to this file.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Plan which cluster of FILES lives on which broker.

    taxonomic lays the clusters over the brokers, the most general at the top. traffic puts clusters
    near to those they exchange notifications with, as --deliveries counts them, and keeps each
    broker under --load-max. balanced gives brokers the same number of terms, topic puts clusters
    with the same subscribers together, and rendezvous goes by a hash. What --output keeps is what a
    policy server reads.

    \b
    Examples:
      kbn plan animals --brokers top,left,right --output plan.json
      kbn plan animals --brokers top,left,right --planner traffic \\
        --links top-left,top-right --deliveries deliveries.csv
    """
    from kbn.placement import plan as planned

    if output is not None:
        require_folder(output.absolute().parent)
    listed = [name.strip() for name in brokers.split(",")]
    planning.check()
    linked = _links(planning.links, listed) if planning.links is not None else []
    ontology = Reading(reasoning=reasoning).load(files)
    first = None if order is None else read_order(order, ontology)
    options = planning.options(ontology, linked)
    made = planned(ontology, listed, planning.planner, order=first, **options)
    if output is not None:
        write_json(made.to_json(), output)
    if as_json:
        print_json(made.to_json())
    else:
        _print_for_people(ontology, made, _gained(ontology, made, options, first))


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
    hint = or_one_of(stranger, brokers)
    raise InvalidInputError(f"the link {text!r}: there is no broker {stranger!r}{hint}")


def _gained(
    ontology: Ontology, made: Plan, options: dict[str, Any], order: list[str] | None
) -> dict[str, str]:
    """For the traffic planner, hops per delivery and load over the limit, beside taxonomic's."""
    from kbn.placement import overlay_distances, rate_plan
    from kbn.placement import plan as planned

    if "links" not in options:
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
                named(ontology, cluster.key),
                ", ".join(cluster.brokers),
                str(len(cluster.members)),
                members_shown(ontology, cluster.members),
            )
            for cluster in made.clusters
        ],
        columns=("rank", "cluster", "broker", "terms", "members"),
    )
