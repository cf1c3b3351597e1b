"""The entailed statements about individuals: which property holds between which two.

A statement is (subject, property, object), all ids of components, so that equivalent properties
and individuals that are the same need no rule of their own. The rules, applied to each new
statement until none is new:

    p ⊑ q              p(a, b)           →  q(a, b)        (all wider properties at once)
    p inverse of q     p(a, b)           →  q(b, a)
    p symmetric        p(a, b)           →  p(b, a)
    p transitive       p(a, b), p(b, c)  →  p(a, c)
    q ∘ r ⊑ p          q(a, b), r(b, c)  →  p(a, c)

A longer chain is cut into steps of two through properties of its own that are dropped at the end.
Every rule reads and writes the same finite set, so the order of work does not change the outcome.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from kbn.errors import LimitError

Statement = tuple[int, int, int]

STATEMENTS_MAX = 20_000_000
"""How many entailed statements a compiled ontology may hold."""


@dataclass
class Rules:
    """The property rules by id; `wider[p]` lists all properties at or above p."""

    wider: dict[int, tuple[int, ...]]
    inverses: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """p -> the q with q(b, a) whenever p(a, b); a symmetric property is its own inverse."""
    steps: dict[int, set[tuple[int, int]]] = field(default_factory=lambda: defaultdict(set))
    """q -> the (r, p) with q ∘ r ⊑ p; a transitive property p has p ∘ p ⊑ p."""

    def add_inverse(self, one: int, other: int) -> None:
        """State that `one` and `other` are inverse to each other."""
        self.inverses[one].add(other)
        self.inverses[other].add(one)

    def add_chain(self, links: tuple[int, ...], wider: int, fresh: int) -> int:
        """State that the chain `links` implies `wider`; `fresh` is the first unused id.

        Returns the next unused id. A chain of one link is a subproperty and not taken here.
        """
        first = links[0]
        for link in links[1:-1]:
            self.steps[first].add((link, fresh))
            first, fresh = fresh, fresh + 1
        self.steps[first].add((links[-1], wider))
        return fresh


def entailed(statements: Iterable[Statement], rules: Rules) -> set[Statement]:
    """Everything `rules` say follows from `statements`, those included."""
    before: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for first, options in rules.steps.items():
        for second, wider in options:
            before[second].add((first, wider))
    found: set[Statement] = set()
    ends: dict[tuple[int, int], set[int]] = defaultdict(set)
    beginnings: dict[tuple[int, int], set[int]] = defaultdict(set)
    waiting = list(statements)
    while waiting:
        statement = waiting.pop()
        if statement in found:
            continue
        if len(found) >= STATEMENTS_MAX:
            raise LimitError(
                f"more than {STATEMENTS_MAX:,} statements between individuals follow",
                limit="STATEMENTS_MAX",
                maximum=STATEMENTS_MAX,
            )
        found.add(statement)
        a, p, b = statement
        if p in rules.steps or p in before:
            ends[a, p].add(b)
            beginnings[b, p].add(a)
        waiting.extend((a, q, b) for q in rules.wider.get(p, ()))
        waiting.extend((b, q, a) for q in rules.inverses.get(p, ()))
        for r, q in rules.steps.get(p, ()):
            waiting.extend((a, q, c) for c in ends.get((b, r), ()))
        for r, q in before.get(p, ()):
            waiting.extend((z, q, b) for z in beginnings.get((a, r), ()))
    return found
