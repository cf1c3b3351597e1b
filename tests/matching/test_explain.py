"""`Matcher.explain` says what the definition says, constraint by constraint, and why."""

from __future__ import annotations

from random import Random

import pytest
from tests.matching.worlds import World, bag_world_of, world_of

from kbn import Class, Individual, InvalidInputError, Matcher, Ontology, Subscription, data
from kbn.filters import Operator, accepts_by_definition
from kbn.ontology import Link

ANIMALS = Ontology.load(data.path("animals"))


def links_hold(links: tuple[Link, ...], ontology: Ontology) -> bool:
    """Whether each link is so, and begins where the one before it ends, unless a new one starts."""
    for link in links:
        match link.relation:
            case "is a kind of":
                holds = ontology.is_subclass(link.first, link.second)
                holds = holds or ontology.is_subproperty(link.first, link.second)
            case "is equivalent to":
                holds = any(
                    link.second in ontology.equivalents(link.first, kind)
                    for kind in ("class", "property", "individual")
                )
            case "is one of the":
                holds = ontology.is_instance(link.first, link.second)
            case _:
                holds = link.second in ontology.related(link.first, link.relation)
        if not holds:
            return False
    return True


@pytest.mark.parametrize("number", range(120))
def test_each_verdict_is_what_the_definition_says(number: int) -> None:
    make = (world_of, bag_world_of)[number % 2]
    world: World = make(number)
    random = Random(f"explain {number}")
    matcher = Matcher(world.ontology)
    keys = []
    for key in range(12):
        filters = [world.random_filter(random) for _ in range(random.randrange(1, 3))]
        try:
            matcher.add(Subscription(filters), key)
        except InvalidInputError:  # a term that the ontology does not know
            continue
        keys.append(key)
    seen = {True: 0, False: 0}
    for _ in range(8):
        notification = world.random_notification(random)
        found = set(matcher.match(notification))
        for key in keys:
            said = matcher.explain(notification, key)
            assert said.matches == (key in found), (number, notification, key)
            held = matcher.subscription(key).filters
            assert [tuple(v.constraint for v in each) for each in said.filters] == [
                each.constraints for each in held
            ]
            for verdict in (verdict for each in said.filters for verdict in each):
                value = notification.get(verdict.constraint.attribute)
                accepted = value is not None and accepts_by_definition(
                    verdict.constraint, value, world.ontology
                )
                seen[accepted] += 1
                assert verdict.accepted == accepted, (number, notification, verdict)
                assert verdict.reason.startswith(f"{verdict.constraint.attribute}: ")
                assert links_hold(verdict.links, world.ontology or Ontology.empty())
    assert seen[False]


def explained(text: str, value: object) -> tuple[bool, list[str], list[tuple[str, ...]]]:
    matcher = Matcher(ANIMALS)
    matcher.add(text, "ann")
    said = matcher.explain({"x": value}, "ann")
    short = ANIMALS.shorten
    links = [
        (short(link.first), link.relation, short(link.second))
        for verdict in said.verdicts
        for link in verdict.links
    ]
    return said.matches, said.reasons, links


def test_a_match_names_the_way_through_the_ontology() -> None:
    matches, reasons, links = explained("x @> animals:Animal", Class("animals:Human"))
    assert matches
    assert len(reasons) == 1
    assert links == [
        (":Human", "is a kind of", ":Mammal"),
        (":Mammal", "is a kind of", ":Animal"),
    ]


def test_an_individual_goes_by_way_of_its_type() -> None:
    matches, _, links = explained("x @= animals:Animal", Individual("animals:John"))
    assert matches
    assert links[0][:2] == (":John", "is one of the")
    assert links[-1][-1] == ":Animal"


def test_a_class_where_an_individual_is_wanted_is_told() -> None:
    matches, reasons, _ = explained("x @= animals:Mammal", Class("animals:Human"))
    assert not matches
    (said,) = reasons
    assert said.endswith("is a class, and @= takes an individual; use @> for classes")


def test_a_misspelt_term_and_an_unknown_prefix_are_told() -> None:
    matcher = Matcher(ANIMALS)
    matcher.add("x @> animals:Mammal", "ann")
    for name in ("animals:Humn", "animal:Human"):
        said = matcher.explain({"x": Class(name)}, "ann")
        assert "the ontology does not know the value as a class" in said.reasons[0]
        (unknown,) = said.unknown
        assert (unknown.attribute, unknown.term) == ("x", Class(name))
        assert "did you mean" in str(unknown.error(ANIMALS))
    assert "animals:" in str(unknown.error(ANIMALS))


def test_a_key_that_is_not_there_is_an_error() -> None:
    with pytest.raises(InvalidInputError, match="no subscription has the key 'eve'"):
        Matcher().explain({"x": 1}, "eve")


def test_an_explanation_has_a_json_form() -> None:
    matcher = Matcher(ANIMALS)
    matcher.add("x @> animals:Mammal", "ann")
    form = matcher.explain({"x": Class("animals:Human")}, "ann").to_json()
    (((verdict),),) = form["filters"]
    assert form["matches"] and verdict["accepted"] and not form["unknown"]
    assert verdict["constraint"]["op"] == Operator.MORE_SPECIFIC.symbol
    assert verdict["links"][0]["relation"] == "is a kind of"
