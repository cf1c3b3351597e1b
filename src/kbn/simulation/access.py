"""Access in a world: entries change while it runs, strangers try the names of others.

Every client has an entry with a token of its own. Entries are narrowed, widened, removed and given
other tokens, and all brokers obey at once. What a broker sends a client is looked at as it is sent:
nobody may be sent what the rules of that moment do not allow. A client that had to give something
up is owed nothing for it any more; what a publisher may not publish reaches nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from kbn.broker import (
    AccessRules,
    AnyMessage,
    Deliver,
    Entry,
    NotAllowedError,
    Permission,
    RulesInForce,
    content,
    digest_of,
)
from kbn.filters import Subscription

if TYPE_CHECKING:
    from kbn.simulation.world import World

TOKEN = "let me in"
ALL = Permission(manage=False, block=True, ontologies=False)
CHANGES = {"narrow": 4, "widen": 3, "rotate": 4, "remove": 2, "mute": 2, "steal": 3}


@dataclass(slots=True)
class Client:
    """What the world knows of a client: what it may do, and the token that it should show."""

    permission: Permission = ALL
    token: str = TOKEN
    is_listed: bool = True
    knows_token: bool = True


class AccessTrouble:
    """The rules of a world, and how they change. `changes` of a step are by chance."""

    def __init__(self, seed: int, brokers: Iterable[str], *, changes: bool) -> None:
        self.rng = Random(f"access of {seed}")
        self.rate = self.rng.choice([0.0, 0.1, 0.3]) if changes else 0.0
        self.clients: dict[str, Client] = {}
        self._brokers = {name: Entry(ALL, digest_of(TOKEN)) for name in brokers}
        self.in_force = RulesInForce(AccessRules(brokers=self._brokers))

    def enter(self, name: str) -> str:
        """Give a new client an entry; its token."""
        self.clients[name] = Client(token=f"{name}'s")
        self._use()
        return self.clients[name].token

    def tell_token_to(self, name: str) -> str:
        """Let the next process of a client know its token."""
        self.clients[name].knows_token = True
        return self.clients[name].token

    def may_subscribe(self, name: str, subscription: Subscription) -> bool:
        """Whether a client may have a subscription now."""
        permission = self.in_force.permission_of(name)
        if permission is None:
            return False
        try:
            permission.check_subscribe(subscription)
        except NotAllowedError:
            return False
        return True

    def may_publish(self, name: str) -> bool:
        """Whether a client may publish what all publish in a world."""
        known = self.clients[name]
        return known.is_listed and known.permission.publish is None

    # What happens.

    def step(self, world: World) -> None:
        """Something may change."""
        if self.rng.random() >= self.rate:
            return
        kind = self.rng.choices(list(CHANGES), list(CHANGES.values()))[0]
        subscriber = self.rng.choice([each.name for each in world.subscribers])
        publisher = self.rng.choice([each.name for each in world.publishers])
        anybody = self.rng.choice([subscriber, publisher])
        match kind:
            case "narrow":
                self._narrow(world, subscriber)
            case "widen":
                self._change(world, anybody, ALL)
            case "rotate":
                self._rotate(world, anybody)
            case "remove":
                self.clients[subscriber].is_listed = False
                self._obey(world, f"{subscriber} has no entry any more")
            case "mute":
                self._change(world, publisher, replace(ALL, publish=frozenset("x")))
            case _:
                self._steal(world, anybody)

    def restore(self, world: World) -> None:
        """Let everybody come in again, with what each may do, and know its token."""
        for name, known in self.clients.items():
            known.is_listed = True
            if self.rng.random() < 0.5:
                known.permission = ALL
            self._tell_token(world, name)
        self._obey(world, "everybody may come in again")

    def _narrow(self, world: World, name: str) -> None:
        """A client may see less: now, or after it was kept away while something waits for it."""
        narrow = replace(ALL, subscribe=frozenset(self.rng.choice(["x", "y"])))
        if self.rng.random() < 0.5:
            self._change(world, name, narrow)
            return
        known = self.clients[name]
        known.token, known.knows_token = f"{known.token}!", False
        self._obey(world, f"{name} has another token, and will see less")
        back_at = world.network.now + self.rng.expovariate(1.0)
        world.network.at(back_at, lambda: self._change(world, name, narrow))

    def _change(self, world: World, name: str, permission: Permission) -> None:
        self.clients[name].permission = permission
        self.clients[name].is_listed = True
        self._obey(world, f"{name} may {permission}")
        self._tell_token(world, name)

    def _rotate(self, world: World, name: str) -> None:
        known = self.clients[name]
        known.token, known.knows_token = f"{known.token}!", False
        self._obey(world, f"{name} has another token")
        if self.rng.random() < 0.7:
            after_s = self.rng.choice([0.0, self.rng.expovariate(2.0)])
            world.network.at(world.network.now + after_s, lambda: self._tell_token(world, name))

    def _tell_token(self, world: World, name: str) -> None:
        known = self.clients[name]
        known.knows_token = True
        if name in world.network.clients:
            world.network.give_token(name, known.token)

    def _steal(self, world: World, name: str) -> None:
        """Somebody comes under the name of another, with a token that is wrong."""
        at = world.network.clients[name].broker
        key = f"x{len(world.network.clients)}"
        world.tell(f"{key} comes to {at} as {name}")
        token = self.rng.choice(["", "a guess", TOKEN])
        durable = self.rng.random() < 0.5
        thief = world.network.client(name, at=at, key=key, token=token, durable=durable)
        thief.subscribe("x >= 0")

    def _obey(self, world: World, what: str) -> None:
        world.tell(what)
        self._use()
        world.rules_changed()
        world.network.access_changed()

    def _use(self) -> None:
        listed = {
            name: Entry(known.permission, digest_of(known.token))
            for name, known in self.clients.items()
            if known.is_listed
        }
        self.in_force.rules = AccessRules(listed, self._brokers)

    # What is checked.

    def objection(
        self, name: str, message: AnyMessage, held: Mapping[int, Subscription]
    ) -> str | None:
        """What is wrong with what a broker sends a client now; `held` is what it ever wanted."""
        if not isinstance(message, Deliver):
            return None
        known, permission = self.clients[name], self.in_force.permission_of(name)
        if permission is None or not known.knows_token:
            return f"{name} is not admitted, and is sent {message.envelope.id}"
        shown = set(content.decode(message.envelope.content))
        if permission.subscribe is not None and not shown <= permission.subscribe:
            return f"{name} may see {set(permission.subscribe)}, and is sent {shown}"
        if not any(self.may_subscribe(name, held[id]) for id in message.subscriptions):
            return f"{name} may not subscribe to what {message.envelope.id} is sent for"
        return None
