"""Distributions of delays: sums are never promised too early."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbn import InvalidInputError
from kbn.grouping import Distribution, worst_of
from kbn.grouping.kernels.convolving import ATOMS

SAMPLES = st.lists(st.floats(0, 1000, allow_nan=False), min_size=1, max_size=80)
TIMES = np.concatenate((np.linspace(0, 4000, 200), np.geomspace(1e-3, 8000, 100)))


def exact_sum(one: Distribution, other: Distribution, time: float) -> float:
    """The chance that both together are within a time, without any rounding."""
    return sum(
        mass * more
        for (value, mass), (added, more) in itertools.product(
            zip(one.values, one.masses, strict=True), zip(other.values, other.masses, strict=True)
        )
        if value + added <= time
    )


@given(SAMPLES, SAMPLES)
def test_a_sum_is_never_promised_earlier_than_it_is(
    first: list[float], second: list[float]
) -> None:
    one, other = Distribution.of_samples(first), Distribution.of_samples(second)
    both = one.then(other)
    assert len(both.values) <= ATOMS and np.all(np.diff(both.values) > 0)
    assert 1 - 1e-5 <= both.masses.sum() <= 1 + 1e-9
    for time in TIMES[::17]:
        assert both.within(time) <= exact_sum(one, other, time * (1 + 1e-12)) + 1e-9


@given(st.lists(SAMPLES, min_size=1, max_size=4))
def test_the_worst_is_as_late_as_each_of_them(samples: list[list[float]]) -> None:
    each = [Distribution.of_samples(values) for values in samples]
    worst = worst_of(each)
    for time in TIMES:
        assert worst.within(time) <= min(one.within(time) for one in each) + 1e-9


@given(SAMPLES)
def test_a_quantile_is_within_itself(samples: list[float]) -> None:
    found = Distribution.of_samples(samples)
    for probability in (0.5, 0.9, 0.95, 0.99):
        assert found.within(found.quantile(probability)) >= probability - 1e-9


@given(SAMPLES, SAMPLES)
def test_moments_add_up_nearly(first: list[float], second: list[float]) -> None:
    one, other = Distribution.of_samples(first), Distribution.of_samples(second)
    both = one.then(other)
    spread = max(1e-9, both.values[-1] - both.values[0])
    mean = one.moments.mean + other.moments.mean
    assert mean - 1e-6 * spread - 1e-9 <= both.moments.mean <= mean + 0.05 * spread


def test_rounding_costs_little_on_a_long_way() -> None:
    rng = np.random.default_rng(2)
    links = [rng.lognormal(2, 0.3, 200) for _ in range(8)]
    way = Distribution.exactly(0)
    for link in links:
        way = way.then(Distribution.of_samples(link))
    drawn = sum(rng.choice(link, 200_000) for link in links)
    assert np.quantile(drawn, 0.95) <= way.quantile(0.95) <= 1.06 * np.quantile(drawn, 0.95)


def lognormal(rng: np.random.Generator, size: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return rng.lognormal(2, 0.4, size)


def bimodal(rng: np.random.Generator, size: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.where(rng.random(size) < 0.08, 2.0, 1.0) * rng.normal(10, 0.3, size)


@pytest.mark.parametrize("draw", [lognormal, bimodal])
@pytest.mark.parametrize("hops", [1, 3, 6])
@pytest.mark.parametrize("probes", [25, 100])
def test_what_is_promised_from_few_measurements_is_kept(draw, hops: int, probes: int) -> None:  # type: ignore[no-untyped-def]
    """Over many ways: the share in time of fresh delays is at least what was promised."""
    rng = np.random.default_rng([hops, probes])
    shares = []
    for _ in range(120):
        way = Distribution.exactly(0)
        for _ in range(hops):
            way = way.then(Distribution.of_samples(draw(rng, probes)))
        fresh = sum(draw(rng, 500) for _ in range(hops))
        shares.append(np.mean(fresh <= way.quantile(0.95)))
    assert np.mean(shares) >= 0.95 - 2 * np.std(shares) / math.sqrt(len(shares))


def test_few_measurements_promise_little() -> None:
    once = Distribution.of_samples([10.0])
    assert once.within(10) == 0.5 and once.quantile(0.95) == 30
    assert Distribution.of_samples([10.0] * 19).quantile(0.95) == 10


def test_what_is_never_reached_has_no_quantile() -> None:
    found = Distribution(np.array([1.0]), np.array([0.6]))
    assert found.quantile(0.6) == 1 and found.quantile(0.7) == math.inf
    assert found.then(found).within(5) == pytest.approx(0.36)


@pytest.mark.parametrize("samples", [[], [-1.0], [math.nan], [math.inf], ["a"]])
def test_what_is_no_delay_is_refused(samples: list[float]) -> None:
    with pytest.raises(InvalidInputError):
        Distribution.of_samples(samples)
