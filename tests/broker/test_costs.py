"""What one subscription and one notification may cost is bounded where they come in."""

from __future__ import annotations

import json

import pytest
from tests.broker.test_broker import ANN, Talk, published

from kbn.broker.contents import Contents
from kbn.broker.limits import ClientLimits
from kbn.broker.messages import (
    Advertise,
    AnyMessage,
    Connect,
    Done,
    Publish,
    Refused,
    Subscribe,
)


def strings(count: int, operator: str = "#>/*") -> str:
    """A subscription in JSON for a bag of so many strings."""
    wanted = [f"s{number}" for number in range(count)]
    return json.dumps([{"attribute": "a", "op": operator, "value": wanted}])


SUBSCRIPTIONS = {
    "9,999 strings compared pair by pair": (strings(9_999), "characters per subscription"),
    "200,000 times not": ("not " * 200_000 + "a = 1", "characters per subscription"),
    "16,000 times not": ("not " * 16_000 + "a = 1", "words and signs"),
    "a bag of 30,000 numbers": ("a #> {" + "1," * 30_000 + "1}", "words and signs"),
    "JSON of 30,000 numbers": (f'[{{"value": [{"1," * 30_000}1]}}]', "more than 4096 values"),
    "129 strings compared pair by pair": (strings(129), "elements compared pair by pair"),
    "1,025 elements": (strings(1_025, "#>"), "elements in the bags of a subscription"),
    "bags five deep": ("a #> {{{{{1}}}}}", "bags within bags"),
    "alternatives that multiply": (
        " and ".join(f"(a{n} = 1 or a{n} = 2)" for n in range(6))
        + "".join(f" and b{n} = 1" for n in range(20)),
        "constraints per subscription",
    ),
}


@pytest.mark.parametrize(("text", "limit"), SUBSCRIPTIONS.values(), ids=SUBSCRIPTIONS.keys())
@pytest.mark.parametrize("kind", [Subscribe, Advertise])
def test_a_subscription_that_would_cost_too_much_is_refused_by_the_name_of_the_limit(
    kind: type[Subscribe] | type[Advertise], text: str, limit: str
) -> None:
    talk = Talk()
    talk.say(ANN, Connect("ann", 1))
    is_text = not text.startswith("[")
    [refused] = talk.say(ANN, kind(1, text, is_text))
    assert isinstance(refused, Refused) and refused.kind == "LimitError"
    assert limit in refused.reason
    assert not talk.broker.clients["ann"].subscriptions
    assert talk.say(ANN, Subscribe(2, strings(128), False)) == [Done("subscribe", 2)]


@pytest.mark.parametrize(
    ("value", "limit"),
    [
        (["w" * 60_000, "w" * 60_000], "characters in the bags of a notification"),
        (list(range(5_000)), "elements in the bags of a notification"),
        ([[n, n, n] for n in range(1_200)], "elements in the bags of a notification"),
    ],
)
def test_a_notification_with_too_much_in_its_bags_is_refused(value: object, limit: str) -> None:
    talk = Talk()
    talk.say(ANN, Connect("ann", 1), Subscribe(1, "k any", True))
    [refused] = [a for a in talk.say(ANN, published(1, value)) if isinstance(a, Refused)]
    assert refused.kind == "LimitError" and limit in refused.reason
    talk.say(ANN, published(2, "w" * 900_000), published(3, list(range(2_048))))
    assert [type(each) for each in talk.delivered(ANN)] == [str, type(talk.delivered(ANN)[1])]


def test_limits_of_cost_are_settings() -> None:
    wide = ClientLimits(text_bytes=1 << 20, tokens=1 << 18, elements=10_000, paired=10_000)
    talk = Talk(limits=wide)
    talk.say(ANN, Connect("ann", 1))
    asked: list[AnyMessage] = [Subscribe(1, strings(9_999), False)]
    assert talk.say(ANN, *asked) == [Done("subscribe", 1)]


TINY = {
    "numbers": b"\x81\xa1a\xdd\x00\x0f\x00\x00" + b"\x01" * 0xF0000,
    "empty bags": b"\x81\xa1a\xdd\x00\x0f\x00\x00" + b"\x90" * 0xF0000,
    "terms": b"\x81\xa1a\xdd\x00\x05\x00\x00" + b"\xd4\x01x" * 0x50000,
    "attributes": b"\xdf\x00\x02\x00\x00" + b"".join(b"\xa5%05x\x01" % n for n in range(0x20000)),
    "bags of bags": b"\x81\xa1a\xdc\x0f\xff" + (b"\xdc\x00\xf0" + b"\x01" * 240) * 0xFFF,
}


@pytest.mark.parametrize("encoded", TINY.values(), ids=TINY.keys())
def test_a_notification_of_very_many_tiny_values_is_refused_unread(
    encoded: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Talk()
    talk.say(ANN, Connect("ann", 1))
    reads: list[bytes] = []
    monkeypatch.setattr(Contents, "_decoded", lambda self, encoded: reads.append(encoded))
    talk.broker.work.begin()
    assert talk.broker.is_ready_for(encoded, ANN)
    refused = talk.say(ANN, Publish(1, 0.0, encoded))[0]
    assert isinstance(refused, Refused) and "values in a notification" in refused.reason
    assert not reads and talk.broker.work.done < 10_000
