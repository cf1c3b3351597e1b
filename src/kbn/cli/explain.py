"""`kbn explain`: why a subscription accepts a notification, or why it does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kbn.cli.notification_texts import read_notification
from kbn.cli.ontology import OntologyOptions
from kbn.cli.options import with_options
from kbn.cli.output import AsJson, print_json, remark

if TYPE_CHECKING:
    from kbn.filters import Explanation, UnknownTerm
    from kbn.ontology import Ontology


@with_options
def explain(
    *,
    subscription: Annotated[
        str, typer.Argument(metavar="FILTER", help="The subscription, in the text language.")
    ],
    notification: Annotated[str, typer.Argument(metavar="JSON", help="The notification, in JSON.")],
    reasoning: OntologyOptions,
    as_json: AsJson = False,
) -> None:
    """Say why a notification satisfies a subscription, or why not, constraint by constraint.

    Below a constraint is the way through the ontology that it rests on, with the axioms of each
    step: where they are written, or the rule by which they follow.

    \b
    Example:
      kbn explain 'category @> podcast:Technology' \\
        '{"category": {"class": "podcast:Podcasting"}}' -o podcast
    """
    from kbn.filters import Subscription, unknown_terms
    from kbn.filters import explain as explained
    from kbn.ontology import Ontology

    ontology = reasoning.load() or Ontology.empty()
    given = read_notification(notification)
    remark_on_unknown_terms("the notification", unknown_terms(given, ontology), ontology)
    said = explained(Subscription.parse(subscription, ontology=ontology), given, ontology)
    if as_json:
        print_json(said.to_json())
    else:
        _print(said, ontology)


def _print(said: Explanation, ontology: Ontology) -> None:
    from kbn.cli.ontology_explain import Axioms

    axioms = Axioms(ontology)
    typer.echo("matches" if said.matches else "does not match")
    for number, verdicts in enumerate(said.filters, start=1):
        if len(said.filters) > 1:
            typer.echo(f"filter {number}")
        for verdict in verdicts:
            typer.echo(f"  {'yes' if verdict.accepted else 'no ':<4} {verdict.reason}")
            for link in verdict.links:
                axioms.print(link, indent=9)


def remark_on_unknown_terms(
    place: str, unknown: Sequence[UnknownTerm], ontology: Ontology, *, refuse: bool = False
) -> bool:
    """Tell, on stderr, the terms that the ontology does not know; whether there are any.

    With `refuse`, the first is an error, unless it is only subscriptions that want another kind.
    """
    for each in unknown:
        error = each.error(ontology)
        if refuse and not each.wanted:
            raise error
        remark(f"{place}: {error}")
    return bool(unknown)
