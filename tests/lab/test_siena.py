"""The Siena-style poset: right answers, and a diagram that is the Hasse diagram of covering."""

from __future__ import annotations

from random import Random

import pytest

from kbn import data
from kbn.filters import Bag, Constraint, Filter, Notification, Subscription, covers
from kbn.lab.siena import Node, SienaPoset
from kbn.matching import LinearScan
from kbn.ontology import Class, Ontology


def some_constraint(rng: Random, classes: list[str]) -> Constraint:
    kind = rng.randrange(6)
    if kind == 0:
        value = rng.choice([0, 1, 2, 3, 1.0, True, "x"])
        operators = ["=", "!="] if value is True else ["<", ">=", "=", "!="]
        return Constraint("a", rng.choice(operators), value)
    if kind == 1:
        return Constraint("b", rng.choice([">*", "*", "="]), rng.choice(["x", "xy", "y"]))
    if kind == 2:
        return Constraint("c", rng.choice(["@>", "@<", "@~"]), Class(rng.choice(classes)))
    if kind == 3:
        bag = Bag(*(Class(rng.choice(classes)) for _ in range(rng.randint(0, 2))))
        return Constraint("d", rng.choice(["#>/@>", "#</@>"]), bag)
    return Constraint(rng.choice("ab"), "any")


def some_subscription(rng: Random, classes: list[str]) -> Subscription:
    filters = [
        Filter([some_constraint(rng, classes) for _ in range(rng.randint(1, 3))])
        for _ in range(rng.choice([1, 1, 1, 2]))
    ]
    return Subscription(filters)


def some_notification(rng: Random, classes: list[str]) -> Notification:
    values = {
        "a": rng.choice([0, 1, 2, 3, 1.0, True, "x"]),
        "b": rng.choice(["x", "xy", "yx", "z"]),
        "c": Class(rng.choice(classes)),
        "d": Bag(*(Class(rng.choice(classes)) for _ in range(rng.randint(0, 3)))),
    }
    return Notification({name: value for name, value in values.items() if rng.random() < 0.8})


@pytest.mark.parametrize("round_number", range(5))
def test_the_poset_agrees_with_the_plain_scan_and_is_well_formed(
    round_number: int, seed: int
) -> None:
    ontology = Ontology.load(data.path("podcast"))
    classes = list(ontology.classes)[:8]
    rng = Random(f"{seed} {round_number}")
    poset, scan = SienaPoset(ontology), LinearScan(ontology)
    for key in range(60):
        subscription = some_subscription(rng, classes)
        poset.add(subscription, key)
        scan.add(subscription, key)
    poset.check_invariants()
    for _ in range(40):
        notification = some_notification(rng, classes)
        assert poset.match(notification) == scan.match(notification)


def test_its_covering_is_the_plain_one(seed: int) -> None:
    ontology = Ontology.load(data.path("podcast"))
    classes = list(ontology.classes)[:8]
    rng = Random(seed)
    poset = SienaPoset(ontology)
    filters = [f for _ in range(40) for f in some_subscription(rng, classes).filters]
    for wider in filters:
        for narrower in filters:
            quick = poset.covers(Node(wider), Node(narrower))
            assert quick is covers(wider, narrower, ontology)


def test_a_filter_put_between_two_others_takes_their_link() -> None:
    poset = SienaPoset()
    for bound in (30, 10, 20):
        poset.add(Subscription.parse(f"price < {bound}"), bound)
    (root,) = poset.roots
    depths = []
    while True:
        depths.append(root.keys[0])
        if not root.children:
            break
        (root,) = root.children
    assert depths == [30, 20, 10]
    assert poset.match({"price": 15}) == {20, 30}


def test_equal_and_equivalent_filters_are_one_node() -> None:
    poset = SienaPoset()
    poset.add(Subscription.parse("price < 10"), "ann")
    poset.add(Subscription.parse("price < 10"), "bob")
    poset.add(Subscription.parse("price < 10 and price < 20"), "cyd")
    assert len(poset) == 1
    assert poset.match({"price": 5}) == {"ann", "bob", "cyd"}
