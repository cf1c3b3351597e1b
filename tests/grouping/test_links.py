"""What peers report of links: both ends count, and lies gain nothing."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from kbn import InvalidInputError
from kbn.grouping import Bound, DelayTree, MeasuredLinks
from kbn.grouping.links import LINKS_MAX


def measured(near: str | None = None, far: str | None = None) -> MeasuredLinks:
    """Six peers, 10 ms each; one may lie that it is near (1 ms) or far (1 s)."""
    links = MeasuredLinks()
    rng = np.random.default_rng(1)
    for one, other in combinations("rabcde", 2):
        for reporter, counterpart in ((one, other), (other, one)):
            true = 0.01 * rng.lognormal(0, 0.05, 60)
            lie = {near: 0.1, far: 100.0}.get(reporter, 1.0)
            links.report(reporter, counterpart, (true * lie).tolist())
    return links


def test_the_later_of_both_ends_counts() -> None:
    honest, lied = measured().between("r", "a"), measured(near="a").between("r", "a")
    assert honest is not None and lied is not None
    assert lied.quantile(0.95) >= 0.009 and lied.quantile(0.5) == pytest.approx(0.01, rel=0.1)
    assert abs(lied.quantile(0.95) - honest.quantile(0.95)) < 0.002


def test_who_claims_to_be_far_is_believed_and_disturbs_nobody() -> None:
    tree = DelayTree(measured(far="a"), "r", slots=2)
    admitted = [tree.join(peer, Bound(0.05), 2).is_admitted for peer in "abcde"]
    assert admitted == [False, True, True, True, True]
    assert all("a" not in tree.path(peer)[:-1] for peer in "bcde")


def test_who_claims_to_be_near_stands_out_and_nobody_else() -> None:
    assert list(measured(near="c").suspects()) == ["c"]
    # Who says far more makes one link of each of the others differ: that is no suspicion yet.
    assert measured().suspects() == measured(far="c").suspects() == {}


def test_one_end_alone_is_believed_until_the_other_speaks() -> None:
    links = MeasuredLinks()
    links.report("a", "b", [0.01] * 30)
    found = links.between("b", "a")
    assert found is not None and found.quantile(0.95) == 0.01
    links.report("b", "a", [0.03] * 30)
    found = links.between("a", "b")
    assert found is not None and found.quantile(0.95) == 0.03


def test_only_the_latest_measurements_count() -> None:
    links = MeasuredLinks(samples_max=20)
    links.report("a", "b", [5.0] * 20)
    links.report("a", "b", [1.0] * 20)
    found = links.between("a", "b")
    assert found is not None and found.quantile(0.95) == 1.0


def test_a_forgotten_peer_has_no_links() -> None:
    links = measured()
    links.forget("a")
    assert links.between("r", "a") is None and not links.known("a")
    assert set(links.known("r")) == set("bcde")
    links.forget("nobody")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.1, 11.0, "1"])
def test_an_impossible_value_is_refused_and_nothing_of_its_report_counts(bad: float) -> None:
    links = MeasuredLinks(value_max=10)
    with pytest.raises(InvalidInputError, match="'a' reports a delay of"):
        links.report("a", "b", [0.1, bad])
    assert links.between("a", "b") is None
    with pytest.raises(InvalidInputError, match="to itself"):
        links.report("a", "a", [0.1])
    with pytest.raises(InvalidInputError):
        MeasuredLinks(value_max=0)


def test_who_floods_is_refused_and_fills_no_memory() -> None:
    links = MeasuredLinks(samples_max=10)
    for number in range(LINKS_MAX):
        links.report("a", number, [0.1])
    with pytest.raises(InvalidInputError, match="'a' reports more than 4096 links"):
        links.report("a", "one more", [0.1])
    assert links.between("a", "one more") is None
    links.report("a", 7, [0.2] * 1000)
    links.report("b", "one more", [0.1])
    found = links.between("a", 7)
    assert found is not None and found.within(0.1) == 0
