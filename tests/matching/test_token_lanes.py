"""Shares and lanes of tokens, worked out by columns, are what one token after another gives."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.matching.test_invariants import index_of
from tests.matching.worlds import bag_world_of, world_of

from kbn.filters import Operator
from kbn.matching import Matcher
from kbn.matching.hierarchy_shares import HierarchyShares
from kbn.matching.lanes import _tokens_by_lane
from kbn.matching.tokens import TokenTable
from kbn.ontology import Ontology


def table_of(random: Random) -> TokenTable:
    world = random.choice([world_of, bag_world_of])(random.randrange(60))
    matcher = Matcher(world.ontology)
    for number in range(150):
        matcher.add(world.random_filter(random), number)
    return index_of(matcher).table


def peers_of(table: TokenTable) -> list[tuple[str, Any]]:
    """The attribute and operator of each token."""
    return [
        table.families[token] if constraint is None else (constraint.attribute, constraint.operator)
        for token, constraint in enumerate(table.constraints)
    ]


@pytest.mark.parametrize("world", range(12))
def test_shares_of_tokens(world: int, seed: int) -> None:
    table = table_of(Random(seed + world))
    peers = peers_of(table)
    counts, guesses = Counter(peers), HierarchyShares(table.ontology or Ontology.empty())
    expected = [
        1.0
        if constraint is None or constraint.operator is Operator.EXISTS
        else guesses.share(constraint) or 1 / counts[peer]
        for constraint, peer in zip(table.constraints, peers, strict=True)
    ]
    assert table.selectivity().tolist() == expected


@pytest.mark.parametrize("world", range(12))
def test_tokens_by_lane(world: int, seed: int) -> None:
    random = Random(seed + world)
    table = table_of(random)
    peers = peers_of(table)
    uses = np.array([random.choice([0, 0, 1, 2, 5]) for _ in peers], np.int64)
    expected: dict[object, list[int]] = {}
    for token in sorted(range(len(peers)), key=lambda token: -uses[token]):
        if uses[token]:
            expected.setdefault(peers[token], []).append(token)
    assert [each.tolist() for each in _tokens_by_lane(uses, table)] == list(expected.values())
    assert _tokens_by_lane(0 * uses, table) == []
