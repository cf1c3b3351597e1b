"""Snapshots: copies that do not move, and saved ones that answer alike in another process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from tests.matching.agreement import assert_batch_agrees, assert_match_agrees
from tests.matching.worlds import World, load, world_of

from kbn.errors import InvalidInputError, KbnError
from kbn.filters import Bag, Constraint, Filter, Subscription, resolve_terms
from kbn.matching import Matcher
from kbn.matching.invariants import check_invariants
from kbn.ontology import Class


def filled(world: World, random: Random, count: int) -> tuple[Matcher, dict[str, Subscription]]:
    matcher = Matcher(world.ontology)
    live: dict[str, Subscription] = {}
    while len(live) < count:
        asked = Subscription([world.random_filter(random) for _ in range(random.randint(1, 2))])
        try:
            resolve_terms(asked, world.ontology)
        except InvalidInputError:
            continue
        matcher.add(asked, f"k{len(live)}")
        live[f"k{len(live)}"] = asked
    for key in random.sample(list(live), count // 4):
        matcher.remove(key)
        del live[key]
    return matcher, live


def assert_agrees(
    matcher: Matcher, live: dict[str, Subscription], world: World, random: Random
) -> None:
    published = [world.random_notification(random) for _ in range(6)]
    assert len(matcher) == len(live)
    for notification in published:
        assert_match_agrees(matcher, live, notification, world.ontology)
    assert_batch_agrees(matcher, published)
    check_invariants(matcher)


@pytest.mark.parametrize("number", [0, 3, 6])
def test_a_snapshot_does_not_move_with_its_matcher(number: int, seed: int) -> None:
    random = Random(seed)
    world = world_of(number)
    matcher, live = filled(world, random, 120)
    copy, then = matcher.snapshot(), dict(live)
    for key in list(live)[::2]:
        matcher.remove(key)
        del live[key]
    for position in range(40):
        asked = Filter([Constraint(f"new{position}", "<", position)])
        matcher.add(asked, f"new{position}")
        live[f"new{position}"] = Subscription(asked)
    assert_agrees(copy, then, world, random)
    assert_agrees(matcher, live, world, random)
    assert "new1" not in copy


@pytest.mark.parametrize("number", [0, 3, 6])
def test_a_loaded_matcher_answers_alike_and_can_be_changed(
    number: int, seed: int, tmp_path: Path
) -> None:
    random = Random(seed)
    world = world_of(number)
    matcher, live = filled(world, random, 150)
    matcher.save(tmp_path / "saved")
    loaded = Matcher.load(tmp_path / "saved", world.ontology)
    assert_agrees(loaded, live, world, random)
    now = dict(live)
    for key in list(now)[::3]:
        loaded.remove(key)
        del now[key]
    asked = Subscription([Filter([Constraint("late", "<", 3)]), world.filter([])])
    loaded.add(asked, "late")
    now["late"] = asked
    loaded.add_many((asked, f"later{n}") for n in range(20))
    now.update((f"later{n}", asked) for n in range(20))
    assert_agrees(loaded, now, world, random)
    # What is on disk has not moved, nor has the matcher it came from.
    assert_agrees(Matcher.load(tmp_path / "saved", world.ontology), live, world, random)
    assert_agrees(matcher, live, world, random)
    loaded.save(tmp_path / "again")
    assert_agrees(Matcher.load(tmp_path / "again", world.ontology), now, world, random)


def test_an_empty_matcher_can_be_saved_and_loaded(tmp_path: Path) -> None:
    Matcher().save(tmp_path / "empty")
    loaded = Matcher.load(tmp_path / "empty")
    assert len(loaded) == 0
    assert not loaded.match({"x": 1})
    loaded.add(Filter([Constraint("x", "=", 1)]), "a")
    assert list(loaded.match({"x": 1})) == ["a"]


def test_integer_keys_are_kept(tmp_path: Path) -> None:
    matcher = Matcher()
    for number in range(10):
        matcher.add(Filter([Constraint("x", "<", number)]), number)
    matcher.remove(9)
    matcher.save(tmp_path / "saved")
    for other in (Matcher.load(tmp_path / "saved"), matcher.snapshot()):
        matches = other.match({"x": 6})
        assert set(matches) == {7, 8}
        assert 9 not in other


def test_slabs_are_saved_too(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    matcher = Matcher()
    asked = {
        number: Filter(
            [
                Constraint("x", ">", random.random()),
                Constraint("y", "<", random.random()),
                Constraint("z", "#>/<", Bag(random.randrange(9), 3)),
            ]
        )
        for number in range(6000)
    }
    matcher.add_many((part, number) for number, part in asked.items())
    matcher.save(tmp_path / "saved")
    loaded = Matcher.load(tmp_path / "saved")
    for _ in range(5):
        values = {"x": random.random(), "y": random.random(), "z": [2, random.randrange(9)]}
        expected = {number for number, part in asked.items() if part.matches(values)}
        assert set(loaded.match(values)) == expected == set(matcher.match(values))
    loaded.add_many((part, -1 - number) for number, part in list(asked.items())[:3000])
    loaded.add(Filter([Constraint("w", ">", 0)]), "w")
    assert list(loaded.match({"w": 1})) == ["w"]


def test_it_must_be_the_same_ontology(tmp_path: Path) -> None:
    one, other = load(":A a owl:Class ."), load(":A a owl:Class . :B a owl:Class .")
    matcher = Matcher(one)
    matcher.add("x @> :A", "a")
    matcher.save(tmp_path / "saved")
    for wrong in (other, None):
        with pytest.raises(InvalidInputError):
            Matcher.load(tmp_path / "saved", wrong)
    again = Matcher.load(tmp_path / "saved", load(":A a owl:Class ."))
    assert list(again.match({"x": Class("urn:t#A")})) == ["a"]


def test_what_is_no_snapshot_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(KbnError):
        Matcher.load(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(KbnError):
        Matcher.load(tmp_path / "empty")


def test_a_cut_file_is_a_clear_error(tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.add_many((Filter([Constraint("x", "=", n)]), n) for n in range(200))
    matcher.save(tmp_path / "saved")
    files = sorted(path for path in (tmp_path / "saved").rglob("*") if path.is_file())
    assert files
    for path in files:
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(KbnError):
            Matcher.load(tmp_path / "saved")
        path.write_bytes(whole)
    assert len(Matcher.load(tmp_path / "saved")) == 200


def test_another_process_answers_alike(tmp_path: Path) -> None:
    """Nothing in a snapshot may hang on this process' hashes."""
    matcher = Matcher()
    matcher.add(Filter([Constraint("x", "#>/<", Bag(3, 5)), Constraint("y", "!=", "a")]), "one")
    matcher.add(Filter([Constraint("x", "#</#>", Bag(Bag("a", True), Bag()))]), "two")
    matcher.add(Filter([Constraint("y", ">*", "b")]), "three")
    matcher.save(tmp_path / "saved")
    code = (
        "import sys; from kbn.matching import Matcher; m = Matcher.load(sys.argv[1]);"
        "print(sorted(m.match({'x': [1, 4], 'y': 'bc'})), sorted(m.match({'x': [[True, 'a', 1]]})))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "saved")],
        capture_output=True,
        text=True,
        check=True,
        env={
            "PYTHONPATH": "src",
            "PYTHONHASHSEED": "7",
            "PATH": "",
            # The kernels of this run: compiling them anew would take a quarter of a minute.
            "NUMBA_CACHE_DIR": os.environ["NUMBA_CACHE_DIR"],
        },
    )
    assert told.stdout.strip() == "['one', 'three'] ['two']"


def test_a_snapshot_pickles() -> None:
    matcher = Matcher()
    matcher.add(Filter([Constraint("x", "<", 3)]), "a")
    copy = pickle.loads(pickle.dumps(matcher.snapshot()))
    assert list(copy.match({"x": 1})) == ["a"]
    assert list(
        copy.match_batch(__import__("pyarrow").table({"x": [1, 5]}))["key"].to_pylist()
    ) == ["a"]
