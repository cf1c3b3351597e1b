"""The options of a connector's format: what nobody reads is refused, and secrets stay unseen.

An option that is misspelt would be silently without effect, so it is refused by name. Values are
never part of a message. What must not stand in a program, a plan or a log at all goes into a file
of lines `name = value`, which the option `secrets` names and each process reads for itself.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from kbn.config import did_you_mean
from kbn.errors import InvalidInputError

SECRETS = "secrets"
SPARKS_OWN = ("checkpointLocation", "queryName", "path")


def checked_options(
    format: str,
    options: Mapping[str, str],
    known: Collection[str],
    *,
    needed: Collection[str] = (),
    prefix: str | None = None,
) -> dict[str, str]:
    """The options under the names that are documented; those with `prefix` pass as they are.

    >>> checked_options("kbn-nats", {"STREAM": "news"}, ["stream"])
    {'stream': 'news'}
    >>> checked_options("kbn-nats", {"steam": "news"}, ["stream"])
    Traceback (most recent call last):
    kbn.errors.InvalidInputError: the format "kbn-nats" has no option 'steam'; did you mean
    'stream'? It has stream
    """
    names = {name.lower(): name for name in (*known, *SPARKS_OWN)}
    found = {}
    for given, value in options.items():
        name = names.get(given.lower())
        if name is None and (prefix is None or not given.lower().startswith(prefix)):
            raise InvalidInputError(
                f'the format "{format}" has no option {given!r}{did_you_mean(given, known)}'
                f"{'' if did_you_mean(given, known).endswith('?') else '.'} "
                f"It has {', '.join(sorted(known))}"
                + (f", and those that begin with {prefix}" if prefix else "")
            )
        found[name or given] = value
    for name in needed:
        if not found.get(name):
            raise InvalidInputError(f'the format "{format}" needs the option {name}')
    return found


def with_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """The options, and those of the file that `secrets` names."""
    if SECRETS not in options:
        return dict(options)
    path = Path(options[SECRETS])
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(
            f"{path}: the file of secrets cannot be read: {type(error).__name__}"
        ) from None
    found = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise InvalidInputError(f"{path}:{number}: expected name = value")
        found[name.strip()] = value.strip()
    return {**options, **found}


def whole_number(options: Mapping[str, str], name: str, default: int) -> int:
    """The number from 1 on that an option is."""
    text = options.get(name, str(default))
    if not text.isdigit() or int(text) < 1:
        raise InvalidInputError(f"the option {name} is a number from 1 on, not {text!r}")
    return int(text)


def yes_or_no(options: Mapping[str, str], name: str, default: bool) -> bool:
    """The answer that an option is."""
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise InvalidInputError(f"the option {name} is true or false, not {text!r}")
    return text == "true"


def json_object(options: Mapping[str, str], name: str) -> dict[str, str] | None:
    """The JSON object of texts that an option is, if it is given."""
    if name not in options:
        return None
    try:
        data = json.loads(options[name])
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise InvalidInputError(f"the option {name} is a JSON object")
    return {str(key): str(value) for key, value in data.items()}
