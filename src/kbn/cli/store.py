"""`kbn store`: copy, check and repair the store of a broker; list a store of subscriptions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbn.cli.output import (
    AsJson,
    print_facts,
    print_json,
    print_json_line,
    print_table,
    remark,
)
from kbn.wording import counted

if TYPE_CHECKING:
    from kbn.broker import Checked

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="The store of a broker: copy it, check it, repair it. Compiled subscriptions: list them.",
)

StorePath = Annotated[
    Path, typer.Argument(metavar="STORE", help="The file that a broker has as its --store.")
]


@app.command("backup", short_help="Copy a store, also while a broker uses it.")
def backup(
    store: StorePath,
    copy: Annotated[Path, typer.Argument(metavar="COPY", help="The file to write.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Write over a file that is there.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Copy a store, also while a broker uses it. The copy is whole, and checked.

    \b
    Examples:
      kbn store backup dublin.db dublin-monday.db
      kbn store backup dublin.db copies/dublin.db --replace --json
    """
    from kbn.broker import backup_store

    checked = backup_store(store, copy, replaces=replace)
    if as_json:
        print_json({"store": str(store), "copy": str(copy), **_facts(checked)})
    else:
        typer.echo(f"copied to {copy}: {_rows(checked)}")


@app.command("restore", short_help="Put a copy in the place of a store.")
def restore(
    copy: Annotated[Path, typer.Argument(metavar="COPY", help="What kbn store backup wrote.")],
    store: StorePath,
    as_json: AsJson = False,
) -> None:
    """Put a copy in the place of a store that no broker uses; what was there is kept beside it.

    What the broker stored after the copy is lost, and what was acknowledged after it may be
    delivered again.

    \b
    Example:
      kbn store restore dublin-monday.db dublin.db
    """
    from kbn.broker import restore_store

    done = restore_store(copy, store)
    if as_json:
        lost = {"commits_lost": done.commits_lost, "replaced": done.aside}
        print_json({"store": str(store), **_facts(done.checked), **lost})
        return
    typer.echo(f"restored {store}: {_rows(done.checked)}")
    if done.aside is not None:
        older = counted(done.commits_lost, "commit")
        typer.echo(f"it is {older} older than what was there, which is now {done.aside}")


@app.command("subscriptions", short_help="List who subscribes to what in a compiled store.")
def subscriptions(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="A store of compiled subscriptions, or a pipeline's output."
        ),
    ],
    subscriber: Annotated[
        str | None, typer.Option("--subscriber", metavar="NAME", help="Only of this subscriber.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="So many at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List who subscribes to what in a store that `match` on Spark reads, at its newest version.

    \b
    Examples:
      kbn store subscriptions subscriptions-store
      kbn store subscriptions out --subscriber ann --json
    """
    print_subscriptions(folder, subscriber, limit, as_json)


def print_subscriptions(folder: Path, subscriber: str | None, limit: int, as_json: bool) -> None:
    """Who subscribes to what in a compiled store, or in that of a pipeline's output folder."""
    from itertools import islice

    from kbn.errors import InvalidInputError
    from kbn.filters import short_filter
    from kbn.matching import SubscriptionStore
    from kbn.ontology import Ontology

    if folder.is_file():
        raise InvalidInputError(
            f"{folder} is a file: a folder of compiled subscriptions is expected, as "
            "compile_subscriptions or kbn pipeline run makes it"
        )
    inner = folder / "store"
    is_output = (inner / "store.json").exists() and not (folder / "store.json").exists()
    store = SubscriptionStore.open(inner if is_output else folder)
    listed = list(islice(store.at().listing(subscriber), limit + 1))
    rows = [(str(r.subscription), str(r.subscriber), r.filter) for r in listed[:limit]]
    if as_json:
        for row in rows:
            print_json_line(dict(zip(("subscription", "subscriber", "filter"), row, strict=True)))
        return
    if not rows:
        remark("no subscription" + ("" if subscriber is None else f" of {subscriber}"))
        return
    known = store.ontology or Ontology.empty()
    short = [(id, who, short_filter(text, known)) for id, who, text in rows]
    print_table(short, columns=["subscription", "subscriber", "filter"])
    if len(listed) > limit:
        remark(f"there are more; --limit {10 * limit} shows some of them")


@app.command("check", short_help="Check whether a store is sound.")
def check(store: StorePath, as_json: AsJson = False) -> None:
    """Check a store, also while a broker uses it. Nothing is changed.

    Every row, the number of rows and the number of commits are checked. The exit code is 0 when
    all is well, and 1 when something is damaged or missing.

    \b
    Examples:
      kbn store check dublin.db
      kbn store check dublin.db --json
    """
    from kbn.broker import check_store

    checked = check_store(store)
    if as_json:
        print_json({"store": str(store), **_facts(checked)})
    else:
        _print_check(checked)
    if not checked.is_whole:
        raise typer.Exit(1)


@app.command("repair", short_help="Keep what is sound of a damaged store.")
def repair(store: StorePath, as_json: AsJson = False) -> None:
    """Repair a store that no broker uses: keep every row that is whole, set aside the others.

    The damaged store is kept beside it. kbn status counts what was set aside. What is lost is told:
    such notifications are not delivered.

    \b
    Example:
      kbn store repair dublin.db
    """
    from kbn.broker import repair_store

    done = repair_store(store)
    if as_json:
        told: dict[str, Any] = {"store": str(store), "repaired": done is not None}
        if done is not None:
            told |= {"damaged": done.damaged, "kept": done.kept, "set_aside": done.set_aside}
            told |= {"lost": done.lost, "commits_lost": done.commits_lost}
        print_json(told)
        return
    typer.echo(f"{store}: " + ("nothing to repair" if done is None else done.summary))


def _print_check(checked: Checked) -> None:
    print_facts(
        {
            "version": checked.version,
            "commits": checked.commits,
            **{f"rows of {name}": rows for name, rows in checked.rows.items()},
        }
    )
    for damage in checked.damage:
        typer.echo(f"{damage.place}: {damage.what}")
    if len(checked.damage) < checked.damage_count:
        typer.echo(f"… and {checked.damage_count - len(checked.damage)} more")
    if checked.is_whole:
        typer.echo("whole")
    else:
        remark(f"damaged: restore a copy, or repair it (kbn store repair {checked.path})")


def _facts(checked: Checked) -> dict[str, Any]:
    return {
        "whole": checked.is_whole,
        "version": checked.version,
        "commits": checked.commits,
        "commits_lost": checked.commits_lost,
        "rows": checked.rows,
        "missing": checked.missing,
        "damage": [damage._asdict() for damage in checked.damage],
        "damage_count": checked.damage_count,
    }


def _rows(checked: Checked) -> str:
    return f"version {checked.version}, {counted(sum(checked.rows.values()), 'row')}"
