"""Where a client goes when its broker is away, and when.

A broker tells its clients of its neighbours while all is well. A client whose broker is away for a
while tries these, one after the other, until one of them takes it in or its own broker is back.
"""

from __future__ import annotations

from collections.abc import Iterable

from kbn.broker.messages import REFUGES_MAX, Redirect

LEAVE_AFTER_S = 4.0
"""A broker that is away for so long is left; a restart is usually shorter."""
TRY_S = 1.0
"""How long a refuge may take to answer before the next is tried."""


class Refuges:
    """What one client knows of other brokers.

    >>> refuges = Refuges()
    >>> refuges.told([("b", "kbn://b"), ("c", "kbn://c")])
    >>> refuges.home_is_away(10.0)
    >>> refuges.is_home_lost(13.0), refuges.is_home_lost(14.0)
    (False, True)
    >>> refuges.next(14.0, but="a").broker, refuges.next(14.5, but="a"), refuges.is_seeking
    ('b', None, True)
    """

    __slots__ = ("_away_since", "_known", "_tried_at", "is_seeking")

    def __init__(self) -> None:
        self.is_seeking = False
        self._known: dict[str, str] = {}
        self._away_since: float | None = None
        self._tried_at: float | None = None

    def told(self, brokers: Iterable[tuple[str, str]]) -> None:
        """The broker tells where to go; what earlier ones have told comes after that."""
        known = {**dict(brokers)}
        for name, url in self._known.items():
            known.setdefault(name, url)
        self._known = dict(list(known.items())[:REFUGES_MAX])

    def home_is_there(self) -> None:
        self._away_since = self._tried_at = None
        self.is_seeking = False

    def home_is_away(self, now: float) -> None:
        """The broker does not answer; a clock that was set back begins anew."""
        if self._away_since is None or now < self._away_since:
            self._away_since = now

    def is_home_lost(self, now: float) -> bool:
        """Whether it is time to go elsewhere."""
        return self._away_since is not None and now - self._away_since >= LEAVE_AFTER_S

    def next(self, now: float, but: str) -> Redirect | None:
        """The next to try; None while the last one has time to answer, or where none is known."""
        if self._tried_at is not None and 0 <= now - self._tried_at < TRY_S:
            return None
        found = next((name for name in self._known if name != but), None)
        if found is None:
            return None
        url = self._known.pop(found)
        self._known[found] = url  # it is the last to be tried again
        self._tried_at, self.is_seeking = now, True
        return Redirect(found, url)
