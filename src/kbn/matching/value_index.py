"""What values hit: of the constraints on one attribute, which accept a value.

What a value hits depends on the attribute and the value alone, so it is worked out once per
distinct value and remembered; this is where the ontology is asked, and why a semantic operator
costs a match what `=` costs. Tables kept in a `ValueIndex`:

* dictionaries from operand to token for the operators whose accepted operands can be listed from
  the value (`=`: the value; `@>`: its ancestors; `@=`: its types; prefix: its prefixes; …);
* sorted lists for the orders, cut at the value;
* what is asked for by nearness, in a `NearValues`;
* another `ValueIndex` for the elements of bags, whose tokens mean "some element is accepted";
* whatever is left is asked of the oracle one by one (`in`, nested composites, negated elements).

The tokens of sub-bags are in no such table: kernels find them from what the elements hit (see
`sub_bags.py`).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Hashable
from typing import Any

from kbn.filters import (
    ORDER_OPERATORS,
    Bag,
    Family,
    Near,
    Operator,
    Relation,
    bag_with_known_kinds,
    operator_accepts,
    split_bag_operator,
    value_family,
    value_key,
    with_known_kind,
)
from kbn.matching.accepted_operands import accepted_terms, common, satisfied_bounds
from kbn.matching.affixes import AFFIXES
from kbn.matching.groups import Array
from kbn.matching.known_values import KnownValues
from kbn.matching.memos import ENTRY_BYTES, Memo, Memory
from kbn.matching.memos import bytes_of as bytes_of_value
from kbn.matching.metering import Meter, ask_each, costs_of, current
from kbn.matching.near_values import NearValues
from kbn.matching.text_search import Texts, TextSearch
from kbn.ontology import NOTHING, THING, Ontology, Term

MEMO_BYTES_MAX = 64 << 20  # of what is remembered of all attributes together
ELEMENTS = 64  # of a bag that are looked at together
GATHERED = 8_192  # tokens, likewise
MANY = 8  # tokens that are gathered, and looked at by a kernel, for a unit
# What it costs to find out what one value hits, besides what has to be asked: in general, and
# where only equality and presence are asked for.
LOOKED_UP, LOOKED_UP_BY_KEY = 10, 2

TERM_FAMILIES = (Family.CLASS, Family.PROPERTY, Family.INDIVIDUAL)

# owl:Thing stands above every known class without being listed among its ancestors.
_UNLISTED_TERMS = (THING, NOTHING)

_PLAIN = frozenset((bool, int, float, str))
# The kind of operand an operator takes when it is not the kind of the value.
_OPERAND_KIND = {Operator.ISA: "class"}

_OF_INDIVIDUALS = (Operator.ISA, Operator.ONT_PROP)
_TERM_OPERATORS = (
    Operator.EQUIV,
    Operator.MORE_SPECIFIC,
    Operator.LESS_SPECIFIC,
    Operator.ISA,
    Operator.ONT_PROP,
)


class ValueIndex:
    """Which registered (operator, operand) pairs accept a value; answers are remembered.

    `memory` is what those may take, and `known` what is known of cells.
    """

    def __init__(self, ontology: Ontology, memory: Memory, known: Memory) -> None:
        self._ontology = ontology
        self._present: list[int] = []
        self._families: dict[Family, int] = {}
        self._equal: dict[Any, int] = {}
        self._terms: dict[tuple[Operator, str], dict[Any, int]] = {}
        self._affixes: dict[Operator, dict[str, int]] = {}
        self._lengths: dict[Operator, list[int]] = {}
        self._orders: dict[tuple[Operator, Family], list[tuple[Any, int]]] = {}
        self._near: NearValues | None = None
        self._elements: ValueIndex | None = None
        self._unlisted: list[tuple[Any, Any, int]] = []
        self._unlisted_bags: list[tuple[Any, Any, int]] = []
        self._has_equal_bags = False
        self._search: tuple[int, TextSearch] | None = None
        self._registered: list[tuple[Any, Any, int]] = []
        self._memories = (memory, known)
        self._memo: Memo[Any, tuple[int, ...]] = Memo(memory)
        self.version = 0
        self.known = KnownValues(known)

    # --- registering ---------------------------------------------------------------------------

    def register_family(self, kind: Family, token: int) -> None:
        self._families[kind] = token
        self._forget()

    def register(self, operator: Any, operand: Any, token: int) -> None:
        """From now on `token` is hit by the values that `operator operand` accepts."""
        if operator is Operator.EQ and type(operand) is str:
            self.version += 1
            self._memo.pop(operand, None)  # no other value is equal to it
        else:
            self._forget()
        self._registered.append((operator, operand, token))
        bag = split_bag_operator(operator)
        if operator is Operator.EXISTS:
            self._present.append(token)
        elif operator is Operator.EQ or operator is Operator.EQUAL_BAG:
            self._register_equal(operator, operand, token)
        elif operator in _TERM_OPERATORS:
            self._register_term(operator, operand, token)
        elif operator in AFFIXES:
            self._register_affix(operator, operand, token)
        elif operator in ORDER_OPERATORS:
            ordered = (operator, value_family(operand))
            insort(self._orders.setdefault(ordered, []), (operand, token))
        elif isinstance(operator, Near) and type(operand) is not Term:
            if self._near is None:
                self._near = NearValues(self._ontology)
            self._near.register(operator, operand, token)
        elif bag is not None and bag[0] is Operator.SUPER_BAG and len(operand) == 1:
            self._register_element(bag[1], operand.items[0], token)
        elif type(operand) is Bag:
            self._unlisted_bags.append((operator, operand, token))
        else:
            self._unlisted.append((operator, operand, token))

    def _forget(self) -> None:
        """What values hit is to be worked out anew."""
        self.version += 1
        self._memo.forget()

    def _register_equal(self, operator: Any, operand: Any, token: int) -> None:
        # A bag may be asked for by `=` and by `#=`; a bare term equals terms of every kind.
        is_bag = type(operand) is Bag
        bare = type(operand) is Term or (is_bag and operand.bare)
        if bare or value_key(operand) in self._equal:
            (self._unlisted_bags if is_bag else self._unlisted).append((operator, operand, token))
        else:
            self._equal[value_key(operand)] = token
            self._has_equal_bags = self._has_equal_bags or is_bag

    def _register_term(self, operator: Operator, operand: Any, token: int) -> None:
        if isinstance(operand, Relation):
            pair = (operand.property.iri, operand.individual.iri)
            self._terms.setdefault((operator, "individual"), {})[pair] = token
        elif operand.iri in _UNLISTED_TERMS:
            self._unlisted.append((operator, operand, token))
        else:
            self._terms.setdefault((operator, operand.kind), {})[operand.iri] = token

    def _register_affix(self, operator: Operator, operand: str, token: int) -> None:
        self._affixes.setdefault(operator, {})[operand] = token
        lengths = self._lengths.setdefault(operator, [])
        if len(operand) not in lengths:
            insort(lengths, len(operand))

    def _register_element(self, element: Any, operand: Any, token: int) -> None:
        if self._elements is None:
            self._elements = ValueIndex(self._ontology, *self._memories)
        self._elements.register(element, operand, token)

    # --- asking --------------------------------------------------------------------------------

    def hits(self, value: Any) -> tuple[int, ...]:
        """The tokens `value` hits (a token may stand there twice)."""
        if value.__class__ is Bag:
            return tuple(self._hits_of_bag(value))
        known = (bool, value) if value.__class__ is bool else value
        found = self._memo.get(known)
        if found is None:
            meter = current()
            if meter is None:
                return self._worked_out(known, value)
            cost = LOOKED_UP_BY_KEY if self._is_found_by_key(value) else LOOKED_UP
            cost += 0 if self._near is None else self._near.cost(value)
            found = meter.ask((self, known), cost, lambda: self._worked_out(known, value))
        return found

    def _is_found_by_key(self, value: Any) -> bool:
        plain = value.__class__ in _PLAIN
        return plain and not (self._orders or self._affixes or self._unlisted)

    def _worked_out(self, known: Any, value: Any) -> tuple[int, ...]:
        found = tuple(self._hits_of_scalar(value))
        size = ENTRY_BYTES + bytes_of_value(value) + 8 * len(found)
        self._memo.remember(known, found, size)
        return found

    def text_hits(self, texts: Texts) -> tuple[Array, Array, Array] | None:
        """What each of many texts hits: where its tokens begin and end, and the tokens.

        Texts are searched together; None where that does not tell all.
        """
        if self._unlisted or self._near or not self._affixes or current() is not None:
            return None
        if any(kind is Family.STRING for _, kind in self._orders):
            return None
        if self._search is None or self._search[0] != self.version:
            self._search = self.version, TextSearch(self._affixes)
        found = self._search[1].hits(texts)
        if found is None:
            return None
        every = self.every_value_hits(Family.STRING)
        equal = self._equal.get
        has_texts = any(type(each) is str for each in self._equal)
        tokens = [equal(text) for text in texts.listed()] if has_texts else []
        return texts.runs(found, every, tokens)

    def element_hits(self, value: Any) -> tuple[int, ...]:
        """The tokens hit by a bag because `value` is in it."""
        return () if self._elements is None else self._elements.hits(value)

    @property
    def elements(self) -> ValueIndex | None:
        """The index of what elements of bags hit, None when nobody asks for any."""
        return self._elements

    @property
    def asks_for_individuals(self) -> bool:
        """Whether some constraint takes individuals only."""
        return any(operator in _OF_INDIVIDUALS for operator, _ in self._terms)

    @property
    def has_only_elements(self) -> bool:
        """Whether a bag's hits are the union of its elements' and of what every bag hits."""
        return not (self._has_equal_bags or self._unlisted_bags)

    @property
    def every_bag_hits_the_same(self) -> bool:
        """Whether a bag's hits depend on nothing that is in it."""
        return self._elements is None and self.has_only_elements

    def every_value_hits(self, kind: Family) -> list[int]:
        """The tokens that any value of a family hits, whatever it is."""
        found = list(self._present)
        if kind in self._families:
            found.append(self._families[kind])
        return found

    def every_bag_hits(self) -> list[int]:
        """The tokens that any bag at all hits."""
        return self.every_value_hits(Family.BAG)

    def _hits_of_bag(self, bag: Bag) -> list[int]:
        found = self.every_value_hits(Family.BAG)
        if self._elements is not None:
            of_element = self._elements.hits
            meter = current() if len(bag.items) > ELEMENTS else None
            if meter is not None:
                found += self._hits_of_elements(bag, of_element, meter)
            else:
                for element in bag:
                    found += of_element(element)
        if not self.has_only_elements:
            found += self._hits_of_whole_bag(bag)
        return found

    def _hits_of_elements(
        self, bag: Bag, of_element: Callable[[Any], tuple[int, ...]], meter: Meter
    ) -> list[int]:
        """What the elements of a large bag hit, some of them at a time."""
        asked, items = meter.asked((self, "elements", bag)), bag.items
        while asked.place < len(items):
            place = asked.place
            gathered: list[int] = []
            for element in items[place : place + ELEMENTS]:
                gathered += of_element(element)
                place += 1
                if len(gathered) > GATHERED:
                    break
            meter.spend(1 + (place - asked.place + len(gathered)) // MANY)
            asked.found += gathered
            asked.place = place
            if len(asked.found) > 8 * GATHERED:
                asked.found = list(set(asked.found))
        return asked.found

    def _hits_of_whole_bag(self, bag: Bag) -> list[int]:
        known = bag_with_known_kinds(bag, self._ontology)
        asked = self._unlisted_bags
        if known.bare:
            asked = [each for each in self._registered if type(each[1]) is Bag]
        found = self._asked((self, "bags", bag), asked, known)
        token = self._equal.get(known)
        return found if token is None else [*found, token]

    def _hits_of_scalar(self, value: Any) -> list[int]:
        if isinstance(value, Term):
            value = with_known_kind(value, self._ontology)
            if type(value) is Term or value.iri in _UNLISTED_TERMS:
                return self._ask_all(value)
        kind = value_family(value)
        found = list(self._present)
        if kind in self._families:
            found.append(self._families[kind])
        token = self._equal.get(value_key(value))
        if token is not None:
            found.append(token)
        if kind in TERM_FAMILIES:
            found += self._hits_of_term(value)
        elif kind is Family.STRING:
            found += self._hits_of_string(value)
        if self._near is not None:
            found += self._near.hits(value)
        for (operator, ordered), bounds in self._orders.items():
            if ordered is kind:
                found += satisfied_bounds(operator, bounds, value)
        if self._unlisted:
            found += self._ask_unlisted(value)
        return found

    def _asked(
        self, name: Hashable, questions: list[tuple[Any, Any, int]], value: Any
    ) -> list[int]:
        """The tokens among these (operator, operand, token) whose constraints accept the value."""
        ontology = self._ontology

        cost_for = costs_of(value)

        def cost(question: tuple[Any, Any, int]) -> int:
            return cost_for(question[0], question[1])

        def accepts(question: tuple[Any, Any, int]) -> bool:
            return operator_accepts(question[0], value, question[1], ontology)

        return [token for _, _, token in ask_each(name, questions, cost, accepts)]

    def _ask_unlisted(self, value: Any) -> list[int]:
        return self._asked((self, "unlisted", value_key(value)), self._unlisted, value)

    def _ask_all(self, value: Any) -> list[int]:
        """For the odd value whose hits cannot be listed: every pair, one by one."""
        found = self._asked((self, "all", value_key(value)), self._registered, value)
        if value_family(value) in self._families:
            found.append(self._families[value_family(value)])
        return found

    def _hits_of_term(self, value: Term) -> list[int]:
        found: list[int] = []
        for (operator, kind), operands in self._terms.items():
            # A term of no stated kind is taken as the kind of the value it meets.
            if kind == "term" or kind == _OPERAND_KIND.get(operator, value.kind):
                accepted = accepted_terms(operator, value, self._ontology)
                found += common(operands, accepted)
        return found

    def _hits_of_string(self, value: str) -> list[int]:
        found: list[int] = []
        for operator, patterns in self._affixes.items():
            candidates = AFFIXES[operator](value, self._lengths[operator], len(patterns))
            if candidates is None:
                found += self._contained(patterns, value)
            else:
                found += common(patterns, candidates)
        return found

    def _contained(self, patterns: dict[str, int], value: str) -> list[int]:
        """The tokens of the patterns in a text."""
        if current() is None:
            return [token for pattern, token in patterns.items() if pattern in value]
        cost = 1 + len(value) // 500
        name = (self, "contained", value)
        asked = ask_each(name, list(patterns.items()), lambda _: cost, lambda p: p[0] in value)
        return [token for _, token in asked]
