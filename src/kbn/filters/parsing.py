"""Parsing: subscription text to subscriptions.

    category #>/@> {podcast:Technology} and keywords #> {"python", "spark"} and duration < 3600
    alarm @= cim:Alert and source @* [net:locatedIn, net:Dublin] and not severity = "info"

`lexing` makes tokens, `plans` finds out how they hang together, and here the values are filled in.
Prefixes are those declared at the top of the text (`prefix wine: <http://...#>`), then those passed
in, then the ontology's, then a few that everybody uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import StringIO
from typing import NamedTuple

from kbn.errors import FilterSyntaxError, InvalidInputError, LimitError
from kbn.filters.lexing import (
    MAX_TOKENS,
    Tokens,
    read_iri,
    read_literal,
    read_name,
    tokenize_filter,
)
from kbn.filters.model import Constraint, Filter, Subscription
from kbn.filters.operators import AnyOperator, close_spellings, negate_operator, read_operator
from kbn.filters.plans import BagPlan, Leaf, OperandPlan, RelationPlan, TaggedPlan, plan_for
from kbn.filters.values import Bag, Operand, Relation
from kbn.filters.vocabulary import KINDS, Vocabulary
from kbn.ontology import Term
from kbn.wording import close_names, did_you_mean

__all__ = ["COMMON_PREFIXES", "parse", "parse_lines"]

COMMON_PREFIXES: Mapping[str, str] = {
    "owl": "http://www.w3.org/2002/07/owl#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}


def parse(
    text: str,
    prefixes: Mapping[str, str] | None = None,
    ontology: Vocabulary | None = None,
    *,
    tokens_max: int = MAX_TOKENS,
) -> Subscription:
    """The subscription the text stands for; with an ontology its terms are resolved as well.

    A text of more than `tokens_max` tokens is refused before it is looked at any further.

    >>> parse('price < 10 and not name = "tea"')
    Subscription([Filter([Constraint('name', Operator.NE, 'tea'), \
Constraint('price', Operator.LT, 10)])])
    """
    if not isinstance(text, str):
        raise InvalidInputError(f"a subscription's text is a string, not {type(text).__name__}")
    made = _build(tokenize_filter(text, tokens_max), _known_prefixes(prefixes, ontology))
    if ontology is None:
        return made
    from kbn.filters.term_resolution import resolve_terms

    return resolve_terms(made, ontology)


def parse_lines(
    text: str, prefixes: Mapping[str, str] | None = None, ontology: Vocabulary | None = None
) -> Iterator[Subscription]:
    """The subscriptions of a file with one on each line.

    Blank lines and comments are skipped; a line may also declare a prefix for the lines after it.
    A syntax error counts lines from the start of the text.

    >>> [str(one) for one in parse_lines("price < 3  # cheap\\n\\nprice > 9")]
    ['price < 3', 'price > 9']
    """
    known = dict(_known_prefixes(prefixes, ontology))
    start = 0
    for line in StringIO(text):  # at \n alone: a string may hold what splitlines() splits at
        try:
            tokens = tokenize_filter(line)
            if tokens.kinds == ("PREFIX", "CURIE", "IRI"):
                known[tokens.spellings[1].partition(":")[0]] = read_iri(tokens, 2)
            elif tokens.kinds:
                yield parse(line, known, ontology)
        except FilterSyntaxError as error:
            raise FilterSyntaxError(
                error.reason, text=text, position=start + error.position, expected=error.expected
            ) from None
        start += len(line)


def _known_prefixes(
    prefixes: Mapping[str, str] | None, ontology: Vocabulary | None
) -> Mapping[str, str]:
    declared = getattr(ontology, "prefixes", None)
    if declared:
        return {**COMMON_PREFIXES, **declared, **(prefixes or {})}
    return {**COMMON_PREFIXES, **prefixes} if prefixes else COMMON_PREFIXES


class _Source(NamedTuple):
    """What the builders need: the tokens and the prefixes in force."""

    tokens: Tokens
    prefixes: Mapping[str, str]


def _build(tokens: Tokens, prefixes: Mapping[str, str]) -> Subscription:
    plan = plan_for(tokens)
    if plan.declarations:
        prefixes = {**prefixes, **_declared(tokens, plan.declarations)}
    source = _Source(tokens, prefixes)
    constraints = [_constraint(source, leaf) for leaf in plan.leaves]
    return Subscription([Filter([constraints[i] for i in part]) for part in plan.filters])


def _declared(tokens: Tokens, declarations: tuple[tuple[int, int], ...]) -> dict[str, str]:
    made: dict[str, str] = {}
    for prefix, iri in declarations:
        name, _, local = tokens.spellings[prefix].partition(":")
        if local:
            raise tokens.error(prefix, f"a declaration ends with the colon: prefix {name}: <...>")
        made[name] = read_iri(tokens, iri)
    return made


def _constraint(source: _Source, leaf: Leaf) -> Constraint:
    tokens = source.tokens
    operator = _operator(tokens, leaf)
    attribute = read_name(tokens, leaf.attribute)
    operand = None if leaf.operand is None else _operand(source, leaf.operand)
    try:
        return Constraint(attribute, operator, operand)
    except LimitError:
        raise
    except InvalidInputError as error:
        raise tokens.error(_first_token(leaf), str(error)) from None


def _operator(tokens: Tokens, leaf: Leaf) -> AnyOperator:
    spelling = tokens.spellings[leaf.operator]
    try:
        operator = read_operator(spelling)
    except LimitError:
        raise
    except InvalidInputError as error:
        hint = did_you_mean(close_spellings(spelling))
        raise tokens.error(leaf.operator, f"{error}{hint}") from None
    return negate_operator(operator) if leaf.negated else operator


def _first_token(leaf: Leaf) -> int:
    plan = leaf.operand
    while isinstance(plan, BagPlan) and plan.elements:
        plan = plan.elements[0]
    if isinstance(plan, RelationPlan):
        return plan.start
    if isinstance(plan, TaggedPlan):
        return plan.kind
    return plan if isinstance(plan, int) else leaf.operator


def _operand(source: _Source, plan: OperandPlan) -> Operand:
    if type(plan) is int:
        kind = source.tokens.kinds[plan]
        return (
            _term(source, plan) if kind in ("IRI", "CURIE") else read_literal(source.tokens, plan)
        )
    if isinstance(plan, BagPlan):
        return Bag(*[_operand(source, element) for element in plan.elements])
    if isinstance(plan, TaggedPlan):
        return KINDS[source.tokens.spellings[plan.kind]](_term(source, plan.term).iri)
    assert isinstance(plan, RelationPlan)
    parts = (_operand(source, plan.property), _operand(source, plan.individual))
    try:
        return Relation(*parts)  # type: ignore[arg-type]
    except InvalidInputError as error:
        raise source.tokens.error(plan.start, str(error)) from None


def _term(source: _Source, index: int) -> Term:
    tokens, prefixes = source
    if tokens.kinds[index] == "IRI":
        return Term(read_iri(tokens, index))
    prefix, _, local = tokens.spellings[index].partition(":")
    namespace = prefixes.get(prefix)
    if namespace is None:
        raise _unknown_prefix(tokens, index, prefix, prefixes)
    if not namespace and not local:
        raise tokens.error(index, "this term is empty")
    return Term(namespace + local)


def _unknown_prefix(
    tokens: Tokens, index: int, prefix: str, prefixes: Mapping[str, str]
) -> FilterSyntaxError:
    hint = did_you_mean(f"{name}:" for name in close_names(prefix, prefixes))
    if not hint:
        shown = ", ".join(f"{name}:" for name in sorted(prefixes)[:12])
        hint = f"; declared are {shown}" if shown else "; declare it: prefix name: <iri>"
    return tokens.error(index, f"the prefix {prefix}: is not declared{hint}")
