"""The options of commands that take part in managing: which overlay, and how medoids are found."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kbn.cli.options import option_group

if TYPE_CHECKING:
    from kbn.placement import MapSettings


MAIN = "main"
"""`kbn.management.terms.MAIN`, likewise."""
OverlayName = Annotated[
    str,
    typer.Option(
        "--overlay",
        metavar="NAME",
        help="The overlay it belongs to, where several share a trigger broker.",
    ),
]


def check_overlay(name: str) -> None:
    """Refuse what cannot tell overlays apart."""
    if not name.strip() or "/" in name or len(name) > 100:
        raise typer.BadParameter("--overlay: a name of at most 100 characters, without /")


class TieRule(StrEnum):
    """`kbn.placement.Ties`, here too so that `kbn --help` need not load it."""

    INDIVIDUAL_FIRST = "individual-first"
    CLASS_FIRST = "class-first"


@option_group
class MapOptions:
    """What the semantic map goes by; the same for all who are managed together."""

    weights: Annotated[
        str,
        typer.Option(
            "--weights",
            metavar="NAME=N,…",
            help="What a step on the semantic map costs, from 1 to 100: to_superclass, "
            "to_subclass (100), to_instance, to_related (1).",
            show_default=False,
        ),
    ] = ""
    ties: Annotated[
        TieRule, typer.Option("--ties", help="Of equally near terms, which is the medoid.")
    ] = TieRule.INDIVIDUAL_FIRST

    def settings(self) -> MapSettings:
        """What was given; InvalidInputError when a weight is wrong."""
        from kbn.placement import MapSettings, Ties, weights_of

        return MapSettings(weights_of(self.weights), Ties(self.ties.value))

    @property
    def are_given(self) -> bool:
        """Whether anything is other than where nothing is said."""
        return bool(self.weights) or self.ties is not TieRule.INDIVIDUAL_FIRST
