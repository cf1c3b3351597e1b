"""What a scalar of a YAML file means: texts, numbers, truths and null, and nothing else.

These are the rules of YAML 1.1 without its surprises: 0750 is 750, and 12:30 is a text. Dates are
texts, as in JSON. A number has a point or digits only, so that a token such as 12e3 stays a text;
where only a number can stand, 12e3 is one.
"""

from __future__ import annotations

import re

NULL, BOOL, INT, FLOAT, STR = "null", "bool", "int", "float", "str"

_NULL = re.compile(r"~|null|Null|NULL|")
_TRUE = re.compile(r"true|True|TRUE|yes|Yes|YES|on|On|ON")
_FALSE = re.compile(r"false|False|FALSE|no|No|NO|off|Off|OFF")
_INT = re.compile(r"[-+]?[0-9]+(_[0-9]+)*|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(_[0-9]+)*\.[0-9]*)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_POWER_OF_TEN = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+")
_DIGITS_MAX = 400
"""No number that means something has more; Python refuses some thousand with an error."""


def plain_kind(text: str) -> str:
    """The kind of a scalar without quotes.

    >>> [plain_kind(each) for each in ("", "no", "0750", "1.5", "12:30")]
    ['null', 'bool', 'int', 'float', 'str']
    """
    if _NULL.fullmatch(text):
        return NULL
    if _TRUE.fullmatch(text) or _FALSE.fullmatch(text):
        return BOOL
    if len(text) > _DIGITS_MAX:
        return STR
    if _INT.fullmatch(text):
        return INT
    return FLOAT if _FLOAT.fullmatch(text) else STR


def value_of(text: str, kind: str) -> str | int | float | bool | None:
    """The value of a scalar of that kind; ValueError when it is none of that kind."""
    match kind:
        case "null":
            return None
        case "bool" if plain_kind(text) == BOOL:
            return _TRUE.fullmatch(text) is not None
        case "int" if plain_kind(text) == INT:
            return int(text, 16 if text.startswith("0x") else 10)
        case "float" if plain_kind(text) in (INT, FLOAT):
            return float(re.sub(r"\.(?=inf|nan)", "", text.lower()))
        case "str":
            return text
    raise ValueError(f"{text!r:.60} is no {kind}")


def number_of(text: str) -> str | int | float | bool | None:
    """The value of a text where only a number can stand; the text itself when it is none.

    >>> number_of("0750"), number_of("12e3"), number_of("many")
    (750, 12000.0, 'many')
    """
    if len(text) <= _DIGITS_MAX and _POWER_OF_TEN.fullmatch(text):
        return float(text)
    kind = plain_kind(text)
    return value_of(text, kind) if kind in (INT, FLOAT) else text
