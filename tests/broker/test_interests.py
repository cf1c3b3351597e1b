"""Interests: announcements of neighbours come in, announcements to neighbours go out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

from kbn.broker import interests, work
from kbn.broker.best_effort import BestEffortQueue
from kbn.broker.interests import Interests
from kbn.broker.messages import Announce, Peer
from kbn.broker.neighbour import Link, Neighbour
from kbn.broker.outbox import Outbox
from kbn.broker.routing_table import RoutingTable, entering
from kbn.broker.set_aside import Aside
from kbn.broker.store import MemoryStore
from kbn.broker.unacked import UnackedQueue
from kbn.broker.work import Work
from kbn.filters import Subscription

ANN = Peer("client", "ann")


class Side:
    """The interests of a broker with neighbours a and b, and what each was told."""

    def __init__(self, *, gated: bool = False) -> None:
        self.told: dict[str, list[Announce]] = {"a": [], "b": []}
        self.neighbours = {name: self.neighbour(name) for name in self.told}
        self.interests = Interests(
            RoutingTable(), self.tell, self.neighbours.get, Work(), gated=gated
        )
        for neighbour in self.neighbours.values():
            done(self.interests.join(neighbour))
        self.a, self.b = self.neighbours["a"], self.neighbours["b"]

    def neighbour(self, name: str) -> Neighbour:
        peer = Peer("broker", name)
        store = MemoryStore()
        unacked = UnackedQueue(store, peer, count(1), Aside(store, Outbox()))
        return Neighbour(peer, "peer", Link(1), unacked, BestEffortQueue(1 << 20))

    def tell(self, name: str, announce: Announce) -> None:
        self.told[name].append(announce)

    def heard(self, name: str) -> list[list[str]]:
        """The filters of what a neighbour was told since the last time, and how many it dropped."""
        told, self.told[name] = self.told[name], []
        texts = [[str(Subscription.from_json(text)) for _, text in each.add] for each in told]
        return [[*texts, *["dropped"] * len(e.drop)] for texts, e in zip(texts, told, strict=True)]


def done(steps: Iterator[None]) -> None:
    """Have all of it done."""
    for _ in steps:
        pass


def interest(number: int, text: str) -> Announce:
    return Announce("interest", ((number, json.dumps(Subscription.parse(text).to_json())),))


def advertisement(number: int, text: str) -> Announce:
    return Announce("advertisement", ((number, json.dumps(Subscription.parse(text).to_json())),))


def test_what_one_neighbour_announces_the_others_are_told() -> None:
    side = Side()
    done(side.interests.announced(interest(5, "k = 1"), side.a))
    assert side.heard("b") == [["k = 1"]]
    done(side.interests.announced(Announce("interest", (), (5,)), side.a))
    assert side.heard("b") == [["dropped"]]
    assert side.heard("a") == []
    assert len(side.interests.table) == 0


def test_what_cannot_be_read_changes_nothing() -> None:
    side = Side()
    done(side.interests.announced(Announce("interest", ((1, '{"all": 5}'),)), side.a))
    assert side.a.announced.subscriptions == {}
    assert side.heard("b") == []


def test_what_was_said_in_an_earlier_session_counts_until_all_is_said_again() -> None:
    side = Side()
    done(side.interests.announced(interest(1, "k = 1"), side.a))
    done(side.interests.announced(interest(2, "k = 2"), side.a))
    side.a.begin_session()
    done(side.interests.announced(interest(1, "k = 1"), side.a))
    assert len(side.interests.table) == 3
    side.heard("b")
    done(side.interests.completed(True, side.a))
    assert [str(each) for each in side.interests.table.entries.values()] == ["k = 1"]
    assert side.heard("b") == [["dropped"]]


def test_a_neighbour_that_leaves_is_forgotten_with_all_it_wanted() -> None:
    side = Side()
    done(side.interests.announced(interest(1, "k = 1"), side.a))
    side.heard("b")
    done(side.interests.leave(side.a))
    assert side.heard("b") == [["dropped"]]
    side.interests.subscribe((ANN, 1), Subscription.parse("k = 2"))
    assert side.heard("a") == [] and side.heard("b") == [["k = 2"]]


def test_with_advertisements_a_neighbour_is_told_what_its_side_may_publish() -> None:
    side = Side(gated=True)
    done(side.interests.completed(True, side.a))
    side.interests.subscribe((ANN, 1), Subscription.parse("k = 1"))
    assert side.heard("a") == [], "nobody there advertises it"
    assert side.heard("b") == [["k = 1"]], "it has not said everything"
    done(side.interests.announced(advertisement(1, "k < 9"), side.a))
    assert side.heard("a") == [["k = 1"]]
    assert side.heard("b") == [["k < 9"]], "an advertisement is passed on, too"


def test_one_that_begins_a_session_is_told_everything() -> None:
    side = Side()
    side.interests.subscribe((ANN, 1), Subscription.parse("k = 1"))
    side.heard("a")
    [everything] = side.interests.everything_for(side.a)
    assert [str(Subscription.from_json(text)) for _, text in everything.add] == ["k = 1"]


def test_those_that_are_kept_apart_are_not_told_of_each_other() -> None:
    side = Side()
    side.interests.keep_apart(frozenset({"a", "b"}))
    done(side.interests.announced(interest(1, "k = 1"), side.a))
    assert side.heard("b") == []


def test_another_table_is_brought_to_what_clients_want_by_now() -> None:
    side = Side()
    old = {(ANN, 1): Subscription.parse("k = 1"), (ANN, 2): Subscription.parse("k = 2")}
    for key, subscription in old.items():
        side.interests.subscribe(key, subscription)
    rebuild = side.interests.rebuilding(None, old, side.neighbours.values())
    now = {(ANN, 2): old[ANN, 2], (ANN, 3): Subscription.parse("k = 3")}
    table = rebuild()
    assert side.interests.use_table(table, now) == []
    assert side.interests.table is table and dict(table.entries) == now
    for neighbour in side.neighbours.values():
        done(side.interests.learn_again(neighbour))
        assert neighbour.told.subscriptions is table.told(neighbour.name)


def test_a_change_that_moves_very_many_filters_takes_steps_for_its_client() -> None:
    side, begun = Side(), list[tuple[Iterator[None], Peer | None]]()
    for n in range(600):
        side.interests.subscribe((ANN, n), Subscription.parse(f"k = {n}"))
    side.heard("a")
    side.interests.start = lambda steps, peer: begun.append((steps, peer))
    side.interests.subscribe((ANN, 600), Subscription.parse("k any"))
    ((telling, peer),) = begun
    assert peer == ANN and not side.told["a"]
    done(telling)
    assert side.heard("a")[0][:1] == ["k any"]
    _, (steps, peer) = begun
    assert peer == ANN
    most = 0
    for _ in steps:
        most = max(most, sum(len(each.drop) for each in side.told["a"]))
        side.told["a"].clear()
    assert 0 < most <= 64
    side.interests.unsubscribe((ANN, 600))
    done(begun[-1][0])
    dropped = [each.drop for each in side.told["a"] if each.drop]
    assert not dropped, "it is told until those below it are"
    done(begun[-1][0])
    told = side.interests.table.told("a")
    assert told is not None and len(told.filters) == 600


def test_what_neighbours_advertise_is_compared_in_counted_steps() -> None:
    side = Side(gated=True)
    spent = side.interests._work
    done(side.interests.completed(True, side.a))
    for n in range(300):
        side.interests.subscribe((ANN, n), Subscription.parse(f"k = {n}"))
    assert side.heard("a") == []
    spent.limit, spent.done, steps = 1_000, 0, 0
    for _ in side.interests.announced(advertisement(1, "k < 200"), side.a):
        assert spent.done < 1_000 + 1_000
        spent.done, steps = 0, steps + 1
    assert steps > 10 and len(side.heard("a")) == 200


def test_very_many_advertisements_are_not_all_compared() -> None:
    side = Side(gated=True)
    done(side.interests.completed(True, side.a))
    for n in range(interests.COMPARED_MAX + 10):
        done(side.interests.announced(advertisement(n, f"k > {n} and k < {n}.5"), side.a))
    before, wanted = side.interests._work.done, Subscription.parse("k = -1")
    side.interests.subscribe((ANN, 1), wanted)
    told = 2 * (work.TOLD + work.TOLD_CONSTRAINT)
    compared = work.COMPARED * (interests.COMPARED_MAX + 1)
    assert side.interests._work.done - before <= entering(wanted) + told + compared
    assert side.heard("a") == [["k = -1"]], "it may as well be told"


def test_of_very_many_advertisements_only_those_with_the_same_values_are_compared() -> None:
    side = Side(gated=True)
    done(side.interests.completed(True, side.a))
    for n in range(interests.COMPARED_MAX + 10):
        side.interests.subscribe((ANN, n), Subscription.parse(f"k = {n} and l = 1"))
    for n in range(0, 10 * interests.COMPARED_MAX, 10):
        before = side.interests._work.done
        done(side.interests.announced(advertisement(n, f"k = {n}"), side.a))
        assert side.interests._work.done - before < 1_000
    told = [text for part in side.heard("a") for text in part]
    assert sorted(told) == sorted(
        f"k = {n} and l = 1" for n in range(0, interests.COMPARED_MAX + 10, 10)
    )
    before = side.interests._work.done
    wanted = Subscription.parse("k = -1")
    side.interests.subscribe((ANN, -1), wanted)
    told_b = work.TOLD + work.TOLD_CONSTRAINT
    assert side.interests._work.done - before < entering(wanted) + told_b + 20
    assert side.heard("a")[len(told) :] == []


def test_a_neighbour_that_announces_too_much_is_sent_everything_until_its_next_session() -> None:
    side = Side()
    side.interests.announced_max = 3
    side.a.link.agrees = True
    done(side.interests.completed(True, side.a))
    for n in range(3):
        done(side.interests.announced(interest(n, f"k = {n}"), side.a))
    assert not side.a.wants_everything
    done(side.interests.announced(interest(3, "k = 3"), side.a))
    assert side.a.wants_everything and len(side.interests.table) == 3
    done(side.interests.completed(True, side.a))
    assert side.a.wants_everything, "whatever it says"
    side.a.begin_session()
    done(side.interests.announced(interest(4, "k = 4"), side.a))
    done(side.interests.completed(True, side.a))
    assert not side.a.wants_everything and len(side.interests.table) == 1
