"""Warming: matching kernels are loaded, or compiled, before a broker listens.

Compiling takes seconds and loading a good part of one. In a running broker nobody would be served
meanwhile.
"""

from __future__ import annotations

from threading import Lock

from kbn.broker.announcements import Announcements
from kbn.broker.messages import Peer
from kbn.broker.routing_table import RoutingTable
from kbn.filters import Bag, Notification, Subscription, operator_accepts, read_operator

# What makes every kernel run: tokens, ranges, negations, bags served from either side, and filters
# that cover others.
WARMED_BY = (
    'warm = "1"',
    "price < 5",
    "price > 2 and price < 9 and warm any",
    "price != 7",
    "width < 4 and size < 3 and kind = 'k'",
    "width < 5 and size < 4",
    "width < 3 and size < 2 and kind = 'k'",
    "width > 1 and width < 3 and size < 3 and kind = 'k'",
    'tags #> {"tea"}',
    'tags #>/* {"te", "po"}',
    'tags #</* {"te", "po", "x"}',
    'tags #=/* {"te", "po"}',
    'tags !#>/* {"te", "xx"}',
    'tags #>/>* {"t"} and price < 5',
    "sizes #>/< {1, 2} and sizes #</> {5, 6, 7}",
)
# Bags within bags that serving one after the other does not decide.
INNER = ("#=/#</*", "#=/#</*<", "#=/!#=/!*")
BAGS = 24
NOTIFICATIONS = 64
TAGS = 48
MANY = 1_100  # filters, for which an index is laid out in slabs

_lock = Lock()
_is_warm = False


def is_warm() -> bool:
    """Whether this process has its kernels."""
    return _is_warm


def warm_up() -> None:
    """Load the matching kernels, once in a process, so that no notification waits for them."""
    global _is_warm
    with _lock:
        if not _is_warm:
            _run_kernels()
            _is_warm = True


def _run_kernels() -> None:
    table, announcements = RoutingTable(), Announcements(None)
    for number, text in enumerate((*WARMED_BY, *reversed(WARMED_BY))):
        key = (Peer("client", "nobody"), number)
        table.add(key, Subscription.parse(text))
        for _ in announcements.adding(key, Subscription.parse(text)):
            pass
    for number in range(TAGS):
        table.add((Peer("client", "tags"), number), Subscription.parse(f"tags #> {{'t{number}'}}"))
    some = {"warm": "tea", "price": 3, "tags": ["tea", "pot"]}
    tagged = Notification({"tags": [f"t{number}" for number in range(TAGS)]})
    table.match_many([tagged] * NOTIFICATIONS)  # so many hits that one walk serves them all
    notifications = [Notification({**some, "warm": str(n)}) for n in range(NOTIFICATIONS)]
    given, wanted = (Bag(*[Bag(*inner)] * BAGS) for inner in (("ta", "a"), ("a", "ta")))
    for symbol in INNER:
        operator_accepts(read_operator(symbol), given, wanted)
    assert table.match(notifications[1]).clients and table.match_many(notifications)[1].clients
    _make_anew()


def _make_anew() -> None:
    """Subscribe and unsubscribe so much that an index is laid out in slabs, and made anew."""
    table = RoutingTable()
    keys = [(Peer("client", "many"), number) for number in range(MANY)]
    for number, key in enumerate(keys):
        text = f"a > {number % 97} and b < {number % 101} and c > {number} and c < {number + 5}"
        table.add(key, Subscription.parse(text))
    assert table.match(Notification({"a": 98, "b": -1, "c": 3})).clients
    for key in keys:
        table.remove(key)
