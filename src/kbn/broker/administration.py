"""Administration: what a broker can be asked about its clients."""

from __future__ import annotations

from typing import Any

from kbn.broker.client_sessions import ClientSessions
from kbn.errors import InvalidInputError


def report_hops(clients: ClientSessions, about: dict[str, Any]) -> dict[str, Any]:
    """Have subscribers say how far their notifications came: now, and then `every` so often.

    Those who come later are asked too, unless `every` is 0 or left out. `clients` names some.
    """
    every_s = about.get("every", 0.0)
    if isinstance(every_s, bool) or not isinstance(every_s, int | float) or not every_s >= 0:
        raise InvalidInputError(f"'every' is a number of seconds, not {every_s!r}")
    return {"asked": clients.ask_for_hops(float(every_s), client_names(about))}


def move_clients(clients: ClientSessions, here: str, about: dict[str, Any]) -> dict[str, Any]:
    """Send clients to another: `clients` names them; `broker` and `url` say where."""
    broker, url = about.get("broker"), about.get("url")
    if not isinstance(broker, str) or not isinstance(url, str) or broker == here:
        raise InvalidInputError("to move clients, name another broker and its url")
    names = client_names(about)
    if names is None:
        names = clients.subscribers()
    clients.check_known(names)
    clients.redirect(names, broker, url)
    return {"moving": len(names)}


def client_names(about: dict[str, Any]) -> list[str] | None:
    """The clients that a request names; None when it is about all of them."""
    names = about.get("clients")
    if names is None:
        return None
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidInputError(f"'clients' is a list of names, not {names!r:.100}")
    return list(names)
