"""`kbn mib`: look into what a policy server knows, also while it runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbn.cli.ontology import named, ontology_source
from kbn.cli.output import (
    AsJson,
    local_time,
    print_facts,
    print_json,
    print_table,
    remark,
)
from kbn.errors import InvalidInputError

if TYPE_CHECKING:
    from kbn.management import Kind

_CLIENT = ["name", "broker", "medoid", "spread"]
SHOWN = {
    "broker": ["name", "address", "parent", "subscribers", "load", "medoid", "spread", "marks"],
    "subscriber": [*_CLIENT, "subscriptions", "mean_hops", "notifications", "placed_on", "marks"],
    "publisher": [*_CLIENT, "placed_on", "moves", "marks"],
}


class Kinds(StrEnum):
    BROKER = "broker"
    SUBSCRIBER = "subscriber"
    PUBLISHER = "publisher"


def mib(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            exists=True,
            dir_okay=False,
            help="The file a policy server keeps its MIB in.",
        ),
    ],
    kind: Annotated[
        Kinds | None, typer.Option("--kind", "-k", help="broker, subscriber or publisher.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", "-w", help="Only those for which this CEL condition holds."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", "-c", help="The fields to show, separated by commas.")
    ] = None,
    ontology: Annotated[
        list[str] | None,
        typer.Option(
            "--ontology",
            "-o",
            metavar="FILE",
            parser=ontology_source,
            help="Show terms as this ontology names them; may be repeated.",
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="How many at most; 0 shows all.")
    ] = 100,
    as_json: AsJson = False,
) -> None:
    """Look into a MIB as of its last commit: how many objects there are, or the objects of a kind.

    The file is only read; a policy server that uses it is not disturbed.

    \b
    Examples:
      kbn mib mib.db
      kbn mib mib.db --kind subscriber --where 'subscriber.mean_hops > 1.5'
      kbn mib mib.db --kind broker --columns name,load,medoid --ontology animals
    """
    if kind is None:
        if where is not None or columns is not None:
            raise InvalidInputError("say of which kind: --kind broker, subscriber or publisher")
        _print_counts(path, as_json)
        return
    chosen = _columns(kind.value, columns)
    count, found = _found(path, kind.value, where, limit)
    if as_json:
        print_json([_chosen(each, chosen if columns else list(each)) for each in found])
    else:
        show = _names(ontology or [])
        rows = [[_cell(column, each[column], show) for column in chosen] for each in found]
        print_table(rows, columns=chosen)
    if count > len(found):
        remark(f"{len(found)} of {count}: --limit 0 shows all")


def _print_counts(path: Path, as_json: bool) -> None:
    from kbn.management import MibFile

    file = MibFile(path, read_only=True)
    try:
        counts = {f"{kind}s": count for kind, count in file.counts().items()}
    finally:
        file.close()
    if as_json:
        print_json(counts)
    else:
        print_facts(counts)


def _columns(kind: Kind, columns: str | None) -> list[str]:
    from kbn.config import did_you_mean
    from kbn.management import FIELDS

    if columns is None:
        return SHOWN[kind]
    chosen = [column.strip() for column in columns.split(",") if column.strip()]
    known = ("name", *FIELDS[kind])
    unknown = next((column for column in chosen if column not in known), None)
    if unknown is not None or not chosen:
        hint = did_you_mean(unknown or "", known) or f"; there are {', '.join(known)}"
        raise InvalidInputError(f"a {kind} has no field {unknown or ''!r}{hint}")
    return chosen


def _found(path: Path, kind: Kind, where: str | None, limit: int) -> tuple[int, list[Any]]:
    """How many objects there are for which it holds, and the first of them."""
    from time import time

    from kbn.management import Condition, Mib

    condition = None if where is None else Condition.parse(where, kind)
    with Mib(path, read_only=True) as opened:
        names = opened.names(kind) if condition is None else opened.select(kind, condition, time())
        shown = names[:limit] if limit else names
        objects = (opened.get(kind, name) for name in shown)
        return len(names), [each.to_json() for each in objects if each is not None]


def _chosen(object: dict[str, Any], columns: list[str]) -> dict[str, Any]:
    return {column: object[column] for column in columns}


def _names(files: list[str]) -> Callable[[str], str]:
    """How a text is shown: a term by its short name and label, where an ontology is given."""
    if not files:
        return str
    from kbn.ontology import Ontology

    known = Ontology.load(files, "none")
    return lambda text: named(known, text) if known.kinds(text) else text


def _cell(column: str, value: Any, show: Callable[[str], str] = str) -> str:
    """A value as people read it; fields named `…_at` hold seconds, 0 for never."""
    if column.endswith("_at"):
        return local_time(value) if value else "never"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False) if value else ""
    return show(str(value))
