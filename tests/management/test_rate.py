"""Rates are kept in every stretch of time, not only in those that begin on the minute."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kbn.management.rate import Limiter, Rate


@given(
    limit=st.integers(1, 5),
    steps=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 7)), max_size=40),
)
def test_no_stretch_has_more_than_allowed_and_nothing_is_withheld_for_no_reason(
    limit: int, steps: list[tuple[int, int]]
) -> None:
    limiter = Limiter(Rate(limit, 30.0))
    now, taken = 0.0, list[float]()
    for wait, wanted in steps:
        now += wait
        recent = sum(1 for at in taken if now - at < 30.0)
        got = limiter.take(wanted, now)
        assert got == min(wanted, limit - recent)
        taken += [now] * got


def test_a_clock_that_is_set_back_does_not_stop_everything() -> None:
    limiter = Limiter(Rate(1, 60.0))
    assert limiter.take(1, 1_000_000.0) == 1
    assert limiter.take(1, 5.0) == 1
    assert limiter.take(1, 6.0) == 0
