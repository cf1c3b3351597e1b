"""Chores: long work of a broker, done a step at a time, turn by turn.

A chore is an iterator; each step of it does a little and counts it. While a chore goes on, what the
peer says next for whom it is done waits, because it may rest on it: a notification must not
overtake the one before it, and a client that comes back must not meet what it left behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from kbn.broker.messages import Peer
from kbn.broker.work import Work


class Chores:
    """What a broker is in the middle of, and with whom it is busy.

    `work` is what may be done in a turn. `charge` is told what was done for whom.

    >>> chores, done = Chores(Work()), []
    >>> chores.add(iter(map(done.append, "abc")), Peer("client", "ann"))
    >>> Peer("client", "ann") in chores.busy_with, done
    (True, [])
    >>> chores.work_on(); done, bool(chores)
    (['a', 'b', 'c'], False)
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._chores: deque[tuple[Iterator[None], Peer | None]] = deque()
        self.busy_with: dict[Peer, int] = {}
        self.charge: Callable[[Peer, int], None] = lambda peer, units: None

    def __bool__(self) -> bool:
        return bool(self._chores)

    def start(self, chore: Iterator[None], peer: Peer | None = None) -> None:
        """Do this now as far as the turn goes; the rest is added."""
        for _ in chore:
            if self._work.is_spent:
                self.add(chore, peer)
                return

    def add(self, chore: Iterator[None], peer: Peer | None = None) -> None:
        """Do this from now on, for a peer that has to wait until it is done (or for nobody)."""
        self._chores.append((chore, peer))
        if peer is not None:
            self.hold(peer)

    def hold(self, peer: Peer) -> None:
        """What a peer says next waits, until it is released as often."""
        self.busy_with[peer] = self.busy_with.get(peer, 0) + 1

    def release(self, peer: Peer) -> None:
        """What a peer had to wait for is done."""
        self.busy_with[peer] -= 1
        if not self.busy_with[peer]:
            del self.busy_with[peer]

    def work_on(self) -> None:
        """Go on with each chore in turn until the work allowed is done.

        One that fails is over; what went wrong is raised.
        """
        while self._chores and not self._work.is_spent:
            chore, peer = self._chores.popleft()
            is_over, before = True, self._work.done
            try:
                for _ in chore:
                    is_over = False
                    break
            finally:
                if peer is not None:
                    self.charge(peer, self._work.done - before)
                    if is_over:
                        self.release(peer)
            if not is_over:
                self._chores.append((chore, peer))
