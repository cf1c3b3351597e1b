"""`connect`: a client of the broker at a URL."""

from __future__ import annotations

from collections.abc import Callable
from getpass import getuser
from pathlib import Path
from secrets import token_hex
from typing import Literal

from kbn.broker import ClientSettings, TermNote
from kbn.errors import InvalidInputError
from kbn.transport.client import Client
from kbn.transport.client_options import ClientOptions
from kbn.transport.security import client_tls
from kbn.transport.urls import parse_url


def connect(
    url: str,
    *,
    name: str | None = None,
    token: str = "",
    durable: bool = False,
    window: int = 1000,
    when_slow: Literal["drop", "block"] = "drop",
    with_path: bool = False,
    timeout: float | None = 30.0,
    tls_ca: str | Path | None = None,
    tls_certificate: str | Path | None = None,
    tls_key: str | Path | None = None,
    on_ontology: Callable[[str], None] | None = None,
    on_unknown_term: Callable[[TermNote], None] | None = None,
    epoch: int | None = None,
    published: int = 0,
    stays: bool = False,
) -> Client:
    """A client of the broker at a URL; use it with `async with`::

        async with kbn.connect("kbn://localhost:7420", name="ann") as client:
            await client.publish({"price": 5})

    `name` is how brokers and subscribers know it; a durable client must have one, and the broker
    keeps for it what comes while it is away. Such a client subscribes to the same, in the same
    order, each time its process starts. `window` notifications at most wait here for the
    application; of more, the broker drops the oldest, or stops their publishers (`when_slow`).
    `timeout` bounds the first connection only; a lost one is made again for as long as it takes.
    A publisher that continues an earlier `epoch` of its name says how many durable notifications
    of it are `published`: of the following ones, the broker drops those it has. A client whose
    broker is away for some seconds goes to another that it was told of, unless it `stays`.
    `on_ontology` is called with the digest of each new ontology of the broker, `on_unknown_term`
    with each term of what is published that the ontology does not know; without it, the log has a
    warning.

    Nothing is connected before `async with`, but mistakes are told at once:

    >>> import kbn
    >>> kbn.connect("kbn://localhost:7420", durable=True)
    Traceback (most recent call last):
    kbn.errors.InvalidInputError: a durable client needs a name, to be known when it comes back
    """
    if durable and name is None:
        raise InvalidInputError("a durable client needs a name, to be known when it comes back")
    if window < 1:
        raise InvalidInputError(f"a window of {window}: at least one notification must fit")
    parse_url(url)
    has_tls = tls_ca is not None or tls_certificate is not None
    options = ClientOptions(
        ClientSettings(durable, window, when_slow, token, with_path, published, stays),
        tls=client_tls(tls_ca, tls_certificate, tls_key) if has_tls else None,
        timeout_s=timeout,
        epoch=epoch,
        on_ontology=on_ontology,
        on_unknown_term=on_unknown_term,
    )
    return Client(url, name or some_name(), options)


def some_name() -> str:
    """A name for one who needs none."""
    try:
        user = getuser()
    except (OSError, KeyError):
        user = "client"
    return f"{user}-{token_hex(6)}"
