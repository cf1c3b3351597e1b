"""`kbn status`: what a broker is doing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

import typer

from kbn.cli.connecting import ClientName, Connecting
from kbn.cli.options import with_options
from kbn.cli.output import AsJson, print_facts, print_json, print_json_line, print_table

CLIENTS_SHOWN_MAX = 50


@with_options
def status(
    *,
    watch: Annotated[
        float | None,
        typer.Option("--watch", min=0.1, metavar="S", help="Show it again every S seconds."),
    ] = None,
    over: Annotated[
        float,
        typer.Option("--over", min=0, metavar="S", help="How many seconds to measure rates for."),
    ] = 1.0,
    name: ClientName = None,
    connecting: Connecting,
    as_json: AsJson = False,
) -> None:
    """Show a broker's tables, neighbours, clients and rates.

    A broker with an access file answers only clients that may manage it.

    \b
    Examples:
      kbn status --url kbn://127.0.0.1:7420
      kbn status --url kbn://127.0.0.1:7420 --watch 2
    """
    asyncio.run(_show(connecting, name, over, watch, as_json))


async def _show(
    connecting: Connecting, name: str | None, over: float, watch: float | None, as_json: bool
) -> None:
    from msgspec import to_builtins

    async with connecting.client(name) as client:

        async def read() -> dict[str, Any]:
            about = to_builtins(await connecting.within(client.status()))
            about["clients"] = [each for each in about["clients"] if each["client"] != client.name]
            return {"url": client.url, **about}

        async for about in _readings(read, over, watch):
            if as_json:
                print_json(about) if watch is None else print_json_line(about)
            else:
                _print(about)


async def _readings(read: Any, over: float, watch: float | None) -> AsyncIterator[dict[str, Any]]:
    """Each reading, with the rates since the one before."""
    before, begun = await read(), time.monotonic()
    if watch is None and not over:
        yield {**before, "rates": {}}
        return
    while True:
        await asyncio.sleep(over if watch is None else watch)
        about, ended = await read(), time.monotonic()
        rates = {
            name: round((number - before["counts"][name]) / (ended - begun), 1)
            for name, number in about["counts"].items()
        }
        yield {**about, "rates": rates}
        if watch is None:
            return
        before, begun = about, ended


def _print(about: dict[str, Any]) -> None:
    print_facts(
        {
            "broker": about["broker"],
            "url": about["url"],
            "routing": about["routing"],
            "ontology": about["ontology"] or "none",
            "ontology problem": about.get("ontology_problem"),
            "connections": about.get("connections"),
            "subscriptions": about["subscriptions"],
            "filters": about["filters"],
            "roots": about["roots"],
            "advertisements": about["advertisements"],
        }
    )
    typer.echo()
    _print_rates(about)
    _print_neighbours(about)
    _print_clients(about["clients"], about["totals"]["connected"] + about["totals"]["away"] - 1)


def _print_rates(about: dict[str, Any]) -> None:
    rates = about["rates"]
    rows = [
        (name, str(number), f"{rates[name]:g}" if name in rates else "")
        for name, number in about["counts"].items()
    ]
    print_table(rows, columns=("notifications", "in all", "per second"))


def _print_neighbours(about: dict[str, Any]) -> None:
    rows = [
        (
            each["broker"], each["role"], _state(each), str(each["wants"]), str(each["told"]),
            str(each["queued"]), str(each["unacked"]), str(each["dropped"]),
        )
        for each in about["neighbours"]
    ]  # fmt: skip
    known = {each["broker"] for each in about["neighbours"]}
    for link in about.get("links", ()):
        if link["broker"] not in known:
            state, kept = link["problem"] or "connecting", str(link.get("kept") or "")
            rows.append((link["url"], "", state, "", "", "", kept, ""))
    if rows:
        typer.echo()
        columns = (
            "neighbour", "role", "state", "wants", "told", "queued", "unacked", "dropped",
        )  # fmt: skip
        print_table(rows, columns=columns)


def _state(link: dict[str, Any]) -> str:
    from kbn.transport import state_of

    return state_of(link) + ("" if link["in_tree"] else ", spare")


def _print_clients(clients: list[dict[str, Any]], in_all: int) -> None:
    if not clients:
        return
    # Those in trouble first.
    ordered = sorted(clients, key=lambda each: (-each["dropped"], -each["queued"], each["client"]))
    rows = [
        (
            each["client"],
            "connected" if each["connected"] else "away",
            "durable" if each["durable"] else "",
            *(str(each[name]) for name in ("subscriptions", "queued", "dropped", "published")),
        )
        for each in ordered[:CLIENTS_SHOWN_MAX]
    ]
    typer.echo()
    columns = ("client", "state", "kept", "subscriptions", "queued", "dropped", "published")
    print_table(rows, columns=columns)
    if in_all > CLIENTS_SHOWN_MAX:
        all_listed = "; --json has all" if len(clients) >= in_all else ""
        typer.echo(f"… and {in_all - CLIENTS_SHOWN_MAX} more{all_listed}")
