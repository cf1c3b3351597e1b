"""The routing table: who wants what, and what neighbours are told of it."""

from __future__ import annotations

from kbn.broker.announcements import Announcements
from kbn.broker.messages import Announce, Peer
from kbn.broker.routing_table import Register, RoutingTable
from kbn.filters import Notification, Subscription

ANN, BOB = Peer("client", "ann"), Peer("client", "bob")
A, B = Peer("broker", "a"), Peer("broker", "b")


def wants(text: str) -> Subscription:
    return Subscription.parse(text)


def added(announce: Announce) -> list[int]:
    return [number for number, _ in announce.add]


def test_who_wants_a_notification_is_neighbours_and_clients_with_their_subscriptions() -> None:
    table = RoutingTable()
    table.add((ANN, 1), wants("k > 1"))
    table.add((ANN, 2), wants("k = 3"))
    table.add((BOB, 1), wants("k = 9"))
    table.add((A, 1), wants("k < 5"))
    for found in (table.match(Notification({"k": 3})), *table.match_many([Notification({"k": 3})])):
        assert found.neighbours == {"a"}
        assert {name: sorted(ids) for name, ids in found.clients.items()} == {"ann": [1, 2]}


def test_what_is_removed_is_wanted_no_longer() -> None:
    table = RoutingTable()
    table.add((ANN, 1), wants("k = 1"))
    before = table.version
    table.remove((ANN, 1))
    assert table.remove((ANN, 1)) == []
    assert table.version != before and len(table) == 0
    assert table.match(Notification({"k": 1})).clients == {}


def test_each_neighbour_is_told_of_all_but_its_own() -> None:
    table = RoutingTable()
    for name in ("a", "b"):
        table.join(name, Announcements(None))
    assert [name for name, _ in table.add((ANN, 1), wants("k = 1"))] == ["a", "b"]
    assert [name for name, _ in table.add((A, 1), wants("k = 2"))] == ["b"]


def test_what_is_covered_is_not_told_until_what_covers_it_goes() -> None:
    table = RoutingTable()
    table.join("a", Announcements(None))
    [(_, first)] = table.add((ANN, 1), wants("k > 1"))
    assert table.add((BOB, 1), wants("k > 5")) == []
    [(_, change)] = table.remove((ANN, 1))
    assert change.drop == tuple(added(first)) and len(change.add) == 1


def test_one_that_joins_later_is_told_everything() -> None:
    table = RoutingTable()
    table.add((ANN, 1), wants("k > 1"))
    table.add((A, 1), wants("k = 0"))
    table.join("a", Announcements(None))
    announcements = table.told("a")
    assert announcements is not None
    assert [str(filter) for filter in announcements.filters] == ["k > 1"]
    table.leave("a")
    assert table.told("a") is None
    assert table.add((BOB, 1), wants("k = 0")) == []


def test_neighbours_that_are_apart_are_not_told_of_each_other() -> None:
    register = Register()
    register.apart = frozenset({"a", "b"})
    for name in ("a", "b", "c"):
        register.join(name, Announcements(None, "advertisement"))
    assert [name for name, _ in register.add((A, 1), wants("k = 1"))] == ["c"]
    assert [name for name, _ in register.add((ANN, 1), wants("k = 2"))] == ["a", "b", "c"]
