"""The filter index leaves out only what cannot intersect."""

from __future__ import annotations

from random import Random

from kbn.broker.filter_index import FilterIndex
from kbn.broker.messages import Peer
from kbn.filters import Subscription, may_intersect

ANN = Peer("client", "ann")


def some(random: Random) -> Subscription:
    def constraint() -> str:
        attribute = random.choice("abc")
        value = random.choice(["1", "1.0", "2", "true", "'x'", "'1'"])
        return f"{attribute} {random.choice(['=', '=', '=', '!=', '<'])} {value}"

    def filter() -> str:
        parts = {text[0]: text for text in (constraint() for _ in range(3))}
        texts = [text if "<" not in text else f"{text[0]} < 2" for text in parts.values()]
        return " and ".join(texts)

    return Subscription.parse(" or ".join(filter() for _ in range(random.choice([1, 1, 2]))))


def test_whoever_may_intersect_is_a_candidate(seed: int) -> None:
    random = Random(seed)
    index, there = FilterIndex(), dict[int, Subscription]()
    left_out = 0
    for step in range(600):
        if there and random.random() < 0.3:
            number = random.choice(list(there))
            index.remove((ANN, number), there.pop(number))
        else:
            there[step] = some(random)
            index.add((ANN, step), there[step])
        for asked in some(random).filters:
            found = {number for (_, number), _ in index.candidates(asked)}
            assert found <= set(there)
            for number, subscription in there.items():
                if any(may_intersect(asked, each) for each in subscription.filters):
                    assert number in found
            left_out += len(there) - len(found)
    assert left_out > 1_000
    for number, subscription in there.items():
        index.remove((ANN, number), subscription)
    assert not index._by_value and not index._others
