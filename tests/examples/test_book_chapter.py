"""The worked examples of the book chapter on knowledge-based networking.

Its reading of more and less specific (equivalents and the class itself included) is the one kept.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from tests.examples.worlds import plain, with_axioms, world

from kbn.filters import Bag
from kbn.ontology import Class, Individual, Property

BOOK = Bag("b", "o", "o", "k")
GOOD = Bag("g", "o", "o", "d")


# The semantic extension


def test_white_wine_is_more_specific_than_wine() -> None:
    """The semantic extension: wine is the superclass of white wine."""
    drinks = world("drinks")
    assert drinks.matches("x @> drinks:Wine", x=drinks.a_class("drinks:WhiteWine"))
    assert drinks.matches("x @< drinks:WhiteWine", x=drinks.a_class("drinks:Wine"))


def test_more_specific_takes_the_class_its_equivalents_and_what_is_below() -> None:
    """The semantic extension: interest in E, its equivalents and its specialisations."""
    animals = world("animals")
    text = "x @> animals:Human"
    assert animals.matches(text, x=animals.a_class("animals:Human"))
    assert animals.matches(text, x=animals.a_class("animals:Person"))
    assert animals.matches("x @> animals:Mammal", x=animals.a_class("animals:Person"))
    assert not animals.matches(text, x=animals.a_class("animals:Mammal"))


@pytest.mark.parametrize("name", ["Person", "Human", "Mammal"])
def test_john_is_a_person_a_human_and_a_mammal(name: str) -> None:
    """ISA: John is an individual of person; person ≡ human ⊑ mammal."""
    animals = world("animals")
    assert animals.matches(f"x @= animals:{name}", x=animals.individual("animals:John"))


def test_john_is_not_a_cow() -> None:
    """IS_NOT_A: cow is below mammal, and John is in no cow."""
    animals = world("animals")
    assert animals.matches("x @!= animals:Cow", x=animals.individual("animals:John"))
    assert not animals.matches("x @= animals:Cow", x=animals.individual("animals:John"))


@pytest.mark.parametrize("name", ["Person", "Human", "Mammal"])
def test_is_not_a_rejects_what_john_is(name: str) -> None:
    """IS_NOT_A: all classes but those of John, their equivalents and superclasses."""
    animals = world("animals")
    assert not animals.matches(f"x @!= animals:{name}", x=animals.individual("animals:John"))


def test_the_subsumption_operators_do_not_compare_an_individual_with_a_class() -> None:
    """ISA: the other operators compare classes with classes, individuals with individuals."""
    animals = world("animals")
    john = animals.individual("animals:John")
    for operator in ("@~", "@>", "@<"):
        assert not animals.matches(f"x {operator} class(animals:Human)", x=john)


def test_colleen_eats_grass() -> None:
    """ONTPROP: eats relates Colleen, a cow, to grass, a food."""
    animals = world("animals")
    text = "y @* [animals:eats, animals:Grass]"
    assert animals.matches(text, y=animals.individual("animals:Colleen"))
    assert not animals.matches(text, y=animals.individual("animals:John"))
    assert not animals.matches(
        "y @* [animals:eats, animals:Bread]", y=animals.individual("animals:Colleen")
    )


def test_not_equivalent_is_the_opposite_of_equivalent_for_each_kind_of_term() -> None:
    """NOT_EQUIV: classes with classes, properties with properties, individuals with individuals."""
    animals, events = world("animals"), world("events")
    assert animals.matches("x @!~ animals:Cow", x=animals.a_class("animals:Human"))
    assert not animals.matches("x @!~ animals:Person", x=animals.a_class("animals:Human"))
    assert animals.matches("x @!~ animals:eats", x=animals.a_property("animals:chases"))
    assert not animals.matches("x @!~ animals:eats", x=animals.a_property("animals:eats"))
    assert events.matches("x @!~ events:EdgeSwitch", x=events.individual("events:CoreRouter"))
    assert not events.matches("x @!~ events:Gateway", x=events.individual("events:CoreRouter"))


def test_not_equivalent_does_not_compare_different_kinds_of_terms() -> None:
    """NOT_EQUIV: a class is neither equivalent nor not equivalent to an individual."""
    animals = world("animals")
    text = "x @!~ class(animals:Cow)"
    assert not animals.matches(text, x=animals.individual("animals:Colleen"))
    assert not animals.matches(text, x=animals.a_property("animals:eats"))
    assert not animals.matches(text, x="Cow")


# The bag extension


def test_bags_ignore_order_and_keep_multiplicity() -> None:
    """The bag extension: {1,2,3} is {2,1,3}, and {1,1,2,3} is not {1,2,3}."""
    assert Bag(1, 2, 3) == Bag(2, 1, 3)
    assert Bag(1, 1, 2, 3) != Bag(1, 2, 3)


@pytest.mark.parametrize(
    "bag",
    [
        Bag(3, 345, 27, 35, 3476, 0, 27, 27),
        Bag("Ljubljana", 2, "Ljubljana", 3.14159),
        Bag("Ljubljana", "Vienna", "Amsterdam", "Dublin"),
    ],
)
def test_bags_of_one_or_of_several_types_are_values(bag: Bag) -> None:
    """The bag extension, its three sample bags."""
    written = ", ".join(f'"{item}"' if isinstance(item, str) else str(item) for item in bag)
    assert plain().matches(f"x #= {{{written}}}", x=bag)
    assert plain().matches("x any", x=bag)


def test_book_spelt_in_another_order_is_an_equal_bag() -> None:
    """Simple bag operators: {b,o,o,k} equals {b,o,k,o} and not {b,o,k}."""
    text = 'x #= {"b", "o", "k", "o"}'
    assert plain().matches(text, x=BOOK)
    assert not plain().matches(text, x=Bag("b", "o", "k"))


def test_a_sub_bag_has_no_element_more_often() -> None:
    """Simple bag operators: {b,o,k} ⊆ {b,o,o,k}; {b,o,w} is no sub-bag."""
    text = 'x #< {"b", "o", "o", "k"}'
    assert plain().matches(text, x=Bag("b", "o", "k"))
    assert not plain().matches(text, x=Bag("b", "o", "w"))
    assert not plain().matches(text, x=Bag("o", "o", "o"))


SOME_BAGS = ["{}", "{1}", "{1, 1}", "{1, 2}", "{2, 1}", "{1, 2, 3}", "{1, 1, 2}"]


def as_bag(text: str) -> Bag:
    return Bag(*(int(number) for number in text.strip("{}").split(", ") if number))


@pytest.mark.parametrize(("a", "b"), list(product(SOME_BAGS, repeat=2)))
def test_equal_means_sub_bag_both_ways_and_super_bag_is_the_inverse(a: str, b: str) -> None:
    """Simple bag operators: A = B exactly when A ⊆ B and B ⊆ A; A ⊇ B exactly when B ⊆ A."""
    ask = plain().matches
    sub_ab, sub_ba = ask(f"x #< {b}", x=as_bag(a)), ask(f"x #< {a}", x=as_bag(b))
    assert ask(f"x #= {b}", x=as_bag(a)) == (sub_ab and sub_ba)
    assert ask(f"x #> {b}", x=as_bag(a)) == sub_ba


@pytest.mark.parametrize("operator", ["#=", "#<", "#>", "#</<=", "#>/<=", "#=/<="])
def test_bag_relations_are_reflexive_and_transitive_when_their_elements_are(operator: str) -> None:
    """Simple and composite bag operators: Φ always, Φ_λ whenever λ is."""
    bags = [as_bag(text) for text in SOME_BAGS]
    related = {
        (i, j)
        for (i, a), (j, text) in product(enumerate(bags), enumerate(SOME_BAGS))
        if plain().matches(f"x {operator} {text}", x=a)
    }
    assert all((i, i) in related for i in range(len(bags)))
    assert all((i, k) in related for i, j in related for m, k in related if j == m)


def test_the_example_of_bags_in_a_bag_needs_a_composite() -> None:
    """Simple bag operators: {{g,o,o,d},{b,o,o,k}} against {{b,k},{o,o}}.

    The chapter writes plain ⊇, but no element of the first bag equals {b,k}; it holds when the
    elements are compared by ⊇ as well, which the semantics page writes `#>/#>`.
    """
    inner = '{{"b", "k"}, {"o", "o"}}'
    assert not plain().matches(f"x #> {inner}", x=Bag(GOOD, BOOK))
    assert plain().matches(f"x #>/#> {inner}", x=Bag(GOOD, BOOK))


def test_a_sub_bag_filter_draws_values_from_a_list() -> None:
    """Simple bag operators: keywords out of a bag of possible values; a disjunction of values."""
    text = 'keywords #< {"linux", "kernel", "code"}'
    assert plain().matches(text, keywords=Bag("code"))
    assert plain().matches(text, keywords=Bag("code", "linux"))
    assert not plain().matches(text, keywords=Bag("code", "music"))


# Composite bag operators


def test_the_default_element_relation_is_equality() -> None:
    """Composite bag operators: {1,1,2,3,4} ⊇ {2,4,3}, and Φ is Φ with =."""
    text, same = "x #> {2, 4, 3}", "x #>/= {2, 4, 3}"
    assert plain().matches(text, x=Bag(1, 1, 2, 3, 4))
    assert plain().subscription(text) == plain().subscription(same)


def test_less_than_between_the_elements_of_equal_bags() -> None:
    """Composite bag operators: {1,2,3} and {2,3,4} are equal bags under <; nothing is left over."""
    assert plain().matches("x #=/< {2, 3, 4}", x=Bag(1, 2, 3))
    assert not plain().matches("x #=/< {2, 3, 4}", x=Bag(1, 2, 3, 3))
    assert not plain().matches("x #=/< {2, 3, 4}", x=Bag(1, 3, 3))


def test_substrings_of_the_elements_of_a_larger_bag() -> None:
    """Composite bag operators: {ood, boo} in {a, good, book} by "is a substring of"."""
    text = 'x #</in {"a", "good", "book"}'
    assert plain().matches(text, x=Bag("ood", "boo"))
    assert not plain().matches(text, x=Bag("ood", "oo", "boo", "a"))
    assert not plain().matches(text, x=Bag("ood", "ook", "boo"))


def test_the_subscriber_gives_the_substrings_and_asks_for_a_larger_bag() -> None:
    """Composite bag operators, the opening example: the strings wanted are parts of those sent."""
    text = 'x #>/* {"ood", "boo"}'
    assert plain().matches(text, x=Bag("a", "good", "book"))
    assert not plain().matches(text, x=Bag("a", "good", "look"))


@pytest.mark.parametrize(("a", "b"), list(product(SOME_BAGS, repeat=2)))
def test_a_sub_bag_by_greater_is_a_super_bag_by_less_backwards(a: str, b: str) -> None:
    """Composite bag operators: A ⊆_> B exactly when B ⊇_< A."""
    assert plain().matches(f"x #</> {b}", x=as_bag(a)) == plain().matches(
        f"x #>/< {a}", x=as_bag(b)
    )


def test_a_composite_inside_a_composite() -> None:
    """Composite bag operators: V = {{},{0,0},{1,2,3,4}}, W = {{8},{0},{1,1,1},{2,3,4,5,6}}."""
    v = Bag(Bag(), Bag(0, 0), Bag(1, 2, 3, 4))
    text = "x #</#</< {{8}, {0}, {1, 1, 1}, {2, 3, 4, 5, 6}}"
    assert plain().matches(text, x=v)
    assert not plain().matches("x #</#</< {{8}, {0}, {1}, {2, 3, 4, 5, 6}}", x=v)


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (Bag(), "{8}"),
        (Bag(0, 0), "{1, 1, 1}"),
        (Bag(1, 2, 3, 4), "{2, 3, 4, 5, 6}"),
    ],
)
def test_each_part_of_the_nested_example_holds(p: Bag, q: str) -> None:
    """Composite bag operators: the three pairs that make the nested example true."""
    assert plain().matches(f"x #</< {q}", x=p)


# Case studies


DISCOVERY = (
    "inputs #</@< {services:StreetAddress, services:DepartureDate, services:CardPayment} "
    "and outputs #>/@> {services:Booking, services:Price}"
)


def test_a_service_is_found_by_what_it_takes_and_what_it_gives() -> None:
    """Service discovery: inputs ⊆ by superclass, outputs ⊇ by subclass."""
    services = world("services")
    assert services.matches(
        DISCOVERY,
        inputs=services.classes("services:Location", "services:Date"),
        outputs=services.classes("services:FlightBooking", "services:Quote", "services:Map"),
    )


def test_a_service_that_takes_more_than_is_at_hand_is_not_found() -> None:
    """Service discovery: an input nobody has."""
    services = world("services")
    assert not services.matches(
        DISCOVERY,
        inputs=services.classes("services:Location", "services:Passport"),
        outputs=services.classes("services:FlightBooking", "services:Quote"),
    )


def test_a_service_that_takes_something_more_special_is_not_found() -> None:
    """Service discovery: an address is at hand in general, the service wants coordinates."""
    services = world("services")
    text = "inputs #</@< {services:Location}"
    assert not services.matches(text, inputs=services.classes("services:Coordinates"))
    assert services.matches(text, inputs=services.classes("services:Information"))


def test_a_service_that_gives_less_than_is_needed_is_not_found() -> None:
    """Service discovery: one of the outputs is missing, or too general."""
    services = world("services")
    taken = services.classes("services:Location")
    without = services.classes("services:FlightBooking")
    general = services.classes("services:Information", "services:Price")
    assert not services.matches(DISCOVERY, inputs=taken, outputs=without)
    assert not services.matches(DISCOVERY, inputs=taken, outputs=general)


def test_an_agent_subscribes_to_a_level_of_events() -> None:
    """Fault correlation: all events at or below one, by more specific."""
    events = world("events")
    text = "event @> events:LinkAlert"
    assert events.matches(text, event=events.a_class("events:LinkDown"))
    assert not events.matches(text, event=events.a_class("events:ServiceDown"))


def test_an_agent_subscribes_to_a_combination_of_events() -> None:
    """Fault correlation: a bag of events that may have occurred together."""
    events = world("events")
    text = "events #>/@> {events:LinkAlert, events:ServiceAlert}"
    assert events.matches(
        text,
        events=events.classes("events:Outage", "events:PowerLoss", "events:LinkDegraded"),
    )
    assert not events.matches(text, events=events.classes("events:Outage", "events:ServiceSlow"))


def test_an_agent_subscribes_to_what_a_fault_caused() -> None:
    """Fault correlation: the caused-by relation is a property of its own, not a hierarchy."""
    events = world("events")
    text = "fault @* [events:causedBy, events:EdgeLinkDown]"
    assert events.matches(text, fault=events.individual("events:MailOutage"))
    assert not events.matches(text, fault=events.individual("events:WebSlowdown"))


def test_causes_are_followed_down_to_the_root() -> None:
    """Fault correlation, root causes: directlyCausedBy ⊑ causedBy, which is transitive."""
    events = world("events")
    text = "fault @* [events:causedBy, events:RouterPowerLoss]"
    assert events.matches(text, fault=events.individual("events:MailOutage"))
    direct = "fault @* [events:directlyCausedBy, events:RouterPowerLoss]"
    assert not events.matches(direct, fault=events.individual("events:MailOutage"))


def test_the_property_operator_works_inside_bags() -> None:
    """Fault correlation: the property operator expanded with the bag extension."""
    events = world("events")
    text = "faults #>/@* {[events:causedBy, events:RouterPowerLoss]}"
    faults = events.individuals("events:ServerOverheating", "events:MailOutage")
    assert events.matches(text, faults=faults)
    assert not events.matches(text, faults=events.individuals("events:ServerOverheating"))


def test_required_categories_are_a_super_bag_by_subsumption() -> None:
    """News feeds: EventCategories ⊇ RequiredCategories, with sub-categories."""
    podcast = world("podcast")
    text = 'keywords #> {"python"} and category #>/@> {podcast:Technology, podcast:Education}'
    sent = podcast.classes("podcast:TechNews", "podcast:Training", "podcast:Music")
    assert podcast.matches(text, keywords=Bag("python", "spark"), category=sent)
    assert not podcast.matches(text, keywords=Bag("spark"), category=sent)
    assert not podcast.matches(
        text,
        keywords=Bag("python"),
        category=podcast.classes("podcast:TechNews", "podcast:Gadgets"),
    )


def test_suggested_categories_are_a_sub_bag_by_subsumption() -> None:
    """News feeds: EventCategories ⊆ SuggestedCategories, with sub-categories."""
    podcast = world("podcast")
    text = "category #</@> {podcast:Technology, podcast:Education}"
    assert podcast.matches(text, category=podcast.classes("podcast:TechNews"))
    assert podcast.matches(text, category=podcast.classes("podcast:Training", "podcast:TechNews"))
    assert not podcast.matches(text, category=podcast.classes("podcast:TechNews", "podcast:Music"))


def test_no_categories_required_accept_all_and_none_suggested_accept_none() -> None:
    """News feeds: a bag of zero or more categories."""
    podcast = world("podcast")
    sent = podcast.classes("podcast:TechNews")
    assert podcast.matches("category #>/@> {}", category=sent)
    assert not podcast.matches("category #</@> {}", category=sent)


def test_school_and_university_mean_the_same_to_an_employer(tmp_path: Path) -> None:
    """Related work, the employer's example: university or school, doctorate, four years."""
    axioms = """
        :University a owl:Class .
        :School a owl:Class ; owl:equivalentClass :University .
        :Degree a owl:Class .
        :Doctorate a owl:Class ; rdfs:subClassOf :Degree .
        :TrinityCollege a owl:NamedIndividual , :School .
    """
    jobs = with_axioms(tmp_path, axioms)
    text = "from @= extra:University and degree @> extra:Doctorate and experience >= 4"
    candidate: dict[str, object] = {
        "from": jobs.individual("extra:TrinityCollege"),
        "degree": jobs.a_class("extra:Doctorate"),
    }
    assert jobs.matches(text, experience=5, **candidate)
    assert not jobs.matches(text, experience=3, **candidate)


def test_terms_of_different_kinds_are_different_values() -> None:
    """The semantic extension: classes, properties and individuals are types of their own."""
    iri = "https://kbn.example/ontology/animals#Thing"
    assert len({Class(iri), Property(iri), Individual(iri)}) == 3
