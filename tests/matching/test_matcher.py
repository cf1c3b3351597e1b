"""The matcher's manners: keys, stale answers, and errors that leave everything as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.matching.agreement import assert_batch_agrees
from tests.matching.worlds import load

from kbn.errors import FilterSyntaxError, InvalidInputError, KbnError, LimitError, UnknownTermError
from kbn.filters import Bag, Constraint, Filter, Notification, Relation, Subscription
from kbn.matching import Matcher
from kbn.matching.invariants import check_invariants
from kbn.matching.matcher import subscriptions_of
from kbn.ontology import Class, Individual, Ontology, Property, Term

ANIMALS = """
:Animal a owl:Class . :Mammal a owl:Class ; rdfs:subClassOf :Animal .
:Cow a owl:Class ; rdfs:subClassOf :Mammal . :Bovine a owl:Class ; owl:equivalentClass :Cow .
:eats a owl:ObjectProperty . :grazes a owl:ObjectProperty ; rdfs:subPropertyOf :eats .
:grass a owl:NamedIndividual . :colleen a owl:NamedIndividual , :Cow ; :grazes :grass .
:bessie a owl:NamedIndividual ; owl:sameAs :colleen .
"""


@pytest.fixture(scope="module")
def animals() -> Ontology:
    return load(ANIMALS)


def term(name: str) -> str:
    return "urn:t#" + name


def cheap(bound: float = 10) -> Filter:
    return Filter([Constraint("price", "<", bound)])


def book() -> Filter:
    return Filter([Constraint("kind", "=", "book")])


# Adding.


def test_a_filter_a_subscription_and_a_text_can_be_added() -> None:
    matcher = Matcher()
    matcher.add(cheap(), "filter")
    matcher.add(Subscription([cheap(), book()]), "subscription")
    matcher.add('price < 10 or kind = "book"', "text")
    assert set(matcher.match({"price": 3})) == {"filter", "subscription", "text"}
    assert set(matcher.match({"kind": "book"})) == {"subscription", "text"}


def test_a_text_is_read_with_the_ontologys_prefixes(animals: Ontology) -> None:
    matcher = Matcher(animals)
    matcher.add("what @> :Mammal", "it")
    assert list(matcher.match({"what": Class(term("Bovine"))})) == ["it"]


def test_the_empty_filter_matches_everything() -> None:
    matcher = Matcher()
    matcher.add(Filter(), "all")
    assert list(matcher.match({})) == ["all"]
    assert list(matcher.match({"anything": 1})) == ["all"]
    matcher.remove("all")
    assert not matcher.match({})


def test_equal_filters_share_a_group() -> None:
    matcher = Matcher()
    for key in range(100):
        matcher.add(cheap(), key)
    assert len(matcher) == 100
    assert matcher.group_count == 1
    matches = matcher.match({"price": 1})
    assert len(matches) == 100
    assert list(matches.groups) == [cheap()]


def test_a_subscription_with_two_hitting_filters_is_reported_once() -> None:
    matcher = Matcher()
    matcher.add(Subscription([cheap(), book()]), "two")
    matcher.add(cheap(), "one")
    matches = matcher.match({"price": 1, "kind": "book"})
    assert sorted(map(str, matches)) == ["one", "two"]
    assert len(matches) == 2
    assert len(matches.groups) == 2


@pytest.mark.parametrize("key", ["a", 1, ("peer", 7), frozenset({1}), 2.5, b"k"])
def test_any_hashable_is_a_key(key: object) -> None:
    matcher = Matcher()
    matcher.add(cheap(), key)
    assert key in matcher
    assert list(matcher.match({"price": 1})) == [key]
    matcher.remove(key)
    assert key not in matcher
    assert len(matcher) == 0


def test_none_is_no_key() -> None:
    matcher = Matcher()
    with pytest.raises(InvalidInputError, match="None is no key"):
        matcher.add(cheap(), None)
    assert len(matcher) == 0


def test_bool_values_never_meet_numbers() -> None:
    matcher = Matcher()
    for key, operand in {"int": 1, "float": 1.0, "bool": True}.items():
        matcher.add(Filter([Constraint("x", "=", operand)]), key)
    assert set(matcher.match({"x": 1})) == {"int", "float"}
    assert set(matcher.match({"x": 1.0})) == {"int", "float"}
    assert set(matcher.match({"x": True})) == {"bool"}
    assert matcher.group_count == 2


# Errors change nothing.


def snapshot_of(matcher: Matcher) -> tuple[object, ...]:
    return (
        len(matcher),
        matcher.group_count,
        {key: matcher.subscription(key) for key in ("one", "two") if key in matcher},
        set(matcher.match({"price": 1, "kind": "book"})),
    )


@pytest.fixture
def two() -> Matcher:
    matcher = Matcher()
    matcher.add(cheap(), "one")
    matcher.add(Subscription([book(), cheap(3)]), "two")
    return matcher


def test_a_key_in_use_is_refused(two: Matcher) -> None:
    before = snapshot_of(two)
    with pytest.raises(InvalidInputError, match="'one'"):
        two.add(book(), "one")
    with pytest.raises(InvalidInputError, match="'one'"):
        two.add_many([(book(), "new"), (book(), "one")])
    with pytest.raises(InvalidInputError, match="'new'"):
        two.add_many([(book(), "new"), (cheap(), "new")])
    assert "new" not in two
    assert snapshot_of(two) == before


def test_an_unknown_key_cannot_be_removed(two: Matcher) -> None:
    before = snapshot_of(two)
    with pytest.raises(InvalidInputError, match="'three'"):
        two.remove("three")
    two.remove("one")
    with pytest.raises(InvalidInputError, match="'one'"):
        two.remove("one")
    with pytest.raises(InvalidInputError, match="'one'"):
        two.subscription("one")
    two.add(cheap(), "one")
    assert snapshot_of(two) == before


@pytest.mark.parametrize("given", [None, 3, b"x = 1", {"x": 1}, [cheap()], Constraint("x", "=", 1)])
def test_what_is_no_subscription_is_refused(two: Matcher, given: object) -> None:
    before = snapshot_of(two)
    with pytest.raises(InvalidInputError):
        two.add(given, "new")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError):
        two.add_many([(cheap(77), "fine"), (given, "new")])  # type: ignore[list-item]
    assert "fine" not in two
    assert snapshot_of(two) == before


def test_an_unhashable_key_is_refused(two: Matcher) -> None:
    before = snapshot_of(two)
    with pytest.raises(InvalidInputError):
        two.add(cheap(), [1])  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError):
        two.add_many([(cheap(), "fine"), (cheap(), {})])  # type: ignore[list-item]
    with pytest.raises(InvalidInputError):
        two.remove([1])  # type: ignore[arg-type]
    assert snapshot_of(two) == before


@pytest.mark.parametrize("pairs", [3, [cheap()], [(cheap(),)], [(cheap(), "a", "b")], None])
def test_add_many_refuses_what_are_no_pairs(two: Matcher, pairs: object) -> None:
    before = snapshot_of(two)
    with pytest.raises(InvalidInputError):
        two.add_many(pairs)  # type: ignore[arg-type]
    assert snapshot_of(two) == before


def test_bad_text_is_refused(two: Matcher) -> None:
    before = snapshot_of(two)
    with pytest.raises(FilterSyntaxError):
        two.add("price <", "new")
    assert snapshot_of(two) == before


@pytest.mark.parametrize(
    "given", [3, "text", None, [("x", 1)], {"x": None}, {1: 2}, {"x": object()}]
)
def test_what_is_no_notification_is_refused(two: Matcher, given: object) -> None:
    with pytest.raises(InvalidInputError):
        two.match(given)  # type: ignore[arg-type]


def test_a_huge_filter_is_refused_and_nothing_added(two: Matcher) -> None:
    before = snapshot_of(two)

    def pairs() -> Iterator[tuple[Filter, str]]:
        yield cheap(5), "fine"
        yield Filter(Constraint(f"x{n}", "=", n) for n in range(300)), "huge"

    with pytest.raises(LimitError):
        two.add_many(pairs())
    assert snapshot_of(two) == before


def test_an_error_from_the_callers_iterator_adds_nothing(two: Matcher) -> None:
    before = snapshot_of(two)

    def pairs() -> Iterator[tuple[Filter, str]]:
        yield cheap(5), "fine"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        two.add_many(pairs())
    assert "fine" not in two
    assert snapshot_of(two) == before
    assert two.add_many([]) == 0
    assert snapshot_of(two) == before


def test_an_unknown_term_is_named_with_the_closest_and_nothing_is_added(animals: Ontology) -> None:
    matcher = Matcher(animals)
    good = Filter([Constraint("what", "@>", Class(term("Mammal")))])
    bad = Filter([Constraint("what", "@>", Class(term("Mamal")))])
    matcher.add(good, "good")
    groups, entries = matcher.group_count, subscriptions_of(matcher).index.groups.entry_count
    with pytest.raises(UnknownTermError, match="Mamal") as caught:
        matcher.add(Subscription([good, bad, Filter([Constraint("y", "=", 1)])]), "bad")
    assert term("Mammal") in caught.value.closest
    middle = [(good, "a"), (Filter([Constraint("z", "=", 1)]), "b"), (bad, "c"), (good, "d")]
    with pytest.raises(UnknownTermError):
        matcher.add_many(middle)
    assert len(matcher) == 1
    assert (matcher.group_count, subscriptions_of(matcher).index.groups.entry_count) == (
        groups,
        entries,
    )
    assert all(key not in matcher for key in ("bad", "a", "b", "c", "d"))
    assert list(matcher.match({"what": Class(term("Cow"))})) == ["good"]
    assert not matcher.match({"y": 1, "z": 1})
    check_invariants(matcher)


@pytest.mark.parametrize(
    "constraint",
    [
        Constraint("x", "@=", Class("urn:t#Nowhere")),
        Constraint("x", "@*", Relation(Property("urn:t#eats"), Individual("urn:t#nobody"))),
        Constraint("x", "@*", Relation(Property("urn:t#drinks"), Individual("urn:t#grass"))),
        Constraint("x", "=", Term("urn:t#nothing")),
        Constraint("x", "#>/@>", Bag(Class("urn:t#Cow"), Class("urn:t#Kow"))),
        Constraint("x", "#</#>", Bag(Bag(Individual("urn:t#nobody")))),
        Constraint("x", "@>", Term("urn:t#grass")),
        Constraint("x", "@>", Property("urn:t#Cow")),
    ],
    ids=str,
)
def test_unknown_terms_are_errors_wherever_they_stand(
    animals: Ontology, constraint: Constraint
) -> None:
    matcher = Matcher(animals)
    with pytest.raises(UnknownTermError):
        matcher.add(Filter([constraint]), "bad")
    assert len(matcher) == matcher.group_count == 0


def test_an_unknown_term_in_a_notification_equals_only_itself(animals: Ontology) -> None:
    matcher = Matcher(animals)
    for operator in ("@>", "@<", "@~", "=", "@!~", "!="):
        matcher.add(Filter([Constraint("x", operator, Class(term("Cow")))]), operator)
    assert set(matcher.match({"x": Class("urn:other")})) == {"@!~", "!="}
    assert set(matcher.match({"x": Term("urn:other")})) == set()


def test_after_a_failed_bulk_load_matching_is_safe() -> None:
    """Tokens made by the failed load are hit by values, and must find room in the kernels."""
    matcher = Matcher()
    matcher.add(Filter([Constraint("x", "=", 0)]), "zero")
    assert list(matcher.match({"x": 0})) == ["zero"]

    def pairs() -> Iterator[tuple[Filter, object]]:
        for number in range(5_000):
            yield Filter([Constraint("x", "=", number), Constraint("y", "<", number)]), number
        yield cheap(), "zero"

    with pytest.raises(InvalidInputError):
        matcher.add_many(pairs())
    # The kernels do not check bounds: what they are given must be large enough.
    for value in (1, 777, 4_999):
        assert list(matcher.match({"x": value, "y": 0})) == []
        hits = subscriptions_of(matcher).index.table.attributes["x"].hits(value)
        assert max(hits, default=-1) < subscriptions_of(matcher).index._stamps.hit_at.shape[0]
    assert_batch_agrees(matcher, [Notification({"x": 4_999, "y": -1})])
    assert len(matcher) == 1


def test_every_error_here_is_a_kbn_error(two: Matcher) -> None:
    with pytest.raises(KbnError):
        two.match_batch("no table")


# Answers.


def test_matches_knows_its_keys(two: Matcher) -> None:
    matches = two.match({"price": 1})
    assert "one" in matches
    assert "two" in matches
    assert "three" not in matches
    assert "one" not in two.match({"kind": "book"})


@pytest.mark.parametrize("change", ["add", "remove", "add_many"])
def test_an_answer_from_before_a_change_says_so(two: Matcher, change: str) -> None:
    matches = two.match({"price": 1})
    kept = list(matches)
    if change == "add":
        two.add(book(), "new")
    elif change == "remove":
        two.remove("one")
    else:
        two.add_many([(book(), "new")])
    for ask in (len, list, lambda m: m.groups, lambda m: "one" in m):
        with pytest.raises(InvalidInputError, match="changed"):
            ask(matches)
    assert sorted(map(str, kept)) == ["one", "two"]


def test_a_refused_change_leaves_answers_valid(two: Matcher) -> None:
    matches = two.match({"price": 1})
    with pytest.raises(InvalidInputError):
        two.add(book(), "one")
    with pytest.raises(InvalidInputError):
        two.remove("three")
    assert len(matches) == 2


def test_groups_are_a_sequence_of_filters(two: Matcher) -> None:
    groups = two.match({"price": 1, "kind": "book"}).groups
    assert len(groups) == 3
    assert set(groups) == {cheap(), cheap(3), book()}
    assert set(groups[:2]) | set(groups[2:]) == set(groups)
    assert groups[-1] in groups
    with pytest.raises(IndexError):
        groups[3]


def test_semantic_operators_reach_through_the_ontology(animals: Ontology) -> None:
    matcher = Matcher(animals)
    matcher.add("who @= :Animal", "isa")
    matcher.add("who @!= :Bovine", "is not a")
    matcher.add("who @* [:eats, :grass]", "eats grass")
    matcher.add("who @~ :colleen", "colleen")
    thing = "http://www.w3.org/2002/07/owl#Thing"
    matcher.add(Filter([Constraint("who", "@=", Class(thing))]), "thing")
    colleen = {"isa", "eats grass", "colleen", "thing"}
    assert set(matcher.match({"who": Individual(term("bessie"))})) == colleen
    assert set(matcher.match({"who": Individual(term("grass"))})) == {"is not a", "thing"}
    assert set(matcher.match({"who": Individual("urn:t#stranger")})) == {"is not a"}


def test_a_matcher_shows_what_its_users_need_and_no_more() -> None:
    shown = {name for name in dir(Matcher()) if not name.startswith("_")}
    named_in_the_design = {"add", "remove", "match", "match_batch", "snapshot", "save", "load"}
    named_in_the_design.add("explain")
    in_bulk = {"add_many", "add_table"}
    for_brokers = {"match_groups", "match_in_parts", "keys_of_groups", "size_of_group", "version"}
    for_brokers |= {"is_renewing", "renew", "unknown_terms"}
    about_itself = {"constant_bytes", "group_count", "memory", "ontology", "subscription"}
    assert shown == named_in_the_design | in_bulk | for_brokers | about_itself
