"""What proofs of covering cost is counted, and one part of a change spends a bounded amount."""

from __future__ import annotations

from kbn.matching import Poset
from kbn.matching.poset import PROOFS_MAX


def hundred(number: int) -> str:
    return " and ".join(f"k * '{number}x{m}'" for m in range(100))


def test_filters_of_very_many_constraints_are_compared_as_far_as_is_allowed() -> None:
    poset = Poset(in_parts=True)
    before = most = 0
    for number in range(40):
        poset.add(hundred(number), number)
        most = max(most, poset.spent - before)
        before = poset.spent
    assert len(poset.roots) == 40
    # One comparison more than is allowed may have been begun.
    assert PROOFS_MAX / 4 < most <= PROOFS_MAX + 1_000
    while poset.has_more:
        poset.go_on()
    poset.remove(0)
    assert len(poset) == 39


def test_large_bags_cost_what_they_have_elements() -> None:
    def spent(elements: int) -> int:
        poset = Poset(in_parts=True)
        for shift in range(2):
            bag = ", ".join(f"'{n + shift}'" for n in range(elements))
            poset.add(f"b #>/* {{{bag}}}", shift)
        return poset.spent

    assert spent(100) > 20 * spent(10) > 0


def test_a_proof_that_was_given_up_keeps_both_among_the_roots() -> None:
    poset = Poset(in_parts=True)
    for number in range(40):
        poset.add(hundred(number), number)
    wide = "k any"
    poset.add(wide, "wide")
    while poset.has_more:
        poset.go_on()
    assert wide in [str(root) for root in poset.roots]
