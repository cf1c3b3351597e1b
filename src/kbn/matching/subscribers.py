"""Subscribers: the key of each subscription by its number, and its number by its key.

Subscriptions are numbered as they come. The keys of a saved snapshot are an Arrow array, mapped
into memory; they become a list with the first change, and the numbers by key are worked out when
first asked for.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kbn.errors import InvalidInputError
from kbn.matching.groups import Array

if TYPE_CHECKING:
    import pyarrow as pa


class _Tombstone:
    """A tombstone: stands where the key of a removed subscription was."""

    def __repr__(self) -> str:
        return "<removed>"

    def __reduce__(self) -> str:
        return "TOMBSTONE"  # the one below, also after pickling


TOMBSTONE = _Tombstone()


def is_key(found: Hashable) -> bool:
    """Whether what stands in the place of a key is one, and not what is left of a removed one."""
    return found is not None and found is not TOMBSTONE


class Subscribers:
    """Keys and numbers of subscriptions; `live` of them are not removed."""

    def __init__(self) -> None:
        self.live = 0
        self._keys: Any = []
        self._numbers: dict[Hashable, int] | None = {}
        self._arrow: pa.Array | None = None

    @classmethod
    def saved(cls, keys: pa.Array, live: int) -> Subscribers:
        """Those of a snapshot, null where one was removed."""
        found = cls()
        found._keys, found._numbers, found.live = keys, None, live
        return found

    def shared(self) -> Subscribers:
        """The same, whatever happens to these."""
        twin = Subscribers()
        twin._keys = list(self._keys) if isinstance(self._keys, list) else self._keys
        twin._numbers = None
        twin.live = self.live
        return twin

    def keys(self) -> Sequence[Any]:
        """What stands in the place of each key, by number."""
        return self._keys if isinstance(self._keys, list) else self._keys.to_pylist()

    def at(self, numbers: list[int]) -> list[Any]:
        """The keys of subscriptions by number."""
        keys = self._keys
        if isinstance(keys, list):
            return [keys[number] for number in numbers]
        found: list[Any] = keys.take(np.array(numbers, np.int64)).to_pylist()
        return found

    def number_of(self, key: object) -> int | None:
        """The number of the subscription under `key`, if there is one."""
        return self.numbers().get(key)

    def numbers(self) -> dict[Hashable, int]:
        """Key to number; a bulk load enters its keys here before they are in `keys`."""
        if self._numbers is None:
            self._numbers = {key: n for n, key in enumerate(self.keys()) if is_key(key)}
        return self._numbers

    def enter(self, key: Hashable, number: int) -> None:
        """Note the next subscription."""
        keys = self._own_keys()
        assert len(keys) == number
        self.numbers()[key] = number
        keys.append(key)
        self.live += 1

    def extend(self, keys: list[Hashable]) -> None:
        """Note the next subscriptions, whose numbers a bulk load has entered."""
        self._own_keys().extend(keys)
        self.live += len(keys)

    def remove(self, key: Hashable) -> int | None:
        """Forget a key; the number it had."""
        number = self.numbers().pop(key, None)
        if number is not None:
            self._own_keys()[number] = TOMBSTONE
            self.live -= 1
        return number

    def compact(self) -> Array:
        """Number those that are left anew, in their order; the numbers they had."""
        keys = self._own_keys()
        kept = [n for n, key in enumerate(keys) if key is not TOMBSTONE]
        self._keys = [keys[n] for n in kept]
        self._numbers = {key: number for number, key in enumerate(self._keys)}
        return np.array(kept, np.int64)

    def as_arrow(self) -> pa.Array:
        """Every key as an Arrow array, null where one was removed; made once per change."""
        if not isinstance(self._keys, list):
            return self._keys
        if self._arrow is None:
            self._arrow = _as_arrow(self._keys)
        return self._arrow

    def _own_keys(self) -> list[Any]:
        """The keys as a list that is about to change."""
        if not isinstance(self._keys, list):
            self._keys = [TOMBSTONE if key is None else key for key in self._keys.to_pylist()]
        self._arrow = None
        return self._keys


def _as_arrow(keys: list[Any]) -> pa.Array:
    import pyarrow as pa

    kinds = {type(key) for key in keys} - {_Tombstone}
    live = [None if key is TOMBSTONE else key for key in keys]
    if not (kinds <= {str} or kinds <= {int}):
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InvalidInputError(
            f"tables and files take keys that are all str or all int, not {names}: "
            "use such keys, or match()"
        )
    try:
        return pa.array(live, pa.int64() if kinds == {int} else pa.string())
    except (pa.ArrowInvalid, OverflowError, UnicodeError) as error:
        raise InvalidInputError(
            f"tables and files take keys that are 64-bit integers or valid text: {error}"
        ) from error
