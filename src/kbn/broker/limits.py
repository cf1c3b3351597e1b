"""How much one client, and everybody together, may use of a broker.

`ClientLimits` are for each client: the broker's settings have those of everybody, and an entry of
an access file may change some of them for one client. `BrokerLimits` are for a broker as a whole,
whoever uses it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypedDict

from kbn.errors import LimitError
from kbn.filters import (
    MAX_ATTRIBUTES,
    Notification,
    Subscription,
    SubscriptionSize,
    notification_size,
)


class LimitsGiven(TypedDict, total=False):
    """The fields of `ClientLimits`, where one client has others than everybody."""

    content_bytes: int
    subscriptions: int
    subscription_bytes: int
    constraints: int
    filters: int
    text_bytes: int
    tokens: int
    all_constraints: int
    elements: int
    paired: int
    nested: int
    notification_elements: int
    bag_text: int
    window: int
    queue: int
    queue_bytes: int
    publish_ahead: int
    work_rate: int
    unacked: int
    unacked_bytes: int
    block_s: float


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What one client may use of a broker.

    `queue` and `queue_bytes` bound what waits for it in memory, `unacked` and `unacked_bytes` what
    waits for a durable client in the store. `block_s`: how long its slowness may stop publishers.

    `work_rate`: what its messages may cost, in units of work (`work.py`).

    What one subscription may be: `text_bytes` long as text or JSON, of so many `tokens` (in JSON,
    values), `filters`, `constraints` in one filter and `all_constraints` in all of them, `elements`
    in its bags; no more than `paired` in a bag that is compared pair by pair (`#>/*`, but not
    `#>`), and bags `nested` so deep. What one notification may be: `content_bytes` long, with so
    many elements in its bags and so much `bag_text` in them. The larger these are, the longer a
    comparison of a filter with a notification takes.
    """

    content_bytes: int = 1 << 20
    subscriptions: int = 100_000
    subscription_bytes: int = 1 << 30
    constraints: int = 100
    filters: int = 64
    text_bytes: int = 1 << 16
    tokens: int = 4_096
    all_constraints: int = 1_000
    elements: int = 512
    paired: int = 128
    nested: int = 4
    notification_elements: int = 2_048
    bag_text: int = 1 << 16
    window: int = 100_000
    queue: int = 10_000
    queue_bytes: int = 64 << 20
    publish_ahead: int = 1_000
    work_rate: int = 10_000_000
    unacked: int = 1_000_000
    unacked_bytes: int = 1 << 30
    block_s: float = 30.0

    def changed(self, given: LimitsGiven) -> ClientLimits:
        """These limits, but for those given."""
        return replace(self, **given) if given else self

    def check_subscription(self, subscription: Subscription, held: int) -> SubscriptionSize:
        """Raise `LimitError` when one more subscription, or one such, is too much; its size."""
        _check("subscriptions per client", held + 1, self.subscriptions)
        _check("filters per subscription", len(subscription.filters), self.filters)
        most = max(len(filter) for filter in subscription.filters)
        _check("constraints per filter", most, self.constraints)
        size = SubscriptionSize.of(subscription)
        _check("constraints per subscription", size.constraints, self.all_constraints)
        _check("elements in the bags of a subscription", size.elements, self.elements)
        _check("elements compared pair by pair", size.paired, self.paired)
        _check("bags within bags", size.depth, self.nested)
        return size

    def check_text(self, text: str) -> None:
        """Raise `LimitError` when the text of a subscription, or its JSON, is too long to read."""
        _check("characters per subscription", len(text), self.text_bytes)

    def check_size(self, size: int) -> None:
        """Raise `LimitError` when the texts of a client's subscriptions are too long together."""
        _check("characters in all subscriptions", size, self.subscription_bytes)

    def check_content(self, size: int) -> None:
        if size > self.content_bytes:
            _check("bytes per notification", size, self.content_bytes)

    @property
    def values(self) -> int:
        """No notification within the limits has more values and names."""
        return 1 + 2 * MAX_ATTRIBUTES + self.notification_elements

    def check_values(self, count: int) -> None:
        """Raise `LimitError` when a notification has so many values that it is not read."""
        _check("values in a notification", count, self.values)

    def check_notification(self, notification: Notification, size: int) -> int:
        """Raise `LimitError` when a notification of that many bytes has too much in its bags; how
        many elements were counted for that.
        """
        if size > self.notification_elements or size > self.bag_text:  # an element takes a byte
            found = notification_size(notification.attributes)
            elements, text = self.notification_elements, self.bag_text
            _check("elements in the bags of a notification", found.elements, elements)
            _check("characters in the bags of a notification", found.text, text)
            return found.elements
        return 0


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """What a broker keeps in all.

    `durable_clients`: so many, here or away. `store_bytes`: in its store.
    `neighbour_unacked_bytes`: in the store for one neighbour.
    `neighbour_queue_bytes`: in memory for one neighbour, of what may be lost. `neighbour_filters`:
    what one neighbour wants, and as much that it advertises.
    """

    durable_clients: int = 10_000
    store_bytes: int = 16 << 30
    neighbour_unacked_bytes: int = 4 << 30
    neighbour_queue_bytes: int = 64 << 20
    neighbour_filters: int = 1_000_000

    def check_durable(self, held: int) -> None:
        """Raise `LimitError` when one more durable client is too much."""
        _check("durable clients", held + 1, self.durable_clients)


def _check(what: str, number: int, maximum: int) -> None:
    if number > maximum:
        raise LimitError(
            f"{number} {what}: the limit is {maximum}; ask for less, or have the limit raised",
            limit=what,
            maximum=maximum,
        )
