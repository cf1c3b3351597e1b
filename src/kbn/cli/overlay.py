"""`kbn overlay`: a whole overlay on this machine, and clients moved from broker to broker."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbn.cli.broker import compile_kernels_once
from kbn.cli.connecting import ClientName, Connecting
from kbn.cli.logs import QUIET, Logs
from kbn.cli.options import with_options
from kbn.cli.output import AsJson, print_json, print_table, remark
from kbn.errors import KbnError
from kbn.wording import counted

if TYPE_CHECKING:
    from kbn.transport import Overlay, OverlayPlan

POLICY_SERVER = "policy-server"

app = typer.Typer(
    name="overlay", help="A network of brokers, as processes on this machine.", no_args_is_help=True
)


@app.command("up", short_help="Start the brokers of a file; end them with Ctrl-C.")
@with_options
def up(
    *,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The YAML file that describes the overlay.")
    ],
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND...]",
            help="Run this command when all are up; end them with it, with its exit code.",
            show_default=False,
        ),
    ] = None,
    managed: Annotated[
        bool,
        typer.Option(
            "--managed",
            help="Add a trigger broker, a policy server and a simulated population.",
        ),
    ] = False,
    wait: Annotated[
        float,
        typer.Option("--wait", min=0.1, metavar="S", help="How many seconds starting may take."),
    ] = 120.0,
    logs: Logs = QUIET,
    as_json: AsJson = False,
) -> None:
    """Start a broker process for each broker of a file, and print where they are.

    It returns when told to end (Ctrl-C). A broker that dies is reported, with the command that
    brings it back, and not restarted; the exit code is 1 then. A COMMAND finds the brokers in
    KBN_URL (the first) and KBN_URL_name.

    A managed overlay arranges itself: subscribers attach anywhere and are moved to the broker of
    their cluster, publishers are told where to publish. What the policy server does and how many
    hops notifications take is shown as it happens; see `managed:` in the file.

    \b
    Examples:
      kbn overlay up overlay.yaml
      kbn overlay up --managed overlay.yaml
      kbn overlay up overlay.yaml -- sh try-it.sh
    """
    from kbn.transport import Overlay, load_topology

    plan = load_topology(file, _ontology_file)
    kind = _managed_kind(plan) if managed else Overlay
    overlay = kind(plan, _say, log_format=logs.log_format.value, log_level=logs.log_level.value)
    compile_kernels_once()
    code = asyncio.run(_up(overlay, plan, command or [], wait, as_json))
    if code:
        raise typer.Exit(code)


def _ontology_file(name: str, folder: Path) -> Path | None:
    from kbn.cli.ontology import ontology_file

    if (folder / name).is_file():
        return folder / name
    try:
        return ontology_file(name)
    except typer.BadParameter:
        return None


def _managed_kind(plan: OverlayPlan) -> type[Overlay]:
    from kbn.errors import InvalidInputError
    from kbn.transport import ManagedOverlay

    if not plan.ontology:
        raise InvalidInputError(f"{plan.path}: a managed overlay needs an ontology: to cluster by")
    if plan.access is not None:
        raise InvalidInputError(
            f"{plan.path}: a managed overlay takes no access file: its clients have no tokens"
        )
    return ManagedOverlay


async def _join_companions(overlay: Overlay, plan: OverlayPlan) -> None:
    """Start the policy server and the population of a managed overlay."""
    from kbn.transport import Companion, ManagedOverlay

    if not isinstance(overlay, ManagedOverlay):
        return
    management, trigger = plan.managed, overlay.trigger.url
    shared = ["--trigger", trigger, "--reasoning", plan.reasoning]
    shared += management.settings.arguments()
    for path in plan.ontology:
        shared += ["--ontology", str(path)]
    server = ["policy-server", *shared, "--name", POLICY_SERVER]
    server += ["--load-max", str(management.load_max)]
    if management.policies is not None:
        server += ["--policies", str(management.policies)]
    if management.mib is not None:
        server += ["--mib", str(management.mib)]
    urls = ",".join(each.url for each in overlay.brokers.values())
    people = [*shared, "--urls", urls]
    for name in ("subscribers", "publishers", "rate", "drift", "seed"):
        people += [f"--{name}", str(getattr(management, name))]
    await overlay.join(Companion(POLICY_SERVER, lambda: tuple(server)))
    if management.subscribers or management.publishers:
        module = "kbn.transport.population"
        await overlay.join(Companion("population", lambda: tuple(people), module))


def _say(broker: str, line: str) -> None:
    remark(f"{broker} | {line}")


async def _up(
    overlay: Overlay, plan: OverlayPlan, command: list[str], wait: float, as_json: bool
) -> int:
    told_to_end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, told_to_end.set)
    ending = asyncio.ensure_future(told_to_end.wait())
    async with overlay:
        starting = asyncio.ensure_future(overlay.start(wait))
        await asyncio.wait({starting, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return 130
        starting.result()
        if not command or as_json:
            _print(overlay, as_json)
        await _join_companions(overlay, plan)
        watching = asyncio.ensure_future(_watch(overlay))
        working = asyncio.ensure_future(_run(command, overlay)) if command else watching
        await asyncio.wait({watching, working, ending}, return_when=asyncio.FIRST_COMPLETED)
        if command and not told_to_end.is_set():
            await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
        for task in (watching, working):
            task.cancel()
        await asyncio.gather(watching, working, return_exceptions=True)
        if command and not working.cancelled():
            return working.result()
        return int(any(each.is_expected_to_end for each in overlay.watched()))


async def _watch(overlay: Overlay) -> int:
    """Report brokers that die, until none is left."""
    while (dead := await overlay.died()) is not None:
        remark(f"broker {dead.name} (pid {dead.pid}) has died: exit code {dead.process.returncode}")
        if dead.name in overlay.brokers:
            remark(f"bring it back with: {shlex.join(('kbn', *overlay.again(dead.name)))}")
    return 1


async def _run(command: list[str], overlay: Overlay) -> int:
    """Run a command in the overlay; its exit code."""
    from kbn.transport import tell

    urls = {f"KBN_URL_{_variable(each.name)}": each.url for each in overlay.watched()}
    first = next(iter(overlay.brokers.values())).url
    try:
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, "KBN_URL": first, **urls}
        )
    except OSError as error:
        raise KbnError(f"{command[0]}: cannot be run: {error.strerror}") from None
    try:
        return await process.wait()
    finally:
        tell(process, signal.SIGTERM)
        await process.wait()


def _variable(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def _print(overlay: Overlay, as_json: bool) -> None:
    brokers = [
        {"broker": each.name, "url": each.url, "pid": each.pid, "http": each.http}
        for each in overlay.watched()
    ]
    if as_json:
        print_json(brokers)
    else:
        rows = [[str(value) for value in each.values()] for each in brokers]
        print_table(rows, columns=("broker", "url", "pid", "health and metrics"))
        remark("all up and connected; Ctrl-C ends them")
    sys.stdout.flush()


@app.command("move", short_help="Send clients of one broker to another.")
@with_options
def move(
    *,
    to: Annotated[str, typer.Option("--to", metavar="URL", help="The broker they move to.")],
    clients: Annotated[
        str | None, typer.Option("--clients", metavar="A,B", help="The clients to move, by name.")
    ] = None,
    everybody: Annotated[
        bool, typer.Option("--all", help="Move all clients that have subscriptions.")
    ] = False,
    name: ClientName = None,
    connecting: Connecting,
    as_json: AsJson = False,
) -> None:
    """Tell clients of the broker at --url to go to the broker at --to.

    They subscribe there first and leave when nothing more is on its way to them: nothing is lost
    and nothing comes twice.

    \b
    Examples:
      kbn overlay move --url kbn://127.0.0.1:7431 --clients ann,bob \\
        --to kbn://127.0.0.1:7432
      kbn overlay move --url kbn://127.0.0.1:7431 --all --to kbn://127.0.0.1:7432
    """
    from kbn.transport import parse_url

    if (clients is None) is not everybody:
        raise typer.BadParameter("say which --clients, or --all")
    parse_url(to)
    names = None if clients is None else [one.strip() for one in clients.split(",")]
    there, moving = asyncio.run(_move(connecting, name, names, to))
    if as_json:
        print_json({"moving": moving, "to": {"broker": there, "url": to}})
    else:
        typer.echo(f"{counted(moving, 'client')} told to go to {there} at {to}")


async def _move(
    connecting: Connecting, name: str | None, names: list[str] | None, to: str
) -> tuple[str, int]:
    async with connecting.client(name) as client:
        there = await connecting.name_of(to)
        moving = await connecting.within(client.move_clients(there, to, names))
    return there, moving


@app.command("unlink", short_help="Have a broker drop a neighbour.")
@with_options
def unlink(
    *,
    broker: Annotated[
        str, typer.Argument(metavar="NAME", help="The neighbour, or the URL of one never met.")
    ],
    retired: Annotated[
        bool,
        typer.Option(
            "--retired", help="It never returns: what was kept for it goes to who wants it now."
        ),
    ] = False,
    name: ClientName = None,
    connecting: Connecting,
    as_json: AsJson = False,
) -> None:
    """Have the broker at --url drop a neighbour.

    What the neighbour has not acknowledged is dropped with it. When a broker is dead for good, tell
    each of its neighbours with --retired: what they have kept for it goes once more to everybody
    who wants it now, because its clients are elsewhere.

    \b
    Examples:
      kbn overlay unlink --url kbn://127.0.0.1:7431 cork --retired
      kbn overlay unlink --url kbn://127.0.0.1:7431 kbn://cork.example:7420
    """
    asyncio.run(_unlink(connecting, name, broker, retired))
    if as_json:
        print_json({"unlinked": broker, "retired": retired})
    else:
        typer.echo(f"{broker} is no neighbour any more")


async def _unlink(connecting: Connecting, name: str | None, broker: str, retired: bool) -> None:
    async with connecting.client(name) as client:
        await connecting.within(client.unlink(broker, retired=retired))
