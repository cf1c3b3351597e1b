"""Assignment: whether every element of one side can have a partner of its own on the other.

That is bipartite matching. Who may partner whom is given as one row per element on the side that
must be served: an integer whose bit t says that partner t is possible. Python's integers make the
row operations (which of my partners are still free, which did this search not look at yet) a few
machine instructions per 64 partners, so a graph of 1,000 by 1,000 takes a few milliseconds.

Method: serve the choosiest first, each with any free partner; then, for those left over, look for
augmenting paths, a phase at a time. Within a phase no partner is looked at twice, so a phase costs
at most one row operation per partner. When the first search of a phase fails, its element can never
be served: everything it reaches is taken by others who reach nothing more (Hall's condition fails).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["all_served"]


def all_served(
    rows: Sequence[int], partners: int, certain: Callable[[int, int], bool] | None = None
) -> bool:
    """Whether each row can be given a partner of its own among its set bits.

    With `certain`, bits are only candidates: certain(row, partner) is asked before one is used,
    and a candidate that turns out wrong is struck off.

    >>> all_served([0b11, 0b01], 2), all_served([0b01, 0b01], 2)
    (True, False)
    """
    if len(rows) > partners or not all(rows):
        return False
    if certain is None:
        if _reach(rows) < len(rows):
            return False
        if _first_come_first_served(rows, partners):
            return True
    return _Assignment(list(rows), partners, certain).complete()


def _reach(rows: Sequence[int]) -> int:
    """How many partners there are for all rows together."""
    together = 0
    for row in rows:
        together |= row
    return together.bit_count()


def _first_come_first_served(rows: Sequence[int], partners: int) -> bool:
    """Whether it works out without any thought, as it mostly does for small bags."""
    free = (1 << partners) - 1
    for row in rows:
        open_to = row & free
        if not open_to:
            return False
        free ^= open_to & -open_to
    return True


class _Assignment:
    """A partial assignment that grows; `owner[t]` is the row partner t is given to."""

    def __init__(
        self, rows: list[int], partners: int, certain: Callable[[int, int], bool] | None
    ) -> None:
        self.rows = rows
        self.certain = certain
        self.owner = [-1] * partners
        self.free = (1 << partners) - 1
        self.unseen = 0

    def complete(self) -> bool:
        """Serve every row, or find that it cannot be done."""
        waiting = self._serve_choosiest_first()
        while waiting:
            self.unseen = (1 << len(self.owner)) - 1
            if not self._augment(waiting[0]):
                return False
            waiting = [row for row in waiting[1:] if not self._augment(row)]
        return True

    def _serve_choosiest_first(self) -> list[int]:
        waiting = []
        for row in sorted(range(len(self.rows)), key=lambda index: self.rows[index].bit_count()):
            partner = self._choose(row, self.free)
            if partner >= 0:
                self._give(partner, row)
            else:
                waiting.append(row)
        return waiting

    def _choose(self, row: int, among: int) -> int:
        """A partner that is right for the row, or -1."""
        while True:
            left = self.rows[row] & among
            if not left:
                return -1
            partner = (left & -left).bit_length() - 1
            if self.certain is None or self.certain(row, partner):
                return partner
            self.rows[row] ^= 1 << partner

    def _augment(self, root: int) -> bool:
        """Serve `root` by moving others along a path that ends at a free partner."""
        path: list[int] = [root]
        via: list[int] = []
        while path:
            partner = self._choose(path[-1], self.free)
            if partner >= 0:
                for row, passed in zip(path, via, strict=False):
                    self.owner[passed] = row
                self._give(partner, path[-1])
                return True
            partner = self._choose(path[-1], self.unseen)
            if partner >= 0:
                self.unseen ^= 1 << partner
                via.append(partner)
                path.append(self.owner[partner])
            else:
                path.pop()
                if via:
                    via.pop()
        return False

    def _give(self, partner: int, row: int) -> None:
        self.owner[partner] = row
        self.free ^= 1 << partner
