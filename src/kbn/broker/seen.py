"""What general peers have seen: in which view of the tree a broker handled which notification."""

from __future__ import annotations

from collections import OrderedDict

from msgspec import msgpack

from kbn.broker.messages import Envelope
from kbn.broker.store import Store

SEEN_MAX = 1_000_000

_ENCODER = msgpack.Encoder()


class SeenViews:
    """The newest ids, each with the view in which it was handled last.

    The store remembers the ids of durable ones, so that a broker's next epoch knows them too.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._views: OrderedDict[tuple[object, ...], str] = OrderedDict()

    def see(self, envelope: Envelope, view: str) -> str | None:
        """The view in which it was handled before (None: in none), now that it is in this one.

        The empty view stands for one of an earlier epoch.
        """
        id: tuple[object, ...] = envelope.id
        if envelope.is_again:
            id = (*id, envelope.strand)
        known = self._views.pop(id, None)
        self._views[id] = view
        if len(self._views) > SEEN_MAX:
            self._views.popitem(last=False)
        if envelope.durable:
            mark = _ENCODER.encode(id)
            if known is None and self._store.has_seen(mark):
                known = ""
            if known is None:
                self._store.saw(mark, SEEN_MAX)
        return known
