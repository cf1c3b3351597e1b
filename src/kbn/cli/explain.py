"""`kbn explain`: why a subscription accepts a notification, or why it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kbn.cli.connecting import Connecting, Credentials
from kbn.cli.mapping_options import MappingsGiven, mapped
from kbn.cli.notification_texts import read_notification
from kbn.cli.ontology import OntologyOptions
from kbn.cli.options import with_options
from kbn.cli.output import AsJson, print_json, remark
from kbn.errors import UnknownTermError

if TYPE_CHECKING:
    from kbn.filters import Explanation, Notification, UnknownTerm
    from kbn.ontology import Link, Ontology


@with_options
def explain(
    *,
    subscription: Annotated[
        str, typer.Argument(metavar="FILTER", help="The subscription, in the text language.")
    ],
    notification: Annotated[str, typer.Argument(metavar="JSON", help="The notification, in JSON.")],
    reasoning: OntologyOptions,
    mapping: MappingsGiven = [],  # noqa: B006
    url: Annotated[
        str | None,
        typer.Option("--url", "-u", metavar="URL", help="Ask this broker, by its ontology."),
    ] = None,
    credentials: Credentials,
    as_json: AsJson = False,
) -> None:
    """Say why a notification satisfies a subscription, or why not, constraint by constraint.

    Below a constraint is the way through the ontology that it rests on, with the axioms of each
    step: where they are written, or the rule by which they follow. With --url a broker says it.

    \b
    Examples:
      kbn explain 'category @> podcast:Technology' \\
        '{"category": {"class": "podcast:Podcasting"}}' -o podcast
      kbn explain --url kbn://127.0.0.1:7420 'price < 10' '{"price": 12}'
    """
    if url is not None:
        if reasoning.ontology or mapping:
            raise typer.BadParameter(
                "a broker has its own ontology: leave out --ontology and --mapping"
            )
        connecting = Connecting(url=url, credentials=credentials)
        asyncio.run(_ask(connecting, subscription, read_notification(notification), as_json))
        return
    from kbn.filters import Subscription, unknown_terms
    from kbn.filters import explain as explained
    from kbn.ontology import Ontology

    ontology = mapped(reasoning.load(), mapping) or Ontology.empty()
    given = read_notification(notification)
    remark_on_unknown_terms("the notification", unknown_terms(given, ontology), ontology)
    said = explained(Subscription.parse(subscription, ontology=ontology), given, ontology)
    if as_json:
        print_json(said.to_json())
    else:
        _print(said, ontology)


async def _ask(
    connecting: Connecting, subscription: str, given: Notification, as_json: bool
) -> None:
    """What a broker says of it."""
    async with connecting.client() as client:
        said = await connecting.within(client.explain(given, subscription))
    for each in said.unknown:
        remark(f"the notification: {each}")
    if as_json:
        print_json(said.to_json())
    else:
        _print_verdicts(said, _print_link)


def _print_link(link: Link) -> None:
    where = "" if link.source == "ontology" else f" ({link.source})"
    typer.echo(f"         <{link.first}> {link.relation} <{link.second}>{where}")


def _print(said: Explanation, ontology: Ontology) -> None:
    from kbn.cli.ontology_explain import Axioms

    axioms = Axioms(ontology)
    _print_verdicts(said, lambda link: axioms.print(link, indent=9))


def _print_verdicts(said: Explanation, print_link: Callable[[Link], None]) -> None:
    typer.echo("matches" if said.matches else "does not match")
    for number, verdicts in enumerate(said.filters, start=1):
        if len(said.filters) > 1:
            typer.echo(f"filter {number}")
        for verdict in verdicts:
            typer.echo(f"  {'yes' if verdict.accepted else 'no ':<4} {verdict.reason}")
            for link in verdict.links:
                print_link(link)


def remark_on_unknown_terms(
    place: str, unknown: Sequence[UnknownTerm], ontology: Ontology, *, refuse: bool = False
) -> bool:
    """Tell, on stderr, the terms that the ontology does not know; whether there are any.

    With `refuse`, the first is an error, unless it is only subscriptions that want another kind.
    """
    for each in unknown:
        error = each.error(ontology)
        if refuse and not each.wanted:
            reason = f"{place}: {error}"
            raise UnknownTermError(each.term.iri, kind=each.term.kind, reason=reason) from error
        remark(f"{place}: {error}")
    return bool(unknown)
