"""`kbn policy watch`: what a policy server does with its overlay, by the trigger broker's word."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbn.cli.connecting import Credentials
from kbn.cli.map_options import MAIN, OverlayName, check_overlay
from kbn.cli.options import option_group, with_options
from kbn.cli.output import AsJson, print_json_line, print_table, remark
from kbn.cli.policy_server import TRIGGER, Triggers, print_entry

if TYPE_CHECKING:
    from kbn.management import News, Observer


@option_group
class WatchOptions:
    """What to watch, and how long."""

    trigger: Triggers = field(default_factory=lambda: [TRIGGER])
    overlay: OverlayName = MAIN
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="End after so many lines.")
    ] = None
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", min=0, metavar="S", help="End after this many seconds."),
    ] = None
    placements: Annotated[
        bool, typer.Option("--placements", help="At the end, show where everybody is.")
    ] = False

    def check(self) -> None:
        """Refuse what cannot be watched."""
        from kbn.transport import parse_url

        for url in self.trigger:
            parse_url(url)
        check_overlay(self.overlay)


@with_options
def watch(*, options: WatchOptions, credentials: Credentials, as_json: AsJson = False) -> None:
    """Show each decision, placement and plan of the policy server that acts, as it is published.

    It needs the right to subscribe at the trigger broker, and none to manage. It goes on when the
    policy server dies and another takes over, and ends with Ctrl-C.

    \b
    Examples:
      kbn policy watch --trigger kbn://127.0.0.1:7499
      kbn policy watch --count 20 --placements --json
    """
    from kbn.management import Observer
    from kbn.transport import Observing, until_told

    options.check()
    observer = Observer(options.overlay)
    observing = Observing(observer, options.trigger, token=credentials.token, tls=credentials.tls())
    telling = _tell(observing.news(), options, as_json)
    asyncio.run(until_told(telling))
    if options.placements:
        _print_placements(observer, as_json)


async def _tell(news: Any, options: WatchOptions, as_json: bool) -> None:
    shown = 0
    try:
        async with asyncio.timeout(options.timeout):
            async for at, told in news:
                _print(at, told, as_json)
                shown += 1
                if shown == options.count:
                    return
    except TimeoutError:
        if options.count is not None:
            remark(f"{shown} of {options.count} came in {options.timeout:g} s")


def _print(at: float, told: News, as_json: bool) -> None:
    from kbn.management import LogEntry

    if as_json:
        print_json_line(_form(at, told))
    elif isinstance(told, LogEntry):
        print_entry(told)
    else:
        form = _form(at, told)
        said = "plan" if "plan" in form else f"placement  {form['name']}  {form['to']}"
        typer.echo(f"{datetime.fromtimestamp(at):%H:%M:%S}  {said}")
    sys.stdout.flush()


def _form(at: float, told: News) -> dict[str, Any]:
    import json

    from kbn.management import LogEntry, instructions

    if isinstance(told, LogEntry):
        return {"what": "decision", **told.to_json()}
    if isinstance(told, instructions.PlanNote):
        return {"what": "plan", "at": at, "plan": json.loads(told.text)}
    about = {"kind": told.kind, "name": told.name, "from": told.before, "to": told.broker}
    return {"what": "placement", "at": at, **about}


def _print_placements(observer: Observer, as_json: bool) -> None:
    rows = [(*key, each.at, each.told) for key, each in sorted(observer.placements.items())]
    columns = ("kind", "name", "at", "told")
    if as_json:
        print_json_line({"placements": [dict(zip(columns, row, strict=True)) for row in rows]})
    else:
        print_table(rows, columns=columns)
