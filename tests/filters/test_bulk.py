"""Reading in bulk gives what reading one by one gives, for texts of every shape."""

from __future__ import annotations

from random import Random

import pytest
from tests.matching.worlds import world_of

from kbn.errors import KbnError
from kbn.filters import Subscription
from kbn.filters.bulk import BulkReader

ODD = [
    'a = 1 and b = "x and y"',
    'a = 1 and b = "x" and c = "y"',
    "a = 1 and b = 'x and y'",
    "a = 1 or b = 2 and c = 3",
    "a = 1 and b = 2 or c = 3",
    "not a = 1 and b = 2",
    "not (a = 1 and b = 2)",
    "a = 1 # and b = 2",
    "a = 1# and b = 2",
    "a = 1 #x> and b = 2",
    "a #> {1} and b = 2",
    "a = <urn:x#and> and b = 2",
    "a = class(<urn:x#y>) and b = 2",
    "a = 1 AND b = 2 and c = 3",
    "a = 1 && b = 2 and c = 3",
    "a = 1 || b = 2 and c = 3",
    "a = 1 and\nb = 2",
    "prefix x: <urn:x#> a = x:b and b = 2",
    "a = 1 and prefix x: <urn:x#> b = 2",
    'a = "\\"and" and b = 2',
    'a = "x\\" and b = 2',
    "a = 1 and",
    " and a = 1",
    "and",
    "",
    "a = 1 and a = 1",
    "`a and b` = 1 and c = 2",
    '{"all": []}',
    "[]",
    "{",
    "a any and b any",
]


def outcome(read: object, text: str) -> object:
    try:
        return read(text)  # type: ignore[operator]
    except KbnError as error:
        return str(error)


@pytest.mark.parametrize("text", [t for t in ODD if t[:1] not in ("{", "[")])
def test_texts_of_every_shape_read_as_they_do_alone(text: str) -> None:
    reader = BulkReader()
    assert outcome(reader.read, text) == outcome(Subscription.parse, text)
    assert outcome(reader.read, text) == outcome(Subscription.parse, text), "the second time"


@pytest.mark.parametrize("text", [t for t in ODD if t[:1] in ("{", "[")])
def test_json_forms_are_read_as_such(text: str) -> None:
    assert outcome(BulkReader().read, text) == outcome(Subscription.from_json, text)


@pytest.mark.parametrize("number", range(15))
def test_random_texts_read_as_they_do_alone(number: int, seed: int) -> None:
    random = Random(seed + number)
    world = world_of(random.randrange(1000))
    reader = BulkReader(world.ontology)
    for _ in range(40):
        filters = [world.random_filter(random, 4) for _ in range(random.choice([1, 1, 1, 2]))]
        text = str(Subscription(filters))
        alone = Subscription.parse(text, ontology=world.ontology)
        assert reader.read(text) == alone, text
