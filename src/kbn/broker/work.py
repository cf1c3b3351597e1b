"""Work: what a turn of a broker costs, counted in units of about a microsecond.

Counting, and not the clock, says when a turn has done enough: the same messages take the same turns
in every run, so tests can assert it. The constants are what the steps take on one core of a small
server, rounded up (docs/reference/turns.md has them measured).
"""

from __future__ import annotations

MESSAGE = 10  # decoding and handling any message, besides what follows
BYTES_DECODED = 1024  # bytes of a frame for one unit; a content inside is only passed on
CONTENT_BYTES = 32  # bytes of a content for one unit: each value in it becomes an object
MATCHED = 20  # finding out who wants a notification, besides what cannot be looked up
QUEUED = 4  # putting a notification into the queue of a client
IDS_QUEUED = 16  # subscriptions of a client that want one notification, for one unit
STORED = 12  # putting it into the store
SENT = 8  # a message to a client or neighbour: made, encoded, written
WRITTEN = 15  # something to a client's socket, however much it is
BYTES_SENT = 1024  # bytes of a message for one unit
WORD_READ = 7  # a word or sign in the text of a subscription
CHARACTERS_READ = 8  # of the text of a subscription, or of its JSON, for one unit
KEPT = 40  # keeping a subscription in the store, besides its characters
CHANGED = 50  # a change of the table, besides what is in it
FILTER = 30  # entering one filter of a subscription
CONSTRAINT = 12  # the same for a constraint
ELEMENT = 14  # the same for an element of a bag
TOLD = 150  # working out whether a neighbour is to be told of a filter
TOLD_CONSTRAINT, TOLD_ELEMENT = 12, 36  # the same for its constraints, and elements of its bags
UNTOLD = 4  # of that for one that goes, a quarter
STEPPED = 100  # any step of making an index anew, or of moving filters in covering order
COMPARED = 8  # what is wanted with what is advertised
RECONSIDERED = 3  # looking whether a neighbour is to be told of a subscription, besides
LOOKED_AT = 10  # asking the rules about a client after they have changed
OPENED = 40  # a connection, to its first message
CONNECTED = 60  # admitting a peer
WELCOMED, REMEMBERED = 30, 100  # a client that has come; and keeping it in the store
LEAVING = 150  # forgetting a client that leaves
SIZED = 10  # elements of a notification's bags that are counted, for one unit


class Work:
    """How much was done in this turn, and how much may be.

    >>> work = Work(100)
    >>> work.done += 120
    >>> work.is_spent, work.begin(), work.is_spent
    (True, None, False)
    """

    __slots__ = ("budget", "done", "limit")

    def __init__(self, budget: float = float("inf")) -> None:
        self.budget = budget  # of one turn
        self.limit = budget  # of the present part of it
        self.done = 0

    def begin(self) -> None:
        """A turn begins."""
        self.done = 0
        self.limit = self.budget

    def allow(self, share: float, at_least: float = 0.0) -> None:
        """Up to this share of the budget may be spent for now, or some more than is spent."""
        self.limit = max(share * self.budget, self.done + at_least * self.budget)

    @property
    def is_spent(self) -> bool:
        """Whether what can wait should wait for another turn."""
        return self.done >= self.limit
