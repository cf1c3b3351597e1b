"""A filter through `Encoder` and back through `Decoder` still accepts just what it accepted.

Asked one filter at a time and value by value, where a failure is easiest to read.
"""

from __future__ import annotations

from hypothesis import given, note
from hypothesis import strategies as st
from tests.matching import worlds
from tests.matching.worlds import ATTRIBUTES, World, world_of

from kbn.errors import InvalidInputError
from kbn.filters import Bag, Constraint, Filter, Notification, resolve_terms
from kbn.filters.operators import Operator
from kbn.matching import Matcher
from kbn.ontology import Class, Individual, Ontology, Term


def returned(asked: Filter, ontology: Ontology | None) -> Filter:
    """The filter as the index gives it back."""
    matcher = Matcher(ontology)
    matcher.add(asked, "it")
    (decoded,) = matcher.subscription("it").filters
    return decoded


def assert_exact(asked: Filter, notification: Notification, ontology: Ontology | None) -> None:
    """Matched, and given back, with the oracle's meaning."""
    matcher = Matcher(ontology)
    matcher.add(asked, "it")
    expected = asked.matches(notification, ontology)
    assert ("it" in set(matcher.match(notification))) == expected
    (decoded,) = matcher.subscription("it").filters
    assert decoded.matches(notification, ontology) == expected, f"came back as {decoded}"


def accepted(world: World, asked: Filter) -> bool:
    try:
        resolve_terms(asked, world.ontology)
    except InvalidInputError:
        return False
    return True


@given(world=worlds.worlds, position=worlds.positions)
def test_one_constraint_means_the_same_to_every_value(world: World, position: int) -> None:
    asked = world.filter([position])
    note(str(asked))
    if not accepted(world, asked):
        return
    matcher = Matcher(world.ontology)
    matcher.add(asked, "it")
    (decoded,) = matcher.subscription("it").filters
    (attribute,) = {constraint.attribute for constraint in asked}
    for name in (attribute, "m"):
        for value in world.values[name]:
            notification = Notification({attribute: value})
            expected = asked.matches(notification, world.ontology)
            found = set(matcher.match(notification))
            assert found == ({"it"} if expected else set()), notification
            assert decoded.matches(notification, world.ontology) == expected, notification


@given(world=worlds.worlds, at=worlds.filters, contents=st.lists(worlds.contents, max_size=8))
def test_a_filter_means_the_same_after_a_round_trip(
    world: World, at: list[int], contents: list[list[int | None]]
) -> None:
    asked = world.filter(at)
    if not accepted(world, asked):
        return
    decoded = returned(asked, world.ontology)
    note(f"{asked} came back as {decoded}")
    for positions in contents:
        notification = world.notification(positions)
        assert decoded.matches(notification, world.ontology) == asked.matches(
            notification, world.ontology
        ), notification
    assert returned(decoded, world.ontology) == decoded


@given(world=worlds.worlds, at=worlds.filters)
def test_the_oracle_can_tell_that_what_comes_back_is_no_wider(world: World, at: list[int]) -> None:
    asked = world.filter(at)
    if not accepted(world, asked):
        return
    decoded = returned(asked, world.ontology)
    note(f"{asked} came back as {decoded}")
    assert asked.covers(decoded, world.ontology)
    # Two `#>` on one attribute become one, which the oracle does not see through.
    wanted = [c.attribute for c in asked if c.operator is Operator.SUPER_BAG]
    if len(wanted) == len(set(wanted)):
        assert decoded.covers(asked, world.ontology)


@given(world=worlds.worlds, at=st.permutations(range(6)))
def test_the_order_of_constraints_makes_no_other_group(world: World, at: list[int]) -> None:
    chosen = [world.constraints[p] for p in at]
    matcher = Matcher(world.ontology)
    try:
        matcher.add(Filter(chosen), "one")
    except InvalidInputError:
        return
    matcher.add(Filter(chosen[::-1]), "two")
    assert matcher.group_count == 1


# What the random tests found once, kept as readable cases.


def test_an_inner_sub_bag_needs_distinct_partners() -> None:
    asked = Filter([Constraint("x", "#>/#</<=", Bag(Bag(1, 5)))])
    assert_exact(asked, Notification({"x": Bag(Bag(3, 3))}), None)
    assert_exact(asked, Notification({"x": Bag(Bag(3, 1))}), None)


def test_an_inner_sub_bag_with_a_bare_term_needs_distinct_partners() -> None:
    asked = Filter([Constraint("x", "#>/#<", Bag(Bag(Term("u:a"), 5)))])
    both = Bag(Class("u:a"), Individual("u:a"))
    assert_exact(asked, Notification({"x": Bag(both)}), None)
    assert_exact(asked, Notification({"x": Bag(Bag(Class("u:a"), 5))}), None)


def test_true_in_a_bag_is_not_taken_for_one() -> None:
    asked = Filter([Constraint("x", "#>", Bag(True)), Constraint("x", "#>", Bag(1, 1))])
    assert_exact(asked, Notification({"x": Bag(1, 1)}), None)
    assert_exact(asked, Notification({"x": Bag(1, 1, True)}), None)


def test_a_bare_and_a_stated_term_may_be_the_same_element() -> None:
    asked = Filter(
        [Constraint("x", "#>", Bag(Term("u:a"))), Constraint("x", "#>", Bag(Class("u:a")))]
    )
    assert_exact(asked, Notification({"x": Bag(Class("u:a"))}), None)


def test_numbers_that_differ_only_beyond_a_float_are_told_apart() -> None:
    numbers = [2**53 + k for k in range(-2, 4)] + [2**63 - k for k in (1, 2, 512, 513, 1024, 1025)]
    numbers += [-number for number in numbers] + [-(2**63)]
    values = [*numbers, *map(float, numbers)]
    for operator in ("<", "<=", ">", ">=", "=", "!="):
        matcher = Matcher()
        for key, bound in enumerate(values):
            matcher.add(Filter([Constraint("x", operator, bound)]), key)
        for value in values:
            expected = {
                key
                for key, bound in enumerate(values)
                if Constraint("x", operator, bound).accepts(value)
            }
            assert set(matcher.match({"x": value})) == expected, (operator, value)


def test_contradictory_ranges_accept_nothing_and_come_back_so() -> None:
    asked = Filter([Constraint("x", ">", 3), Constraint("x", "<", 3)])
    for value in (2, 3, 4):
        assert_exact(asked, Notification({"x": value}), None)


def test_the_worlds_have_all_attributes() -> None:
    world = world_of(0)
    assert {constraint.attribute for constraint in world.constraints} == set(ATTRIBUTES)
