"""An authorizer from a file: who may come in, with which token, and what each may do.

    clients:
      ann:
        token_sha256: 5e88489…            # of the token; or `token:` itself
        publish: [temperature, room]      # attributes, or "*"
        subscribe: "*"
        manage: false                     # instruct the broker
        ontologies: false                 # as a manager, have it load ontologies
        block: false                      # stop publishers when it is slow
        limits: {subscriptions: 100}      # other than everybody's
    brokers:
      west: {token: s3cret}
    default: {publish: [], subscribe: "*"}   # for everybody else; without it nobody else may come

YAML or JSON. What an entry does not say it does not allow. An entry without a token admits whoever
uses that name, which is right behind mutual TLS only. docs/reference/access-file.md has every key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, defstruct
from msgspec.structs import asdict

from kbn.broker import (
    NAME_CHARACTERS_MAX,
    TEXT_CHARACTERS_MAX,
    AccessRules,
    ClientLimits,
    Entry,
    LimitsGiven,
    Permission,
    RulesInForce,
    digest_of,
)
from kbn.config import AS_WRITTEN, Document, Form, Place

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


# What no message could carry would keep its owner out for ever.
Token = Annotated[str, Meta(min_length=1, max_length=TEXT_CHARACTERS_MAX, description="a text")]
Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX, description="a name")]
Positive = Annotated[int, Meta(gt=0, lt=2**62, description="a whole number above 0")]
Seconds = Annotated[float, Meta(gt=0, description="a number above 0")]

LimitsForm: Any = defstruct(
    "LimitsForm",
    [
        (each.name, (Seconds if each.name.endswith("_s") else Positive) | None, None)
        for each in fields(ClientLimits)
    ],
    bases=(Form,),
    frozen=True,
)
"""Limits that are other than everybody's: any of `ClientLimits`."""


class EntryForm(Form, frozen=True):
    """What a client may do. What it does not say it does not allow."""

    token: Token | None = None
    token_sha256: Digest | None = None
    publish: Attributes = ()
    subscribe: Attributes = ()
    manage: bool = False
    ontologies: bool = False
    block: bool = False
    limits: LimitsForm | None = None


class BrokerEntryForm(EntryForm, frozen=True):
    """What a broker may do as a client, to report, say: publish and subscribe to everything."""

    publish: Attributes = "*"
    subscribe: Attributes = "*"


ByName = Meta(description="names, each with what it may do")
Clients = Annotated[dict[Name, EntryForm], ByName]
Brokers = Annotated[dict[Name, BrokerEntryForm], ByName]


class AccessForm(Form, frozen=True):
    """The whole file."""

    clients: Clients | None = None
    brokers: Brokers | None = None
    default: EntryForm | None = None


class AccessFile(RulesInForce):
    """Admits by a file; `reload` reads it again, and keeps what it had when the file is wrong."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        super().__init__(read_access(self._path))

    def reload(self) -> None:
        self.rules = read_access(self._path)


def read_access(path: str | Path) -> AccessRules:
    """The rules in an access file; ConfigError says what is wrong with it, and where."""
    return rules_of(access_document(path))


def access_document(path: str | Path) -> Place:
    """The access file, to be read; its errors show no value, for that may be a token."""
    return Document.read(path, "the access file", is_secret=True).root


def rules_of(root: Place) -> AccessRules:
    """The rules in a document that is an access file."""
    form = root.convert(AccessForm)
    default = None if form.default is None else _entry(form.default, root.at("default"))
    return AccessRules(
        _entries(form.clients, root.at("clients")),
        _entries(form.brokers, root.at("brokers")),
        default,
    )


def _entries(form: Mapping[str, EntryForm] | None, place: Place) -> dict[str, Entry]:
    return {name: _entry(each, place.at(name)) for name, each in (form or {}).items()}


def _entry(form: EntryForm, place: Place) -> Entry:
    permission = Permission(
        _allowed(form.publish),
        _allowed(form.subscribe),
        manage=form.manage,
        block=form.block,
        ontologies=form.ontologies,
        limits=_limits(form.limits),
    )
    return Entry(permission, _digest(form, place))


def _limits(form: Any) -> LimitsGiven:
    given = {} if form is None else asdict(form)
    return {name: value for name, value in given.items() if value is not None}  # type: ignore[return-value]


def _allowed(attributes: All | tuple[str, ...]) -> frozenset[str] | None:
    return None if attributes == "*" else frozenset(attributes)


def _digest(form: EntryForm, place: Place) -> str | None:
    if form.token is not None and form.token_sha256 is not None:
        raise place.at("token").error("give a token or its SHA-256, not both")
    if form.token is not None:
        return digest_of(form.token)
    return None if form.token_sha256 is None else form.token_sha256.lower()
