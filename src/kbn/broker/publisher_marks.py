"""What the store knows of publishers: how far each is with its durable notifications.

A publisher that comes again learns from it what is stored, and what of that was refused. The mark
of a publisher that never comes again is of no use, but nobody can tell; so those that published
last are known, up to a bound. One that was forgotten and repeats what it was not told is stored has
it stored twice under the same id, by which subscribers tell repetitions.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct, msgpack

from kbn.broker.fields import Number
from kbn.broker.number_ranges import Ranges
from kbn.broker.set_aside import Aside
from kbn.broker.store import Store

PUBLISHER = "publisher/"
PUBLISHERS_MAX = 100_000
"""So many are known: names of 256 characters and numbers, 100 MB at the most."""


class Stored(Struct, frozen=True, array_like=True):
    """How far a publisher is in an epoch: everything up to `number` is stored, or was refused."""

    epoch: Number = 0
    number: Number = 0
    refused: tuple[tuple[Number, Number], ...] = ()


_DECODER = msgpack.Decoder(Stored)
_ENCODER = msgpack.Encoder()


class PublisherMarks:
    """The publishers that a store knows, those last heard last."""

    def __init__(self, store: Store, aside: Aside, count_max: int = PUBLISHERS_MAX) -> None:
        self._store = store
        self._aside = aside
        self._count_max = count_max
        names = store.marks(PUBLISHER)
        self._names = OrderedDict.fromkeys(name.removeprefix(PUBLISHER) for name in names)

    def __len__(self) -> int:
        return len(self._names)

    def of(self, name: str, epoch: int) -> Stored:
        """How far this epoch of a publisher is."""
        known = self._aside.read_mark(PUBLISHER + name, _DECODER, Stored())
        return known if known.epoch == epoch else Stored(epoch)

    def keep(self, name: str, epoch: int, number: int, refused: Ranges) -> None:
        """A durable notification is stored, or refused; at the cost of who is silent longest."""
        self._store.mark(PUBLISHER + name, _ENCODER.encode((epoch, number, refused)))
        names = self._names
        if name in names:
            names.move_to_end(name)
            return
        names[name] = None
        while len(names) > self._count_max:
            gone, _ = names.popitem(last=False)
            self._store.unmark(PUBLISHER + gone)
