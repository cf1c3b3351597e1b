"""`kbn access`: check an access file, and try what it allows."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbn.cli.ontology import OntologyOptions
from kbn.cli.options import with_options
from kbn.cli.output import AsJson, print_json, print_table, remark
from kbn.wording import counted

if TYPE_CHECKING:
    from kbn.broker import Caller, TrialRequest
    from kbn.ontology import Ontology
    from kbn.transport import AccessReview, EntryAt

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="The access file of a broker: check it, try what it allows.",
)

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="The file that a broker has as --access.")
]


class What(StrEnum):
    """What somebody wants to do."""

    CONNECT = "connect"
    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    ADVERTISE = "advertise"
    MANAGE = "manage"
    LINK = "link"


@app.command("check", short_help="Check an access file: who may come in, and do what.")
def check(file: File, as_json: AsJson = False) -> None:
    """Check an access file, as a broker would read it: who may come in, and do what.

    All that is wrong is told, by line. What is allowed and probably not meant is remarked on. The
    exit code is 0 when a broker would take the file.

    \b
    Examples:
      kbn access check access.yaml
      kbn access check access.yaml --json
    """
    from kbn.config import ConfigError
    from kbn.transport import review_access

    try:
        review = review_access(file)
    except ConfigError as error:
        if not as_json:
            raise
        problems = [{"line": each.line, "reason": str(each)} for each in error.problems]
        print_json({"file": str(file), "valid": False, "problems": problems})
        raise typer.Exit(2) from None
    if as_json:
        print_json({"file": str(file), "valid": True, **_told(review)})
    else:
        _print_for_people(review)


@app.command("try", short_help="Try whether an access file allows something, and why.")
@with_options
def try_(
    *,
    file: File,
    what: Annotated[
        What,
        typer.Argument(
            metavar="WHAT", help="connect, publish, subscribe, advertise, manage or link."
        ),
    ],
    argument: Annotated[
        str | None,
        typer.Argument(
            metavar="[ARGUMENT]",
            help="To publish: JSON; to subscribe or advertise: a filter; to manage: a request, "
            "such as move-clients or load-ontology.",
        ),
    ] = None,
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="Who tries it.")],
    token: Annotated[
        str | None,
        typer.Option("--token", metavar="TEXT", help="What it shows [default: the right one]."),
    ] = None,
    durable: Annotated[
        bool, typer.Option("--durable", help="As a durable client, or a durable publication.")
    ] = False,
    block: Annotated[
        bool, typer.Option("--block", help="As a client that stops publishers when it is slow.")
    ] = False,
    reasoning: OntologyOptions,
    as_json: AsJson = False,
) -> None:
    """Try whether an access file allows something, and see which entry decides.

    A broker with this file, and the usual limits, is asked; nothing is published and nobody is
    told. `link` asks whether a broker of that name may be a neighbour. The exit code is 0 when it
    is allowed, and 1 when it is refused.

    \b
    Examples:
      kbn access try access.yaml --as ann subscribe 'price < 20'
      kbn access try access.yaml --as bob --token secret publish '{"price": 5}'
      kbn access try access.yaml --as operator manage load-ontology
      kbn access try access.yaml --as cork link
    """
    from kbn.broker import Caller, refusal, refusal_of_broker
    from kbn.transport import review_access

    review = review_access(file)
    caller = Caller(name, token, durable, "block" if block else "drop")
    if what is What.LINK:
        _without_argument(what, argument)
        entry = review.deciding_broker(name)
        reason = refusal_of_broker(review.rules, caller)
    else:
        ontology = reasoning.load()
        request = _request(what, argument, durable, ontology)
        entry = review.deciding(name)
        reason = _no_entry(review, name) if entry is None else None
        reason = reason or refusal(review.rules, caller, request, ontology)
    _print_verdict(_Verdict(review, caller, entry, reason, what), as_json)
    if reason is not None:
        raise typer.Exit(1)


def _no_entry(review: AccessReview, name: str) -> str:
    from kbn.config import did_you_mean

    close = did_you_mean(name, [*review.rules.clients, *review.rules.brokers])
    return f"there is no entry for {name!r}, and no default{close}"


def _request(
    what: What, argument: str | None, durable: bool, ontology: Ontology | None
) -> TrialRequest:
    from kbn.broker import Advertise, Subscribe
    from kbn.filters import Subscription

    match what:
        case What.SUBSCRIBE | What.ADVERTISE:
            if argument is None:
                raise typer.BadParameter(f"to {what.value}, give a filter, such as 'price < 20'")
            Subscription.parse(argument, ontology=ontology)  # whoever may ask: it must make sense
            kind = Subscribe if what is What.SUBSCRIBE else Advertise
            return kind(1, argument, True)
        case What.PUBLISH:
            return _publication(argument, durable)
        case What.MANAGE:
            return _administration(argument or "get-status")
        case _:
            _without_argument(what, argument)
            return None


def _publication(text: str | None, durable: bool) -> TrialRequest:
    from kbn.broker import Publish, content
    from kbn.cli.notification_texts import read_notification

    if text is None:
        raise typer.BadParameter("""to publish, give a notification, such as '{"price": 5}'""")
    return Publish(1, 0.0, content.encode(read_notification(text).attributes), durable)


def _administration(kind: str) -> TrialRequest:
    """A request of that kind; what it is about does not matter for who may make it."""
    from kbn.broker import administration as asked
    from kbn.config import or_one_of

    known: dict[str, TrialRequest] = {
        "get-status": asked.GetStatus(),
        "move-clients": asked.MoveClients("another", "kbn://another"),
        "move-broker": asked.MoveBroker("kbn://another"),
        "unlink": asked.Unlink("another"),
        "load-ontology": asked.LoadOntology(("another.ttl",)),
        "collect-hops": asked.CollectHops(),
        "report": asked.Report("info"),
    }
    if kind not in known:
        raise typer.BadParameter(f"{kind!r} is no request to a broker{or_one_of(kind, known)}")
    return known[kind]


def _without_argument(what: What, argument: str | None) -> None:
    if argument is not None:
        raise typer.BadParameter(f"{what.value} takes no argument, and {argument!r} was given")


class _Verdict:
    """What came out of a trial, to be told."""

    def __init__(
        self,
        review: AccessReview,
        caller: Caller,
        entry: EntryAt | None,
        reason: str | None,
        what: What,
    ) -> None:
        self.is_allowed = reason is None
        self.reason = reason
        self.entry = None if entry is None else entry.path
        self.line = None if entry is None else entry.line
        self.place = review.path if self.line is None else f"{review.path}:{self.line}"
        shown = None if entry is None else entry.permission.subscribe
        self.shown = sorted(shown) if what is What.SUBSCRIBE and shown is not None else None
        self.believes = caller.token is None and entry is not None and entry.has_token


def _print_verdict(verdict: _Verdict, as_json: bool) -> None:
    if as_json:
        told = {"allowed": verdict.is_allowed, "entry": verdict.entry, "line": verdict.line}
        print_json({**told, "reason": verdict.reason, "shown": verdict.shown})
        return
    by = verdict.place if verdict.entry is None else f"{verdict.entry} ({verdict.place})"
    if not verdict.is_allowed:
        typer.echo(f"refused by {by}: {verdict.reason}")
        return
    typer.echo(f"allowed by {by}" + (", with its token" if verdict.believes else ""))
    if verdict.shown is not None:
        typer.echo(f"of a notification it is shown: {', '.join(verdict.shown)}")


def _told(review: AccessReview) -> dict[str, Any]:
    return {
        "entries": [
            {
                "entry": each.path,
                "line": each.line,
                "token": each.has_token,
                "publish": _listed(each.permission.publish),
                "subscribe": _listed(each.permission.subscribe),
                "manage": each.permission.manage,
                "ontologies": each.permission.ontologies,
                "block": each.permission.block,
                "limits": dict(each.permission.limits),
            }
            for each in review.entries
        ],
        "remarks": [{"line": each.line, "reason": str(each)} for each in review.remarks],
    }


def _listed(attributes: frozenset[str] | None) -> str | list[str]:
    return "*" if attributes is None else sorted(attributes)


def _print_for_people(review: AccessReview) -> None:
    columns = ("entry", "line", "token", "publish", "subscribe", "also")
    print_table([_row(each) for each in review.entries], columns=columns)
    for each in review.remarks:
        remark(f"remark: {each}")
    rules = review.rules
    else_ = "nobody else may come in" if rules.default is None else "all others have the default"
    counts = f"{counted(len(rules.clients), 'client')}, {counted(len(rules.brokers), 'broker')}"
    typer.echo(f"valid: {counts}; {else_}")


def _row(each: EntryAt) -> tuple[str, ...]:
    may = each.permission
    rights = {"manage": may.manage, "ontologies": may.ontologies, "block": may.block}
    if each.section == "brokers":
        rights = {"be a neighbour": True, **rights}
    limits = [f"{name} {value:,}" for name, value in may.limits.items()]
    return (
        each.path,
        str(each.line or ""),
        "yes" if each.has_token else "none",
        _spoken(may.publish),
        _spoken(may.subscribe),
        ", ".join([*(right for right, has in rights.items() if has), *limits]),
    )


def _spoken(attributes: frozenset[str] | None) -> str:
    return "all" if attributes is None else ", ".join(sorted(attributes)) or "nothing"
