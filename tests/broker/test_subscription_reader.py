"""The reader of subscriptions remembers so much text, not so many texts."""

from __future__ import annotations

from tests.broker.test_broker import ANN, Talk

from kbn.broker.limits import ClientLimits
from kbn.broker.messages import Connect, Done, Refused, Subscribe, Unsubscribe
from kbn.broker.subscription_reader import (
    PARSED_SHARE,
    READ_BYTES_MAX,
    SubscriptionReader,
)


def test_what_is_remembered_is_bounded_by_bytes() -> None:
    reader = SubscriptionReader()
    most = 0
    for number in range(60):
        reader.read(f'k = "{number}{"x" * 50_000}"', None, is_text=True)
        most = max(most, PARSED_SHARE * sum(len(text) for text, _ in reader._read))
    assert READ_BYTES_MAX / 2 < most <= READ_BYTES_MAX
    assert reader.read("k = 1", None, is_text=True) is reader.read("k = 1", None, is_text=True)


def test_what_would_take_all_the_room_is_not_remembered() -> None:
    reader = SubscriptionReader()
    known = reader.read("k = 1", None, is_text=True)
    reader.read(f'k = "{"x" * 1_000_000}"', None, is_text=True)
    assert reader.read("k = 1", None, is_text=True) is known


def test_the_texts_of_a_clients_subscriptions_are_bounded_together() -> None:
    talk = Talk(limits=ClientLimits(subscription_bytes=1000))
    talk.say(ANN, Connect("ann", 1))
    texts = [f'k = "{number}{"x" * 300}"' for number in range(9)]
    answers = [talk.say(ANN, Subscribe(n, text, True))[0] for n, text in enumerate(texts)]
    assert [isinstance(each, Done) for each in answers] == [True] * 3 + [False] * 6
    assert isinstance(answers[3], Refused) and "characters in all" in answers[3].reason
    for _ in range(50):
        talk.say(ANN, Unsubscribe(1))
        assert talk.say(ANN, Subscribe(1, texts[1], True)) == [Done("subscribe", 1)]
