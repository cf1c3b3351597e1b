"""A client's move to another broker, as a table of states and events.

1. The client connects to the new broker, subscribes there to the same, and waits for a barrier:
   from then on everything published reaches the new broker too. Subscriptions that change meanwhile
   need another barrier, because both brokers must know the same ones. Until then all is as before.
2. It stops publishing, waits until the old broker has stored what it was sent, and has another
   barrier if it was sent something: what it publishes next must not overtake that.
3. It publishes at the new broker, and asks the old one to let it go (`Leave`). What was published
   before is on its way to the old one, which drains the network and then says `Left`. Until then,
   what the new broker delivers is held back.
4. It gives the application what was held back; what both brokers delivered has the same id.

Nothing is lost, nothing comes twice, and the order is kept.

The barriers of a move visit every broker that can be reached, and the other place must be among
them: whatever is published elsewhere comes by way of brokers between the two. A barrier may be long
in coming all the same, when the two are cut off from each other or a broker is slow. That holds up
nobody: in step 1 the client goes on where it is. In step 2 it waits for a while and then publishes
in another *strand*, which has an order of its own. In step 3 it waits for a while and then leaves
the old broker behind: what that one still has comes late.

An old broker that is lost is left behind at once. What it has for the client comes late, when it is
back; until the barrier at the new broker was reached, it is to keep what it gets, too.

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
    CONNECTING = auto()  # to the new broker
    JOINING = auto()  # the new broker makes the subscriptions known in the network
    DRAINING = auto()  # the old broker stores what was published
    SETTLING = auto()  # what was published arrives everywhere
    LEAVING = auto()  # the old broker delivers what is on its way to it


class MoveEvent(Enum):
    """What happens to a client on its way."""

    REDIRECTED = auto()  # told to go to another broker
    ADMITTED = auto()  # the new broker has answered `Connect`
    CHANGED_SINCE = auto()  # the barrier was reached, and subscriptions have changed since
    IN_FORCE = auto()  # the barrier was reached: everything reaches the new broker
    ALL_STORED = auto()  # nothing published is unconfirmed
    NOTHING_SENT = auto()  # nor was anything published since the barrier began
    TURNED_AWAY = auto()  # the new broker cannot be reached, or refuses
    RELEASED = auto()  # the old broker has nothing more for us
    LATE = auto()  # what is waited for has not come for a while
    LATE_AND_CHANGED = auto()  # nor are the subscriptions those that were known
    HOME_LOST = auto()  # the old broker is away, and the new one is there


class MoveStep(Enum):
    """What the client does about it."""

    DIAL = auto()  # open the connection to the new broker
    ASK_BARRIER = auto()  # at the new broker
    SWITCH = auto()  # the new broker is home; ask the old one to let go
    NEW_STRAND = auto()  # what is published from now on has an order of its own
    HANG_UP = auto()  # close the connection to the old broker
    TURN_BACK = auto()  # let go of the new broker; if it keeps us, it is to forget us
    LEAVE_BEHIND = auto()  # the broker that is not home brings the rest when it can
    ABANDON = auto()  # the new broker is home; the old one is left behind
    DELIVER_HELD = auto()  # give the application what the new broker has delivered
    PUBLISH = auto()  # send what waited
    FOLLOW = auto()  # go where we were sent meanwhile


Transition: TypeAlias = tuple[MoveState, tuple[MoveStep, ...]]

_STAY: Transition = (MoveState.AT_HOME, (MoveStep.TURN_BACK, MoveStep.PUBLISH, MoveStep.FOLLOW))
_GO: Transition = (MoveState.LEAVING, (MoveStep.SWITCH, MoveStep.PUBLISH))
_ABANDON: Transition = (
    MoveState.AT_HOME,
    (MoveStep.ABANDON, MoveStep.NEW_STRAND, MoveStep.DELIVER_HELD, MoveStep.FOLLOW),
)

TRANSITIONS: MappingProxyType[tuple[MoveState, MoveEvent], Transition] = MappingProxyType(
    {
        (MoveState.AT_HOME, MoveEvent.REDIRECTED): (MoveState.CONNECTING, (MoveStep.DIAL,)),
        (MoveState.CONNECTING, MoveEvent.ADMITTED): (MoveState.JOINING, (MoveStep.ASK_BARRIER,)),
        (MoveState.CONNECTING, MoveEvent.TURNED_AWAY): _STAY,
        (MoveState.JOINING, MoveEvent.CHANGED_SINCE): (
            MoveState.JOINING,
            (MoveStep.ASK_BARRIER,),
        ),
        (MoveState.JOINING, MoveEvent.IN_FORCE): (MoveState.DRAINING, ()),
        (MoveState.JOINING, MoveEvent.TURNED_AWAY): _STAY,
        (MoveState.JOINING, MoveEvent.HOME_LOST): _ABANDON,
        (MoveState.DRAINING, MoveEvent.ALL_STORED): (MoveState.SETTLING, (MoveStep.ASK_BARRIER,)),
        (MoveState.DRAINING, MoveEvent.NOTHING_SENT): _GO,
        (MoveState.DRAINING, MoveEvent.TURNED_AWAY): _STAY,
        (MoveState.DRAINING, MoveEvent.HOME_LOST): _ABANDON,
        (MoveState.SETTLING, MoveEvent.CHANGED_SINCE): (
            MoveState.SETTLING,
            (MoveStep.ASK_BARRIER,),
        ),
        (MoveState.SETTLING, MoveEvent.IN_FORCE): _GO,
        (MoveState.SETTLING, MoveEvent.LATE): (
            MoveState.LEAVING,
            (MoveStep.SWITCH, MoveStep.NEW_STRAND),
        ),
        (MoveState.SETTLING, MoveEvent.LATE_AND_CHANGED): (
            MoveState.JOINING,
            (MoveStep.PUBLISH,),
        ),
        (MoveState.SETTLING, MoveEvent.TURNED_AWAY): _STAY,
        (MoveState.SETTLING, MoveEvent.HOME_LOST): _ABANDON,
        (MoveState.LEAVING, MoveEvent.RELEASED): (
            MoveState.AT_HOME,
            (MoveStep.HANG_UP, MoveStep.DELIVER_HELD, MoveStep.FOLLOW),
        ),
        (MoveState.LEAVING, MoveEvent.LATE): (
            MoveState.AT_HOME,
            (MoveStep.LEAVE_BEHIND, MoveStep.DELIVER_HELD, MoveStep.FOLLOW),
        ),
    }
)

# While the brokers change, nothing is published: each publisher's notifications keep their order.
SILENT = frozenset({MoveState.DRAINING, MoveState.SETTLING})
# The new broker is not home yet, and must know every subscription.
ARRIVING = frozenset(
    {MoveState.CONNECTING, MoveState.JOINING, MoveState.DRAINING, MoveState.SETTLING}
)
# The new broker has let us in, and the old one is home.
BETWEEN = ARRIVING - {MoveState.CONNECTING}
# What is waited for may not come.
BOUNDED = frozenset({MoveState.SETTLING, MoveState.LEAVING})


class ClientMove:
    """One client's way between brokers; it walks the table and tells what to do.

    >>> move = ClientMove()
    >>> move.redirected(Redirect("b", "kbn://b:7420"), home="a"), move.target.url
    ((<MoveStep.DIAL: 1>,), 'kbn://b:7420')
    """

    __slots__ = ("_postponed", "may_publish", "state", "target", "waits_since")

    def __init__(self) -> None:
        self.state = MoveState.AT_HOME
        self.may_publish = True
        self.target = Redirect("", "")
        self.waits_since: float | None = None  # in a state that must not last
        self._postponed: Redirect | None = None

    @property
    def is_under_way(self) -> bool:
        return self.state is not MoveState.AT_HOME

    @property
    def is_arriving(self) -> bool:
        """Whether the other broker is the new one."""
        return self.state in ARRIVING

    @property
    def is_between(self) -> bool:
        """Whether the new broker has let us in, and the old one is home."""
        return self.state in BETWEEN

    @property
    def is_bounded(self) -> bool:
        """Whether the present state must not last."""
        return self.state in BOUNDED

    def redirected(self, redirect: Redirect, home: str) -> tuple[MoveStep, ...]:
        """Told to go to a broker; while on the way to another one, afterwards."""
        if self.is_under_way:
            self.postpone(redirect)
            return ()
        self._postponed = None  # the newest order counts
        if redirect.broker == home:
            return ()
        self.target = redirect
        return self.on(MoveEvent.REDIRECTED)

    def on(self, event: MoveEvent) -> tuple[MoveStep, ...]:
        """Go to the next state; what to do, in this order."""
        self.state, steps = TRANSITIONS.get((self.state, event), (self.state, ()))
        self.may_publish = self.state not in SILENT
        return steps

    def postpone(self, redirect: Redirect) -> None:
        """Go there later; see `take_postponed`."""
        self._postponed = redirect

    def take_postponed(self) -> Redirect | None:
        """Where we were sent while on the way elsewhere; once."""
        postponed, self._postponed = self._postponed, None
        return postponed
