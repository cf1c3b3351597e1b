"""Plans: how the tokens of a text are put together, worked out once for each sequence of kinds.

What a subscription looks like is decided by the kinds of its tokens alone: `a = 1 and b > 2` and
`x = 7 and price > 3` go through the same steps with other spellings. So the grammar is run over
kinds, and its result, a plan that refers to tokens by their index, is remembered. Most texts of a
bulk load share a few plans and skip the grammar altogether.

A plan is in disjunctive normal form already. Negation is pushed to the leaves; each leaf then says
whether its operator is to be negated. The number of filters is counted before any is made, so a
text that would explode is refused at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib import resources
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from kbn.errors import LimitError
from kbn.filters.lexing import KINDS, Tokens
from kbn.filters.model import MAX_CONSTRAINTS, MAX_FILTERS
from kbn.filters.values import MAX_BAG_DEPTH
from kbn.wording import did_you_mean

if TYPE_CHECKING:
    from lark import Lark, Token

__all__ = ["MAX_NESTING", "BagPlan", "Leaf", "OperandPlan", "Plan", "RelationPlan", "plan_for"]

MAX_NESTING = 64
_LONGEST_REMEMBERED = 64


class BagPlan(NamedTuple):
    """A bag; `depth` counts bags within bags."""

    elements: tuple[OperandPlan, ...]
    depth: int


class RelationPlan(NamedTuple):
    """`[property, individual]`; `start` is the token of the bracket."""

    property: OperandPlan
    individual: OperandPlan
    start: int


class TaggedPlan(NamedTuple):
    """`class(term)` and its like."""

    kind: int
    term: int


OperandPlan: TypeAlias = int | BagPlan | RelationPlan | TaggedPlan


class Leaf(NamedTuple):
    """One constraint: the tokens of its attribute and operator, and what its operand is made of."""

    attribute: int
    operator: int
    operand: OperandPlan | None
    negated: bool


class Plan(NamedTuple):
    """Prefix declarations, the constraints, and which of them each filter holds."""

    declarations: tuple[tuple[int, int], ...]
    leaves: tuple[Leaf, ...]
    filters: tuple[tuple[int, ...], ...]


def plan_for(tokens: Tokens) -> Plan:
    """The plan for these tokens, or the syntax error that says why there is none."""
    if len(tokens.kinds) <= _LONGEST_REMEMBERED:
        found = _remembered(tokens.kinds)
    else:
        found = _worked_out(tokens.kinds)
    if isinstance(found, _Refusal):
        raise tokens.error(found.at, found.reason or _unexpected(tokens, found), found.expected)
    if isinstance(found, LimitError):
        raise found
    return found


class _Refusal(NamedTuple):
    """Why a sequence of kinds has no plan; an empty reason means that the grammar refused it."""

    at: int
    reason: str
    expected: tuple[str, ...]


class _Refused(Exception):
    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.refusal = _Refusal(index, reason, ())


@lru_cache(maxsize=4096)
def _remembered(kinds: tuple[str, ...]) -> Plan | _Refusal | LimitError:
    return _worked_out(kinds)


def _worked_out(kinds: tuple[str, ...]) -> Plan | _Refusal | LimitError:
    from lark import Token
    from lark.exceptions import UnexpectedToken

    if _nesting(kinds) > MAX_NESTING:
        return _too_deep()  # before the grammar puts all of it together
    sequence = [Token(kind, "", start_pos=index) for index, kind in enumerate(kinds)]
    try:
        tree = cast(Any, _grammar().parse(cast(str, sequence)))
        return _normalised(*tree)
    except UnexpectedToken as error:
        at = len(kinds) if error.token.type == "$END" else cast(int, error.token.start_pos)
        return _Refusal(at, "", _described(error.accepts or error.expected))
    except _Refused as error:
        return error.refusal
    except LimitError as error:
        return error


def _nesting(kinds: tuple[str, ...]) -> int:
    """How deep parentheses and `not` are nested; 0 where it cannot be too deep.

    >>> _nesting(("NOT", "NAME")), _nesting(("NOT",) * 1000) > MAX_NESTING
    (0, True)
    """
    if kinds.count("NOT") + kinds.count("LPAR") <= MAX_NESTING:
        return 0
    deepest = depth = inside = 0  # around the next token; inside the last open parenthesis
    outside: list[int] = []  # of each open parenthesis, and of the `not` before it
    before = ""
    for kind in kinds:
        if kind == "NOT":
            depth += 1
        elif kind == "LPAR":
            outside.append(inside)
            inside = depth = depth + (before != "KIND")
        elif kind == "RPAR" and outside:
            inside = depth = outside.pop()
        else:
            depth = inside
        deepest = max(deepest, depth)
        before = kind
    return deepest


def _described(kinds: Iterable[str]) -> tuple[str, ...]:
    """What a reader would call these kinds; an attribute may also be a word with other uses."""
    wanted = set(kinds)
    if "NAME" in wanted:
        wanted -= {"WORD", "PREFIX", "EXISTS", "KIND", "INF"}
    if "OPERATOR" in wanted:
        wanted.discard("PREFIX")
    return tuple(dict.fromkeys(name for kind, name in KINDS.items() if kind in wanted))


def _unexpected(tokens: Tokens, refusal: _Refusal) -> str:
    if refusal.at >= len(tokens.kinds):
        return "the text ends too early"
    spelling = tokens.spellings[refusal.at]
    shown = spelling if len(spelling) <= 40 else spelling[:37] + "..."
    return f"unexpected {shown!r}" + _hint(tokens, refusal)


def _hint(tokens: Tokens, refusal: _Refusal) -> str:
    from kbn.filters.operators import close_spellings

    kind, spelling = tokens.kinds[refusal.at], tokens.spellings[refusal.at]
    if kind == "OPERATOR" and spelling.startswith("<") and KINDS["IRI"] in refusal.expected:
        return "; if this starts an IRI, it is not closed with >, is empty or holds a blank"
    if kind == "NAME" and KINDS["OPERATOR"] in refusal.expected:
        return did_you_mean(close_spellings(spelling)) or "; there is no such operator"
    if kind == "NAME" and KINDS["STRING"] in refusal.expected:
        return f'; write "{spelling}" for a string, or prefix:name for a term'
    if KINDS["NAME"] in refusal.expected and kind in ("CURIE", "STRING", "IRI"):
        return "; an attribute that is not a plain name goes in `backquotes`"
    return ""


# From kinds to an expression. Nodes are made bottom up; each knows how deep it is, so that nothing
# that follows can recurse too far.


class _Node(NamedTuple):
    kind: str  # "leaf", "all", "any", "not" or "everything"
    parts: tuple[Any, ...]
    depth: int
    start: int


@cache
def _grammar() -> Lark:
    from lark import Lark
    from lark.lexer import Lexer

    class Handed(Lexer):
        """The tokens are made already; the parser is handed them as they are."""

        def __init__(self, conf: object) -> None:
            pass

        def lex(self, sequence: Any) -> Iterator[Token]:  # type: ignore[override]
            return iter(sequence)

    text = resources.files("kbn.filters").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(text, parser="lalr", lexer=Handed, transformer=cast(Any, _Rules()))


class _Rules:
    """What each rule of the grammar makes of its parts."""

    def start(self, parts: list[Any]) -> tuple[tuple[tuple[int, int], ...], _Node]:
        return tuple(parts[:-1]), parts[-1]

    def declaration(self, parts: list[Token]) -> tuple[int, int]:
        _, prefix, iri = parts
        return _at(prefix), _at(iri)

    def any_of(self, parts: list[Any]) -> _Node:
        return _join("any", parts[::2])

    def all_of(self, parts: list[Any]) -> _Node:
        return _join("all", parts[::2])

    def negation(self, parts: list[Any]) -> _Node:
        word, part = parts
        return _deeper("not", part, _at(word))

    def group(self, parts: list[Any]) -> _Node:
        left, part, _ = parts
        return cast(_Node, part._replace(depth=_deeper("not", part, _at(left)).depth))

    def everything(self, parts: list[Token]) -> _Node:
        return _Node("everything", (), 0, _at(parts[0]))

    def test(self, parts: list[Any]) -> _Node:
        attribute, operator, operand = parts
        leaf = Leaf(_at(attribute), _at(operator), _operand(operand), False)
        return _Node("leaf", leaf, 0, leaf.attribute)

    def negated_test(self, parts: list[Any]) -> _Node:
        attribute, word, operator, operand = parts
        return _deeper("not", self.test([attribute, operator, operand]), _at(word))

    def presence(self, parts: list[Token]) -> _Node:
        attribute, operator = parts
        return _Node("leaf", Leaf(_at(attribute), _at(operator), None, False), 0, _at(attribute))

    def absence(self, parts: list[Token]) -> _Node:
        raise _Refused(_at(parts[1]), _NO_ABSENCE)

    def empty_bag(self, parts: list[Token]) -> BagPlan:
        return BagPlan((), 1)

    def bag(self, parts: list[Any]) -> BagPlan:
        elements = tuple(_operand(part) for part in parts[1::2])
        depth = 1 + max((part.depth for part in elements if isinstance(part, BagPlan)), default=0)
        if depth > MAX_BAG_DEPTH:
            raise LimitError(
                f"bags are nested more than {MAX_BAG_DEPTH} deep",
                limit="bag depth",
                maximum=MAX_BAG_DEPTH,
            )
        return BagPlan(elements, depth)

    def relation(self, parts: list[Any]) -> RelationPlan:
        left, property, _, individual, _ = parts
        return RelationPlan(_operand(property), _operand(individual), _at(left))

    def tagged(self, parts: list[Token]) -> TaggedPlan:
        kind, _, term, _ = parts
        return TaggedPlan(_at(kind), _at(term))


_NO_ABSENCE = "a constraint cannot ask for an attribute to be absent"


def _at(token: Token) -> int:
    return cast(int, token.start_pos)


def _operand(part: Any) -> OperandPlan:
    if isinstance(part, (BagPlan, RelationPlan, TaggedPlan)):
        return part
    return _at(part)


def _join(kind: str, parts: list[_Node]) -> _Node:
    return _Node(kind, tuple(parts), max(part.depth for part in parts), parts[0].start)


def _deeper(kind: str, part: _Node, start: int) -> _Node:
    if part.depth >= MAX_NESTING:
        raise _too_deep()
    return _Node(kind, (part,), part.depth + 1, start)


def _too_deep() -> LimitError:
    return LimitError(
        f"parentheses and `not` are nested more than {MAX_NESTING} deep",
        limit="nesting",
        maximum=MAX_NESTING,
    )


# From an expression to disjunctive normal form.


def _normalised(declarations: tuple[tuple[int, int], ...], root: _Node) -> Plan:
    leaves: list[Leaf] = []
    tree = _negations_pushed(root, False, leaves)
    _refuse_too_many(_filters_in(tree))
    return Plan(declarations, tuple(leaves), tuple(_expanded(tree)))


def _negations_pushed(node: _Node, negated: bool, leaves: list[Leaf]) -> _Node:
    """The same without "not"; a leaf is replaced by its index in `leaves`."""
    if node.kind == "not":
        return _negations_pushed(node.parts[0], not negated, leaves)
    if node.kind == "leaf":
        leaf = cast(Leaf, node.parts)
        if negated and leaf.operand is None:
            raise _Refused(leaf.attribute, _NO_ABSENCE)
        leaves.append(leaf._replace(negated=negated))
        return node._replace(parts=(len(leaves) - 1,))
    if node.kind == "everything":
        if negated:
            raise _Refused(node.start, "`not true` would match nothing")
        return node
    kind = {"all": "any", "any": "all"}[node.kind] if negated else node.kind
    return node._replace(
        kind=kind, parts=tuple(_negations_pushed(part, negated, leaves) for part in node.parts)
    )


def _filters_in(node: _Node) -> int:
    """How many filters the expression expands to; the count stops growing at the limit."""
    if node.kind == "any":
        return min(sum(map(_filters_in, node.parts)), MAX_FILTERS + 1)
    count = 1
    if node.kind == "all":
        for part in node.parts:
            count = min(count * _filters_in(part), MAX_FILTERS + 1)
    return count


def _refuse_too_many(filters: int) -> None:
    if filters > MAX_FILTERS:
        raise LimitError(
            f"written out as alternatives, this makes more than {MAX_FILTERS} filters",
            limit="filters per subscription",
            maximum=MAX_FILTERS,
        )


def _expanded(node: _Node) -> Iterator[tuple[int, ...]]:
    if node.kind == "leaf":
        yield (cast(int, node.parts[0]),)
    elif node.kind == "everything":
        yield ()
    elif node.kind == "any":
        for part in node.parts:
            yield from _expanded(part)
    else:
        for choice in product(*(list(_expanded(part)) for part in node.parts)):
            merged = tuple(leaf for part in choice for leaf in part)
            if len(merged) > MAX_CONSTRAINTS:
                raise LimitError(
                    f"a filter of more than {MAX_CONSTRAINTS} constraints",
                    limit="constraints per filter",
                    maximum=MAX_CONSTRAINTS,
                )
            yield merged
