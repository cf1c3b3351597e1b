"""How commands reach a broker: the options they share, and the connection made of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from kbn.cli.options import option_group
from kbn.errors import TransportError

if TYPE_CHECKING:
    from ssl import SSLContext

    from kbn.transport import Client

T = TypeVar("T")
DEFAULT_URL = "kbn://127.0.0.1:7420"

CertificateFile = Annotated[
    Path | None,
    typer.Option(
        "--tls-cert", exists=True, dir_okay=False, metavar="FILE", help="Your certificate."
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--tls-key",
        exists=True,
        dir_okay=False,
        metavar="FILE",
        help="The key of your certificate.",
    ),
]
TrustedFile = Annotated[
    Path | None,
    typer.Option(
        "--tls-ca", exists=True, dir_okay=False, metavar="FILE",
        help="The CA to trust [default: those of the system].",
    ),
]  # fmt: skip
Token = Annotated[
    str,
    typer.Option(
        "--token", envvar="KBN_TOKEN", metavar="TEXT", help="Your token for the broker.",
        show_default=False,
    ),
]  # fmt: skip
ClientName = Annotated[
    str | None, typer.Option("--name", help="Connect as the client of this name.")
]


@option_group
class Credentials:
    """Who you are, and whom you trust."""

    token: Token = ""
    tls_ca: TrustedFile = None
    tls_cert: CertificateFile = None
    tls_key: KeyFile = None

    def tls(self) -> SSLContext | None:
        """What the files say; None when there are none."""
        from kbn.transport import client_tls

        if self.tls_ca is None and self.tls_cert is None:
            return None
        return client_tls(self.tls_ca, self.tls_cert, self.tls_key)


@option_group
class Connecting:
    """Which broker to connect to, and how."""

    url: Annotated[
        str,
        typer.Option(
            "--url", "-u", envvar="KBN_URL", metavar="URL", help="The broker to connect to."
        ),
    ] = DEFAULT_URL
    credentials: Credentials = Credentials()
    wait_s: Annotated[
        float,
        typer.Option(
            "--wait", min=0.1, metavar="S", help="How many seconds the broker may take to answer."
        ),
    ] = 5.0

    def client(self, name: str | None = None, **options: Any) -> Client:
        """A client to use with `async with`."""
        from kbn.transport import connect

        known = self.credentials
        return connect(
            self.url, name=name, token=known.token, timeout=self.wait_s, tls_ca=known.tls_ca,
            tls_certificate=known.tls_cert, tls_key=known.tls_key, **options,
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
        from kbn.transport import ask_name

        return await ask_name(url, self.credentials.tls())
