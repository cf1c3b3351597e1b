"""`kbn match`: which subscriptions of a file each notification of another satisfies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbn.cli.ontology import Reasoning, ontology_file
from kbn.cli.output import AsJson, print_json_line, remark_on_compiling

if TYPE_CHECKING:
    from kbn.matching import Matcher
    from kbn.ontology import Ontology


def match(
    subscriptions: Annotated[
        Path,
        typer.Option(
            "--subscriptions",
            "-s",
            exists=True,
            dir_okay=False,
            help="Who wants what: text, one a line, or JSON.",
        ),
    ],
    notifications: Annotated[
        Path,
        typer.Option(
            "--notifications",
            "-n",
            exists=True,
            dir_okay=False,
            help="What was published: JSON or JSON Lines.",
        ),
    ],
    ontology: Annotated[
        list[Path] | None,
        typer.Option(
            "--ontology",
            "-o",
            metavar="FILE",
            parser=ontology_file,
            help="Ontology file, or the name of a shipped one; may be repeated.",
        ),
    ] = None,
    reasoning: Annotated[
        Reasoning, typer.Option("--reasoning", "-r", help="none, rdfs, rl, el or dl.")
    ] = Reasoning.RDFS,
    as_json: AsJson = False,
) -> None:
    """Match the notifications of one file against the subscriptions of another.

    A line `ann: duration < 1800` is ann's subscription; without a name it is known by its number.
    Each notification gives one line, as soon as it is matched.

    \b
    Example:
      kbn match -s wants.txt -n posts.jsonl -o podcast
    """
    matcher = _matcher(subscriptions, _load(ontology or [], reasoning))
    answers = _answers(matcher, notifications)
    if as_json:
        for name, keys in answers:
            print_json_line({"notification": name, "matches": keys})
    else:
        # No table: its widths would not be known before the last of a million rows is.
        typer.echo("notification  wanted by")
        for name, keys in answers:
            typer.echo(f"{name:<12}  {', '.join(keys) or 'nobody'}")


def _load(files: list[Path], reasoning: Reasoning) -> Ontology:
    from kbn.ontology import Ontology

    return Ontology.load(files, reasoning=reasoning.value) if files else Ontology.empty()


def _matcher(subscriptions: Path, ontology: Ontology) -> Matcher:
    from kbn.filters.files import read_subscriptions
    from kbn.matching import Matcher

    remark_on_compiling()
    matcher = Matcher(ontology)
    for key, subscription in read_subscriptions(subscriptions, ontology.prefixes, ontology):
        matcher.add(subscription, key)
    return matcher


def _answers(matcher: Matcher, notifications: Path) -> Iterator[tuple[str, list[str]]]:
    """Each notification's id, or its number in the file, and the keys of those who want it."""
    from kbn.filters.files import read_notifications

    for number, notification in enumerate(read_notifications(notifications), start=1):
        keys = sorted(str(key) for key in matcher.match(notification))
        yield notification.id or str(number), keys
