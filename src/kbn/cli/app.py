"""The tree of commands and what stands before them: `--version`, `--debug`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from kbn.cli import (
    access,
    bench,
    broker,
    demo,
    explain,
    groups,
    lab,
    match,
    mib,
    ontology,
    ontology_clustering,
    ontology_diff,
    ontology_explain,
    overlay,
    pipeline,
    plan,
    policy,
    policy_server,
    policy_watch,
    publish,
    running_groups,
    status,
    store,
    subscribe,
)


@dataclass
class Settings:
    """What the options before the command say; the error handler reads it afterwards."""

    debug: bool = False


app = typer.Typer(
    name="kbn",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from kbn import __version__

        typer.echo(f"kbn {__version__}")
        raise typer.Exit()


@app.callback()
def before_any_command(
    context: typer.Context,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="KBN_DEBUG", help="Show the traceback of an error.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Knowledge-based networking: publish and subscribe with the terms of an ontology.

    \b
    Start with:
      kbn demo
      kbn ontology show animals
      kbn COMMAND --help
    """
    context.ensure_object(Settings).debug = debug


app.command("demo", short_help="A day of podcasts through the pipeline: who gets what and why.")(
    demo.demo
)
app.command("match", short_help="Match a file of notifications with subscriptions.")(match.match)
app.command("explain", short_help="Why a notification satisfies a subscription, or not.")(
    explain.explain
)
app.command("broker", short_help="Run a broker.")(broker.broker)
app.command("publish", short_help="Publish notifications at a broker.")(publish.publish)
app.command("subscribe", short_help="Print what a broker delivers, a JSON line each.")(
    subscribe.subscribe
)
app.command("status", short_help="What a broker is doing: clients, neighbours, rates.")(
    status.status
)
app.command("plan", short_help="Which cluster of an ontology lives on which broker.")(plan.plan)
app.command("policy-server", short_help="Manage an overlay by policies.")(
    policy_server.policy_server
)
app.command("mib", short_help="What a policy server knows of its overlay.")(mib.mib)
app.add_typer(running_groups.app, name="groups")
running_groups.app.command("plan", short_help="Group the publishers of a file.")(groups.plan)
app.add_typer(store.app, name="store")
app.add_typer(access.app, name="access")
policy.app.command("watch", short_help="Show what a policy server does, as it happens.")(
    policy_watch.watch
)
app.add_typer(policy.app, name="policy")
app.add_typer(overlay.app, name="overlay")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(ontology.app, name="ontology")
ontology.app.command("medoid", short_help="Find the term that is nearest to others.")(
    ontology_clustering.medoid
)
ontology.app.command("clusters", short_help="Show the clusters of an ontology.")(
    ontology_clustering.clusters
)
ontology.app.command("explain", short_help="Why two terms are related, axiom by axiom.")(
    ontology_explain.explain
)
ontology.app.command("diff", short_help="What a higher level finds, or what a version changes.")(
    ontology_diff.diff
)
app.add_typer(lab.app, name="lab")
app.add_typer(bench.app, name="bench")
