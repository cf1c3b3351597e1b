"""`kbn groups plan`: advertisements in, clusters out, with their rates and the connections used."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbn.cli.output import (
    AsJson,
    print_facts,
    print_json,
    print_table,
    remark_on_compiling_grouping,
)
from kbn.wording import counted

if TYPE_CHECKING:
    from kbn.grouping import Groups

SHOWN_MAX = 40


class Strategy(StrEnum):
    ONE = "1"
    TWO = "2"
    THREE = "3"
    THREE_ONE = "3.1"
    FOUR = "4"


class Order(StrEnum):
    DESCENDING = "descending"
    RANDOM = "random"


def plan(
    advertisements: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="The advertisements: JSON lines, one publisher each.",
        ),
    ],
    strategy: Annotated[
        Strategy, typer.Option("--strategy", "-s", help="1, 2, 3, 3.1 or 4.")
    ] = Strategy.FOUR,
    connections: Annotated[
        int | None,
        typer.Option(
            "--connections", "-c", min=1, help="The limit of a publisher whose line gives none."
        ),
    ] = None,
    order: Annotated[
        Order, typer.Option("--order", help="How 3 and 3.1 visit clusters: descending or random.")
    ] = Order.DESCENDING,
    seed: Annotated[int, typer.Option("--seed", min=0, help="For the random order.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Group publishers by the attributes they advertise, within the connections they may have.

    A line is {"publisher": "p1", "attributes": ["price", "city"], "connections": 12}, or has a
    filter as "advertisement" instead of "attributes". Strategies 1 and 2 keep no limits.

    \b
    Examples:
      kbn groups plan publishers.jsonl --connections 12
      kbn groups plan publishers.jsonl --strategy 3.1 --order random --json
    """
    from kbn.grouping import WITHOUT_LIMITS, publisher_groups, read_advertisements

    read = read_advertisements(advertisements)
    limits = {each.publisher: each.connections or connections for each in read}
    if strategy.value in WITHOUT_LIMITS:
        limits = dict.fromkeys(limits)
    remark_on_compiling_grouping()
    made = publisher_groups(
        {each.publisher: each.attributes for each in read},
        strategy.value,
        limits,
        order.value,
        seed,
    )
    told = _told(made)
    if as_json:
        print_json(told)
    else:
        _print_for_people(told)


def _told(made: Groups) -> dict[str, Any]:
    used = made.connections
    limits = made.limits
    return {
        "strategy": made.strategy,
        "false_positive_rate": made.false_positive_rate(),
        "clusters": [
            {
                "number": cluster.number,
                "combinations": sorted(sorted(each) for each in cluster.combinations),
                "publishers": cluster.publishers,
                "false_positive_rate": cluster.false_positive_rate,
            }
            for cluster in made.clusters
        ],
        "publishers": [
            {"publisher": key, "clusters": list(clusters), "limit": limits[key]}
            for key, clusters in used.items()
        ],
    }


def _print_for_people(told: dict[str, Any]) -> None:
    used = [len(publisher["clusters"]) for publisher in told["publishers"]]
    mean = sum(used) / max(1, len(used))
    limited = [each for each in told["publishers"] if each["limit"] is not None]
    full = sum(len(each["clusters"]) == each["limit"] for each in limited)
    print_facts(
        {
            "strategy": told["strategy"],
            "publishers": len(used),
            "clusters": len(told["clusters"]),
            "false positives": f"{told['false_positive_rate']:.1%}",
            "connections": f"{mean:.1f} each, at most {max(used, default=0)}",
            "without a free one": f"{full} of {len(limited)}" if limited else "",
        }
    )
    shown = told["clusters"][:SHOWN_MAX]
    print_table(
        [
            (
                str(cluster["number"]),
                ", ".join("+".join(names) for names in cluster["combinations"]),
                str(cluster["publishers"]),
                f"{cluster['false_positive_rate']:.1%}",
            )
            for cluster in shown
        ],
        columns=("cluster", "combinations", "publishers", "false positives"),
    )
    if len(told["clusters"]) > len(shown):
        more = counted(len(told["clusters"]) - len(shown), "more cluster")
        typer.echo(f"… and {more} (--json shows all)")
