"""The marks in a store that a broker cannot start without reading, and what each must be.

They are looked at once, at the start: one that cannot be read is set aside, and the broker goes on
as if it had never been written. Whoever reads one later can rely on its form. Marks about clients
are read, and set aside, one by one as clients come (`Aside.read_mark`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import msgpack

from kbn.broker.broker_move import Newest
from kbn.broker.fields import SEQUENCE_MAX
from kbn.broker.messages import Bye
from kbn.broker.set_aside import UNREADABLE, Aside
from kbn.broker.store import Store
from kbn.broker.topology import Role

Read = Callable[[bytes], object]
EPOCH_MAX = 2**32 - 1
"""Of a broker: its sequences, which begin with the epoch, fit a store."""


def _packed(kind: Any) -> Read:
    return msgpack.Decoder(kind).decode


def _text(value: bytes) -> str:
    return value.decode()


def _number_to(most: int) -> Read:
    def read(value: bytes) -> int:
        number = int(value)
        if not 0 <= number <= most:
            raise ValueError(f"{number} is not between 0 and {most}")
        return number

    return read


FORMS: dict[str, Read] = {
    "epoch": _number_to(EPOCH_MAX),
    "received/": _number_to(SEQUENCE_MAX),
    "past/": _packed(Newest),
    "left/": _text,
    "queue/": _text,
    "routing": _text,
    "moved/": _text,
    "joined/": _packed(Role),
    "neighbour/": _packed(tuple[Role, str]),
    "farewell/": _packed(tuple[str, Bye]),
    "move": _packed(tuple[str, str]),
    "interrupted move": _packed(tuple[str, str]),
}
"""By their names, or what these begin with when that ends with a stroke."""


def set_aside_unreadable(store: Store, aside: Aside) -> None:
    """Set aside every such mark that cannot be read."""
    for prefix, read in FORMS.items():
        for name, value in store.marks(prefix).items():
            if name != prefix and not prefix.endswith("/"):
                continue
            try:
                read(value)
            except UNREADABLE as error:
                store.unmark(name)
                aside.put(f"mark/{name}", value, error)
