"""Waves, one broker's part in them."""

from __future__ import annotations

from kbn.broker.messages import SOUGHT_MAX, Echo, Wave
from kbn.broker.waves import PASSING_MAX, Waves

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


SEEKING = Wave("far", 1, 7, seeks=("b", "x"))


def partial(*found: str) -> Echo:
    return Echo("far", 1, 7, found=found, is_partial=True)


def test_who_waits_for_the_dead_only_says_so_and_who_was_found() -> None:
    part = Part()
    part.waves.pass_on(SEEKING, "a", ["a", "c", "d"])
    part.take()
    part.waves.is_down("d", [])
    assert part.take() == [], "c has not echoed"
    part.waves.echoed(Echo("far", 1, 7, found=("x", "nobody asked for")), "c", [])
    assert part.take() == [("a", partial("b", "x"))]
    part.waves.is_down("d", [])
    assert part.take() == [], "it is said once"
    part.waves.pass_on(SEEKING, "a", ["a", "c", "d"])
    assert part.take() == [("a", partial("b", "x"))], "and to one that has started again"
    part.waves.is_up("d")
    part.waves.started_again("d")
    assert part.take() == [("d", SEEKING)]
    part.waves.echoed(Echo("far", 1, 7), "d", [])
    assert part.take() == [("a", Echo("far", 1, 7, found=("b", "x")))]
    assert not part.waves.count


def test_a_partial_echo_is_passed_on_and_said_again_when_more_is_found() -> None:
    part = Part()
    part.waves.pass_on(SEEKING, "a", ["a", "c", "d"])
    part.take()
    part.waves.echoed(partial(), "c", [])
    part.waves.echoed(partial(), "d", [])
    assert part.take() == [("a", partial("b"))]
    part.waves.echoed(partial("x"), "d", [])
    assert part.take() == [("a", partial("b", "x"))]


def test_a_broker_that_does_not_ask_for_partial_echoes_gets_none() -> None:
    part = Part()
    part.waves.is_down("d", [])
    part.waves.pass_on(WAVE, "a", ["a", "c", "d"])
    part.waves.echoed(ECHO, "c", [])
    assert part.take() == [("c", WAVE), ("d", WAVE)]


class Origin(Part):
    """Broker b begins waves, to a and c; c is down."""

    def __init__(self) -> None:
        super().__init__()
        self.served: list[str] = []
        self.waves.is_down("c", ["a", "c"])

    def ask(self, what: str, reaching: tuple[str, ...] | None = None) -> None:
        self.waves.begin(lambda: self.served.append(what), ["a", "c"], reaching)

    def hear(self, *found: str, of: str = "a", is_partial: bool = False) -> None:
        newest = self.waves.newest
        echo = Echo(newest.origin, newest.epoch, newest.number, newest.kind, found, is_partial)
        self.waves.echoed(echo, of, ["a", "c"])


def test_who_needs_only_those_that_are_there_does_not_wait_for_the_dead() -> None:
    origin = Origin()
    origin.ask("everywhere")
    origin.ask("x too", ("x",))
    origin.ask("anywhere", ())
    origin.ask("gone too", ("gone", "x"))
    assert origin.served == [], "the first wave is on its way"
    origin.hear()
    assert origin.waves.newest.seeks == ("gone", "x") and origin.served == []
    origin.hear("x")
    assert origin.served == ["x too", "anywhere"]
    origin.hear(of="c")
    assert origin.served == ["x too", "anywhere", "everywhere", "gone too"]


def test_what_comes_while_a_wave_waits_for_the_dead_begins_another_that_serves_both() -> None:
    origin = Origin()
    origin.ask("everywhere")
    origin.hear()
    number = origin.waves.newest.number
    origin.ask("everywhere again")
    assert origin.waves.newest.number == number, "it would wait for the dead, too"
    origin.ask("here", ())
    assert origin.waves.newest.number == number + 1
    origin.hear()
    assert origin.served == ["here"]
    origin.hear(of="c")
    assert origin.served == ["here", "everywhere", "everywhere again"]


def test_nobody_keeps_waves_that_were_followed_by_others() -> None:
    part = Part()
    part.waves.is_down("d", [])
    for number in range(1, 1001):
        part.waves.pass_on(Wave("far", 1, number, seeks=()), "a", ["a", "d"])
        part.waves.pass_on(Wave("other", 1, number, "move", seeks=()), "a", ["a", "d"])
    assert part.waves.count == 2
    part.take()
    part.waves.gone("d", [])
    assert part.take() == [("a", Echo("far", 1, 1000)), ("a", Echo("other", 1, 1000, "move"))]


def test_very_many_that_are_sought_wait_for_another_wave() -> None:
    origin = Origin()
    origin.ask("first")
    for number in range(100):
        origin.ask(str(number), (f"broker {number}",))
    origin.hear()
    seeks = origin.waves.newest.seeks
    assert seeks is not None and len(seeks) == SOUGHT_MAX and "broker 99" in seeks
    origin.hear(*seeks)
    assert len(origin.served) == SOUGHT_MAX
    seeks = origin.waves.newest.seeks
    assert seeks is not None and len(seeks) == 100 - SOUGHT_MAX, "which begins at once"
    origin.hear(*seeks)
    assert sorted(origin.served) == sorted(map(str, range(100)))


def test_what_nobody_finds_begins_no_wave_after_another() -> None:
    origin = Origin()
    for number in range(100):
        origin.ask(str(number), (f"dead broker {number}",))
    origin.hear()
    number = origin.waves.newest.number
    for _ in range(10):
        origin.hear()
        origin.waves.is_down("a", ["a", "c"])
        origin.waves.is_up("a")
    assert origin.waves.newest.number == number and origin.served == []


def test_waves_that_a_neighbour_makes_up_are_bounded() -> None:
    part = Part()
    for number in range(PASSING_MAX + 1000):
        part.waves.pass_on(Wave(f"made up {number}", 1, 1, seeks=()), "a", ["a", "d"])
    assert part.waves.count == len(part.waves._newest) == PASSING_MAX
    part.take()
    part.waves.gone("d", [])
    assert len(part.take()) == PASSING_MAX and not part.waves.count


def test_an_older_wave_that_comes_late_takes_part_and_forgets_nothing() -> None:
    part = Part()
    part.waves.pass_on(WAVE, "a", ["a", "c"])
    part.waves.pass_on(Wave("far", 1, 6), "a", ["a", "c"])
    part.take()
    part.waves.echoed(ECHO, "c", [])
    part.waves.echoed(Echo("far", 1, 6), "c", [])
    assert part.take() == [("a", ECHO), ("a", Echo("far", 1, 6))]
