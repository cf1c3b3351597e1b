"""Refusals: the error that a broker names, as this side raises it."""

from __future__ import annotations

import inspect

from kbn import errors
from kbn.broker import access, store
from kbn.errors import KbnError

_KNOWN: dict[str, type[KbnError]] = {
    name: value
    for module in (errors, access, store)
    for name, value in vars(module).items()
    if inspect.isclass(value) and issubclass(value, KbnError)
}


def error_of(kind: str, reason: str) -> KbnError:
    """An error of the class a broker named, with its reason; `KbnError` for one we do not know.

    >>> error_of("LimitError", "too many subscriptions")
    LimitError('too many subscriptions')

    The details that such an error has where it is raised (a position, a limit) stayed there.
    """
    made = _KNOWN.get(kind, KbnError)
    error = made.__new__(made, reason)
    error.args = (reason,)
    return error
