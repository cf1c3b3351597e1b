"""Shares: who is served first when there is more to do than fits into a turn.

Each connection has *spent* what its messages, and the long work that they began, have cost: the
work of a turn is counted to whose it is. Whoever will have spent least comes first, if it costs as
much as the last time. One that had nothing to say for a while has not saved anything by that: when
it comes again, it counts as having spent what the one has that is being served. So one that says
little comes next, however much the others want, and those that say much share the rest in equal
parts. Nobody waits for ever: whoever is served gets ahead of those who are not.

A connection that has just come has spent a little more: else it would pay to come anew for each
heavy message. (This is fair queueing, with the counted work of messages in the place of bytes.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbn.broker.node.connections import NodeConnection

# Of a turn's work:
SPENT_AT_FIRST = 0.05
AHEAD_MAX = 2.5


class Shares:
    """What connections have spent; `turn_work` is what a turn may do.

    >>> from kbn.broker.node.connections import NodeConnection
    >>> ann, ben = (NodeConnection(n, "new", "", None, None, 0.0, 0.0) for n in (1, 2))
    >>> shares = Shares(turn_work=1000)
    >>> shares.begin(ann); shares.begin(ben)
    >>> shares.charge(ann, 300)
    >>> shares.of(ann), shares.of(ben)
    (350.0, 50.0)
    >>> shares.serves(350.0)
    >>> shares.of(ben)
    350.0
    >>> ann.last_spent = 300
    >>> shares.place(ann), shares.place(ben)
    (650.0, 350.0)
    """

    __slots__ = ("_ahead_max", "_at_first", "_served")

    def __init__(self, turn_work: int) -> None:
        self._at_first = SPENT_AT_FIRST * turn_work
        self._ahead_max = AHEAD_MAX * turn_work
        self._served = 0.0  # what the one had spent that was served last

    def begin(self, connection: NodeConnection) -> None:
        """A connection has just come."""
        connection.spent = self._served + self._at_first

    def of(self, connection: NodeConnection) -> float:
        """What a connection has spent, or counts as having spent."""
        return max(self._served, connection.spent)

    def place(self, connection: NodeConnection) -> float:
        """What it will have spent: whoever has less of that is served before it."""
        return self.of(connection) + connection.last_spent

    def charge(self, connection: NodeConnection, units: int) -> None:
        """What came on a connection has cost so much."""
        connection.spent = min(self._served + self._ahead_max, self.of(connection) + units)

    def serves(self, spent: float) -> None:
        """One is served that has spent so much."""
        if spent > self._served:
            self._served = spent
