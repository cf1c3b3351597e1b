"""How much one client, and everybody together, may use of a broker.

`ClientLimits` are for each client: the broker's settings have those of everybody, and an entry of
an access file may change some of them for one client. `BrokerLimits` are for a broker as a whole,
whoever uses it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypedDict

from kbn.errors import LimitError
from kbn.filters import Subscription


class LimitsGiven(TypedDict, total=False):
    """The fields of `ClientLimits`, where one client has others than everybody."""

    content_bytes: int
    subscriptions: int
    subscription_bytes: int
    constraints: int
    filters: int
    window: int
    queue: int
    queue_bytes: int
    publish_ahead: int
    owed: int
    owed_bytes: int
    block_s: float


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What one client may use of a broker.

    `queue` and `queue_bytes` bound what waits for it in memory, `owed` and `owed_bytes` what waits
    for a durable client in the store. `block_s`: how long its slowness may stop publishers.
    """

    content_bytes: int = 1 << 20
    subscriptions: int = 1_000_000
    subscription_bytes: int = 1 << 30
    constraints: int = 100
    filters: int = 64
    window: int = 100_000
    queue: int = 10_000
    queue_bytes: int = 64 << 20
    publish_ahead: int = 1_000
    owed: int = 1_000_000
    owed_bytes: int = 1 << 30
    block_s: float = 30.0

    def changed(self, given: LimitsGiven) -> ClientLimits:
        """These limits, but for those given."""
        return replace(self, **given) if given else self

    def check_subscription(self, subscription: Subscription, held: int) -> None:
        """Raise `LimitError` when one more subscription, or one such, is too much."""
        _check("subscriptions per client", held + 1, self.subscriptions)
        _check("filters per subscription", len(subscription.filters), self.filters)
        most = max(len(filter) for filter in subscription.filters)
        _check("constraints per filter", most, self.constraints)

    def check_content(self, size: int) -> None:
        _check("bytes per notification", size, self.content_bytes)


def _check(what: str, number: int, maximum: int) -> None:
    if number > maximum:
        raise LimitError(f"{number} {what}: the limit is {maximum}", limit=what, maximum=maximum)
