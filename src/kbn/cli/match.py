"""`kbn match`: which subscriptions of a file each notification of another satisfies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kbn.cli.ontology import OntologyOptions
from kbn.cli.options import option_group, with_options
from kbn.cli.output import AsJson, print_json_line, remark, remark_on_compiling
from kbn.cli.pipeline import SparkMaster
from kbn.wording import counted

if TYPE_CHECKING:
    from kbn.matching import Matcher
    from kbn.ontology import Ontology


@option_group
class OnSpark:
    """What only a match on Spark can do."""

    spark: Annotated[
        bool, typer.Option("--spark", help="Match on Spark, into tables below --out.")
    ] = False
    spark_master: SparkMaster = None
    out: Annotated[
        Path | None,
        typer.Option("--out", file_okay=False, help="With --spark: the folder for the tables."),
    ] = None
    format: Annotated[
        str, typer.Option("--format", help="With --spark: json, cloudevents, csv, parquet or rss.")
    ] = "json"
    mapping: Annotated[
        Path | None,
        typer.Option(
            "--mapping", metavar="FILE", help="With --spark: the mapping from fields to attributes."
        ),
    ] = None
    lines: Annotated[
        bool, typer.Option("--lines", help="With --spark: also write the matches as JSON lines.")
    ] = False

    def source(self, notifications: Path) -> dict[str, str]:
        """Where notifications come from, as a pipeline declares it."""
        declared = {"path": str(notifications), "format": self.format}
        return declared if self.mapping is None else {**declared, "mapping": str(self.mapping)}


@with_options
def match(
    *,
    subscriptions: Annotated[
        Path,
        typer.Option(
            "--subscriptions",
            "-s",
            exists=True,
            help="Who wants what: text, one a line, or JSON; with --spark also CSV and Parquet.",
        ),
    ],
    notifications: Annotated[
        Path,
        typer.Option(
            "--notifications",
            "-n",
            help="What was published: JSON or JSON Lines; with --spark a file, folder or pattern.",
        ),
    ],
    reasoning: OntologyOptions,
    on_spark: OnSpark,
    why: Annotated[
        bool, typer.Option("--why", help="Say why each subscription accepts a notification.")
    ] = False,
    refuse_unknown: Annotated[
        bool,
        typer.Option(
            "--refuse-unknown", help="Stop at a notification with a term the ontology lacks."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Match the notifications of one file against the subscriptions of another.

    A line `ann: duration < 1800` is ann's subscription; without a name it is known by its number.
    Each notification gives one line, as soon as it is matched. A term that the ontology does not
    know is told on stderr, for it satisfies no constraint but an equal one. With --spark, files of
    any format are matched into tables, and what is matched already is not matched again.

    \b
    Examples:
      kbn match -s wants.txt -n posts.jsonl -o podcast
      kbn match -s wants.parquet -n "feeds/*.xml" --format rss -o podcast \\
        --spark --out matched
    """
    if on_spark.spark:
        from kbn.cli.match_on_spark import match_on_spark

        files = [str(path.absolute()) for path in reasoning.ontology]
        level = reasoning.reasoning.value
        wanted = {
            "ontology": {"files": files, "reasoning": level} if files else None,
            "notifications": on_spark.source(notifications),
            "subscriptions": str(subscriptions),
        }
        match_on_spark(wanted, on_spark, as_json)
        return
    _check_here(subscriptions, notifications, on_spark)
    matcher = _matcher(subscriptions, reasoning.load())
    _print(_answers(matcher, notifications, why=why, refuse=refuse_unknown), as_json, why)


def _print(answers: Iterator[Matched], as_json: bool, why: bool) -> None:
    if not as_json:
        # No table: its widths would not be known before the last of a million rows is.
        typer.echo("notification  wanted by")
    unknown = 0
    for answer in answers:
        unknown += answer.has_unknown_terms
        if as_json:
            line = {"notification": answer.name, "matches": answer.keys}
            print_json_line({**line, "why": answer.reasons} if why else line)
            continue
        typer.echo(f"{answer.name:<12}  {', '.join(answer.keys) or 'nobody'}")
        for key, reasons in answer.reasons.items():
            typer.echo(f"{'':<14}{key}: {'; '.join(reasons)}")
    if unknown:
        remark(f"{counted(unknown, 'notification')} with terms that the ontology does not know")


def _check_here(subscriptions: Path, notifications: Path, on_spark: OnSpark) -> None:
    """Refuse what only Spark can do."""
    if any(given is not None for given in (on_spark.out, on_spark.spark_master, on_spark.mapping)):
        raise typer.BadParameter("--out, --spark-master and --mapping go with --spark")
    if subscriptions.is_dir():
        raise typer.BadParameter(f"{subscriptions}: is a folder", param_hint="--subscriptions")
    if not notifications.is_file():
        wrong = "is a folder: add --spark" if notifications.is_dir() else "there is no such file"
        raise typer.BadParameter(f"{notifications}: {wrong}", param_hint="--notifications")


def _matcher(subscriptions: Path, given: Ontology | None) -> Matcher:
    from kbn.errors import InvalidInputError
    from kbn.filters import read_subscriptions, subscription_texts
    from kbn.matching import Matcher
    from kbn.ontology import Ontology

    ontology = Ontology.empty() if given is None else given
    remark_on_compiling()
    matcher = Matcher(ontology)
    try:
        read = subscription_texts(subscriptions, ontology)
        matcher.add_many((text, key) for _, key, text in read)
    except InvalidInputError:
        # One by one is slower, and says in which line the mistake is.
        for _ in read_subscriptions(subscriptions, ontology.prefixes, ontology):
            pass
        raise
    return matcher


class Matched(NamedTuple):
    """Who wants one notification."""

    name: str
    """Its id, or its number in the file."""
    keys: list[str]
    reasons: dict[str, list[str]]
    """Key -> why, when that was asked for."""
    has_unknown_terms: bool


def _answers(
    matcher: Matcher, notifications: Path, *, why: bool, refuse: bool
) -> Iterator[Matched]:
    from kbn.cli.explain import remark_on_unknown_terms
    from kbn.filters import read_notifications

    ontology = matcher.ontology
    for number, notification in enumerate(read_notifications(notifications), start=1):
        name = notification.id or str(number)
        unknown = ontology is not None and remark_on_unknown_terms(
            f"notification {name}", matcher.unknown_terms(notification), ontology, refuse=refuse
        )
        keys = sorted(str(key) for key in matcher.match(notification))
        reasons = {key: matcher.explain(notification, key).reasons for key in keys} if why else {}
        yield Matched(name, keys, reasons, unknown)
