"""The worked examples, the rulings and the covering table of the semantics page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from itertools import combinations, product

import pytest
from tests.examples.worlds import plain, world

from kbn.errors import InvalidInputError, LimitError, UnknownTermError
from kbn.filters import Bag, Notification, Subscription
from kbn.ontology import Class, Individual

UNKNOWN = "https://kbn.example/ontology/nowhere#Thing"


# Values


def test_whole_and_broken_numbers_compare_and_truth_is_no_number() -> None:
    """Values: int and float compare; bool is not a number."""
    assert plain().matches("x = 2", x=2.0)
    assert plain().matches("x < 2.5", x=2)
    assert not plain().matches("x = 1", x=True)
    assert not plain().matches("x < 2", x=True)


def test_strings_order_by_code_point() -> None:
    """Values: upper case before lower case, and ä after z."""
    assert plain().matches('x < "a"', x="Z")
    assert plain().matches('x > "z"', x="ä")


def test_not_a_number_is_rejected_when_a_value_is_made() -> None:
    """Values: NaN."""
    with pytest.raises(InvalidInputError):
        Notification({"x": float("nan")})


def test_times_need_a_zone_and_compare_as_instants() -> None:
    """Values: a datetime has a time zone."""
    noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    same = noon.astimezone(timezone(timedelta(hours=1)))
    assert plain().matches("t = 2026-11-15T12:00:00Z", t=same)
    assert plain().matches("t < 2026-11-15T12:00:01Z", t=noon)
    with pytest.raises(InvalidInputError):
        Notification({"t": datetime(2026, 11, 15, 12)})


def test_a_bag_keeps_multiplicity_and_mixes_types() -> None:
    """Values: {1,1,2} is not {1,2}; any values, other bags too."""
    assert Bag(1, 1, 2) != Bag(1, 2)
    assert plain().matches('x #= {"a", 1, {true}}', x=Bag(Bag(True), "a", 1))


def test_an_iri_is_written_in_full_or_with_a_prefix() -> None:
    """Values: `<http://…#Wine>` and `wine:Wine`."""
    drinks = world("drinks")
    full = f"x @> <{drinks.iri('drinks:Wine')}>"
    assert drinks.subscription(full) == drinks.subscription("x @> drinks:Wine")


# Operators


@pytest.mark.parametrize(
    "text", ["x any", "x = 1", "x != 1", "x < 1", 'x * "a"', "x @> animals:Dogs", "x #> {}"]
)
def test_a_constraint_on_an_absent_attribute_is_false(text: str) -> None:
    """Operators: false, never an error."""
    assert not world("animals").matches(text, y=1)


@pytest.mark.parametrize(
    "text",
    [
        "x < 1",
        'x >* "a"',
        "x @> animals:Dogs",
        "x @!~ animals:Dogs",
        "x @= animals:Dogs",
        "x @!= animals:Dogs",
        "x @* [animals:eats, animals:Grass]",
        "x #> {}",
        "x #</< {1}",
    ],
)
def test_a_constraint_on_a_value_of_another_type_is_false(text: str) -> None:
    """Operators: also for the negative ones."""
    assert not world("animals").matches(text, x=True)


def test_equality_and_inequality_stay_within_a_family_of_types() -> None:
    """Operators: `=` and `!=`, same type family."""
    assert not plain().matches("x = 3", x="3")
    assert not plain().matches("x != 3", x="4")
    assert plain().matches("x != 3", x=4)


def test_more_and_less_specific_hold_for_properties() -> None:
    """Operators: `@>` and `@<` on two properties."""
    events = world("events")
    assert events.matches("p @> events:locatedIn", p=events.a_property("events:mountedIn"))
    assert events.matches("p @< events:mountedIn", p=events.a_property("events:locatedIn"))
    assert not events.matches("p @> events:mountedIn", p=events.a_property("events:locatedIn"))


def test_equivalence_of_individuals_is_same_as() -> None:
    """Operators: `@~` on two individuals."""
    events = world("events")
    assert events.matches("x @~ events:CoreRouter", x=events.individual("events:Gateway"))
    assert not events.matches("x @~ events:CoreRouter", x=events.individual("events:EdgeSwitch"))


@pytest.mark.parametrize(
    ("subject", "relation"),
    [
        ("CoreRouter", "mountedIn, events:Rack1"),
        ("CoreRouter", "locatedIn, events:Rack1"),
        ("CoreRouter", "locatedIn, events:Ireland"),
        ("Gateway", "locatedIn, events:Dublin"),
        ("Dublin", "contains, events:MailServer"),
        ("EdgeSwitch", "connectedTo, events:CoreRouter"),
        ("EdgeSwitch", "connectedTo, events:Gateway"),
        ("RouterPowerLoss", "causes, events:MailOutage"),
    ],
)
def test_a_property_is_entailed(subject: str, relation: str) -> None:
    """Operators: `@*` through subproperties, transitivity, sameAs, inverses and symmetry."""
    events = world("events")
    text = f"x @* [events:{relation}]"
    assert events.matches(text, x=events.individual(f"events:{subject}"))


@pytest.mark.parametrize(
    ("subject", "relation"),
    [
        ("GalwayRouter", "locatedIn, events:Dublin"),
        ("CoreRouter", "mountedIn, events:MachineRoom"),
        ("MailServer", "connectedTo, events:CoreRouter"),
        ("MailOutage", "causes, events:RouterPowerLoss"),
    ],
)
def test_a_property_is_not_entailed(subject: str, relation: str) -> None:
    """Operators: `@*`, what does not follow."""
    events = world("events")
    text = f"x @* [events:{relation}]"
    assert not events.matches(text, x=events.individual(f"events:{subject}"))


SPELLINGS = [
    ("any", "exists", ""),
    ("=", "eq", "1"),
    ("!=", "ne", "1"),
    ("<", "lt", "1"),
    ("<=", "le", "1"),
    (">", "gt", "1"),
    (">=", "ge", "1"),
    (">*", "prefix", '"a"'),
    ("*<", "suffix", '"a"'),
    ("*", "contains", '"a"'),
    ("*>", "in", '"a"'),
    ("@~", "equiv", "events:Alert"),
    ("@!~", "not_equiv", "events:Alert"),
    ("@>", "more_specific", "events:Alert"),
    ("@<", "less_specific", "events:Alert"),
    ("@=", "isa", "events:Alert"),
    ("@!=", "is_not_a", "events:Alert"),
    ("@*", "ont_prop", "[events:locatedIn, events:Dublin]"),
    ("#=", "equal_bag", "{1}"),
    ("#<", "sub_bag", "{1}"),
    ("#>", "super_bag", "{1}"),
    ("#=/@<", "equal_bag/less_specific", "{events:Alert}"),
    ("#</<", "sub_bag/lt", "{1}"),
    ("#>/#</<", "super_bag/sub_bag/lt", "{{1}}"),
]


@pytest.mark.parametrize(("symbol", "word", "operand"), SPELLINGS)
def test_a_word_means_the_same_as_its_symbol(symbol: str, word: str, operand: str) -> None:
    """Operators: every operator has a symbol and a word, composites too."""
    events = world("events")
    assert events.subscription(f"x {symbol} {operand}") == events.subscription(
        f"x {word} {operand}"
    )


# Rulings


def test_the_strict_reading_of_more_specific_is_two_constraints() -> None:
    """Rulings: `x @> v and x @!~ v`."""
    animals = world("animals")
    strict = "x @> animals:Human and x @!~ animals:Human"
    assert not animals.matches(strict, x=animals.a_class("animals:Human"))
    assert not animals.matches(strict, x=animals.a_class("animals:Person"))
    assert animals.matches(
        "x @> animals:Dogs and x @!~ animals:Dogs", x=animals.a_class("animals:JackRussell")
    )


def test_is_not_a_is_negation_as_failure() -> None:
    """Rulings: nothing says that John is no cat; he is not entailed to be one."""
    animals = world("animals")
    assert animals.matches("x @!= animals:Cats", x=animals.individual("animals:John"))


def test_an_unknown_term_in_a_subscription_is_an_error_that_names_the_nearest() -> None:
    """Rulings: the message names the term and what was perhaps meant."""
    with pytest.raises(UnknownTermError) as caught:
        world("animals").subscription("x @> animals:Doggs")
    assert caught.value.term.endswith("#Doggs")
    assert any(name.endswith("Dogs") for name in caught.value.closest)


def test_an_unknown_term_in_a_publication_equals_only_itself() -> None:
    """Rulings: a broker keeps what it cannot interpret."""
    animals = world("animals")
    stranger = Class(UNKNOWN)
    assert not animals.matches("x @> animals:Animal", x=stranger)
    assert not animals.matches("x @~ animals:Animal", x=stranger)
    assert animals.matches("x @!~ animals:Animal", x=stranger)
    assert animals.matches("x @!= animals:Animal", x=Individual(UNKNOWN))
    assert Subscription.parse(f"x @~ <{UNKNOWN}>").matches(
        Notification({"x": stranger}), animals.ontology
    )


# Filters and subscriptions


def test_two_constraints_on_one_attribute_both_apply_to_its_value() -> None:
    """Filters: a conjunction."""
    assert plain().matches("x > 3 and x < 5", x=4)
    assert not plain().matches("x > 3 and x < 5", x=6)


def test_a_disjunction_is_several_filters() -> None:
    """Filters: `or`, `||`, `and`, `&&` and parentheses are normalised."""
    one = plain().subscription("(a = 1 or b = 2) and c = 3")
    assert len(one.filters) == 2
    assert one == plain().subscription("a = 1 && c = 3 || b = 2 && c = 3")


def test_negation_is_pushed_into_the_operators_and_keeps_the_attribute_present() -> None:
    """Filters: `not (x < 3)` is `x >= 3`."""
    assert plain().subscription("not (x < 3)") == plain().subscription("x >= 3")
    assert plain().subscription("!(a = 1 and b = 2)") == plain().subscription("a != 1 or b != 2")
    assert not plain().matches("not (x < 3)", y=1)


def test_a_normal_form_that_grows_too_large_is_an_error() -> None:
    """Filters: 2048 filters from eleven alternatives of two are past the limit."""
    text = " and ".join(f"(a{number} = 1 or b{number} = 1)" for number in range(11))
    with pytest.raises(LimitError):
        plain().subscription(text)


def test_the_first_example_in_the_text_language() -> None:
    """Filters: a podcast about technology, with keywords, shorter than an hour."""
    podcast = world("podcast")
    text = (
        'category #>/@> {podcast:Technology} and keywords #> {"python", "spark"} '
        "and duration < 3600"
    )
    sent: dict[str, object] = {
        "category": podcast.classes("podcast:TechNews", "podcast:Training"),
        "keywords": Bag("spark", "python", "data"),
    }
    assert podcast.matches(text, duration=1800, **sent)
    assert not podcast.matches(text, duration=7200, **sent)


def test_the_second_example_in_the_text_language() -> None:
    """Filters: an alert about something in Dublin that is not merely information."""
    events = world("events")
    prefixes = {"cim": events.iri("events:"), "net": events.iri("events:")}
    text = 'alarm @= cim:Alert and source @* [net:locatedIn, net:Dublin] and not severity = "info"'
    wanted = Subscription.parse(text, prefixes=prefixes, ontology=events.ontology)
    sent: dict[str, object] = {
        "alarm": events.individual("events:EdgeLinkDown"),
        "source": events.individual("events:EdgeSwitch"),
        "severity": "critical",
    }
    elsewhere = {**sent, "source": events.individual("events:GalwayRouter")}
    assert wanted.matches(Notification(sent), events.ontology)
    assert not wanted.matches(Notification({**sent, "severity": "info"}), events.ontology)
    assert not wanted.matches(Notification(elsewhere), events.ontology)


# Covering: every row of the table, once where it holds and once where it does not

ROWS = [
    ("@> by @>", "x @> animals:Animal", "x @> animals:Cats", True),
    ("@> by @>", "x @> animals:Cats", "x @> animals:Animal", False),
    ("@> by @~", "x @> animals:Animal", "x @~ animals:Cats", True),
    ("@> by @~", "x @> animals:Cats", "x @~ animals:Dogs", False),
    ("@< by @<", "x @< animals:Burmese", "x @< animals:Cats", True),
    ("@< by @<", "x @< animals:Cats", "x @< animals:Burmese", False),
    ("@< by @~", "x @< animals:Burmese", "x @~ animals:Cats", True),
    ("@< by @~", "x @< animals:Cats", "x @~ animals:Burmese", False),
    ("@~ by @~", "x @~ animals:Human", "x @~ animals:Person", True),
    ("@~ by @~", "x @~ animals:Human", "x @~ animals:Mammal", False),
    ("@!~ by @!~", "x @!~ animals:Human", "x @!~ animals:Person", True),
    ("@!~ by @!~", "x @!~ animals:Human", "x @!~ animals:Cow", False),
    ("@!~ by @~", "x @!~ animals:Human", "x @~ animals:Cow", True),
    ("@!~ by @~", "x @!~ animals:Human", "x @~ animals:Person", False),
    ("@!~ by @>", "x @!~ animals:Animal", "x @> animals:Dogs", True),
    ("@!~ by @>", "x @!~ animals:JackRussell", "x @> animals:Dogs", False),
    ("@!~ by @<", "x @!~ animals:JackRussell", "x @< animals:Dogs", True),
    ("@!~ by @<", "x @!~ animals:Animal", "x @< animals:Dogs", False),
    ("@= by @=", "x @= animals:Animal", "x @= animals:Cats", True),
    ("@= by @=", "x @= animals:Cats", "x @= animals:Animal", False),
    ("@= by @=", "x @= animals:Human", "x @= animals:Person", True),
    ("@!= by @!=", "x @!= animals:Cats", "x @!= animals:Animal", True),
    ("@!= by @!=", "x @!= animals:Animal", "x @!= animals:Cats", False),
    ("@!= by @=", "x @!= animals:Cats", "x @= animals:JackRussell", True),
    ("@!= by @=", "x @!= animals:Cats", "x @= animals:Cow", False),
    (
        "@* by @*",
        "x @* [events:locatedIn, events:Rack1]",
        "x @* [events:mountedIn, events:Rack1]",
        True,
    ),
    (
        "@* by @*",
        "x @* [events:mountedIn, events:Rack1]",
        "x @* [events:locatedIn, events:Rack1]",
        False,
    ),
    (
        "@* by @*",
        "x @* [events:connectedTo, events:Gateway]",
        "x @* [events:connectedTo, events:CoreRouter]",
        True,
    ),
    (
        "@* by @*",
        "x @* [events:connectedTo, events:Gateway]",
        "x @* [events:connectedTo, events:EdgeSwitch]",
        False,
    ),
    ("#> by #>", "x #> {1, 2}", "x #> {2, 1, 3}", True),
    ("#> by #>", "x #> {1, 1}", "x #> {1, 2}", False),
    ("#> by #=", "x #>/< {5}", "x #= {4, 9}", True),
    ("#>/λ by #>/μ", "x #>/@> {animals:Animal}", "x #>/@> {animals:Dogs, animals:Cats}", True),
    ("#>/λ by #>/μ", "x #>/@> {animals:Dogs, animals:Dogs}", "x #>/@> {animals:Dogs}", False),
    ("#< by #<", "x #< {1, 2, 3}", "x #< {3, 1}", True),
    ("#< by #<", "x #< {3, 1}", "x #< {1, 2, 3}", False),
    ("#</λ by #=/μ", "x #</@> {animals:Animal, animals:Food}", "x #=/@> {animals:Dogs}", True),
    ("#=/λ by #=/μ", "x #=/< {5, 9}", "x #=/< {4, 8}", True),
    ("#=/λ by #=/μ", "x #=/< {5, 9}", "x #=/< {4}", False),
    ("order", "x < 20", "x < 10", True),
    ("order", "x < 10", "x < 20", False),
    ("order", "x <= 10", "x < 10", True),
    ("order", "x > 3", "x = 4", True),
    ("contains by prefix", 'x * "ab"', 'x >* "xab"', True),
    ("contains by prefix", 'x * "ab"', 'x >* "xa"', False),
    ("contains by suffix", 'x * "ab"', 'x *< "abx"', True),
    ("prefix by prefix", 'x >* "a"', 'x >* "ab"', True),
    ("suffix by suffix", 'x *< "b"', 'x *< "ab"', True),
    ("!= by order", "x != 3", "x > 5", True),
    ("!= by order", "x != 7", "x > 5", False),
    ("!= by !=", "x != 3", "x != 3", True),
    ("any by anything", "x any", "x > 5", True),
    ("any by anything", "x any", "x @> animals:Dogs", True),
    ("any by another attribute", "x any", "y > 5", False),
]


@pytest.mark.parametrize(("row", "wider", "narrower", "expected"), ROWS)
def test_a_row_of_the_covering_table(row: str, wider: str, narrower: str, expected: bool) -> None:
    """Covering: implied, by, when."""
    name = "events" if "events:" in wider else "animals"
    assert world(name).covers(wider, narrower) is expected, row


@cache
def some_values(name: str) -> list[object]:
    """Every term of the ontology, an unknown one, numbers, strings, and small bags."""
    ontology = world(name).ontology
    classes = [Class(iri) for iri in (*ontology.classes, UNKNOWN)]
    individuals = [Individual(iri) for iri in (*ontology.individuals, UNKNOWN)]
    numbers = list(range(11))
    strings = ["".join(letters) for letters in product("abx", repeat=4)]
    inside = [*numbers, *classes[:8]]
    bags = [Bag(*chosen) for size in range(4) for chosen in combinations(inside, size)]
    doubles = [Bag(one, one) for one in inside]
    return [*classes, *individuals, *numbers, *strings, *bags, *doubles]


@pytest.mark.parametrize(
    ("wider", "narrower"), [(wider, narrower) for _, wider, narrower, holds in ROWS if holds]
)
def test_what_the_covered_filter_matches_the_covering_one_matches(
    wider: str, narrower: str
) -> None:
    """Covering: sound, checked value by value."""
    name = "events" if "events:" in wider else "animals"
    outer, inner = world(name).subscription(wider), world(name).subscription(narrower)
    sent = [Notification({"x": value}) for value in some_values(name)]
    received = [one for one in sent if inner.matches(one, world(name).ontology)]
    assert all(outer.matches(one, world(name).ontology) for one in received)


def test_mutual_covering_means_equivalent_filters() -> None:
    """Covering: such filters merge into one entry; a filter covers itself."""
    animals = world("animals")
    one, other = "x @= animals:Human and y < 3", "x @= animals:Person and y < 3.0"
    assert animals.covers(one, other)
    assert animals.covers(other, one)
    assert animals.covers(one, one)


# Worked examples that must hold


@pytest.mark.java
def test_dry_wine_is_table_wine_by_description_logic() -> None:
    """Worked examples, wine; on our own drinks."""
    drinks = world("drinks", "dl")
    assert drinks.matches("x @~ drinks:TableWine", x=drinks.a_class("drinks:DryWine"))
    assert drinks.matches("x @~ drinks:SoftDrink", x=drinks.a_class("drinks:AlcoholFreeDrink"))
    assert drinks.matches("x @= drinks:TableWine", x=drinks.individual("drinks:SummerWhite"))


def test_red_burgundy_is_between_burgundy_and_cotes_d_or() -> None:
    """Worked examples, wine."""
    drinks = world("drinks")
    text = "x @> drinks:Burgundy and x @< drinks:CotesDOr"
    assert drinks.matches(text, x=drinks.a_class("drinks:RedBurgundy"))


def test_each_number_is_less_than_its_partner() -> None:
    """Worked examples: {1,2,3} #=/< {2,3,4}."""
    assert plain().matches("x #=/< {2, 3, 4}", x=Bag(1, 2, 3))


def test_each_string_is_part_of_its_partner() -> None:
    """Worked examples: {ood, boo} below {a, good, book}, written with `in` or `*>`."""
    assert plain().matches('x #</in {"a", "good", "book"}', x=Bag("ood", "boo"))
    assert plain().matches('x #</*> {"a", "good", "book"}', x=Bag("ood", "boo"))
    assert not plain().matches('x #</* {"a", "good", "book"}', x=Bag("ood", "boo"))


def test_bags_in_bags_by_less_than() -> None:
    """Worked examples: V #</#</< W."""
    v = Bag(Bag(), Bag(0, 0), Bag(1, 2, 3, 4))
    assert plain().matches("v #</#</< {{8}, {0}, {1, 1, 1}, {2, 3, 4, 5, 6}}", v=v)


def test_john_is_human_and_mammal_and_no_cow() -> None:
    """Worked examples: person ≡ human ⊑ mammal."""
    animals = world("animals")
    john = animals.individual("animals:John")
    assert animals.matches("x @= animals:Human", x=john)
    assert animals.matches("x @= animals:Mammal", x=john)
    assert animals.matches("x @!= animals:Cow", x=john)


def test_colleen_eats_grass() -> None:
    """Worked examples: `y @* [eats, grass]`."""
    animals = world("animals")
    text = "y @* [animals:eats, animals:Grass]"
    assert animals.matches(text, y=animals.individual("animals:Colleen"))


def test_service_discovery() -> None:
    """Worked examples: `inputs #</@< {available…} and outputs #>/@> {required…}`."""
    services = world("services")
    text = "inputs #</@< {services:StreetAddress} and outputs #>/@> {services:Location}"
    inputs = services.classes("services:Address")
    assert services.matches(text, inputs=inputs, outputs=services.classes("services:Coordinates"))
    assert not services.matches(text, inputs=inputs, outputs=services.classes("services:Map"))


def test_podcast_with_required_and_with_suggested_categories() -> None:
    """Worked examples: `#>/@>` for required, `#</@>` for suggested categories."""
    podcast = world("podcast")
    sent: dict[str, object] = {
        "keywords": Bag("linux", "news"),
        "category": podcast.classes("podcast:TechNews", "podcast:Music"),
    }
    required = 'keywords #> {"linux"} and category #>/@> {podcast:Technology}'
    suggested = 'keywords #> {"linux"} and category #</@> {podcast:Technology, podcast:Music}'
    assert podcast.matches(required, **sent)
    assert podcast.matches(suggested, **sent)
    only = 'keywords #> {"linux"} and category #</@> {podcast:Technology}'
    assert not podcast.matches(only, **sent)


def test_is_contained_in_is_the_inverse_of_contains() -> None:
    """Worked examples, the note on `in`."""
    assert plain().matches('x in "good"', x="ood")
    assert plain().matches('x * "ood"', x="good")
    assert not plain().matches('x in "ood"', x="good")
