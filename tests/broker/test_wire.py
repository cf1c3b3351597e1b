"""Wire: every message comes back as it was, however the stream is cut; garbage is a FrameError."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from random import Random
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from tests.broker.drawn_messages import of_struct
from tests.broker.test_content import mutated

from kbn.broker import messages
from kbn.broker.administration import Unlink
from kbn.broker.messages import (
    AdminRequest,
    Alive,
    BetweenBrokers,
    Body,
    Bye,
    Connect,
    Frame,
    FromClient,
    Greet,
    Message,
    Publish,
    Refused,
    ToClient,
    Who,
)
from kbn.broker.wire import (
    FRAME_BYTES_MAX,
    FrameError,
    FrameReader,
    decode_between_brokers,
    decode_farewell,
    decode_first,
    decode_from_client,
    decode_name,
    decode_opening,
    decode_to_client,
    encode,
)
from kbn.errors import InvalidInputError, KbnError, RemotePeerError, TransportError

DECODERS: list[tuple[Callable[[bytes], Any], Any]] = [
    (decode_first, Connect | Greet),
    (decode_opening, Connect | Greet | Who | Bye),
    (decode_name, Who | Refused),
    (decode_farewell, Bye | Refused),
    (decode_from_client, FromClient),
    (decode_to_client, ToClient),
    (decode_between_brokers, BetweenBrokers),
]
SPOKEN = [kind for _, union in DECODERS for kind in get_args(union)]
LIMIT = 1000
any_message = st.sampled_from(SPOKEN).flatmap(of_struct)


def body(message: Any) -> bytes:
    (only,) = FrameReader(FRAME_BYTES_MAX).feed(encode(message))
    return only


def test_every_message_is_spoken_in_some_conversation() -> None:
    defined = {
        value
        for value in vars(messages).values()
        if isinstance(value, type) and issubclass(value, Message) and value is not Message
    }
    assert defined == {*SPOKEN, *get_args(Body)}


@pytest.mark.parametrize("kind", [*dict.fromkeys(SPOKEN)], ids=lambda kind: kind.__name__)
@given(st.data())
@settings(max_examples=25)
def test_every_message_comes_back_where_it_may_be_said_and_only_there(
    kind: type[Struct], data: st.DataObject
) -> None:
    message = data.draw(of_struct(kind))
    for decode, union in DECODERS:
        if kind in get_args(union):
            again = decode(body(message))
            assert again == message and type(again) is type(message)
        else:
            with pytest.raises(FrameError, match="expected a"):
                decode(body(message))


@pytest.mark.parametrize("kind", get_args(Body), ids=lambda kind: kind.__name__)
@given(st.data())
@settings(max_examples=15)
def test_every_body_comes_back_inside_a_frame(kind: type[Struct], data: st.DataObject) -> None:
    message = Frame(1, 2, 3, 4, data.draw(of_struct(kind)))
    assert decode_between_brokers(body(message)) == message


def test_what_a_message_leaves_out_has_its_default() -> None:
    assert decode_first(b"\x93\xa7connect\xa3ann\x07") == Connect("ann", 7)


@given(st.lists(any_message, max_size=6), st.integers(0, 2**48))
def test_frames_are_found_however_the_stream_is_cut(said: list[Any], seed: int) -> None:
    random = Random(seed)
    stream = b"".join(map(encode, said))
    reader, found = FrameReader(FRAME_BYTES_MAX), []
    while stream:
        size = random.choice([1, 2, 3, 5, 17, 1000])
        found += reader.feed(stream[:size])
        stream = stream[size:]
    assert found == [body(message) for message in said]
    assert reader.pending == 0


def test_an_unfinished_frame_is_pending() -> None:
    reader = FrameReader(LIMIT)
    assert reader.feed(encode(Alive())[:-1]) == []
    assert reader.pending == len(encode(Alive())) - 1
    assert reader.feed(b"") == []
    assert reader.feed(encode(Alive())[-1:]) == [body(Alive())]
    assert reader.pending == 0


def test_a_frame_may_be_as_long_as_the_limit_and_no_longer() -> None:
    whole = LIMIT.to_bytes(4, "big") + b"x" * LIMIT
    assert FrameReader(LIMIT).feed(whole) == [b"x" * LIMIT]
    with pytest.raises(FrameError, match=f"1001 bytes; the limit is {LIMIT}"):
        FrameReader(LIMIT).feed((LIMIT + 1).to_bytes(4, "big"))


@pytest.mark.parametrize("length", [0, LIMIT + 1, FRAME_BYTES_MAX])
def test_after_a_bad_length_a_stream_stays_bad_and_nothing_is_kept(length: int) -> None:
    reader = FrameReader(LIMIT)
    for data in (b"", length.to_bytes(4, "big")[:3]):
        reader.feed(data)
    with pytest.raises(FrameError):
        reader.feed(length.to_bytes(4, "big")[3:] + b"x" * 50)
    assert reader.pending == 0
    with pytest.raises(FrameError):
        reader.feed(encode(Alive()))


def test_a_long_frame_in_small_pieces_is_copied_only_a_few_times() -> None:
    class Counting(FrameReader):
        looked_at = 0

        def _cut(self, data: bytes) -> list[bytes]:
            Counting.looked_at += len(data)
            return super()._cut(data)

    size = 200_000
    reader = Counting(size)
    stream = size.to_bytes(4, "big") + b"x" * size
    found = [frame for at in range(0, len(stream), 7) for frame in reader.feed(stream[at : at + 7])]
    assert found == [b"x" * size]
    assert Counting.looked_at < 2 * size


@pytest.mark.parametrize("limit", [0, -1, FRAME_BYTES_MAX + 1])
def test_a_limit_that_makes_no_sense_is_refused(limit: int) -> None:
    with pytest.raises(InvalidInputError):
        FrameReader(limit)


@pytest.mark.parametrize(
    "about",
    [object(), 2**64, "\ud800", {1: {2: {(): 3}}, "y": {3j}}],
    ids=["an object", "a huge number", "half a letter", "odd keys"],
)
def test_what_has_no_form_in_bytes_is_the_callers_mistake(about: Any) -> None:
    with pytest.raises(InvalidInputError, match="AdminRequest"):
        encode(AdminRequest(1, Unlink(about)))


def test_a_frame_error_says_what_was_wrong_and_where() -> None:
    with pytest.raises(RemotePeerError, match=r"a client's message.*'nonsense'"):
        decode_from_client(b"\x91\xa8nonsense")
    good = body(Publish(1, 0.0, b"\x80"))
    with pytest.raises(FrameError, match=r"`int`, got `str`"):
        decode_from_client(good.replace(b"\x01", b"\xa0", 1))


@pytest.mark.parametrize(
    "error",
    [FrameError("odd", peer="hub"), RemotePeerError("odd"), TransportError("gone")],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_the_network_come_whole_through_pickling(error: KbnError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


GARBAGE = [
    *(b"", b"\xc1", b"\x90", b"\x91\xc0", b"\x80", b"\x91\xa5alive\x01", b"\xdd\xff\xff\xff\xff"),
    *(b"\x91" * 100_000, b"\x94\xa3ask\x01\xa0\x81\xa0" + b"\x91" * 100_000),
    *(b"\x94\xa3ask\x01\xa0\x81\xa0\xa1\xff", b"\x94\xa3ask\x01\xa0\x81\xa0\xdf\xff\xff\xff\xff"),
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda garbage: repr(garbage[:20]))
def test_garbage_is_refused_by_every_decoder(garbage: bytes) -> None:
    for decode, _ in DECODERS:
        with pytest.raises(FrameError):
            decode(garbage)


@given(any_message, st.integers(0, 2**48))
@settings(max_examples=200)
def test_mutated_bytes_are_a_message_or_a_frame_error(message: Any, seed: int) -> None:
    random = Random(seed)
    for _ in range(10):
        hostile = mutated(random, body(message))
        for decode, union in DECODERS:
            try:
                made = decode(hostile)
            except FrameError:
                continue
            assert type(made) in get_args(union)


@given(any_message)
def test_every_truncated_message_is_a_frame_error(message: Any) -> None:
    whole = body(message)
    for size in range(len(whole)):
        for decode, _ in DECODERS:
            with pytest.raises(FrameError):
                decode(whole[:size])


@given(any_message, st.integers(0, 2**48))
def test_a_mutated_stream_is_frames_or_a_frame_error(message: Any, seed: int) -> None:
    stream = mutated(Random(seed), encode(message) * 3)
    reader = FrameReader(LIMIT)
    try:
        frames = [frame for byte in stream for frame in reader.feed(bytes([byte]))]
    except FrameError:
        return
    assert sum(4 + len(frame) for frame in frames) + reader.pending == len(stream)
