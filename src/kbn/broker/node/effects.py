"""What a `Node` asks its shell to do, in the order of the list it returns."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from kbn.broker.messages import AnyMessage
from kbn.broker.node import notes


class Send(NamedTuple):
    """Write messages to a connection, at once.

    The node takes them as written: report `Writable` or `Stalled` when some of it waits.
    `is_cut_short`: more is to come than there was room for, so report in any case, without delay.
    `in_older`: the other side speaks the version before; see `WireVersions.older`.
    """

    connection: int
    messages: list[AnyMessage]
    is_cut_short: bool = False
    in_older: bool = False


class Close(NamedTuple):
    """Close a connection when what was sent is written; at once when `aborts`."""

    connection: int
    aborts: bool = False


class Dial(NamedTuple):
    """Connect to a broker; report `Opened` with the number of the link, or `DialFailed`."""

    link: int
    url: str


class LimitFrames(NamedTuple):
    """Take frames of so many bytes from a connection, from now on."""

    connection: int
    bytes_max: int


class PauseReading(NamedTuple):
    """Read nothing more from a connection."""

    connection: int


class ResumeReading(NamedTuple):
    connection: int


class LoadOntology(NamedTuple):
    """Load an ontology in the background; report `UseOntology` or `OntologyFailed`."""

    paths: tuple[str, ...]
    reasoning: str


class Note(NamedTuple):
    """Tell those who watch."""

    note: notes.Note


Effect: TypeAlias = (
    Send | Close | Dial | LimitFrames | PauseReading | ResumeReading | LoadOntology | Note
)
