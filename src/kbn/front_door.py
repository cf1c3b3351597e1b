"""Front doors: what a room shows to others is in its `__init__`, and loaded when it is first used.

A room that holds something heavy lists where each of its public names lives and takes its
`__getattr__` from here, so that importing the room costs nothing. Type checkers read the same names
from the imports under `TYPE_CHECKING`; a test holds the two together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType


def _shown_by(module: ModuleType, name: str) -> object:
    """What a module has under a name; a package may have a module of that name."""
    if hasattr(module, name):
        return getattr(module, name)
    return import_module(f"{module.__name__}.{name}")


def on_first_use(room: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """A module's `__getattr__` that loads a name of `homes` from its module, once.

    A home is a module, or a module and the name that it has there: `kbn.broker.storage:backup`.

    >>> get = on_first_use("kbn", {"names": "kbn.data"})
    >>> "animals" in get("names")()
    True
    >>> get("nothing")
    Traceback (most recent call last):
    AttributeError: module 'kbn' has no attribute 'nothing'
    """

    def get(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        module, _, original = home.partition(":")
        value = _shown_by(import_module(module), original or name)
        setattr(sys.modules[room], name, value)
        return value

    return get
