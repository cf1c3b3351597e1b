"""Owners: whose a name is, where a name alone proves nothing.

Where the authorizer has not proved a client's name, the name belongs to whoever uses it: while a
client is attached, and for a durable client until it leaves. An owner is known by the token it has
shown; the store keeps the digest of that token, never the token.
"""

from __future__ import annotations

from kbn.broker.access import NotAllowedError, Permission
from kbn.broker.access_rules import digest_of
from kbn.broker.messages import Connect
from kbn.broker.store import Store

OWNER = "owner/"


class Owners:
    """The owners of names at one broker."""

    __slots__ = ("_store",)

    def __init__(self, store: Store) -> None:
        self._store = store

    def check(self, connect: Connect, permission: Permission, attached: str | None) -> None:
        """Raise `NotAllowedError` unless the name is this client's, or nobody's.

        `attached` is the token of the client that is attached under that name now, if one is.
        """
        name, token = connect.client, connect.token
        if permission.known_by == "proof":
            return
        if attached is not None and attached != token:
            raise NotAllowedError(f"{name!r} is in use by another client: choose another name")
        owner = self._store.marked(OWNER + name)
        if owner is not None and owner != digest_of(token).encode():
            raise NotAllowedError(
                f"{name!r} belongs to a durable client with another token: show that token, or "
                "choose another name"
            )
        if connect.durable:
            _check_durable(name, token, permission)

    def keep(self, connect: Connect, permission: Permission) -> None:
        """A durable client owns its name from now on."""
        if permission.known_by == "proof":
            self.forget(connect.client)
            return
        digest = digest_of(connect.token).encode()
        if self._store.marked(OWNER + connect.client) != digest:
            self._store.mark(OWNER + connect.client, digest)

    def forget(self, name: str) -> None:
        """The name is free again."""
        if self._store.marked(OWNER + name) is not None:
            self._store.unmark(OWNER + name)


def _check_durable(name: str, token: str, permission: Permission) -> None:
    if permission.known_by == "shared":
        raise NotAllowedError(
            "your token is also that of others, who could take what is kept for you: to be "
            "durable you need an entry of your own in the access file"
        )
    if permission.known_by == "claim" and not token:
        raise NotAllowedError(
            f"a durable client needs a token, or anybody could take what is kept for {name!r}: "
            "choose one, and show it each time"
        )
