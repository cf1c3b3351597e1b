"""Plans: clusters on brokers, planners as plug-ins, and the form a policy server reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import pytest

from kbn.data import namespace, path
from kbn.errors import InvalidInputError
from kbn.ontology import Class, Ontology
from kbn.placement import PLANNERS, Clusters, Medoid, Plan, SemanticMap, clusters, plan

A = namespace("animals")


@cache
def animals() -> Ontology:
    return Ontology.load(path("animals"), cache=False)


def brokers(made: Plan) -> list[str]:
    return [cluster.broker for cluster in made.clusters]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, ["b1"] * 5),
        (2, ["b1", "b1", "b2", "b2", "b1"]),
        (3, ["b1", "b2", "b3", "b1", "b2"]),
        (5, ["b1", "b2", "b3", "b4", "b5"]),
        (8, ["b1", "b2", "b3", "b4", "b5"]),
    ],
)
def test_each_broker_gets_the_quotient_and_the_top_ones_the_remainder(
    count: int, expected: list[str]
) -> None:
    made = plan(animals(), [f"b{n}" for n in range(1, count + 1)])
    assert brokers(made) == expected
    assert [cluster.rank for cluster in made.clusters] == [1, 2, 3, 4, 5]
    assert [cluster.key for cluster in made.clusters] == list(clusters(animals()))


def test_a_client_goes_to_the_broker_of_its_medoids_cluster() -> None:
    made = plan(animals(), ["top", "middle", "bottom"])
    assert made.broker_of(A + "Cats") == "bottom"
    assert made.broker_for(A + "Dixie") == "bottom"
    assert made.broker_for(Class(A + "Burmese")) == "bottom"
    medoid = SemanticMap(animals()).medoid([A + "Dixie", A + "Burmese"])
    assert made.broker_for(medoid) == "bottom"
    assert made.cluster_for(medoid) == A + "Cats"


def test_a_client_without_a_cluster_stays_where_it_is() -> None:
    made = plan(animals(), ["top"])
    for unplaced in (None, Medoid(None), "urn:elsewhere#X"):
        assert made.broker_for(unplaced) is None
    with pytest.raises(InvalidInputError, match="no cluster with the key"):
        made.broker_of(A + "Dixie")


def test_a_plan_comes_back_from_json() -> None:
    made = plan(animals(), ["top", "bottom", "idle", "b4", "b5", "b6"])
    data = made.to_json()
    assert data["format"] == "kbn-plan"
    assert data["version"] == 1
    assert data["ontology"] == animals().digest
    assert data["clusters"][0] == {
        "key": A + "Animal",
        "rank": 1,
        "broker": "top",
        "members": [A + "Animal"],
    }
    assert Plan.from_json(data) == made
    shuffled = {**data, "clusters": data["clusters"][::-1], "added_later": 7}
    assert Plan.from_json(json.dumps(shuffled)) == made


def test_counted_clients_are_part_of_the_json() -> None:
    data = plan(animals(), ["top"]).to_json()
    data["clusters"][2]["clients"] = 12
    again = Plan.from_json(data)
    assert [cluster.clients for cluster in again.clusters] == [None, None, 12, None, None]
    assert again.to_json() == data


def test_a_cluster_gets_helpers_and_gives_them_back() -> None:
    made = plan(animals(), ["top", "middle", "bottom"])
    helped = made.helped(A + "Cats", "top").helped(A + "Cats", "middle")
    assert helped.brokers_of(A + "Cats") == ("bottom", "top", "middle")
    assert helped.brokers_for(A + "Dixie") == ("bottom", "top", "middle")
    assert helped.broker_for(A + "Dixie") == helped.broker_of(A + "Cats") == "bottom"
    assert helped.relieved(A + "Cats", "top").brokers_of(A + "Cats") == ("bottom", "middle")
    assert helped.relieved(A + "Cats", "top").relieved(A + "Cats", "middle") == made
    assert made.brokers_for(Medoid(None)) == ()


def test_helpers_are_part_of_the_json_and_older_json_has_none() -> None:
    helped = plan(animals(), ["top", "bottom"]).helped(A + "Cats", "top")
    data = helped.to_json()
    assert [row.get("helpers") for row in data["clusters"]] == [None, None, ["top"], None, None]
    assert Plan.from_json(json.dumps(data)) == helped
    del data["clusters"][2]["helpers"]
    assert Plan.from_json(data) == helped.relieved(A + "Cats", "top")


@pytest.mark.parametrize(
    ("key", "broker", "message"),
    [
        ("Cats", "nowhere", "'nowhere' cannot help .*no broker of the plan"),
        ("Cats", "bottom", "'bottom' cannot help .*has that cluster already"),
        ("Dixie", "top", "no cluster with the key"),
    ],
)
def test_who_cannot_help_is_told_why(key: str, broker: str, message: str) -> None:
    made = plan(animals(), ["top", "bottom"])
    with pytest.raises(InvalidInputError, match=message):
        made.helped(A + key, broker)
    with pytest.raises(InvalidInputError, match=r"does not help|no cluster with the key"):
        made.relieved(A + key, broker)


def changed(**parts: object) -> dict[str, Any]:
    return {**plan(animals(), ["top"]).to_json(), **parts}


def with_cluster(**parts: object) -> dict[str, Any]:
    data = changed()
    data["clusters"][0].update(parts)
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{", "not JSON"),
        ([], "a plan is an object"),
        ({}, "needs 'format'"),
        (changed(version=2), "version 2, and this kbn reads 'kbn-plan' version 1"),
        (changed(format="other"), "'other'"),
        (changed(brokers="top"), "'brokers' is a list of names"),
        (changed(brokers=[]), "at least one broker"),
        (changed(clusters={}), "'clusters' is a list"),
        (changed(clusters=[7]), r"\$.clusters\[0\] is an object"),
        (with_cluster(rank="first"), r"\$.clusters\[0\]: 'rank' is a number"),
        (with_cluster(members=[3]), "'members' is a list of IRIs"),
        (with_cluster(clients="many"), "'clients' is a number"),
        (with_cluster(broker="nowhere"), "'nowhere', no broker of the plan"),
        (with_cluster(helpers="top"), "'helpers' is a list of names"),
        (with_cluster(helpers=["nowhere"]), "'nowhere', no broker of the plan"),
        (with_cluster(helpers=["top"]), "has a broker twice"),
        (with_cluster(key=A + "Food"), "the same key"),
        (with_cluster(members=[A + "Dixie"]), "in two clusters"),
    ],
)
def test_what_is_no_plan_is_refused(data: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Plan.from_json(data)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "at least one broker"),
        (["a", "b", "a"], "'a' is listed twice"),
        ("abc", "a list of names"),
        (["a", ""], "not empty"),
        (["a", 7], "not 7"),
    ],
)
def test_brokers_are_distinct_names(given: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        plan(animals(), given)


def test_an_unknown_planner_is_told_which_there_are() -> None:
    with pytest.raises(InvalidInputError, match=r"'taxonomical'.*did you mean 'taxonomic'"):
        plan(animals(), ["a"], planner="taxonomical")
    with pytest.raises(InvalidInputError, match="'taxonomic': got an unexpected keyword"):
        plan(animals(), ["a"], load_max=3)


def last_first(parts: Clusters, names: Sequence[str], /, *, only: str = "") -> dict[str, str]:
    return dict.fromkeys(parts.keys(), only or names[-1])


def test_a_planner_can_be_plugged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLANNERS, "last", last_first)
    assert set(brokers(plan(animals(), ["a", "b"], "last"))) == {"b"}
    made = plan(animals(), ["a", "b"], last_first, only="a")
    assert (set(brokers(made)), made.planner) == ({"a"}, "last_first")


def test_a_planner_may_choose_several_brokers_for_a_cluster() -> None:
    def everywhere(parts: Clusters, names: Sequence[str], /) -> dict[str, tuple[str, ...]]:
        return dict.fromkeys(parts.keys(), tuple(names))

    made = plan(animals(), ["a", "b"], everywhere)
    assert made.brokers_for(A + "Dixie") == ("a", "b")
    assert set(brokers(made)) == {"a"}
    with pytest.raises(InvalidInputError, match="chose a broker twice"):
        plan(animals(), ["a"], lambda parts, names: dict.fromkeys(parts, ("a", "a")))
    with pytest.raises(InvalidInputError, match="for each cluster"):
        plan(animals(), ["a"], lambda parts, names: dict.fromkeys(parts, ()))


def test_a_planner_that_chooses_no_broker_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="'last_first' chose 'c'"):
        plan(animals(), ["a", "b"], last_first, only="c")
    with pytest.raises(InvalidInputError, match="the planner you passed must choose"):
        plan(animals(), ["a"], lambda parts, names: {})
    with pytest.raises(InvalidInputError, match="the planner you passed returned nothing"):
        plan(animals(), ["a"], lambda parts, names: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidInputError, match="'last_first' chose 'c'"):
        plan(animals(), ["a", "b"], partial(last_first, only="c"))


def test_a_planner_without_a_name_is_told_so() -> None:
    made = plan(animals(), ["a"], lambda parts, names: dict.fromkeys(parts, "a"))
    assert made.planner == "unnamed"
