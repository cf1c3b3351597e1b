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

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Any, NoReturn

from kbn.broker import Permission
from kbn.errors import InvalidInputError, MissingDependencyError

SECTIONS = ("clients", "brokers", "default")
FIELDS = ("token", "token_sha256", "publish", "subscribe", "manage")


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
        read = _GuardFile(self._path)
        self._clients, self._brokers, self._default = read.clients, read.brokers, read.default

    def admit(self, name: str, token: str) -> Permission | None:
        """What a client may do; None when it may not come in."""
        entry = self._clients.get(name) or self._brokers.get(name) or self._default
        return entry.permission if entry is not None and entry.admits(token) else None

    def admit_broker(self, name: str, token: str) -> bool:
        """Whether a broker of that name may be a neighbour: the file must name it."""
        entry = self._brokers.get(name)
        return entry is not None and entry.admits(token)


class _GuardFile:
    """The file, read and checked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text = _text(path)
        data = self._parsed()
        if not isinstance(data, dict):
            self._fail((), "expected clients, brokers and default")
        self._check_names(data, SECTIONS, ())
        self.clients = self._entries(data.get("clients"), "clients")
        self.brokers = self._entries(data.get("brokers"), "brokers")
        default = data.get("default")
        self.default = None if default is None else self._entry(default, ("default",))

    def _parsed(self) -> Any:
        if self._path.suffix.lower() == ".json":
            try:
                return json.loads(self._text)
            except (ValueError, RecursionError) as error:
                line = getattr(error, "lineno", 1)
                raise InvalidInputError(f"{self._path}, line {line}: not JSON: {error}") from None
        return _yaml(self._path, self._text)

    def _entries(self, data: Any, section: str) -> dict[str, _Entry]:
        if data is None:
            return {}
        if not isinstance(data, dict):
            self._fail((section,), "expected names, each with what it may do")
        return {str(name): self._entry(entry, (section, str(name))) for name, entry in data.items()}

    def _entry(self, data: Any, where: tuple[str, ...]) -> _Entry:
        if not isinstance(data, dict):
            self._fail(where, f"expected {', '.join(FIELDS)}")
        self._check_names(data, FIELDS, where)
        manage = data.get("manage", where[0] == "brokers")
        if not isinstance(manage, bool):
            self._fail((*where, "manage"), "manage is true or false")
        permission = Permission(
            self._attributes(data, "publish", where),
            self._attributes(data, "subscribe", where),
            manage,
        )
        return _Entry(permission, self._digest(data, where))

    def _attributes(
        self, data: dict[str, Any], verb: str, where: tuple[str, ...]
    ) -> frozenset[str] | None:
        given = data.get(verb, "*" if where[0] == "brokers" else [])
        if given == "*":
            return None
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            self._fail((*where, verb), f'{verb} is a list of attributes, or "*" for all')
        return frozenset(given)

    def _digest(self, data: dict[str, Any], where: tuple[str, ...]) -> str | None:
        token, digest = data.get("token"), data.get("token_sha256")
        if token is not None and digest is not None:
            self._fail((*where, "token"), "give a token or its SHA-256, not both")
        if token is not None:
            if not isinstance(token, str) or not token:
                self._fail((*where, "token"), "a token is a text, in quotes if it looks otherwise")
            return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        if digest is None:
            return None
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-fA-F]{64}", digest):
            self._fail((*where, "token_sha256"), "a SHA-256 is 64 hexadecimal digits, in quotes")
        return digest.lower()

    def _check_names(
        self, data: Mapping[Any, Any], known: tuple[str, ...], where: tuple[str, ...]
    ) -> None:
        for name in data:
            if name not in known:
                self._fail((*where, str(name)), f"{name!r} is none of {', '.join(known)}")

    def _fail(self, where: tuple[str, ...], reason: str) -> NoReturn:
        place = " of ".join(reversed(where[:-1])) if len(where) > 1 else ""
        raise InvalidInputError(
            f"{self._path}, line {_line_of(self._text, where)}: {reason}"
            + (f" (in {place})" if place else "")
        )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot read the access file: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInputError(f"{path}: not UTF-8 text") from None


def _yaml(path: Path, text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise MissingDependencyError("an access file in YAML", extra="broker") from None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        problem = getattr(error, "problem", None) or error
        raise InvalidInputError(f"{path}, line {line}: not YAML: {problem}") from None


def _line_of(text: str, where: tuple[str, ...]) -> int:
    """The line on which the last of these nested keys stands, as far as a search can tell."""
    position = 0
    for key in where:
        found = re.compile(rf"""(?<![\w-])["']?{re.escape(key)}["']?\s*:""").search(text, position)
        if found is None:
            break
        position = found.start()
    return text.count("\n", 0, position) + 1
