"""The versions of what brokers and clients say: what each changed, and how the one before said it.

A broker speaks the newest version and the one before it. Two brokers agree when they connect: who
connects says in `Who` up to which version it can speak, the other does too, and the greeting says
which one it is from then on. A client says its version in `Connect`; so brokers are upgraded before
clients.

The code knows the messages of the newest version only. On a connection of the version before, each
message is put into its older form on the way out, and into the newer on the way in. These forms are
lists, as MessagePack has them: the kind of a message, then its fields.

What needs no version: a new field with a default at the end of a message. Whoever does not know it
ignores it, and whoever does not send it means the default. `Who`, `Connect`, `Greet`, `Bye`, and
`Refused` never change in any other way: they are said before anything is agreed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import MsgspecError, msgpack

from kbn.errors import InvalidInputError, RemotePeerError

Form = list[Any]
Translate = Callable[[Form], Form | None]


class WireVersion(NamedTuple):
    """A version; `to_older` gives the form of a message in the version before, `from_older` the
    form in this one. None: it cannot be said, and is left out.
    """

    number: int
    changed: str
    to_older: Translate | None = None
    from_older: Translate | None = None


class WireVersions:
    """A table of versions, oldest first."""

    def __init__(self, *versions: WireVersion) -> None:
        self._last = versions[-1]
        self.table = versions
        self.newest = self._last.number
        self.oldest = versions[-2].number if len(versions) > 1 else self.newest

    def with_next(self, version: WireVersion) -> WireVersions:
        """The table with one more."""
        return WireVersions(*self.table, version)

    def agreed(self, version: int, newest: int = 0) -> int:
        """The version to speak with somebody who speaks from `version` up to `newest`.

        RemotePeerError when there is none.
        """
        theirs = max(version, newest)
        spoken = min(self.newest, theirs)
        if spoken < max(self.oldest, version):
            here = " or ".join(str(each) for each in sorted({self.oldest, self.newest}))
            who = "you are" if theirs < self.oldest else "this broker is"
            raise RemotePeerError(
                f"version {theirs} of the protocol; here it is {here}: {who} too old, upgrade first"
            )
        return spoken

    def older(self, body: bytes) -> bytes | None:
        """A message in the form of the version before; None when that has no such message."""
        return _translated(body, self._last.to_older)

    def newer(self, body: bytes) -> bytes | None:
        """A message of the version before in the newest form; None for one to leave out."""
        return _translated(body, self._last.from_older)


def _translated(body: bytes, translate: Translate | None) -> bytes | None:
    if translate is None:
        return body
    try:
        form = translate(msgpack.decode(body))
    except (MsgspecError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"a message of another version cannot be read: {error}") from None
    return None if form is None else msgpack.encode(form)


WIRE = WireVersions(WireVersion(1, "The first that was released."))
