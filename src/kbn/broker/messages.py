"""Messages: everything that brokers and clients say to each other.

Each is an immutable value; `wire.py` gives it a form in bytes. There are three conversations:

**A client and its broker.** The client says `Connect` first; everything else it says is refused
before the broker's `ConnAck`. Requests are answered under the number they came with, and asking
again is harmless, so a client repeats what was not answered. A client's *epoch* is a number that is
larger each time its process starts.

**Two neighbouring brokers, about their link.** `Greet` says which epoch of which broker speaks, and
which epoch of the other it has heard of. (A broker counts on in its epoch whenever it begins a link
anew.) The pair of the two epochs is a *session*; what belongs to an
older session is dropped. `Frame`s of a session are numbered and arrive once and in order;
`Heard` acknowledges them. `BestEffort` carries a notification that may be lost.

**Two neighbouring brokers, inside frames.** What each must know of the other's side: `Announce`
what is wanted (or advertised) there, `Complete` when that is all, `Wave` and `Echo` to find out
when everything said before has arrived everywhere, `Forward` for notifications that must not be
lost, kept by the sender until `Ack`.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, TypeAlias

from msgspec import Meta, Struct

from kbn.broker.administration import AdminBody, AdminResult
from kbn.broker.fields import (
    BROKERS_MAX,
    Count,
    HopCount,
    Name,
    NameOrNone,
    Names,
    Number,
    Seconds,
    Sequence,
    Text,
)

VERSION = 1
REFUGES_MAX = 16
SOUGHT_MAX = 64
"""So many brokers are sought by one wave; others wait for the next."""
TERMS_TOLD_MAX = 8
"""So many unknown terms are told in one message."""
STRANDS_OF_CLIENTS = 1 << 31
"""Strands from here on are those of brokers."""

WaveKind: TypeAlias = Literal["barrier", "move"]
# Brokers to be reached, whoever else cannot be; None: everybody is.
Reaching: TypeAlias = Annotated[tuple[Name, ...], Meta(max_length=SOUGHT_MAX)] | None
ByeCause: TypeAlias = Literal["refused", "moved", "unlinked"]


class Peer(NamedTuple):
    """Whom a broker talks to; of one that it never met, `name` is the url.

    A "fan-out" is nobody: the store has under it what is on its way to many (`fan_out.py`).
    """

    kind: Literal["broker", "client", "unmet", "fan-out"]
    name: str


class NotificationId(NamedTuple):
    """The same for every copy of one notification, wherever it is.

    A publisher numbers its durable notifications and its best-effort ones separately.

    >>> str(NotificationId("ann", 7, 3, durable=True))
    'ann/7/durable/3'
    """

    publisher: str
    epoch: int
    number: int
    durable: bool

    def __str__(self) -> str:
        delivery = "durable" if self.durable else "best-effort"
        return f"{self.publisher}/{self.epoch}/{delivery}/{self.number}"


class Envelope(Struct, frozen=True, array_like=True):
    """A notification on its way.

    `content` is the attributes, encoded (see `content.py`). `hops` counts the brokers that have
    handled it. `path` names them, if somebody asked for that. `everywhere` says that tables may not
    know who wants it (nobody advertised it), so it is carried to every broker. Its first broker
    vouches for the name of the publisher, and with `by_manager` that it may manage. A publisher
    that could not take leave of its broker goes on in another `strand`: what that one has of the
    one before may come later.
    """

    publisher: Name
    epoch: Number
    number: Number
    time: Seconds
    content: bytes
    durable: bool = False
    hops: HopCount = 0
    everywhere: bool = False
    path: Names | None = None
    by_manager: bool = False
    strand: Sequence = 0

    @property
    def id(self) -> NotificationId:
        return NotificationId(self.publisher, self.epoch, self.number, self.durable)

    @property
    def is_again(self) -> bool:
        """Whether a broker has sent it once more, for those who may have missed it."""
        return self.strand >= STRANDS_OF_CLIENTS

    @property
    def stream(self) -> tuple[str, int, int]:
        """Of one stream notifications come in the order of their numbers."""
        return (self.publisher, self.epoch, 2 * self.strand + self.durable)


class Message(Struct, frozen=True, array_like=True, tag=True):
    """What every message is."""


class TermNote(Struct, frozen=True, array_like=True):
    """A term of a notification that the broker's ontology does not know as what it is used for.

    `kind` and `iri` are as the notification has them; `reason` is a sentence about it. `known_as`
    are the kinds that the ontology knows it as.

    >>> str(TermNote("x", "class", "animals:Cw", "x: the ontology defines no class <animals:Cw>"))
    'x: the ontology defines no class <animals:Cw>'
    """

    attribute: NameOrNone
    kind: NameOrNone
    iri: Text
    reason: Text
    known_as: tuple[NameOrNone, ...] = ()

    def __str__(self) -> str:
        return self.reason


class VerdictNote(Struct, frozen=True, array_like=True):
    """What one constraint, in JSON, says about a notification; `links` are those of an ontology."""

    constraint: str
    accepted: bool
    reason: Text
    links: tuple[tuple[str, str, str, str], ...] = ()


Ranges: TypeAlias = tuple[tuple[Number, Number], ...]  # the first and last of each

# From a client.


class Connect(Message, frozen=True, tag="connect"):
    """The first message of a connection.

    `durable`: the broker keeps this client's subscriptions and deliveries until it says `Leave`.
    `window`: how many deliveries it may be sent before it grants more (`Credit`).
    `when_slow`: what to do with more than that: drop the oldest, or stop its publishers.
    `published`: durable notifications up to this number are stored somewhere already.
    `strand`: of what it publishes from now on, see `Envelope`.
    """

    client: Name
    epoch: Number
    version: Number = VERSION
    token: Text = ""
    durable: bool = False
    window: Number = 1000
    when_slow: Literal["drop", "block"] = "drop"
    published: Number = 0
    with_path: bool = False
    strand: Annotated[int, Meta(ge=0, le=STRANDS_OF_CLIENTS - 1)] = 0


class Publish(Message, frozen=True, tag="publish"):
    """Durable ones are numbered 1, 2, 3… in an epoch and taken in that order; others too, in a
    series of their own, where a gap is a loss.
    """

    number: Number
    time: float
    content: bytes
    durable: bool = False


class Subscribe(Message, frozen=True, tag="subscribe"):
    """Under a number that is the client's own. `subscription` is JSON, or text with `is_text`."""

    id: Number
    subscription: str
    is_text: bool = False


class Unsubscribe(Message, frozen=True, tag="unsubscribe"):
    id: Number


class Advertise(Message, frozen=True, tag="advertise"):
    id: Number
    advertisement: str
    is_text: bool = False


class Unadvertise(Message, frozen=True, tag="unadvertise"):
    id: Number


class Barrier(Message, frozen=True, tag="barrier"):
    """Answer `BarrierReached` when what I said so far is in force in the whole network; or with
    `reaching`, in all of it that can be reached now, if these brokers are there.
    """

    request: Number
    reaching: Reaching = None


class Leave(Message, frozen=True, tag="leave"):
    """Deliver what is still on its way to me, then forget me and say `Left`; `reaching` is meant as
    in `Barrier`.
    """

    request: Number
    reaching: Reaching = None


class DeliverAck(Message, frozen=True, tag="deliver-ack"):
    """Durable deliveries up to this number are safe with me."""

    number: Sequence


class Credit(Message, frozen=True, tag="credit"):
    """So many deliveries, in all since `Connect`, may be sent to me."""

    total: Number


class AdminRequest(Message, frozen=True, tag="admin-request"):
    """A request to the broker itself; see `administration.py`."""

    request: Number
    body: AdminBody


class Explain(Message, frozen=True, tag="explain"):
    """Say why a subscription accepts a notification with this content, or why it does not.

    It is the client's own of that number; 0 is the one in `text`, as in `Subscribe`. Brokers that
    say `explains` in `ConnAck` answer with `Explained`.
    """

    request: Number
    content: bytes
    subscription: Number = 0
    text: str = ""
    is_text: bool = False


class Hops(Message, frozen=True, tag="hops"):
    """How many notifications came over how many hops since I am with you, and from whom.

    Those who published most are named.
    """

    counts: tuple[tuple[HopCount, Count], ...]
    publishers: tuple[tuple[Name, Count], ...] = ()


class Alive(Message, frozen=True, tag="alive"):
    """Nothing but a sign of life; either side."""


# To a client.


class ConnAck(Message, frozen=True, tag="connack"):
    """The answer to `Connect`: durable notifications up to `taken` are stored; `ontology` is its
    digest; `keeps` says whether the broker has a store; `resumed` that it knew this epoch before;
    `in_order` that notifications of one publisher reach it in their order, always; `dropped` counts
    the deliveries to this client that were dropped, as in `Deliver`; of what is `taken`, some was
    `refused`, as in `PubAck`; one that `explains` can be asked to `Explain`.
    """

    broker: Name
    epoch: Number
    ontology: Text
    taken: Number
    credit: Sequence
    keeps: bool
    resumed: bool
    in_order: bool
    version: Number = VERSION
    dropped: Sequence = 0
    refused: Ranges = ()
    explains: bool = False


class PubAck(Message, frozen=True, tag="puback"):
    """Durable notifications up to this number are stored, but for those that were `refused`."""

    number: Number
    refused: Ranges = ()


class Done(Message, frozen=True, tag="done"):
    """A `Subscribe`, `Unsubscribe`, `Advertise` or `Unadvertise` was carried out."""

    what: Text
    id: Number


class BarrierReached(Message, frozen=True, tag="barrier-reached"):
    request: Number


class Left(Message, frozen=True, tag="left"):
    """You are forgotten; of your deliveries so many were `dropped`, as in `Deliver`."""

    request: Number
    dropped: Sequence = 0


class AdminReply(Message, frozen=True, tag="admin-reply"):
    """What became of an `AdminRequest`."""

    request: Number
    body: AdminResult


class Explained(Message, frozen=True, tag="explained"):
    """What was asked with `Explain`: filter by filter what each constraint says."""

    request: Number
    filters: tuple[tuple[VerdictNote, ...], ...]
    unknown: Annotated[tuple[TermNote, ...], Meta(max_length=TERMS_TOLD_MAX)] = ()


class Refused(Message, frozen=True, tag="refused"):
    """What was asked is wrong or not allowed; nothing was done.

    `what` and `reference` name the message: its kind, and its id, number or request. `durable` says
    which of a publisher's two series of numbers the number of a notification is in.
    """

    what: Text
    reference: Sequence
    kind: Text
    reason: Text
    durable: bool = False


class Deliver(Message, frozen=True, tag="deliver"):
    """A notification, and the client's subscriptions that wanted it.

    Durable deliveries and others are numbered separately; a number not above the last one is a
    repetition. A durable one comes `after` another: who has not had that one has lost something,
    and waits until it is repeated. `dropped` counts what was dropped because the client was slow.
    """

    number: Sequence
    durable: bool
    subscriptions: tuple[Number, ...]
    envelope: Envelope
    dropped: Sequence = 0
    after: Sequence = 0


class Redirect(Message, frozen=True, tag="redirect"):
    """Move to that broker: the client goes there, and then says `Leave` here."""

    broker: Name
    url: Text


class Refuges(Message, frozen=True, tag="refuges"):
    """Brokers (name and url) to go to when this one is away."""

    brokers: Annotated[tuple[tuple[Name, Text], ...], Meta(max_length=REFUGES_MAX)]


class ReportHops(Message, frozen=True, tag="report-hops"):
    """Say `Hops` now, and then every so many seconds; 0: only now."""

    every_s: Seconds = 0.0


class NewOntology(Message, frozen=True, tag="new-ontology"):
    ontology: Text


class Grant(Message, frozen=True, tag="grant"):
    """So many notifications, in all since `Connect`, may be published; also the answer to `Alive`.

    `dropped` is as in `Deliver`: who was to get nothing else is told by this. Of what was published
    since `Connect`, so many notifications had terms that are `unknown`; some of these, which were
    not told before, are the `terms`.
    """

    total: Sequence
    dropped: Sequence = 0
    unknown: Sequence = 0
    terms: Annotated[tuple[TermNote, ...], Meta(max_length=TERMS_TOLD_MAX)] = ()


# Between brokers, about the link.


class Who(Message, frozen=True, tag="who"):
    """Asks a broker for its name, and answers with it; before anything else on a connection.

    `broker` is the speaker's name, empty for a client. Whoever connects knows an address only.
    The speaker can speak from `version` up to `newest` (0: no more than `version`).
    """

    broker: NameOrNone = ""
    version: Number = VERSION
    newest: Number = 0


class Greet(Message, frozen=True, tag="greet"):
    """Who speaks, in which epoch, and which of the other's epochs it answers to (0: none yet, 1:
    one that it has forgotten).

    `role` is what the speaker is to the other. `view` names the spanning tree it believes in
    (general peers only), `states` what it knows of others' links. A session stands when each has
    greeted the other's current epoch with the same view. `url` is where clients find the speaker;
    empty where it does not know.
    """

    broker: Name
    epoch: Number
    heard: Number
    role: Literal["peer", "parent", "child"]
    ontology: Text
    view: Text = ""
    states: Annotated[tuple[LinkState, ...], Meta(max_length=BROKERS_MAX)] = ()
    version: Number = VERSION
    token: Text = ""
    url: Text = ""


class LinkState(Struct, frozen=True, array_like=True):
    """What one broker says of its own links: the newest `number` counts."""

    broker: Name
    number: Number
    # Each neighbour, and whether the link to it is up.
    links: Annotated[tuple[tuple[Name, bool], ...], Meta(max_length=BROKERS_MAX)]


class Frame(Message, frozen=True, tag="frame"):
    """Part of a session: the `number`th body; `heard` of the other's bodies have arrived."""

    sender_epoch: Number
    receiver_epoch: Number
    number: Number
    heard: Number
    body: Body


class Heard(Message, frozen=True, tag="heard"):
    """Frames up to `number` have arrived, and best-effort ones up to `best_effort` were handled."""

    sender_epoch: Number
    receiver_epoch: Number
    number: Number
    best_effort: Number = 0


class BestEffort(Message, frozen=True, tag="best-effort"):
    """A notification that may be lost; `number` tells late copies."""

    sender_epoch: Number
    receiver_epoch: Number
    number: Number
    envelope: Envelope


class Bye(Message, frozen=True, tag="bye"):
    """The speaker takes this link down for good; `epoch` is its newest, so that one that is late
    ends no link made since.

    `cause`: it refuses the link, which may be tried again; or it has moved away, or was told to
    drop the link: do not come back.
    """

    broker: Name
    epoch: Number
    reason: Text = ""
    cause: ByeCause = "refused"
    token: Text = ""


# Between brokers, inside frames.


class Announce(Message, frozen=True, tag="announce"):
    """What is wanted (`interest`) or advertised (`advertisement`) on my side, and no more.

    What is added counts before what is dropped is gone. Filters are JSON.
    """

    what: Literal["interest", "advertisement"]
    add: tuple[tuple[Number, str], ...] = ()
    drop: tuple[Number, ...] = ()


class Complete(Message, frozen=True, tag="complete"):
    """Whether what I announced is all there is on my side; until then, send me everything."""

    is_complete: bool


class Wave(Message, frozen=True, tag="wave"):
    """Pass on, and answer `Echo` when all you passed it to have.

    The waves of a broker's own move are numbered apart from those that serve barriers. With
    `seeks`, answer also when all have that can be reached now, and which of these were there.
    """

    origin: Name
    epoch: Number
    number: Number
    kind: WaveKind = "barrier"
    seeks: Reaching = None


class Echo(Message, frozen=True, tag="echo"):
    """Everybody behind me has had the wave, or everybody that can be reached (`is_partial`); of the
    brokers that it seeks, these were `found`.
    """

    origin: Name
    epoch: Number
    number: Number
    kind: WaveKind = "barrier"
    found: Annotated[tuple[Name, ...], Meta(max_length=SOUGHT_MAX)] = ()
    is_partial: bool = False


class Forward(Message, frozen=True, tag="forward"):
    """A notification that I keep until you say `Ack` with its sequence; sequences increase."""

    sequence: Sequence
    envelope: Envelope


class Ack(Message, frozen=True, tag="ack"):
    """Everything up to this sequence is safe with me."""

    sequence: Sequence


Body: TypeAlias = Announce | Complete | Wave | Echo | Forward | Ack

FromClient: TypeAlias = (
    Connect
    | Publish
    | Subscribe
    | Unsubscribe
    | Advertise
    | Unadvertise
    | Barrier
    | Leave
    | DeliverAck
    | Credit
    | AdminRequest
    | Explain
    | Hops
    | Alive
)
ToClient: TypeAlias = (
    ConnAck
    | PubAck
    | Done
    | BarrierReached
    | Left
    | AdminReply
    | Explained
    | Refused
    | Deliver
    | Redirect
    | Refuges
    | ReportHops
    | NewOntology
    | Grant
    | Alive
)
BetweenBrokers: TypeAlias = Greet | Frame | Heard | BestEffort | Bye
AnyMessage: TypeAlias = FromClient | ToClient | BetweenBrokers | Who


class Send(NamedTuple):
    """What a broker or a client asks its shell to do."""

    to: Peer
    message: AnyMessage
