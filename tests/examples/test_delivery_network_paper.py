"""The worked examples of the 2006 paper on a knowledge delivery network.

Its subsumption is strict: a class is neither more nor less specific than itself or an equivalent.
Here it is not (the semantics page rules so), and the strict reading is written with `@!~`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.examples.worlds import plain, with_axioms, world

from kbn.ontology.compiled import Reasoning

STRICTLY_BETWEEN = (
    "x @> drinks:Burgundy and x @!~ drinks:Burgundy "
    "and x @< drinks:CotesDOr and x @!~ drinks:CotesDOr"
)


def test_wine_is_less_specific_than_white_wine() -> None:
    """Section 3, on extending the subscription language; Figure 1."""
    drinks = world("drinks")
    assert drinks.matches("x @< drinks:WhiteWine", x=drinks.a_class("drinks:Wine"))
    assert drinks.matches("x @> drinks:Wine", x=drinks.a_class("drinks:WhiteWine"))
    assert not drinks.matches("x @> drinks:WhiteWine", x=drinks.a_class("drinks:Wine"))


@pytest.mark.java
def test_reasoning_finds_that_dry_wine_and_table_wine_are_equivalent() -> None:
    """Section 3, Figure 1: no statement says so; and they share their subclasses."""
    drinks = world("drinks", "dl")
    assert drinks.matches("x @~ drinks:DryWine", x=drinks.a_class("drinks:TableWine"))
    assert drinks.matches("x @> drinks:TableWine", x=drinks.a_class("drinks:Burgundy"))
    assert drinks.matches("x @> drinks:DryWine", x=drinks.a_class("drinks:Burgundy"))
    assert drinks.covers("x @> drinks:DryWine", "x @> drinks:TableWine")
    assert drinks.covers("x @> drinks:TableWine", "x @> drinks:DryWine")


@pytest.mark.parametrize("level", ["none", "rdfs", "rl", "el"])
def test_a_weaker_level_does_not_find_that_equivalence(level: Reasoning) -> None:
    """Section 4, on the choice of a reasoner: the wine hierarchy needs the strongest one."""
    drinks = world("drinks", level)
    assert not drinks.matches("x @~ drinks:DryWine", x=drinks.a_class("drinks:TableWine"))


def test_between_burgundy_and_cotes_d_or_lies_red_burgundy() -> None:
    """Section 3: more specific than Burgundy and less specific than CotesDOr."""
    drinks = world("drinks")
    text = "x @> drinks:Burgundy and x @< drinks:CotesDOr"
    assert drinks.matches(text, x=drinks.a_class("drinks:RedBurgundy"))
    assert not drinks.matches(text, x=drinks.a_class("drinks:WhiteBurgundy"))
    assert not drinks.matches(text, x=drinks.a_class("drinks:Wine"))


def test_the_ends_belong_to_the_range_unless_excluded() -> None:
    """Section 3, note before Table 1: here the strict reading takes two more constraints."""
    drinks = world("drinks")
    burgundy = drinks.a_class("drinks:Burgundy")
    cotes_d_or = drinks.a_class("drinks:CotesDOr")
    assert drinks.matches("x @> drinks:Burgundy and x @< drinks:CotesDOr", x=burgundy)
    assert not drinks.matches(STRICTLY_BETWEEN, x=burgundy)
    assert not drinks.matches(STRICTLY_BETWEEN, x=cotes_d_or)
    assert drinks.matches(STRICTLY_BETWEEN, x=drinks.a_class("drinks:RedBurgundy"))


def test_an_equivalent_of_red_burgundy_lies_there_too(tmp_path: Path) -> None:
    """Section 3: the subscriber receives RedBurgundy or an equivalent class."""
    axioms = ":PinotBurgundy a owl:Class ; owl:equivalentClass drinks:RedBurgundy ."
    drinks = with_axioms(tmp_path, axioms, "drinks")
    assert drinks.matches(STRICTLY_BETWEEN, x=drinks.a_class("extra:PinotBurgundy"))


def test_all_constraints_of_a_filter_must_hold() -> None:
    """Section 3, on Siena: several constraints in one filter are a conjunction."""
    assert plain().matches('price < 10 and name = "red"', price=9, name="red")
    assert not plain().matches('price < 10 and name = "red"', price=9, name="white")
    assert not plain().matches('price < 10 and name = "red"', price=9)


def test_the_more_general_filter_covers() -> None:
    """Section 3, on Siena: what the narrower filter receives, the wider one receives too."""
    assert plain().covers("price < 20", "price < 10")
    assert not plain().covers("price < 10", "price < 20")


# Table 1. The operands are chosen so that "never" is true of what matches, not only of the rule:
# Dogs has something above it and something below it.
COVERED = [
    ("row 2", "x @> animals:Animal", "x @~ animals:Dogs"),
    ("row 3", "x @< animals:JackRussell", "x @~ animals:Dogs"),
    ("row 5", "x @> animals:Animal", "x @> animals:Dogs"),
    ("row 9", "x @< animals:JackRussell", "x @< animals:Dogs"),
]
NOT_COVERED = [
    ("row 1", "x @~ animals:Dogs", "x @~ animals:Cats"),
    ("row 2", "x @> animals:JackRussell", "x @~ animals:Dogs"),
    ("row 3", "x @< animals:Animal", "x @~ animals:Dogs"),
    ("row 4", "x @~ animals:Dogs", "x @> animals:Dogs"),
    ("row 5", "x @> animals:Dogs", "x @> animals:Animal"),
    ("row 6", "x @< animals:Dogs", "x @> animals:Dogs"),
    ("row 7", "x @~ animals:Dogs", "x @< animals:Dogs"),
    ("row 8", "x @> animals:Dogs", "x @< animals:Dogs"),
    ("row 9", "x @< animals:Dogs", "x @< animals:JackRussell"),
]


@pytest.mark.parametrize(("row", "wider", "narrower"), COVERED)
def test_a_row_of_table_1_that_covers(row: str, wider: str, narrower: str) -> None:
    """Table 1: covering among equivalent, more specific and less specific."""
    assert world("animals").covers(wider, narrower), row


@pytest.mark.parametrize(("row", "wider", "narrower"), NOT_COVERED)
def test_a_row_of_table_1_that_does_not_cover(row: str, wider: str, narrower: str) -> None:
    """Table 1: the rows, and the operands, for which covering fails."""
    assert not world("animals").covers(wider, narrower), row


@pytest.mark.parametrize("operator", ["@~", "@>", "@<"])
def test_a_constraint_covers_itself_and_its_equivalent(operator: str) -> None:
    """Table 1, lines 1, 5 and 9, overruled by the semantics page: equivalents merge."""
    animals = world("animals")
    assert animals.covers(f"x {operator} animals:Dogs", f"x {operator} animals:Dogs")
    assert animals.covers(f"x {operator} animals:Person", f"x {operator} animals:Human")
    assert animals.covers(f"x {operator} animals:Human", f"x {operator} animals:Person")


@pytest.mark.parametrize(
    ("x", "y"), [("Dogs", "Animal"), ("Animal", "Dogs"), ("Cats", "Dogs"), ("Person", "Human")]
)
def test_more_specific_is_less_specific_read_backwards(x: str, y: str) -> None:
    """Section 3, after Table 1."""
    animals = world("animals")
    forwards = animals.matches(f"v @> animals:{y}", v=animals.a_class(f"animals:{x}"))
    backwards = animals.matches(f"v @< animals:{x}", v=animals.a_class(f"animals:{y}"))
    assert forwards == backwards


def test_a_filter_of_several_constraints_covers_constraint_by_constraint() -> None:
    """Section 3, after Table 1: each constraint of the wider one needs one that implies it."""
    animals = world("animals")
    wider = "x @> animals:Animal and y < 10"
    assert animals.covers(wider, "x @> animals:Dogs and y < 5 and z = 1")
    assert not animals.covers(wider, "x @> animals:Dogs")
    assert not animals.covers(wider, "x @> animals:Dogs and y < 50")


def indications() -> list[str]:
    """The names of CIM_Indication and its subclasses."""
    events = world("events")
    below = events.ontology.descendants(events.iri("events:CIM_Indication"))
    return sorted(iri.rpartition("#")[2] for iri in below)


def test_one_semantic_filter_receives_all_seventeen_indications() -> None:
    """Section 4, Figures 2 and 5: one filter for CIM_Indication and its 16 subclasses."""
    events = world("events")
    assert len(indications()) == 17
    for name in indications():
        assert events.matches(
            "kind @> events:CIM_Indication", kind=events.a_class(f"events:{name}")
        )
    assert not events.matches("kind @> events:CIM_Indication", kind=events.a_class("events:Alert"))


def test_seventeen_string_filters_do_the_same_for_names() -> None:
    """Section 4: without the ontology it takes a disjunction of 17 equalities."""
    text = " or ".join(f'kind = "{name}"' for name in indications())
    assert len(plain().subscription(text).filters) == 17
    assert all(plain().matches(text, kind=name) for name in indications())
    assert not plain().matches(text, kind="Alert")


def test_a_new_subclass_is_received_without_a_new_subscription(tmp_path: Path) -> None:
    """Section 4: a class added later is categorised by the ontology, not by the subscriber."""
    axioms = ":FanFailure a owl:Class ; rdfs:subClassOf events:CIM_AlertIndication ."
    events = with_axioms(tmp_path, axioms, "events")
    assert events.matches("kind @> events:CIM_Indication", kind=events.a_class("extra:FanFailure"))
    strings = " or ".join(f'kind = "{name}"' for name in indications())
    assert not events.matches(strings, kind="FanFailure")


def test_the_sample_event_is_an_alert_indication() -> None:
    """Section 4, Figure 3: JK_SampleEvent is declared below CIM_AlertIndication."""
    events = world("events")
    sample = events.a_class("events:JK_SampleEvent")
    text = 'kind @> events:CIM_AlertIndication and StringVar >* "up"'
    assert events.matches(text, StringVar="up again", kind=sample)
    assert not events.matches(text, StringVar="down", kind=sample)
