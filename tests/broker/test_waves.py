"""Waves, one broker's part in them."""

from __future__ import annotations

from kbn.broker.messages import Echo, Wave
from kbn.broker.waves import Waves

WAVE = Wave("far", 1, 7)
ECHO = Echo("far", 1, 7)


class Part:
    """The part of broker b, and what it sends."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Wave | Echo]] = []
        self.waves = Waves("b", 1, lambda name, message: self.sent.append((name, message)))

    def take(self) -> list[tuple[str, Wave | Echo]]:
        sent, self.sent = self.sent, []
        return sent


def test_a_wave_is_echoed_when_all_it_was_passed_to_have_echoed() -> None:
    part = Part()
    part.waves.pass_on(WAVE, "a", ["a", "c", "d"])
    assert part.take() == [("c", WAVE), ("d", WAVE)]
    part.waves.echoed(ECHO, "c", [])
    assert part.take() == []
    part.waves.echoed(ECHO, "d", [])
    assert part.take() == [("a", ECHO)]


def test_a_wave_that_meets_itself_is_echoed_at_once() -> None:
    part = Part()
    part.waves.pass_on(WAVE, "a", ["a", "c", "d"])
    part.take()
    part.waves.pass_on(WAVE, "c", ["a", "c", "d"])
    assert part.take() == [("c", ECHO)]


def test_a_wave_from_two_sides_is_echoed_to_both_when_all_behind_have_echoed() -> None:
    part = Part()
    part.waves.pass_on(WAVE, "old", ["behind"])
    part.waves.pass_on(WAVE, "new", ["behind"])
    assert part.take() == [("behind", WAVE)]
    part.waves.echoed(ECHO, "behind", [])
    assert part.take() == [("old", ECHO), ("new", ECHO)]


def test_waves_from_behind_visit_the_side_we_move_to_as_well() -> None:
    part = Part()
    part.waves.pass_on(WAVE, "behind", ["old", "behind"])
    part.waves.pass_on_to("new", instead_of="old")
    part.take()
    part.waves.echoed(ECHO, "old", [])
    assert part.take() == []
    part.waves.started_again("new")
    assert part.take() == [("new", WAVE)]
    part.waves.pass_on(WAVE, "new", ["old", "behind"])
    assert part.take() == [("new", ECHO)], "it has met itself"
    part.waves.echoed(ECHO, "new", [])
    assert part.take() == [("behind", ECHO)]


def test_a_wave_that_was_given_up_serves_nobody() -> None:
    part, served = Part(), []
    part.waves.begin(lambda: served.append("first"), ["a"])
    first = part.waves.newest
    part.waves.forget()
    part.waves.begin(lambda: served.append("second"), ["a"])
    part.waves.echoed(Echo(first.origin, first.epoch, first.number), "a", [])
    assert served == []
    second = part.waves.newest
    part.waves.echoed(Echo(second.origin, second.epoch, second.number), "a", [])
    assert served == ["second"]
