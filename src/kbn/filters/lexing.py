r"""Lexing: subscription text to tokens, and tokens to values.

One regular expression makes all tokens; `KINDS` says how a reader would call each kind. Kinds need
no context: an IRI in `<...>` starts with a letter (or an escape) and holds no blank, so `x <3` is
an order and `<urn:a>` a term. A `#` starts a comment to the end of the line, unless `=`, `<` or `>`
follows it, which makes a bag operator.

Literals: `12` `-3.5` `1e9` `inf`; `true` `false`; "text" or 'text' with the escapes of JSON (and
\' and \UXXXXXXXX); `2026-11-15T10:00:00Z` with a time zone; bytes in hexadecimal, b"00ff".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from kbn.errors import FilterSyntaxError, LimitError
from kbn.filters.operators import Operator
from kbn.filters.values import Value

__all__ = [
    "KINDS",
    "LOCAL_NAME",
    "MAX_TEXT",
    "MAX_TOKENS",
    "NAME",
    "RESERVED",
    "Tokens",
    "read_iri",
    "read_literal",
    "read_name",
    "tokenize_filter",
]

MAX_TEXT = 2**20
MAX_TOKENS = 2**18

KINDS = {
    "PREFIX": "`prefix`",
    "CURIE": "a term such as wine:Wine",
    "IRI": "an IRI in <>",
    "OR": "`or`",
    "AND": "`and`",
    "NOT": "`not`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "TRUE": "`true`",
    "FALSE": "`false`",
    "NAME": "an attribute",
    "QUOTED": "an attribute",
    "WORD": "an operator",
    "EXISTS": "`any`",
    "KIND": "`class(`",
    "INF": "a number",
    "OPERATOR": "an operator",
    "STRING": "a string",
    "NUMBER": "a number",
    "TIME": "a time",
    "BYTES": "bytes",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "LBRACKET": "`[`",
    "RBRACKET": "`]`",
    "COMMA": "`,`",
    "$END": "the end",
}

NAME = r"[^\W\d][\w.\-]*"
LOCAL_NAME = r"(?:[\w\-%/:.~]*[\w\-%/~])?"
_ESCAPE = r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"
_SYMBOL = r"@!=|@!~|@[~><=*]|>\*|\*[<>]|\*|!=|<=|>=|<|>|="
_NEAR = r"near\([^()\n]*+\)"
_BAG = r"\#[=<>]"
_BAG_WORD = r"(?:equal_bag|sub_bag|super_bag)"
_IRI = (
    rf"""<(?:[A-Za-z][A-Za-z0-9+.\-]*:(?:[^\x00-\x20<>"{{}}|^`\\]|{_ESCAPE})*"""
    rf"""|(?:[^\W\d]|{_ESCAPE})(?:[\w.\-/\#]|{_ESCAPE})*)>"""
)
_IRI_AHEAD = f"(?!{_IRI})"

# The order is by frequency; where two kinds could start alike, a lookahead keeps them apart.
# No group is possessive, only single characters: Python gets those wrong before 3.11.5.
_TOKEN = re.compile(
    rf"""\s*+(?:\#(?![=<>])[^\n]*+\s*+)*
    (?:(?P<NAME>(?!near\(){NAME}+(?![:/"]))
    |(?P<OPERATOR>[=](?![=])
        |{_IRI_AHEAD}!?(?:(?:{_BAG}|{_BAG_WORD})/!?)*
            (?:{_BAG}(?!/)|{_SYMBOL}|{_NEAR}|(?:(?<=/)|(?<=/!))(?!{_BAG_WORD}/)\w+))
    |(?P<NUMBER>[+\-]?(?:(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+\-]?[0-9]++)?|inf)(?![\w.\-]))
    |(?P<STRING>"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*')
    |(?P<PUNCTUATION>[(){{}}\[\],!]|&&|\|\|)
    |(?P<CURIE>(?:{NAME}+)?:{LOCAL_NAME})
    |(?P<IRI>{_IRI})
    |(?P<BYTES>b"[0-9A-Fa-f\ ]*")
    |(?P<WORD>{NAME}+(?!:))
    |(?P<TIME>[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T[0-9:.]*(?:Z|[+\-][0-9]{{2}}:?[0-9]{{2}})?)
    |(?P<QUOTED>`(?:[^`\\\n]|\\.)+`)
    |(?P<END>\Z)
    |(?P<BAD>.))""",
    re.VERBOSE | re.DOTALL,
)

_PUNCTUATION = {
    "(": "LPAR",
    ")": "RPAR",
    "{": "LBRACE",
    "}": "RBRACE",
    "[": "LBRACKET",
    "]": "RBRACKET",
    ",": "COMMA",
    "!": "NOT",
    "&&": "AND",
    "||": "OR",
}
_WORDS = {
    **{op.word: "WORD" for op in Operator},
    **{spelling: kind for kind in ("AND", "OR", "NOT") for spelling in (kind, kind.lower())},
    "prefix": "PREFIX",
    "any": "EXISTS",
    "exists": "EXISTS",
    "true": "TRUE",
    "false": "FALSE",
    "class": "KIND",
    "property": "KIND",
    "individual": "KIND",
    "inf": "INF",
}
RESERVED = frozenset(_WORDS)


class Tokens(NamedTuple):
    """The tokens of a text, column by column; `kinds` alone decides how they are put together."""

    text: str
    kinds: tuple[str, ...]
    spellings: list[str]
    starts: list[int]

    def error(self, index: int, reason: str, expected: tuple[str, ...] = ()) -> FilterSyntaxError:
        """A syntax error at this token, or at the end of the text."""
        position = self.starts[index] if index < len(self.starts) else len(self.text.rstrip())
        return FilterSyntaxError(reason, text=self.text, position=position, expected=expected)


def tokenize_filter(text: str, tokens_max: int = MAX_TOKENS) -> Tokens:
    """The tokens of a text, or a syntax error at the first thing that is none.

    It takes time in proportion to the text. Two terms side by side mean nothing, so the tokens
    after them are not looked for: the parser refuses the second.

    >>> tokenize_filter("price < 20").spellings
    ['price', '<', '20']
    """
    if len(text) > MAX_TEXT:
        raise LimitError(
            f"a text of {len(text)} characters; the limit is {MAX_TEXT}",
            limit="text length",
            maximum=MAX_TEXT,
        )
    kinds: list[str] = []
    spellings: list[str] = []
    starts: list[int] = []
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        assert kind is not None
        spelling = found[kind]
        if kind == "NAME" or kind == "WORD":
            kind = _WORDS.get(spelling, "NAME")
        elif kind == "PUNCTUATION":
            kind = _PUNCTUATION[spelling]
        elif kind == "END":
            break
        elif kind == "BAD":
            raise _no_token(text, found.start("BAD"))
        kinds.append(kind)
        spellings.append(spelling)
        starts.append(found.start(found.lastindex))  # type: ignore[arg-type]
        if len(kinds) > tokens_max:
            raise _too_many_tokens(tokens_max)
        if kind == "CURIE" and kinds[-2:-1] == ["CURIE"]:
            break  # each of a row of colons would look at all the others
    return Tokens(text, tuple(kinds), spellings, starts)


def _too_many_tokens(tokens_max: int) -> LimitError:
    return LimitError(
        f"a subscription of more than {tokens_max} words and signs; that is the limit: divide it "
        "into several",
        limit="tokens per subscription",
        maximum=tokens_max,
    )


def _no_token(text: str, position: int) -> FilterSyntaxError:
    reasons = {
        '"': "this string is not closed, or holds a line break (write \\n)",
        "'": "this string is not closed, or holds a line break (write \\n)",
        "`": "this attribute name is empty or not closed",
        "&": "a single & means nothing; write `and` or &&",
        "|": "a single | means nothing; write `or` or ||",
        "<": "this IRI is not closed or holds a blank",
    }
    character = text[position]
    reason = reasons.get(character) or _no_number(text, position)
    reason = reason or f"{character!r} has no meaning here"
    return FilterSyntaxError(reason, text=text, position=position)


def _no_number(text: str, position: int) -> str:
    """What is wrong with something that starts like a number or a time; "" when nothing does."""
    if date := re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\b").match(text, position):
        return f"a time needs a clock and a zone as well: {date[0]}T00:00:00Z"
    word = re.compile(r"[0-9][\w.\-]*").match(text, position)
    return f"{word[0][:40]!r} is not a number" if word else ""


_SHORT_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_ESCAPED = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([nrtbf\"'`\\/])|)")


def _unescaped(tokens: Tokens, index: int, body: str) -> str:
    """The text an escaped body stands for; JSON's surrogate pairs are put together."""

    def replace(found: re.Match[str]) -> str:
        digits = found[1] or found[2]
        if digits:
            code = int(digits, 16)
            if code > 0x10FFFF:
                raise tokens.error(index, f"there is no character {found[0]}")
            return chr(code)
        if found[3] is None:
            raise tokens.error(index, "unknown escape; write \\\\ for a backslash")
        return _SHORT_ESCAPES.get(found[3], found[3])

    if "\\" not in body:
        return body
    made = _ESCAPED.sub(replace, body)
    if made.isascii():
        return made
    try:
        return made.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise tokens.error(index, "half of a surrogate pair is not a character") from None


def read_name(tokens: Tokens, index: int) -> str:
    """The attribute name at this token."""
    spelling = tokens.spellings[index]
    return _unescaped(tokens, index, spelling[1:-1]) if spelling[0] == "`" else spelling


def read_iri(tokens: Tokens, index: int) -> str:
    """The IRI at this token."""
    return _unescaped(tokens, index, tokens.spellings[index][1:-1])


def _read_string(tokens: Tokens, index: int) -> Value:
    return _unescaped(tokens, index, tokens.spellings[index][1:-1])


def _read_number(tokens: Tokens, index: int) -> Value:
    spelling = tokens.spellings[index]
    if len(spelling) > 400:
        raise tokens.error(index, "a number of more than 400 characters")
    if spelling.lstrip("+-").isdigit():
        return int(spelling)
    value = float(spelling)
    if math.isinf(value) and not spelling.endswith("inf"):
        raise tokens.error(index, "this number is too large for a float; write inf if you mean it")
    return value


def _read_time(tokens: Tokens, index: int) -> Value:
    spelling = tokens.spellings[index]
    try:
        value = datetime.fromisoformat(spelling)
    except ValueError as error:
        raise tokens.error(index, f"not a time: {error}") from None
    if value.tzinfo is None:
        raise tokens.error(index, "this time has no time zone; end it with Z or +01:00")
    return value


def _read_bytes(tokens: Tokens, index: int) -> Value:
    try:
        return bytes.fromhex(tokens.spellings[index][2:-1])
    except ValueError:
        raise tokens.error(index, 'bytes are pairs of hexadecimal digits, b"00ff"') from None


_READERS: dict[str, Callable[[Tokens, int], Value]] = {
    "STRING": _read_string,
    "NUMBER": _read_number,
    "INF": _read_number,
    "TIME": _read_time,
    "BYTES": _read_bytes,
    "TRUE": lambda tokens, index: True,
    "FALSE": lambda tokens, index: False,
}


def read_literal(tokens: Tokens, index: int) -> Value:
    """The value of the literal at this token."""
    return _READERS[tokens.kinds[index]](tokens, index)
