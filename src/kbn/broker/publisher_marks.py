"""What the store knows of publishers: how far each is with its durable notifications.

A publisher that comes again learns from it what is stored, and what of that was refused. The mark
of a publisher that never comes again is of no use, but nobody can tell: most publishers have no
name of their own, and a new one each time. So those are known that published last, up to a bound,
and for a month in which the broker ran: a clock that is wrong at a start makes nobody forgotten.
Whoever is silent for longer is forgotten as time passes, whether or not anybody publishes, some at
a time. One that was forgotten and repeats what it was not told is stored has it stored twice under
the same id, by which subscribers tell repetitions.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct, msgpack

from kbn.broker.fields import Number
from kbn.broker.number_ranges import Ranges
from kbn.broker.set_aside import UNREADABLE, Aside
from kbn.broker.store import Store

PUBLISHER = "publisher/"
PUBLISHERS_MAX = 100_000
"""So many are known: names of 256 characters and numbers, 100 MB at the most."""

DAYS_MAX = 30
"""So long is a publisher known after it has published last."""
_DAY_S = 86_400.0

FORGOTTEN_AT_ONCE = 500
"""In one tick, or when somebody publishes: those that came on one day are due on one day."""


class Stored(Struct, frozen=True, array_like=True):
    """How far a publisher is in an epoch: everything up to `number` is stored, or was refused.

    `day` is the last on which it published, 0 where that was not written. Days go on at a start
    where they were when somebody published last, whatever the clock says.
    """

    epoch: Number = 0
    number: Number = 0
    refused: tuple[tuple[Number, Number], ...] = ()
    day: Number = 0


_DECODER = msgpack.Decoder(Stored)
_ENCODER = msgpack.Encoder()


class PublisherMarks:
    """The publishers that a store knows, those last heard last, each with its last day."""

    def __init__(
        self, store: Store, aside: Aside, now: float, count_max: int = PUBLISHERS_MAX
    ) -> None:
        self._store = store
        self._aside = aside
        self._count_max = count_max
        marks = {name: _day_of(value) for name, value in store.marks(PUBLISHER).items()}
        newest = max(marks.values(), default=0) or _day(now)
        self._ahead = _day(now) - newest
        days = [(day or newest, name.removeprefix(PUBLISHER)) for name, day in marks.items()]
        self._days = OrderedDict((name, day) for day, name in sorted(days))
        self._forget(newest)

    def __len__(self) -> int:
        return len(self._days)

    def of(self, name: str, epoch: int) -> Stored:
        """How far this epoch of a publisher is."""
        known = self._aside.read_mark(PUBLISHER + name, _DECODER, Stored())
        return known if known.epoch == epoch else Stored(epoch)

    def keep(self, name: str, epoch: int, number: int, refused: Ranges, now: float) -> None:
        """A durable notification is stored, or refused; at the cost of who is silent longest."""
        today = self._today(now)
        self._store.mark(PUBLISHER + name, _ENCODER.encode((epoch, number, refused, today)))
        self._days[name] = today
        self._days.move_to_end(name)
        self._forget(today)

    def tick(self, now: float) -> None:
        """Time passes: whoever is silent too long is forgotten, some in each tick."""
        self._forget(self._today(now))

    def _today(self, now: float) -> int:
        return max(0, _day(now) - self._ahead)

    def _forget(self, today: int) -> None:
        """Forget whoever is silent too long, and the most silent when there are too many."""
        days = self._days
        for _ in range(FORGOTTEN_AT_ONCE):
            if not days or (
                len(days) <= self._count_max and next(iter(days.values())) >= today - DAYS_MAX
            ):
                return
            name, _ = days.popitem(last=False)
            self._store.unmark(PUBLISHER + name)


def _day(now: float) -> int:
    return max(0, int(now // _DAY_S))


def _day_of(value: bytes) -> int:
    try:
        return _DECODER.decode(value).day
    except UNREADABLE:
        return 0  # it is set aside when somebody asks for it
