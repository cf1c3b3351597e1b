"""What an access file says, entry by entry, and what in it is probably not meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kbn.broker import AccessRules, Entry, Permission, Section
from kbn.config import Place, Problem
from kbn.transport.access_file import access_document, rules_of


@dataclass(frozen=True, slots=True)
class EntryAt:
    """An entry, and where it stands; the default has no name."""

    section: Section
    name: str
    entry: Entry
    place: Place

    @property
    def path(self) -> str:
        """Its place as people write it.

        >>> from kbn.config import Document
        >>> somewhere = Document.of({}, "access.yaml").root
        >>> EntryAt("clients", "ann", Entry(Permission()), somewhere).path
        'clients.ann'
        """
        return f"{self.section}.{self.name}" if self.name else self.section

    @property
    def line(self) -> int | None:
        return self.place.key_line

    def remark(self, reason: str) -> Problem:
        """Something to tell of this entry."""
        return Problem(self.place.document.name, reason, self.place.path, self.line)

    @property
    def permission(self) -> Permission:
        return self.entry.permission

    @property
    def has_token(self) -> bool:
        return self.entry.token_digest is not None


@dataclass(frozen=True, slots=True)
class AccessReview:
    """The rules of a file, its entries in their order, and remarks on some of them."""

    path: str
    rules: AccessRules
    entries: tuple[EntryAt, ...]
    remarks: tuple[Problem, ...]

    def deciding(self, name: str) -> EntryAt | None:
        """The entry that decides about a client of that name."""
        section = self.rules.section_of(name)
        return self._found(section, "" if section == "default" else name)

    def deciding_broker(self, name: str) -> EntryAt | None:
        """The entry that decides about a broker of that name."""
        return self._found("brokers", name)

    def _found(self, section: Section | None, name: str) -> EntryAt | None:
        found = (each for each in self.entries if (each.section, each.name) == (section, name))
        return next(found, None)


def review_access(path: str | Path) -> AccessReview:
    """Read an access file as a broker would; ConfigError tells all that is wrong with it."""
    root = access_document(path)
    rules = rules_of(root)
    entries = tuple(_entries(rules, root))
    remarks = [each for remark in _REMARKS for each in remark(entries)]
    remarks.sort(key=lambda each: each.line or 0)
    return AccessReview(str(path), rules, entries, tuple(remarks))


def _entries(rules: AccessRules, root: Place) -> Iterator[EntryAt]:
    for name, entry in rules.clients.items():
        yield EntryAt("clients", name, entry, root.at("clients", name))
    for name, entry in rules.brokers.items():
        yield EntryAt("brokers", name, entry, root.at("brokers", name))
    if rules.default is not None:
        yield EntryAt("default", "", rules.default, root.at("default"))


# What is allowed, and probably not meant.


def _without_token(entries: tuple[EntryAt, ...]) -> Iterator[Problem]:
    for each in entries:
        if not each.has_token and each.section != "default":
            yield each.remark(
                "has no token: whoever uses this name comes in; add a token, unless brokers have "
                "--tls-client-ca, so that a certificate proves the name"
            )


def _managing_default(entries: tuple[EntryAt, ...]) -> Iterator[Problem]:
    for each in entries:
        if each.section == "default" and each.permission.manage and not each.has_token:
            yield each.remark("anybody may manage the broker; give managers their own entry")


def _shared_tokens(entries: tuple[EntryAt, ...]) -> Iterator[Problem]:
    first: dict[str, EntryAt] = {}
    for each in entries:
        digest = each.entry.token_digest
        if digest is None:
            continue
        known = first.setdefault(digest, each)
        # One broker is often a client too, to report, and then has one token.
        if known is not each and known.name != each.name:
            yield each.remark(
                f"has the token of {known.path}: each can come in as the other; give it its own"
            )


def _ontologies_without_manage(entries: tuple[EntryAt, ...]) -> Iterator[Problem]:
    for each in entries:
        if each.permission.ontologies and not each.permission.manage:
            yield each.remark("`ontologies` does nothing without `manage`; add that, too")


def _nothing_allowed(entries: tuple[EntryAt, ...]) -> Iterator[Problem]:
    for each in entries:
        may = each.permission
        if not (may.publish == frozenset() and may.subscribe == frozenset() and not may.manage):
            continue
        yield each.remark("may come in and do nothing; add publish, subscribe or manage")


def _named_twice(entries: tuple[EntryAt, ...]) -> Iterator[Problem]:
    brokers = {each.name for each in entries if each.section == "brokers"}
    for each in entries:
        if each.section == "clients" and each.name in brokers:
            yield each.remark(
                f"is also under brokers: as a client, {each.name} has the rights that stand here"
            )


_REMARKS: tuple[Callable[[tuple[EntryAt, ...]], Iterator[Problem]], ...] = (
    _without_token,
    _managing_default,
    _shared_tokens,
    _ontologies_without_manage,
    _nothing_allowed,
    _named_twice,
)
