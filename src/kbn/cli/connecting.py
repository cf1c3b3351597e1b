"""How commands reach a broker: the options they share, and the connection made of them.

A command that is decorated with `reaching_a_broker` has a parameter `connecting`; on the command
line the options that `Connecting` lists stand in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from kbn.errors import TransportError

if TYPE_CHECKING:
    from kbn.transport import Client

T = TypeVar("T")
DEFAULT_URL = "kbn://127.0.0.1:7420"

Url = Annotated[
    str,
    typer.Option("--url", "-u", envvar="KBN_URL", metavar="URL", help="The broker to connect to."),
]
Token = Annotated[
    str,
    typer.Option(
        "--token", envvar="KBN_TOKEN", metavar="TEXT", help="Shown to the broker.",
        show_default=False,
    ),
]  # fmt: skip
TlsCa = Annotated[
    Path | None,
    typer.Option(
        "--tls-ca", exists=True, dir_okay=False, metavar="FILE",
        help="Whose certificates to trust; without it, those the system trusts.",
    ),
]  # fmt: skip
TlsCert = Annotated[
    Path | None,
    typer.Option(
        "--tls-cert", exists=True, dir_okay=False, metavar="FILE", help="Our own certificate."
    ),
]
TlsKey = Annotated[
    Path | None,
    typer.Option("--tls-key", exists=True, dir_okay=False, metavar="FILE", help="Its key."),
]
Wait = Annotated[
    float,
    typer.Option("--wait", min=0.1, metavar="S", help="How long the broker may take to answer."),
]


@dataclass(frozen=True)
class Connecting:
    """What the shared options said."""

    url: Url = DEFAULT_URL
    token: Token = ""
    tls_ca: TlsCa = None
    tls_cert: TlsCert = None
    tls_key: TlsKey = None
    wait_s: Wait = 5.0

    def client(self, name: str | None = None, **options: Any) -> Client:
        """A client to use with `async with`."""
        from kbn.transport import connect

        return connect(
            self.url, name=name, token=self.token, timeout=self.wait_s, tls_ca=self.tls_ca,
            tls_certificate=self.tls_cert, tls_key=self.tls_key, **options,
        )  # fmt: skip

    async def within(self, asking: Awaitable[T]) -> T:
        """What the broker answers, if it does so in time."""
        try:
            async with asyncio.timeout(self.wait_s):
                return await asking
        except TimeoutError:
            raise TransportError(f"{self.url} gave no answer within {self.wait_s:g} s") from None

    async def name_of(self, url: str) -> str:
        """The name of the broker at another URL."""
        from kbn.transport import ask_name, client_tls

        given = self.tls_ca is not None or self.tls_cert is not None
        tls = client_tls(self.tls_ca, self.tls_cert, self.tls_key) if given else None
        return await ask_name(url, tls)


BY_OPTIONS = Connecting()
"""The default of a parameter `connecting`; what the options say takes its place."""


def reaching_a_broker(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of `Connecting` in place of its parameter `connecting`."""
    options = _parameters(Connecting)
    parameters = [
        each
        for own in _parameters(command)
        for each in (options if own.name == "connecting" else [own])
    ]

    @wraps(command)
    def with_options(**given: Any) -> None:
        connecting = Connecting(**{each.name: given.pop(each.name) for each in options})
        command(connecting=connecting, **given)

    # What Typer reads the options from.
    shown: Any = with_options
    shown.__signature__ = signature(command).replace(parameters=parameters)
    shown.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_options


def _parameters(of: Callable[..., Any]) -> list[Parameter]:
    """The parameters, with annotations that are no longer texts."""
    hints = get_type_hints(of, include_extras=True)
    own = signature(of).parameters.values()
    return [each.replace(annotation=hints[each.name]) for each in own]
