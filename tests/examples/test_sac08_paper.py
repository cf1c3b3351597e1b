"""The worked examples of the SAC'08 paper on semantic clustering, and its podcast scenario."""

from __future__ import annotations

from tests.examples.worlds import plain, world

from kbn.filters import Bag, Notification

# Section 4.3: the fifteen attributes; all but the last two are fixed strings.
FIXED = dict.fromkeys(
    [
        "title",
        "link",
        "copyright",
        "pubDate",
        "itunes_Author",
        "itunes_Block",
        "itunes_image",
        "itunes_duration",
        "itunes_explicit",
        "itunes_newFeedUrl",
        "itunes_owner",
        "itunes_subtitle",
        "itunes_summary",
    ],
    "static",
)
WANTED = 'itunes_keywords #> {"linux", "kernel"} and itunes_category #>/@> {podcast:Technology}'


def episode(keywords: str, *categories: str) -> dict[str, object]:
    """An announcement with these keywords and these categories."""
    podcast = world("podcast")
    return {
        **FIXED,
        "itunes_keywords": Bag(*keywords.split()),
        "itunes_category": podcast.classes(*(f"podcast:{name}" for name in categories)),
    }


def test_the_order_of_a_bag_does_not_matter() -> None:
    """Section 2: {1,2,3} and {2,1,3} are equivalent."""
    assert Bag(1, 2, 3) == Bag(2, 1, 3)
    assert plain().matches("x #= {1, 2, 3}", x=Bag(2, 1, 3))


def test_the_multiplicity_in_a_bag_matters() -> None:
    """Section 2: {1,1,2,3} and {1,2,3} differ."""
    assert Bag(1, 1, 2, 3) != Bag(1, 2, 3)
    assert not plain().matches("x #= {1, 1, 2, 3}", x=Bag(1, 2, 3))


def test_a_bag_is_a_super_bag_of_some_of_its_elements() -> None:
    """Section 2: {1,1,2,3,4} is a super-bag of {2,4,3}."""
    assert plain().matches("x #> {2, 4, 3}", x=Bag(1, 1, 2, 3, 4))
    assert plain().matches("x #>/= {2, 4, 3}", x=Bag(1, 1, 2, 3, 4))


def test_a_bag_may_hold_bags() -> None:
    """Section 2: any value may be in a bag, other bags too."""
    assert plain().matches('x #> {{1, 2}, "a"}', x=Bag("a", Bag(2, 1), 3.5))


def test_one_two_three_equal_two_three_four_under_less_than() -> None:
    """Section 2: {1,2,3} is an equal-bag of {2,3,4} with the sub-relation <."""
    assert plain().matches("x #=/< {2, 3, 4}", x=Bag(1, 2, 3))
    assert not plain().matches("x #=/< {2, 3, 4}", x=Bag(2, 3, 4))
    assert not plain().matches("x #=/< {2, 3, 4}", x=Bag(1, 2))


def test_a_subscriber_can_ask_for_more_and_for_less_specific_classes() -> None:
    """Section 2: subsumption operators on a class attribute."""
    podcast = world("podcast")
    assert podcast.matches("c @> podcast:Technology", c=podcast.a_class("podcast:Podcasting"))
    assert podcast.matches("c @< podcast:Podcasting", c=podcast.a_class("podcast:Technology"))


def test_the_ontology_of_categories_has_67_classes_and_nothing_else() -> None:
    """Section 4.3, Figure 1."""
    ontology = world("podcast").ontology
    assert len([iri for iri in ontology.classes if "podcast#" in iri]) == 67
    assert not ontology.individuals
    assert not [iri for iri in ontology.properties if "podcast#" in iri]


def test_an_announcement_has_fifteen_attributes() -> None:
    """Section 4.3, the publication parameters."""
    assert len(Notification(episode("linux kernel news code", "TechNews", "Gadgets"))) == 15


def test_keywords_and_category_are_both_required() -> None:
    """Section 4.3: a super-bag of the keywords, and a super-bag of the category by subsumption."""
    podcast = world("podcast")
    assert podcast.matches(WANTED, **episode("linux kernel news code", "Music", "Technology"))
    assert not podcast.matches(WANTED, **episode("linux news code talk", "Music", "Technology"))
    assert not podcast.matches(WANTED, **episode("linux kernel news code", "Music", "Comedy"))


def test_a_parent_category_stands_for_its_sub_categories() -> None:
    """Section 4.3: one element of the published bag must be subsumed by the wanted category."""
    podcast = world("podcast")
    assert podcast.matches(WANTED, **episode("linux kernel news code", "Music", "TechNews"))


def test_a_sub_category_does_not_stand_for_its_parent() -> None:
    """Section 4.3, read the other way: the general announcement is not specific enough."""
    podcast = world("podcast")
    wanted = "itunes_category #>/@> {podcast:TechNews}"
    assert not podcast.matches(wanted, **episode("linux", "Technology"))


def test_no_keywords_ask_for_nothing() -> None:
    """Section 4.3: a subscriber uses between 0 and 3 keywords."""
    podcast = world("podcast")
    wanted = "itunes_keywords #> {} and itunes_category #>/@> {podcast:Arts}"
    assert podcast.matches(wanted, **episode("any words at all", "Design"))


def test_the_general_search_covers_the_special_one() -> None:
    """Section 2 and section 5: fewer keywords and a wider category make a root subscription."""
    podcast = world("podcast")
    special = (
        'itunes_keywords #> {"linux", "kernel", "code"} '
        "and itunes_category #>/@> {podcast:SoftwareHowTo}"
    )
    assert podcast.covers(WANTED, special)
    assert not podcast.covers(special, WANTED)


def test_searches_in_different_categories_do_not_cover_each_other() -> None:
    """Section 5: such subscriptions stay side by side as roots."""
    podcast = world("podcast")
    arts = "itunes_category #>/@> {podcast:Arts}"
    music = "itunes_category #>/@> {podcast:Music}"
    assert not podcast.covers(arts, music)
    assert not podcast.covers(music, arts)
