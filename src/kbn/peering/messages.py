"""Messages: everything that peers and coordinators of publisher groups say to each other.

There are three conversations, in the frames of brokers (`wire.py`):

**A peer and its coordinator.** `Join` opens it, and is answered by `Joined` or `Refused`. The peer
then says what it publishes (`Advertise`), what it wants (`Want`), where it stands (`Holding`: after
a restart the coordinator learns the trees from that), and now and then what it has measured
(`Report`). The coordinator says who feeds it in each cluster (`Place`), where to send (`Sending`),
how each subscription stands (`Promise`), and whom to measure (`Measure`).

**Two peers.** `Link` opens it, with the key of the group. The child says what it and those below it
want of a cluster (`Attach`), the parent answers `Feeding` or `Full`, and passes `Item`s on.

**A coordinator and its standby.** `Mirror` opens it; all peers are told of the standby. It says
`StandingBy` to whoever comes, until the other is gone; then the peers tell it where they are.

Times are those of the group: a peer learns from `Echo` how far its own clock is from them.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from kbn.broker import fields

VERSION = 1
ATTRIBUTES_MAX = 256
FILTERS_MAX = 64
SUMMARY_MAX = 256
MARKS_MAX = 4096
LINKS_MAX = 256
CLUSTERS_MAX = 4096
MEASURED_MAX = 32
SLOTS_MAX = 10_000
DELAY_MAX_S = 3600.0
SAMPLES_MAX = 64
"""A report has so many measurements of one link."""
URL_CHARACTERS_MAX = 512

Name: TypeAlias = fields.Name
NameOrNone: TypeAlias = fields.NameOrNone
Number: TypeAlias = fields.Number
Seconds: TypeAlias = fields.Seconds
Count: TypeAlias = fields.Count
Text: TypeAlias = fields.Text
Url: TypeAlias = Annotated[str, Meta(max_length=URL_CHARACTERS_MAX)]
Attribute: TypeAlias = Annotated[str, Meta(min_length=1, max_length=fields.NAME_CHARACTERS_MAX)]
FilterText: TypeAlias = Annotated[str, Meta(max_length=1 << 16)]
Filters: TypeAlias = Annotated[tuple[FilterText, ...], Meta(max_length=SUMMARY_MAX)]
Delay: TypeAlias = Annotated[float, Meta(ge=0, le=DELAY_MAX_S)]
Probability: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Slots: TypeAlias = Annotated[int, Meta(ge=0, le=SLOTS_MAX)]


class Message(Struct, frozen=True, array_like=True):
    """What is sent, as an array of the kind and the fields."""


class Mark(Struct, frozen=True, array_like=True):
    """Up to where somebody has heard a publisher."""

    publisher: Name
    epoch: Number
    number: Number


Marks: TypeAlias = Annotated[tuple[Mark, ...], Meta(max_length=MARKS_MAX)]


class Contact(Struct, frozen=True, array_like=True):
    """A peer, and where it listens."""

    name: Name
    url: Url


Contacts: TypeAlias = Annotated[tuple[Contact, ...], Meta(max_length=fields.BROKERS_MAX)]
Measured: TypeAlias = Annotated[tuple[Contact, ...], Meta(max_length=MEASURED_MAX)]


# A peer to its coordinator.


class Join(Message, frozen=True, tag="join"):
    """Who we are, where we listen, and how many children we can serve in all clusters together."""

    version: Number
    name: Name
    token: Text
    url: Url
    slots: Slots
    epoch: Number
    key: Text = ""


class Advertise(Message, frozen=True, tag="advertise"):
    """What we publish: these attributes, within so many connections; None for no limit.

    No attributes: nothing any more.
    """

    attributes: Annotated[tuple[Attribute, ...], Meta(max_length=ATTRIBUTES_MAX)]
    connections: Number | None = None


class Want(Message, frozen=True, tag="want"):
    """A subscription: the JSON of each filter, and the delay bound (`within_s` 0: none)."""

    id: Number
    filters: Annotated[tuple[FilterText, ...], Meta(min_length=1, max_length=FILTERS_MAX)]
    within_s: Delay = 0.0
    probability: Probability = 0.95


class Unwant(Message, frozen=True, tag="unwant"):
    id: Number


class Held(Struct, frozen=True, array_like=True):
    """A cluster that a peer is in: the attributes that led it there, and who feeds it."""

    cluster: Number
    attributes: Annotated[tuple[Attribute, ...], Meta(max_length=ATTRIBUTES_MAX)]
    parents: Annotated[tuple[Name, ...], Meta(max_length=fields.BROKERS_MAX)]
    from_source: bool


class Holding(Message, frozen=True, tag="holding"):
    """Where we stand, told to a coordinator that may not know; `arrived` orders publishers."""

    held: Annotated[tuple[Held, ...], Meta(max_length=CLUSTERS_MAX)]
    arrived: Number = 0


class Lost(Message, frozen=True, tag="lost"):
    """A parent that we hear nothing of any more."""

    cluster: Number
    parent: Name


class LinkDelay(Struct, frozen=True, array_like=True):
    """What passed from a neighbour to us took so long, since the last report."""

    peer: Name
    samples: Annotated[tuple[Delay, ...], Meta(max_length=SAMPLES_MAX)]


class Kept(Struct, frozen=True, array_like=True):
    """Of a subscription, since it was last told: how many came, how many of them in time."""

    id: Number
    delivered: Count
    in_time: Count


class Heard(Struct, frozen=True, array_like=True):
    """What a root has heard since it last told: so many with these attributes."""

    cluster: Number
    attributes: Annotated[tuple[Attribute, ...], Meta(max_length=ATTRIBUTES_MAX)]
    count: Count


class Report(Message, frozen=True, tag="report"):
    """What was measured since the last one."""

    links: Annotated[tuple[LinkDelay, ...], Meta(max_length=LINKS_MAX)] = ()
    kept: Annotated[tuple[Kept, ...], Meta(max_length=CLUSTERS_MAX)] = ()
    heard: Annotated[tuple[Heard, ...], Meta(max_length=CLUSTERS_MAX)] = ()
    received: Count = 0
    unwanted: Count = 0
    missed: Count = 0


class Leave(Message, frozen=True, tag="leave"):
    """We go, in good order."""


class GetFacts(Message, frozen=True, tag="get-facts"):
    """What is the state of the group?"""


# A coordinator to a peer.


class Joined(Message, frozen=True, tag="joined"):
    """You are in: the key that peers show each other, and who takes over when we are gone."""

    coordinator: Name
    epoch: Number
    key: Text
    standbys: Annotated[tuple[Url, ...], Meta(max_length=16)] = ()


class Refused(Message, frozen=True, tag="refused"):
    """No, and why; `about` says which request: of a subscription, its number."""

    reason: Text
    about: Annotated[str, Meta(max_length=64)] = ""
    id: Number = 0


class StandingBy(Message, frozen=True, tag="standing-by"):
    """Another coordinates this group: ask there."""

    url: Url


class Place(Message, frozen=True, tag="place"):
    """Who feeds you in a cluster, and by which of your filters you are in it.

    `from_source`: you are its root, and the parents are its publishers. No parents: you are no
    longer in it.
    """

    cluster: Number
    parents: Contacts
    from_source: bool = False
    filters: Filters = ()
    attributes: Annotated[tuple[Attribute, ...], Meta(max_length=ATTRIBUTES_MAX)] = ()


class Sending(Message, frozen=True, tag="sending"):
    """The clusters you publish to, and your place in the order of arrivals."""

    clusters: Annotated[tuple[Number, ...], Meta(max_length=CLUSTERS_MAX)]
    arrived: Number = 0


State: TypeAlias = Literal["admitted", "best effort", "waiting"]


class Promise(Message, frozen=True, tag="promise"):
    """How a subscription stands.

    `predicted`: the probability that the bound is kept; `best_s`: the bound that could be kept with
    the probability asked for; `reason`: why it is not admitted.
    """

    id: Number
    state: State
    predicted: Probability = 0.0
    best_s: Delay = 0.0
    reason: Text = ""


class Measure(Message, frozen=True, tag="measure"):
    """Probe these, and report; they may become your parents."""

    peers: Measured


class Standbys(Message, frozen=True, tag="standbys"):
    """Who takes over when this coordinator is gone."""

    urls: Annotated[tuple[Url, ...], Meta(max_length=16)]


class Facts(Message, frozen=True, tag="facts"):
    """The state of the group, as JSON."""

    json: str


# Two peers.


class Link(Message, frozen=True, tag="link"):
    """Who we are, and the key of the group."""

    version: Number
    name: Name
    key: Text


class Linked(Message, frozen=True, tag="linked"):
    name: Name


class Attach(Message, frozen=True, tag="attach"):
    """Feed us with what one of the filters accepts (of a source, with everything).

    `missed`: filters that we ask for once more, of what came after the `marks`.
    """

    cluster: Number
    from_source: bool = False
    filters: Filters = ()
    missed: Filters = ()
    marks: Marks = ()


class Feeding(Message, frozen=True, tag="feeding"):
    cluster: Number
    from_source: bool = False


class Full(Message, frozen=True, tag="full"):
    """We serve as many children as we can, or do not send to that cluster (yet): try again."""

    cluster: Number
    from_source: bool = False


class Detach(Message, frozen=True, tag="detach"):
    cluster: Number
    from_source: bool = False


class Item(Message, frozen=True, tag="item"):
    """A notification on its way; `sent_at` is when the last hop began."""

    cluster: Number
    publisher: Name
    epoch: Number
    number: Number
    published_at: Seconds
    sent_at: Seconds
    content: bytes


# On every connection.


class Probe(Message, frozen=True, tag="probe"):
    """How long does this take?"""

    number: Number
    sent_at: Seconds


class Echo(Message, frozen=True, tag="echo"):
    """A probe came: when it was sent by your clock, and when we had it by ours."""

    number: Number
    probed_at: Seconds
    at: Seconds


class Mirror(Message, frozen=True, tag="mirror"):
    """A standby says that it is there; it takes over when this connection is lost for a while."""

    version: Number
    name: Name
    token: Text
    url: Url


ToCoordinator: TypeAlias = (
    Advertise | Want | Unwant | Holding | Lost | Report | Leave | GetFacts | Probe | Echo
)
FirstToCoordinator: TypeAlias = Join | Mirror
ToPeer: TypeAlias = (
    Joined
    | Refused
    | StandingBy
    | Place
    | Sending
    | Promise
    | Measure
    | Standbys
    | Facts
    | Probe
    | Echo
)
BetweenPeers: TypeAlias = Linked | Refused | Attach | Feeding | Full | Detach | Item | Probe | Echo
ToStandby: TypeAlias = Joined | Refused | StandingBy | Standbys | Probe | Echo
