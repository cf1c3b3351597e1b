"""Splitting by observed false positives: clusters that follow what is really sent.

Strategies decide when a publisher arrives, and count each publisher alike. What disturbs depends on
who sends how much, and that changes. The thesis suggests splitting a cluster when its false
positives show (4.4.2). `SplittingPolicy` takes in how much each publisher sent, and has groups
rearranged where too much arrived in vain, within the limits of all publishers:

1. Combinations of the clusters with too many false positives move to where least arrives in vain:
   to a cluster of their own (a split), or to another that they disturb less (a merge).
2. If too much still arrives in vain, connections are used up by splits that do not pay any more:
   all is arranged anew, by the observed numbers, if that lowers the false positives.

Old counts fade: each call of `observe` counts those before half.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from kbn.errors import InvalidInputError
from kbn.grouping.publisher_groups import Groups, Regrouping

FADING = 0.5


class SplittingPolicy:
    """When to rearrange groups: by counts of what publishers sent.

    `rate_max` is the share of false positives that is left alone; below `received_min` deliveries
    nothing is concluded.

    >>> groups = Groups(strategy="4")
    >>> for name, attributes in (("p", "ab"), ("q", "a"), ("r", "a"), ("s", "b")):
    ...     groups.arrive(name, list(attributes), connections=2)
    >>> groups.subscribe("ann", ["a", "b"])
    >>> sent = {"p": 10, "q": 1, "r": 1, "s": 100}  # only p sends what ann wants
    >>> groups.deliveries(groups.wanted, sent)
    Delivery(received=110, false_positives=100)
    >>> policy = SplittingPolicy(rate_max=0.1, received_min=100)
    >>> policy.observe(sent)
    >>> len(policy.react(groups))
    1
    >>> groups.deliveries(groups.wanted, sent)
    Delivery(received=12, false_positives=2)
    """

    def __init__(self, rate_max: float = 0.1, received_min: int = 200) -> None:
        if not 0 <= rate_max < 1 or received_min < 1:
            raise InvalidInputError(
                "splitting needs a rate from 0 to under 1 and at least one delivery"
            )
        self.rate_max = rate_max
        self.received_min = received_min
        self._sent: dict[Hashable, float] = {}

    def observe(self, sent: Mapping[Hashable, int]) -> None:
        """How many notifications each publisher sent since the last call."""
        for publisher, count in sent.items():
            if type(count) is not int or count < 0:
                raise InvalidInputError(
                    f"{publisher!r} sent a number of notifications from 0, not {count!r}"
                )
        faded = {publisher: FADING * count for publisher, count in self._sent.items()}
        for publisher, count in sent.items():
            faded[publisher] = faded.get(publisher, 0.0) + count
        self._sent = {publisher: count for publisher, count in faded.items() if count >= FADING}

    def react(self, groups: Groups) -> tuple[Regrouping, ...]:
        """Rearrange groups if too much arrived in vain; what moved."""
        known = groups.limits
        sent = {who: round(count) for who, count in self._sent.items() if who in known}
        by_cluster = groups.deliveries_by_cluster(groups.wanted, sent)
        disturbed = [
            number
            for number, delivered in by_cluster.items()
            if delivered.received >= self.received_min and delivered.rate > self.rate_max
        ]
        if not disturbed:
            return ()
        moved = groups.regroup(sent, disturbed)
        if groups.deliveries(groups.wanted, sent).rate > self.rate_max:
            moved += groups.regroup(sent)
        return moved
