"""A client's move to another broker, as a table of states and events.

1. The client stops publishing and waits until the old broker has stored what it was sent.
2. It connects to the new broker, subscribes there to the same, and waits for a barrier: from then
   on everything published reaches the new broker too. Subscriptions that change meanwhile need
   another barrier, because both brokers must know the same ones.
3. It publishes at the new broker, and asks the old one to let it go (`Leave`). What was published
   before is on its way to the old one, which drains the network and then says `Left`. Until then,
   what the new broker delivers is held back.
4. It gives the application what was held back; what both brokers delivered has the same id.

Nothing is lost, nothing comes twice, and the order is kept.

A pair of state and event that the table does not have changes nothing: messages may be late, or
come twice.
"""

from __future__ import annotations

from enum import Enum, auto
from types import MappingProxyType
from typing import TypeAlias

from kbn.broker.messages import Redirect


class MoveState(Enum):
    """Where a client is on its way."""

    AT_HOME = auto()  # at one broker
    DRAINING = auto()  # the old broker stores what was published
    CONNECTING = auto()  # to the new broker
    JOINING = auto()  # the new broker makes the subscriptions known in the network
    LEAVING = auto()  # the old broker delivers what is on its way to it


class MoveEvent(Enum):
    """What happens to a client on its way."""

    REDIRECTED = auto()  # told to go to another broker
    ALL_STORED = auto()  # nothing published is unconfirmed
    ADMITTED = auto()  # the new broker has answered `Connect`
    CHANGED_SINCE = auto()  # the barrier was reached, and subscriptions have changed since
    IN_FORCE = auto()  # the barrier was reached: everything reaches the new broker
    TURNED_AWAY = auto()  # the new broker cannot be reached, or refuses
    RELEASED = auto()  # the old broker has nothing more for us


class MoveStep(Enum):
    """What the client does about it."""

    DIAL = auto()  # open the connection to the new broker
    ASK_BARRIER = auto()  # at the new broker
    SWITCH = auto()  # the new broker is home; ask the old one to let go
    HANG_UP = auto()  # close the connection to the broker that is not home
    DELIVER_HELD = auto()  # give the application what the new broker has delivered
    PUBLISH = auto()  # send what waited
    FOLLOW = auto()  # go where we were sent meanwhile


Transition: TypeAlias = tuple[MoveState, tuple[MoveStep, ...]]

_STAY: Transition = (MoveState.AT_HOME, (MoveStep.HANG_UP, MoveStep.PUBLISH, MoveStep.FOLLOW))

TRANSITIONS: MappingProxyType[tuple[MoveState, MoveEvent], Transition] = MappingProxyType(
    {
        (MoveState.AT_HOME, MoveEvent.REDIRECTED): (MoveState.DRAINING, ()),
        (MoveState.DRAINING, MoveEvent.ALL_STORED): (MoveState.CONNECTING, (MoveStep.DIAL,)),
        (MoveState.CONNECTING, MoveEvent.ADMITTED): (MoveState.JOINING, (MoveStep.ASK_BARRIER,)),
        (MoveState.CONNECTING, MoveEvent.TURNED_AWAY): _STAY,
        (MoveState.JOINING, MoveEvent.CHANGED_SINCE): (
            MoveState.JOINING,
            (MoveStep.ASK_BARRIER,),
        ),
        (MoveState.JOINING, MoveEvent.IN_FORCE): (
            MoveState.LEAVING,
            (MoveStep.SWITCH, MoveStep.PUBLISH),
        ),
        (MoveState.JOINING, MoveEvent.TURNED_AWAY): _STAY,
        (MoveState.LEAVING, MoveEvent.RELEASED): (
            MoveState.AT_HOME,
            (MoveStep.HANG_UP, MoveStep.DELIVER_HELD, MoveStep.FOLLOW),
        ),
    }
)

# While the brokers change, nothing is published: each publisher's notifications keep their order.
PUBLISHING = frozenset({MoveState.AT_HOME, MoveState.LEAVING})
# The new broker is not home yet, and must know every subscription.
ARRIVING = frozenset({MoveState.CONNECTING, MoveState.JOINING})


class ClientMove:
    """One client's way between brokers; it walks the table and tells what to do.

    >>> move = ClientMove()
    >>> move.redirected(Redirect("b", "kbn://b:7420"), home="a")
    ()
    >>> move.on(MoveEvent.ALL_STORED), move.target.url
    ((<MoveStep.DIAL: 1>,), 'kbn://b:7420')
    """

    __slots__ = ("_postponed", "may_publish", "state", "target")

    def __init__(self) -> None:
        self.state = MoveState.AT_HOME
        self.may_publish = True
        self.target = Redirect("", "")
        self._postponed: Redirect | None = None

    @property
    def is_under_way(self) -> bool:
        return self.state is not MoveState.AT_HOME

    @property
    def is_arriving(self) -> bool:
        """Whether the other broker is the new one."""
        return self.state in ARRIVING

    def redirected(self, redirect: Redirect, home: str) -> tuple[MoveStep, ...]:
        """Told to go to a broker; while on the way to another one, afterwards."""
        if self.is_under_way:
            self._postponed = redirect
            return ()
        if redirect.broker == home:
            return ()
        self.target = redirect
        return self.on(MoveEvent.REDIRECTED)

    def on(self, event: MoveEvent) -> tuple[MoveStep, ...]:
        """Go to the next state; what to do, in this order."""
        self.state, steps = TRANSITIONS.get((self.state, event), (self.state, ()))
        self.may_publish = self.state in PUBLISHING
        return steps

    def take_postponed(self) -> Redirect | None:
        """Where we were sent while on the way elsewhere; once."""
        postponed, self._postponed = self._postponed, None
        return postponed
