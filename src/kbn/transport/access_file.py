"""An authorizer from a file: who may come in, with which token, and what each may do.

    clients:
      ann:
        token_sha256: 5e88489…            # of the token; or `token:` itself
        publish: [temperature, room]      # attributes, or "*"
        subscribe: "*"
        manage: false
    brokers:
      west: {token: s3cret}
    default: {publish: [], subscribe: "*"}   # for everybody else; without it nobody else may come

YAML or JSON. What an entry does not say it does not allow. An entry without a token admits whoever
uses that name, which is right behind mutual TLS only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from kbn.broker import Permission
from kbn.config import AS_WRITTEN, Document, Form, Place, Text

All = Literal["*"]
Attributes = Annotated[
    All | tuple[str, ...], Meta(description='a list of attributes, or "*" for all')
]
Digest = Annotated[
    str,
    Meta(
        pattern=r"^[0-9a-fA-F]{64}\Z",
        description="a SHA-256: 64 hexadecimal digits",
        extra=AS_WRITTEN,
    ),
]


class EntryForm(Form, frozen=True):
    """What a client may do. What it does not say it does not allow."""

    token: Text | None = None
    token_sha256: Digest | None = None
    publish: Attributes = ()
    subscribe: Attributes = ()
    manage: bool = False


class BrokerEntryForm(EntryForm, frozen=True):
    """What a broker may do: everything, unless the file says less."""

    publish: Attributes = "*"
    subscribe: Attributes = "*"
    manage: bool = True


Clients = Annotated[dict[str, EntryForm], Meta(description="names, each with what it may do")]
Brokers = Annotated[dict[str, BrokerEntryForm], Meta(description="names, each with what it may do")]


class AccessForm(Form, frozen=True):
    """The whole file."""

    clients: Clients | None = None
    brokers: Brokers | None = None
    default: EntryForm | None = None


@dataclass(frozen=True, slots=True)
class _Entry:
    permission: Permission
    digest: str | None  # of the token, hex

    def admits(self, token: str) -> bool:
        given = sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        # The comparison is made in any case, and takes as long for any token.
        return compare_digest(given, self.digest or given)


class AccessFile:
    """Admits by a file; `reload` reads it again, and keeps what it had when the file is wrong."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._clients: dict[str, _Entry] = {}
        self._brokers: dict[str, _Entry] = {}
        self._default: _Entry | None = None
        self.reload()

    def reload(self) -> None:
        root = Document.read(self._path, "the access file", is_secret=True).root
        form = root.convert(AccessForm)
        clients = _entries(form.clients, root.at("clients"))
        brokers = _entries(form.brokers, root.at("brokers"))
        default = None if form.default is None else _entry(form.default, root.at("default"))
        self._clients, self._brokers, self._default = clients, brokers, default

    def admit(self, name: str, token: str) -> Permission | None:
        """What a client may do; None when it may not come in."""
        entry = self._clients.get(name) or self._brokers.get(name) or self._default
        return entry.permission if entry is not None and entry.admits(token) else None

    def admit_broker(self, name: str, token: str) -> bool:
        """Whether a broker of that name may be a neighbour: the file must name it."""
        entry = self._brokers.get(name)
        return entry is not None and entry.admits(token)


def _entries(form: Mapping[str, EntryForm] | None, place: Place) -> dict[str, _Entry]:
    return {name: _entry(each, place.at(name)) for name, each in (form or {}).items()}


def _entry(form: EntryForm, place: Place) -> _Entry:
    permission = Permission(_allowed(form.publish), _allowed(form.subscribe), form.manage)
    return _Entry(permission, _digest(form, place))


def _allowed(attributes: All | tuple[str, ...]) -> frozenset[str] | None:
    return None if attributes == "*" else frozenset(attributes)


def _digest(form: EntryForm, place: Place) -> str | None:
    if form.token is not None and form.token_sha256 is not None:
        raise place.at("token").error("give a token or its SHA-256, not both")
    if form.token is not None:
        return sha256(form.token.encode("utf-8", "surrogatepass")).hexdigest()
    return None if form.token_sha256 is None else form.token_sha256.lower()
