"""The view of a store that a Spark worker keeps open from one batch to the next."""

from __future__ import annotations

from kbn.errors import InvalidInputError
from kbn.matching import StoreView, SubscriptionStore
from kbn.spark.shared import visible
from kbn.spark.shipping import Place


class WorkerView:
    """One open view, and the store and shard it is of.

    One is enough: a worker works on one job at a time, and opening is cheap. The store's identity
    matters: a store may have been made anew in the same place, with the same versions.
    """

    def __init__(self) -> None:
        self._key: tuple[str, int | None] | None = None
        self._view: StoreView | None = None

    def of(self, directory: Place, identity: str, version: int, shard: int | None) -> StoreView:
        """The view of a version of a store: the open one if it can advance to it, or a new one."""
        key = (identity, shard)
        view = self._view if key == self._key else None
        if view is not None and view.version == version:
            return view
        store = SubscriptionStore.open(visible(directory))
        if store.identity != identity:
            raise InvalidInputError(f"{directory} is another store now: call match again")
        base = store.base_of(version)
        if view is None or view.base != base or view.version > version:
            self._key = self._view = None  # the old one is closed before the new one is opened
            view = StoreView(store, base, None if shard is None else [shard])
            self._key, self._view = key, view
        view.advance(version)
        return view


WORKER_VIEW = WorkerView()
"""The one of this process."""
