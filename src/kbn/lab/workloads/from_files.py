"""Subscriptions and notifications of one's own, read from files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kbn.errors import InvalidInputError
from kbn.filters import read_notifications, read_subscriptions
from kbn.lab.workloads.contract import CHUNK, Pair
from kbn.ontology import Ontology

if TYPE_CHECKING:
    import pyarrow as pa


class FromFiles:
    """What the files hold, in their order; a seed changes nothing, a count takes the first ones."""

    name = "files"

    def __init__(self, subscriptions: Path, events: Path, ontology: Ontology | None) -> None:
        self.ontology = ontology
        self._subscriptions = subscriptions
        self._events = events

    def subscriptions(self, count: int, seed: int) -> Iterator[list[Pair]]:
        prefixes = {} if self.ontology is None else self.ontology.prefixes
        read = read_subscriptions(self._subscriptions, prefixes, self.ontology)
        numbered = islice(((s, n) for n, (_, s) in enumerate(read)), count)
        chunk = list(islice(numbered, CHUNK))
        if not chunk:
            raise InvalidInputError(f"{self._subscriptions} holds no subscription")
        while chunk:
            yield chunk
            chunk = list(islice(numbered, CHUNK))

    def notifications(self, count: int, seed: int) -> pa.Table:
        from kbn.matching import notification_table

        read = list(islice(read_notifications(self._events), count))
        if not read:
            raise InvalidInputError(f"{self._events} holds no notification")
        return notification_table(read)
