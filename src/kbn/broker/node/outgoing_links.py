"""The links that a node dials: to whom, when, and how long it waits before it tries again.

Waits double from attempt to attempt, up to a bound. Half of a wait is by chance, so that many who
lost the same broker do not all come back at once; chance comes from the shell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf

from kbn.broker.messages import Bye
from kbn.broker.node.effects import Dial
from kbn.broker.node.settings import LinkTo

FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 5.0
STEADY_S = 5.0  # a connection that lasted so long was a good one


def wait_s(attempts: int, chance: float) -> float:
    """How long to wait after so many attempts; `chance` is from 0 to 1.

    >>> [wait_s(attempts, 1.0) for attempts in (0, 1, 2, 20)]
    [0.05, 0.1, 0.2, 5.0]
    """
    longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(attempts, 30))
    return longest * (0.5 + 0.5 * chance)


@dataclass(slots=True, eq=False)
class OutgoingLink:
    """A link that we dial; `name` is known once the other side has said it.

    `replaces` names the neighbour that is left when this one is reached. `farewell` is all that is
    left to say there: that we have left.
    """

    id: int
    to: LinkTo
    name: str
    replaces: str | None = None
    farewell: Bye | None = None
    problem: str = ""
    is_over: bool = False
    is_waiting: bool = False  # the other side is connected to us
    attempts: int = 0
    opened_at: float = 0.0
    due_at: float = inf


class OutgoingLinks:
    """All links that a node dials."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        self._jitter = jitter
        self._links: dict[int, OutgoingLink] = {}
        self._made = 0
        self.due_at = inf  # when the next one is to be dialled

    def __iter__(self) -> Iterator[OutgoingLink]:
        return iter(list(self._links.values()))

    def get(self, id: int) -> OutgoingLink | None:
        return self._links.get(id)

    def add(
        self,
        to: LinkTo,
        now: float,
        *,
        replaces: str | None = None,
        farewell: Bye | None = None,
    ) -> OutgoingLink:
        """Dial a broker from now on."""
        self._made += 1
        link = OutgoingLink(self._made, to, to.name, replaces, farewell, due_at=now)
        self._links[link.id] = link
        self.due_at = min(self.due_at, now)
        return link

    def end(self, link: OutgoingLink) -> None:
        """Dial it no longer."""
        link.is_over = True
        link.due_at = inf
        self._links.pop(link.id, None)

    def opened(self, link: OutgoingLink, now: float) -> None:
        link.opened_at = now

    def closed(self, link: OutgoingLink, now: float) -> None:
        """The connection of a link is gone: dial again, after a wait."""
        if now - link.opened_at >= STEADY_S:
            link.attempts = 0
        self._plan(link, now)

    def failed(self, link: OutgoingLink, reason: str, now: float) -> None:
        link.problem = reason
        self._plan(link, now)

    def lost(self, name: str, now: float) -> None:
        """A neighbour that had connected to us is gone: those who waited for that dial."""
        for link in self._links.values():
            if link.is_waiting and link.name == name:
                link.is_waiting = False
                self._plan(link, now)

    def try_unnamed(self, now: float) -> None:
        """A broker has connected to us: it may be one that we know by its url only."""
        for link in self._links.values():
            if not link.name and now < link.due_at < inf:
                link.due_at = now
                self.due_at = min(self.due_at, now)

    def dials(self, now: float, is_connected: Callable[[str], bool]) -> list[Dial]:
        """What is to be dialled now; nobody who is connected to us anyway."""
        if self.due_at > now:
            return []
        found = []
        for link in self._links.values():
            if link.due_at > now:
                continue
            link.due_at = inf
            if link.name and link.farewell is None and is_connected(link.name):
                link.is_waiting, link.problem, link.attempts = True, "", 0
            else:
                found.append(Dial(link.id, link.to.url))
        self.due_at = min((link.due_at for link in self._links.values()), default=inf)
        return found

    def _plan(self, link: OutgoingLink, now: float) -> None:
        if link.is_over:
            return
        link.due_at = now + wait_s(link.attempts, self._jitter())
        link.attempts += 1
        self.due_at = min(self.due_at, link.due_at)
