"""The routing table: who wants what, and what neighbours are told of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from random import Random
from weakref import ref

import pytest

from kbn.broker import routing_table
from kbn.broker.announcements import Announcements
from kbn.broker.messages import Announce, Peer
from kbn.broker.routing_table import Register, RoutingTable, ToTell
from kbn.broker.wanted import Key
from kbn.filters import Notification, Subscription
from kbn.matching import Meter, Poset

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


def entered(register: Register, key: Key, text: str) -> list[ToTell]:
    """Enter something, and tell the neighbours; whom what."""
    register.add(key, wants(text))
    return register.tell_all(key[0])


def test_what_is_removed_is_wanted_no_longer() -> None:
    table = RoutingTable()
    table.add((ANN, 1), wants("k = 1"))
    before = table.version
    table.remove((ANN, 1))
    table.remove((ANN, 1))
    assert table.version != before and len(table) == 0
    assert table.match(Notification({"k": 1})).clients == {}


def test_each_neighbour_is_told_of_all_but_its_own() -> None:
    table = RoutingTable()
    for name in ("a", "b"):
        table.join(name, Announcements(None))
    assert [name for name, _ in entered(table, (ANN, 1), "k = 1")] == ["a", "b"]
    assert [name for name, _ in entered(table, (A, 1), "k = 2")] == ["b"]


def test_what_is_covered_is_not_told_until_what_covers_it_goes() -> None:
    table = RoutingTable()
    table.join("a", Announcements(None))
    [(_, first)] = entered(table, (ANN, 1), "k > 1")
    assert entered(table, (BOB, 1), "k > 5") == []
    table.remove((ANN, 1))
    [(_, change)] = table.tell_all(ANN)
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
    assert entered(table, (BOB, 1), "k = 0") == []


def test_neighbours_that_are_apart_are_not_told_of_each_other() -> None:
    register = Register()
    register.apart = frozenset({"a", "b"})
    for name in ("a", "b", "c"):
        register.join(name, Announcements(None, "advertisement"))
    assert [name for name, _ in entered(register, (A, 1), "k = 1")] == ["c"]
    assert [name for name, _ in entered(register, (ANN, 1), "k = 2")] == ["a", "b", "c"]


def test_neighbours_are_told_one_at_a_time_filter_by_filter() -> None:
    table = RoutingTable()
    for name in ("a", "b"):
        table.join(name, Announcements(None))
    table.add((ANN, 1), wants("k = 1 or k = 2 or l = 3"))
    told = []
    while table.has_untold(ANN):
        before = table.take_spent()
        to_tell = table.tell_next(ANN)
        assert table.take_spent() <= 200, before
        if to_tell is not None:
            told.append((to_tell[0], len(to_tell[1].add)))
    assert told == [("a", 1)] * 3 + [("b", 1)] * 3
    assert not table.has_untold(BOB)


@pytest.mark.parametrize("number", range(4))
def test_whatever_comes_and_goes_between_the_steps_neighbours_know_what_one_told_at_once_knows(
    seed: int, number: int
) -> None:
    random, register = Random(f"{seed}/{number}"), Register()
    closed: set[str] = set()
    peers = [Peer("client", f"c{n}") for n in range(3)] + [Peer("broker", n) for n in "abc"]
    chores: list[Iterator[object]] = []
    texts = ["k = 1", "k > 3 or l = 2 or k = 1", "k > 5", "l = 2 and k = 1 or l = 7", "k any"]

    def join(name: str) -> None:
        told = Announcements(None, "interest", lambda subscription: str(subscription) not in closed)
        chores.append(register.joining(name, told))

    for _ in range(400):
        what, key = random.random(), (random.choice(peers), random.randrange(4))
        if what < 0.3 and key not in register:
            register.add(key, wants(random.choice(texts)))
        elif what < 0.5:
            register.remove(key)
        elif what < 0.53:
            name = random.choice("abc")
            register.leave(name)
            join(name)
        elif what < 0.56:
            closed ^= {str(wants(random.choice(texts)))}
            chores += [register.reconsidering(name) for name in "abc"]
        elif what < 0.8 and register.has_untold(key[0]):
            register.tell_next(key[0])
        elif chores and next(chores[0], StopIteration) is StopIteration:
            chores.pop(0)
    for chore in chores:
        for _ in chore:
            pass
    for peer in peers:
        register.tell_all(peer)
    while register.has_more:
        register.go_on()
    for name in "abc":
        told = register.told(name)
        if told is None:
            continue
        plain = Poset()
        for key, subscription in register.entries.items():
            if key[0] != Peer("broker", name) and str(subscription) not in closed:
                plain.add(subscription, key)
        assert set(told.filters) == set(plain.roots)


@pytest.mark.parametrize("compacts", [False, True])
def test_a_listing_in_parts_agrees_with_the_table_while_subscriptions_come_and_go(
    seed: int, compacts: bool
) -> None:
    random, table = Random(seed), RoutingTable()
    keys = [(Peer("client", f"c{n % 40}"), n) for n in range(6_000)]
    for key in keys:
        table.add(key, Subscription.parse(random.choice(["k any", "k = 1", "k = 2 or k < 3"])))
    table.add((Peer("broker", "b"), 1), Subscription.parse("k any"))
    notification = Notification({"k": 1})
    assert table.match_up_to(4_000, notification) is None
    listing = table.match_in_parts(notification, Meter(0))
    for step in range(10_000):
        if listing.go_on(200, overdraws=True):
            break
        gone = random.sample(keys, 450 if compacts and step < 9 else 5)
        for key in gone:
            table.remove(key)
        keys = [key for key in keys if key not in gone]
        new = Peer("client", f"new{step}"), random.choice([1, 7_000])
        table.add(new, Subscription.parse(random.choice(["k any", "k = 2"])))
        keys.append(new)
    assert step > 5
    wanted = table.match(notification)
    assert listing.wanted.neighbours == wanted.neighbours == {"b"}
    assert {name: set(ids) for name, ids in listing.wanted.clients.items()} == {
        name: set(ids) for name, ids in wanted.clients.items()
    }


def test_what_is_left_of_removed_subscriptions_goes_while_others_come_and_go(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing_table, "LITTER_BYTES_MAX", 100_000)
    random, table = Random(seed), RoutingTable()
    keys = [(Peer("client", f"c{n % 7}"), n) for n in range(400)]
    for key in keys:
        table.add(key, wants(f"k = '{key[1]}' or k = '{key[1] % 9}' or k * '{'x' * 300}{key[1]}'"))
    assert not table.is_littered, "nothing was removed"
    for key in keys[:300]:
        table.remove(key)
    assert table.is_littered
    before, version = table._matcher.constant_bytes, table.version
    notifications = [Notification({"k": str(n)}) for n in range(0, 450, 3)]
    listing = table.match_in_parts(notifications[1], Meter(0))
    keys = keys[300:]
    for step, _ in enumerate(table.making_anew()):
        assert not table.is_littered
        listing.go_on(1, overdraws=True)
        if step % 3 == 0:
            table.remove(keys.pop(random.randrange(len(keys))))
            new = (Peer("client", "new"), step)
            table.add(new, wants(f"k = '{random.randrange(450)}'"))
            keys.append(new)
    assert step > 30 and table.version > version
    assert table._matcher.constant_bytes < before / 2 and not table.is_littered
    while not listing.go_on(1_000, overdraws=True):
        pass
    for notification in notifications:
        expected: dict[str, set[int]] = {}
        for (peer, number), subscription in table.entries.items():
            if subscription.matches(notification):
                expected.setdefault(peer.name, set()).add(number)
        found = [table.match(notification)]
        found += [listing.wanted] if notification is notifications[1] else []
        for wanted in found:
            assert {name: set(ids) for name, ids in wanted.clients.items()} == expected


def test_what_was_worked_out_for_a_neighbour_that_goes_is_freed_at_once() -> None:
    table = RoutingTable()
    table.join("a", Announcements(None))
    for n in range(200):
        entered(table, (ANN, n), f"k = {n}")
    entered(table, (ANN, 200), "k any")
    assert table.has_more, "in the middle of it"
    gc.collect()
    gc.disable()
    try:
        told = ref(table.told("a"))
        table.leave("a")
        assert table.go_on() is None
        assert told() is None
    finally:
        gc.enable()
