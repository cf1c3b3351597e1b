"""`Immutable`: the base of the values in `model` and `notification`."""

from __future__ import annotations

from typing import NoReturn

set_once = object.__setattr__
"""Sets an attribute of an immutable value while it is made."""


class Immutable:
    """The base of values whose attributes are set while they are made, and never again."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable; cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable; cannot delete {name!r}")
