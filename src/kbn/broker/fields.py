"""Fields: what may stand in a message, by kind of field.

A decoder refuses anything else, where a message enters. So whatever a broker has taken can be
stored, read again and passed on: each bound is the same on every leg of the way, and what a broker
counts or derives itself stays within it.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from kbn.errors import InvalidInputError

NUMBER_MAX = 2**62
SEQUENCE_MAX = 2**63 - 1
NAME_CHARACTERS_MAX = 256
TEXT_CHARACTERS_MAX = 4096
SECONDS_MAX = 1e18
BROKERS_MAX = 10_000
HOPS_MAX = 1_000
"""No tree is so deep: a notification that has passed so many brokers goes round in a cycle."""

# What clients and brokers count: never negative, with room above it in every store.
Number: TypeAlias = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
# What a broker numbers by its own counter, or grants on top of a number.
Sequence: TypeAlias = Annotated[int, Meta(ge=0, le=SEQUENCE_MAX)]
# What is added up over many clients, and must fit a notification then.
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**40)]
HopCount: TypeAlias = Annotated[int, Meta(ge=0, le=HOPS_MAX)]
Seconds: TypeAlias = Annotated[float, Meta(ge=-SECONDS_MAX, le=SECONDS_MAX)]  # no NaN
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
NameOrNone: TypeAlias = Annotated[str, Meta(max_length=NAME_CHARACTERS_MAX)]
# A token, a digest, an address, a reason: a line for a person, or nothing.
Text: TypeAlias = Annotated[str, Meta(max_length=TEXT_CHARACTERS_MAX)]
Names: TypeAlias = Annotated[tuple[Name, ...], Meta(max_length=HOPS_MAX)]


def check_name(name: str, what: str) -> None:
    """Raise `InvalidInputError` for what no message could carry as a name."""
    if not 0 < len(name) <= NAME_CHARACTERS_MAX:
        raise InvalidInputError(
            f"the name of a {what} has 1 to {NAME_CHARACTERS_MAX} characters, not {len(name)}"
        )


def shortened(text: str) -> str:
    """A text that fits a message, cut if it must be.

    >>> len(shortened("x" * 10_000))
    4096
    """
    return text if len(text) <= TEXT_CHARACTERS_MAX else text[: TEXT_CHARACTERS_MAX - 1] + "…"
