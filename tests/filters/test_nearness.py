"""Nearness: what the operator takes, what it means for each family, and what it says when wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kbn import Matcher, Notification, Ontology, data
from kbn.errors import FilterSyntaxError, InvalidInputError, LimitError
from kbn.filters import Bag, Constraint, Filter, Near, Subscription, explain

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def podcast() -> Ontology:
    return Ontology.load(data.path("podcast"))


def test_near_a_number_is_a_range() -> None:
    wanted = Subscription.parse("price near(5) 20")
    assert str(wanted) == "price <= 25 and price >= 15"
    assert [wanted.matches({"price": n}) for n in (14, 15, 25, 25.5, "20")] == [
        False, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize("operand", [2**63 - 1, -(2**63), 2**53 + 1, 1e308, float("inf"), 0])
@pytest.mark.parametrize("tolerance", [0, 0.5, 1, 1e308])
def test_a_number_is_near_itself(operand: float, tolerance: float) -> None:
    near = Constraint("x", Near(tolerance), operand)
    assert near.accepts(operand) and Filter([near]).matches({"x": operand})


def test_near_a_time_counts_seconds() -> None:
    near = Filter([Constraint("at", Near(90), NOON)])
    assert near.matches({"at": NOON + timedelta(seconds=90)})
    assert not near.matches({"at": NOON - timedelta(seconds=91)})
    last = datetime.max.replace(tzinfo=UTC)
    assert Filter([Constraint("at", Near(90), last)]).matches({"at": last})


def test_near_a_string_counts_edits() -> None:
    near = Constraint("name", "near(1)", "Dublin")
    assert all(near.accepts(text) for text in ("Dublin", "Dubln", "Dublins", "Dubxin"))
    assert not any(near.accepts(text) for text in ("Dubl", "dubLin", "", 3))


def test_near_a_term_counts_steps(podcast: Ontology) -> None:
    two = Subscription.parse("topic near(2) podcast:TechNews", ontology=podcast)
    one = Subscription.parse("topic near(1) podcast:TechNews", ontology=podcast)
    sibling, parent = podcast.term("podcast:Podcasting"), podcast.term("podcast:Technology")
    assert two.matches({"topic": sibling}, podcast) and two.matches({"topic": parent}, podcast)
    assert not one.matches({"topic": sibling}, podcast) and one.matches({"topic": parent}, podcast)


def test_a_wider_tolerance_covers() -> None:
    def covers(wider: str, narrower: str) -> bool:
        return Subscription.parse(wider).covers(Subscription.parse(narrower))

    assert covers("x near(3) 'tea'", "x near(1) 'team'") and covers("x near(1) 'tea'", "x = 'te'")
    assert not covers("x near(1) 'tea'", "x near(2) 'tea'")
    assert covers("x near(5) 20", "x near(2) 18") and covers("x > 10", "x near(5) 20")
    assert covers("not x near(5) 20", "x > 25") and not covers("not x near(5) 20", "x > 24")
    assert covers("not x near(1) 'tea'", "x near(1) 'coffee'")


def test_in_a_composite_and_negated_it_stays_an_operator() -> None:
    wanted = Subscription.parse("not x near(5) 20 and tags #>/near(1) {'tea', 'pot'}")
    assert wanted.matches({"x": 26, "tags": Bag("tee", "pots")})
    assert not wanted.matches({"x": 25, "tags": Bag("tee", "pots")})
    assert Subscription.parse(str(wanted)) == wanted
    assert Subscription.from_json(wanted.to_json()) == wanted


def test_an_attribute_may_be_called_near() -> None:
    assert Subscription.parse("near = 3 and near near(1) 'a'").matches({"near": 3}) is False
    assert str(Subscription.parse("near < 3")) == "near < 3"


def test_the_index_says_the_same_for_many(podcast: Ontology) -> None:
    matcher = Matcher(podcast)
    names = ["tea", "team", "steam", "coffee", "toffee"]
    texts = [f"name near({n}) '{name}'" for name in names for n in range(3)]
    texts += [f"name near({n}) '{name}' and x near(2) {n}" for name in names for n in range(3)]
    texts += [f"not topic near({n}) podcast:TechNews" for n in range(4)]
    asked = {text: Subscription.parse(text, ontology=podcast) for text in texts}
    for text in texts:
        matcher.add(text, text)
    for name in [*names, "tee"]:
        for topic in ("podcast:TechNews", "podcast:Technology", "podcast:Arts"):
            sent = Notification({"name": name, "x": 1, "topic": podcast.term(topic)})
            wanted = {text for text in texts if asked[text].matches(sent, podcast)}
            assert set(matcher.match(sent)) == wanted


def test_why_and_why_not() -> None:
    wanted = Subscription.parse("name near(1) 'Dublin'")
    assert explain(wanted, {"name": "Dubln"}).reasons == ['name: "Dubln" is within 1 of "Dublin"']
    assert explain(wanted, {"name": "Cork"}).reasons == ['name: "Cork" is not within 1 of "Dublin"']


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x near 5", "did you mean near(1)?"),
        ("x near(-1) 5", "a number from 0 on"),
        ("x near(1.5) 'tea'", "near counts edits here"),
        ("x near(1) true", "takes a number, a time, a string or a term"),
        ("x near(1) {1}", "takes a number, a time, a string or a term"),
    ],
)
def test_what_is_wrong_is_told(text: str, told: str) -> None:
    with pytest.raises(FilterSyntaxError) as error:
        Subscription.parse(text)
    assert told in str(error.value)


def test_limits() -> None:
    with pytest.raises(LimitError):
        Constraint("x", "near(17)", "tea")
    with pytest.raises(LimitError):
        Constraint("x", "near(1)", "t" * 257)
    with pytest.raises(InvalidInputError):
        Near(float("inf"))
