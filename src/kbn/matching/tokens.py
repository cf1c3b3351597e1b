"""Tokens: small integers that a notification's value hits, one per distinct simple constraint.

A token stands for one constraint on one attribute ("category #>/@> {Technology}"), and a value hits
it exactly when the constraint accepts the value. Which tokens a value hits, the `ValueIndex` of its
attribute says.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbn.filters import (
    Bag,
    Composite,
    Constraint,
    Family,
    Operator,
    split_bag_operator,
    value_key,
)
from kbn.matching.hierarchy_shares import HierarchyShares, is_about_hierarchy
from kbn.matching.known_values import KNOWN_BYTES_MAX
from kbn.matching.memos import Memory
from kbn.matching.sub_bags import SubBags
from kbn.matching.value_index import MEMO_BYTES_MAX, ValueIndex
from kbn.ontology import Ontology

TOKEN_BYTES = 400  # what a token takes, with all that knows of it


def bytes_of(operand: Any) -> int:
    """About what it takes to remember an operand.

    >>> bytes_of("tea") - bytes_of(3)
    3
    """
    if isinstance(operand, str | bytes):
        return TOKEN_BYTES + len(operand)
    return TOKEN_BYTES + (sum(map(bytes_of, operand.items)) if isinstance(operand, Bag) else 0)


_BY_ONTOLOGY = -1.0  # in place of a share


class TokenTable:
    """Every token, the constraint it stands for, and the index of each attribute."""

    def __init__(self, ontology: Ontology) -> None:
        self.ontology = ontology
        self.constraints: list[Constraint | None] = []
        self.families: dict[int, tuple[str, Family]] = {}
        self.attributes: dict[str, ValueIndex] = {}
        self.memories = (Memory(MEMO_BYTES_MAX), Memory(KNOWN_BYTES_MAX))
        self.peers = array("i")  # of each token, the number of its attribute and operator
        self._peer_numbers: dict[tuple[str, Any], int] = {}
        self._peer_shares = array("d")  # of each such number: 1, or how its tokens are guessed
        self._guessed = array("d")  # of each token, its share, if that is no matter of its peers
        self._tokens: dict[Constraint, int] = {}
        self._element_tokens: dict[tuple[str, Any, Any], int] = {}
        self._family_tokens: dict[tuple[str, Family], int] = {}
        self.sub_bags = SubBags()
        self.bytes = 0  # about what the constants of all tokens take

    def __len__(self) -> int:
        return len(self.constraints)

    def token(self, attribute: str, operator: Any, operand: Any) -> int:
        """The token of a simple constraint, made when it is new."""
        constraint = Constraint(attribute, operator, operand)
        token = self._tokens.get(constraint)
        if token is None:
            parts = split_bag_operator(operator)
            if parts is not None and parts[0] is Operator.SUB_BAG:
                return self._new_sub_bag(constraint, parts[1])
            token = self._new(constraint)
            self.index(attribute).register(operator, operand, token)
        return token

    def _new(self, constraint: Constraint) -> int:
        token = self._tokens[constraint] = len(self.constraints)
        self.bytes += bytes_of(constraint.operand)
        self.constraints.append(constraint)
        self._enter_peer(constraint.attribute, constraint.operator)
        return token

    def _new_sub_bag(self, constraint: Constraint, element: Any) -> int:
        """A sub-bag's token; its wants come first, so that a saved table is read in its order."""
        attribute, bag = constraint.attribute, constraint.operand
        assert isinstance(bag, Bag)
        wanted = Composite(Operator.SUPER_BAG, element)
        wants = [self.element_token(attribute, wanted, one) for one in bag]
        token = self._new(constraint)
        self.index(attribute)
        self.sub_bags.add(attribute, token, wants)
        return token

    def element_token(self, attribute: str, operator: Any, element: Any) -> int:
        """The token of a super-bag of one element; a bag's elements are asked for often."""
        name = (attribute, operator, value_key(element))
        token = self._element_tokens.get(name)
        if token is None:
            token = self._element_tokens[name] = self.token(attribute, operator, Bag.of((element,)))
        return token

    def family_token(self, attribute: str, kind: Family) -> int:
        """The token hit by every value of one family, whatever it is."""
        token = self._family_tokens.get((attribute, kind))
        if token is None:
            token = self._family_tokens[attribute, kind] = len(self.constraints)
            self.constraints.append(None)
            self._enter_peer(attribute, kind)
            self.families[token] = (attribute, kind)
            self.index(attribute).register_family(kind, token)
        return token

    def _enter_peer(self, attribute: str, operator: Any) -> None:
        numbers = self._peer_numbers
        number = numbers.setdefault((attribute, operator), len(numbers))
        self.peers.append(number)
        if number == len(self._peer_shares):
            is_presence = isinstance(operator, Family) or operator is Operator.EXISTS
            by_ontology = not is_presence and is_about_hierarchy(operator)
            self._peer_shares.append(1.0 if is_presence else _BY_ONTOLOGY if by_ontology else 0.0)

    def selectivity(self) -> NDArray[np.float64]:
        """Per token, a guess at the share of notifications that hit it.

        Values are taken as spread evenly: over the classes of the ontology where a token asks for
        what is above or below one, else over the operands asked for with the same operator on the
        same attribute. Presence and family select nothing.
        """
        self.guess_shares(len(self.peers))
        peers = np.array(self.peers, np.int64)
        shares = 1 / np.maximum(np.bincount(peers, minlength=len(self._peer_numbers)), 1)
        found: NDArray[np.float64] = shares[peers]
        guessed = np.frombuffer(self._guessed, np.float64)
        return np.where(guessed > 0, guessed, found)

    def guess_shares(self, most: int) -> bool:
        """Guess what the ontology says of some tokens that came since; whether more are left."""
        first = len(self._guessed)
        peers = np.array(self.peers[first : first + most], np.int64)
        shares = np.array(self._peer_shares, np.float64)[peers]
        by_ontology = np.flatnonzero(shares == _BY_ONTOLOGY).tolist()
        guesses = HierarchyShares(self.ontology) if by_ontology else None
        for place in by_ontology:
            constraint = self.constraints[first + place]
            assert constraint is not None and guesses is not None
            shares[place] = guesses.share(constraint) or 0.0
        self._guessed.frombytes(shares.tobytes())
        return len(self._guessed) < len(self.constraints)

    def index(self, attribute: str) -> ValueIndex:
        index = self.attributes.get(attribute)
        if index is None:
            index = self.attributes[attribute] = ValueIndex(self.ontology, *self.memories)
        return index
