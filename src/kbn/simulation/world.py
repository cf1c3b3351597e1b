"""A world: an overlay, what its clients do and what goes wrong, all of it from one seed.

The world is disturbed first: messages are lost, repeated and overtaken, links are cut, brokers
crash and start again, clients move, subscribe and unsubscribe, while durable notifications are
published. Then it is healed, and `check` demands what was promised:

- a durable client has had every durable notification that one of its subscriptions wanted, if the
  subscription was in force before the notification was published and not given up before the end;
- nobody has had what none of its subscriptions wanted at any time;
- nobody has had anything twice;
- nobody was let in who has no token, and nobody was sent what the access rules did not allow at
  that moment (`access.py`);
- in a world with limits: see `world_limits.py`;
- what one publisher published came in its order (with general peers only while the tree stands, so
  there it is not demanded).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from kbn.broker import AnyMessage, Topology
from kbn.errors import InvalidInputError
from kbn.filters import Notification, Subscription
from kbn.simulation.access import TOKEN, AccessTrouble
from kbn.simulation.client import SimulatedClient
from kbn.simulation.faults import Faults
from kbn.simulation.network import Network
from kbn.simulation.world_limits import WorldLimits, lost_by, refused_to

CALM = Faults(latency_s=0.002)
HEALING_S_MAX = 30.0


class PromiseBrokenError(AssertionError):
    """Something was lost, doubled, disordered or delivered to the wrong client."""


@dataclass(slots=True)
class Interest:
    """One subscription of a client, and when it began and ceased to count."""

    subscription: Subscription
    request: int | None = None
    asked_at: float = 0.0
    in_force_at: float | None = None
    given_up_at: float | None = None
    is_unsubscribed: bool = False


LITTLE_WORK = 60  # in one turn of each broker, in every fourth world: most things take several


@dataclass(slots=True)
class Published:
    notification: Notification
    publisher: str
    number: int
    at: float
    is_forbidden: bool = False  # its publisher may not publish it
    may_be_refused: bool = False  # its publisher might not, for a while


@dataclass(slots=True)
class World:
    """A network in trouble, and a record of what it owes to whom."""

    seed: int
    rng: Random
    network: Network
    access: AccessTrouble
    interests: dict[str, dict[int, Interest]] = field(default_factory=dict)
    published: list[Published] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    is_restless: bool = False
    limits: WorldLimits | None = None

    @classmethod
    def swarm(
        cls, seed: int, *, calm: bool = False, restless: bool = False, rules_change: bool = True
    ) -> World:
        """A world whose shape, clients and fault rates all come from the seed.

        In a restless one brokers move often, and peers in the middle of the network too. In two of
        three the access rules change, unless that is not wanted.
        """
        rng, limits = Random(seed), WorldLimits.of_seed(seed)
        topology = random_topology(rng, rng.randint(1, 6))
        faults = CALM if calm else _random_faults(rng)
        access = AccessTrouble(seed, topology.brokers, changes=rules_change)
        network = Network(
            topology,
            seed=seed,
            faults=faults,
            ticks=True,
            advertisements=rng.random() < 0.3,
            authorizer=access.in_force,
            broker_token=TOKEN,
            limits=None if limits is None else limits.clients,
            broker_limits=None if limits is None else limits.broker,
            turn_work=LITTLE_WORK if seed % 4 == 0 else 20_000,
        )
        world = cls(seed, rng, network, access, is_restless=restless, limits=limits)
        network.watch = world._look_at
        world.tell(f"{topology.routing} {topology.links} {faults} {limits or ''}")
        for n in range(rng.randint(1, 4)):
            world._attach(f"s{n}", durable=rng.random() < 0.8)
        for n in range(rng.randint(1, 3)):
            world._attach(f"p{n}", durable=False)
        return world

    @property
    def subscribers(self) -> list[SimulatedClient]:
        return [client for name, client in self.network.clients.items() if name[0] == "s"]

    @property
    def publishers(self) -> list[SimulatedClient]:
        return [client for name, client in self.network.clients.items() if name[0] == "p"]

    def tell(self, what: str) -> None:
        self.story.append(f"{self.network.now:8.3f}  {what}")

    def run(self, seconds: float = 4.0, steps: int = 40) -> None:
        """Let things happen, good and bad, then heal the world and check it."""
        for client in self.subscribers:
            for _ in range(self.rng.randint(1, 3)):
                self._subscribe(client)
        for publisher in self.publishers:
            if self.rng.random() < 0.5:
                publisher.advertise(random_subscription(self.rng))
        self.network.run_for(1.0)
        for _ in range(steps):
            self._something_happens()
            self.access.step(self)
            self.network.run_for(self.rng.expovariate(steps / seconds))
            self._note_in_force()
            self._check_limits()
        self.heal()
        self.check()

    def heal(self) -> None:
        """Mend everything and wait until what was promised is kept."""
        self.tell("healed")
        self.network.heal()
        self.access.restore(self)
        for client in self.subscribers:
            client.read()
        end = self.network.now + HEALING_S_MAX
        while self.network.now < end and not self._is_kept():
            self.network.run_for(0.2)
        self.network.run_for(2.0)

    def check(self) -> None:
        """Raise `PromiseBrokenError` where a promise is not kept."""
        for publisher in self.publishers:
            if publisher.core.unpublished:
                self._broken(f"{publisher.core.unpublished} of {publisher.name} were never taken")
        for key, client in self.network.clients.items():
            if key[0] == "x" and (client.received or client.confirmed):
                self._broken(f"{key} was let in")
        for client in self.subscribers:
            got = [(r.id.publisher, r.id.number) for r in client.received]
            if len(set(got)) != len(got):
                twice = sorted({id for id in got if got.count(id) > 1})
                self._broken(f"{client.name} had {twice} twice")
            must, may = self.expected(client)
            missing, lost = must - set(got), lost_by(client)
            if len(missing) > lost:
                told = f", and was told of {lost}" if self.limits else ""
                self._broken(f"{client.name} never had {sorted(missing)}{told}")
            if set(got) - may:
                self._broken(f"{client.name} had {sorted(set(got) - may)}, and wanted none")
            self._check_order(client)

    def _check_limits(self) -> None:
        if self.limits is not None:
            for broker in self.network.brokers.values():
                if too_much := self.limits.too_much_at(broker):
                    self._broken(too_much)

    def _check_order(self, client: SimulatedClient) -> None:
        """Within a strand, and apart from what a former broker brings late."""
        if self.network.topology.routing == "general":
            return
        streams: dict[tuple[str, int, bool], list[int]] = {}
        for each in client.received:
            stream = (each.id.publisher, each.strand, each.is_late)
            streams.setdefault(stream, []).append(each.id.number)
        for (publisher, _, _), numbers in streams.items():
            if numbers != sorted(numbers):
                self._broken(f"{client.name} had those of {publisher} in the order {numbers}")

    def _is_kept(self) -> bool:
        must = {client.name: self.expected(client)[0] for client in self.subscribers}
        return not any(publisher.core.unpublished for publisher in self.publishers) and all(
            not client.core.is_moving
            and len(must[client.name] - {(r.id.publisher, r.id.number) for r in client.received})
            <= lost_by(client)
            for client in self.subscribers
        )

    def expected(
        self, client: SimulatedClient
    ) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
        """What a client must have had, and what it may have had."""
        must, may = set(), set()
        refused = {each.name: refused_to(each) for each in self.publishers}
        for published in self.published:
            if published.is_forbidden:
                continue
            id = (published.publisher, published.number)
            if published.number in refused[published.publisher]:
                continue
            for interest in self.interests[client.name].values():
                if not interest.subscription.matches(published.notification):
                    continue
                may.add(id)
                in_force_at = interest.in_force_at
                if (
                    client.core.is_durable
                    and in_force_at is not None
                    and in_force_at < published.at
                    and interest.given_up_at is None
                    and not published.may_be_refused
                ):
                    must.add(id)
        return must, may

    def _note_in_force(self) -> None:
        for client in self.subscribers:
            for interest in self.interests[client.name].values():
                if (
                    interest.in_force_at is None
                    and interest.request is not None
                    and client.has("barrier", interest.request)
                ):
                    interest.in_force_at = self.network.now

    # What happens.

    def _something_happens(self) -> None:
        slow = ["burst", "stop", "read"] if self.limits else []
        kind = self.rng.choices(
            [
                *slow,
                "publish",
                "crash",
                "restart",
                "cut",
                "mend",
                "subscribe",
                "unsubscribe",
                "move",
                "rehome",
                "refuse",
            ],
            [
                *([6, 3, 3] if self.limits else []),
                24,
                2,
                5,
                3,
                5,
                2,
                1,
                2,
                6 if self.is_restless else 1,
                1,
            ],
        )[0]
        getattr(self, f"_{kind}_something")()

    def _publish_something(self) -> None:
        publisher = self.rng.choice(self.publishers)
        notification = random_notification(self.rng)
        number = publisher.publish(notification, durable=True)
        is_forbidden = not self.access.may_publish(publisher.name)
        self.published.append(
            Published(
                notification, publisher.name, number, self.network.now, is_forbidden, is_forbidden
            )
        )
        self.tell(f"{publisher.name} publishes {number}: {dict(notification)}")

    def _burst_something(self) -> None:
        for _ in range(self.rng.randint(2, 10)):
            self._publish_something()

    def _stop_something(self) -> None:
        client = self.rng.choice(self.subscribers)
        if not client.core.is_moving:
            self.tell(f"{client.name} stops reading")
            client.stop_reading()

    def _read_something(self) -> None:
        client = self.rng.choice(self.subscribers)
        self.tell(f"{client.name} reads")
        client.read()

    def _crash_something(self) -> None:
        name = self.rng.choice(self.network.topology.brokers)
        if name in self.network.brokers:
            self.tell(f"{name} crashes")
            self.network.crash(name)

    def _restart_something(self) -> None:
        down = [n for n in self.network.topology.brokers if n not in self.network.brokers]
        if down:
            name = self.rng.choice(down)
            self.tell(f"{name} starts")
            self.network.restart(name)

    def _cut_something(self) -> None:
        if self.network.topology.links:
            one, other = self.rng.choice(self.network.topology.links)
            breaks = self.rng.random() < 0.5
            self.tell(f"{one} - {other} is cut{', and the connection breaks' if breaks else ''}")
            self.network.cut(one, other)
            if breaks:
                self.network.reset(one, other)

    def _mend_something(self) -> None:
        if self.network.topology.links:
            one, other = self.rng.choice(self.network.topology.links)
            self.tell(f"{one} - {other} is mended")
            self.network.mend(one, other)

    def _subscribe_something(self) -> None:
        self._subscribe(self.rng.choice(self.subscribers))

    def _unsubscribe_something(self) -> None:
        client = self.rng.choice(self.subscribers)
        interests = self.interests[client.name]
        if interests:
            id = self.rng.choice(sorted(interests))
            interests[id].given_up_at = self.network.now
            interests[id].is_unsubscribed = True
            client.unsubscribe(id)
            self.tell(f"{client.name} gives up {id}")

    def _move_something(self) -> None:
        client = self.rng.choice([*self.subscribers, *self.publishers])
        to = self.rng.choice(self.network.topology.brokers)
        self.tell(f"{client.name} is to move to {to}")
        client.move(to)

    def _rehome_something(self) -> None:
        name, to = (self.rng.choice(self.network.topology.brokers) for _ in range(2))
        try:
            self.network.move_broker(name, to, self._one_to_leave(name))
        except InvalidInputError:
            return
        self.tell(f"{name} is to move to {to}")

    def _refuse_something(self) -> None:
        """Somebody comes who has no token: nobody may notice."""
        at = self.rng.choice(self.network.topology.brokers)
        name = f"x{len(self.network.clients)}"
        self.tell(f"{name} comes to {at} without a token")
        self.network.client(name, at=at, token="").subscribe("x >= 0")

    def _one_to_leave(self, name: str) -> str | None:
        """One of several neighbours, in a restless world."""
        broker = self.network.brokers.get(name)
        if broker is None or not self.is_restless:
            return None
        ups = [each.name for each in broker.neighbours.values() if each.role != "child"]
        return self.rng.choice(ups) if ups else None

    def _subscribe(self, client: SimulatedClient) -> None:
        subscription = random_subscription(self.rng)
        id = client.subscribe(subscription)
        request = client.barrier()
        interest = Interest(subscription, request, self.network.now)
        if not self.access.may_subscribe(client.name, subscription):
            interest.given_up_at = self.network.now
        self.interests[client.name][id] = interest
        self.tell(f"{client.name} subscribes {id}: {subscription}")

    def _attach(self, name: str, durable: bool) -> None:
        at = self.rng.choice(self.network.topology.brokers)
        how = WorldLimits.usual() if self.limits is None or name[0] == "p" else self.limits
        window, when_slow = how.client_settings(self.rng)
        token = self.access.enter(name)
        self.network.client(
            name, at=at, durable=durable, token=token, window=window, when_slow=when_slow
        )
        self.interests[name] = {}
        self.tell(f"{name} attaches to {at}{', durable' if durable else ''}")

    # Access.

    def rules_changed(self) -> None:
        """Note what is owed to nobody any more, now that the rules are others."""
        for name, interests in self.interests.items():
            for interest in interests.values():
                may = self.access.may_subscribe(name, interest.subscription)
                if not may and interest.given_up_at is None:
                    interest.given_up_at = self.network.now
        for published in self.published:
            client = self.network.clients[published.publisher]
            if published.number <= client.core.stored_up_to:
                continue
            if self.access.may_publish(published.publisher):
                published.is_forbidden = False
            else:
                published.may_be_refused = True

    def _look_at(self, client: str, message: AnyMessage) -> None:
        """A broker sends a client something."""
        interests = self.interests.get(client)
        if interests is None:
            return

        held = {i: each.subscription for i, each in interests.items() if not each.is_unsubscribed}
        objection = self.access.objection(client, message, held)
        if objection is not None:
            self._broken(objection)

    def _broken(self, what: str) -> None:
        told = "\n".join(self.story)
        raise PromiseBrokenError(f"seed {self.seed}: {what}\n{told}")


def random_topology(rng: Random, size: int) -> Topology:
    """A hierarchy, a tree of peers or a graph of peers, connected."""
    names = [f"b{n}" for n in range(size)]
    links = [(names[n], names[rng.randrange(n)]) for n in range(1, size)]
    shape = rng.choice(["hierarchical", "acyclic", "general"])
    if shape == "hierarchical":
        return Topology.hierarchy({names[0]: None, **dict(links)})
    if shape == "acyclic":
        return Topology.peers(links, names)
    for _ in range(rng.randrange(size + 1)):
        one, other = rng.choice(names), rng.choice(names)
        if one != other and (one, other) not in links and (other, one) not in links:
            links.append((one, other))
    return Topology.general(links, names)


def random_subscription(rng: Random) -> Subscription:
    """Narrow and wide ones, so that some cover others."""
    parts = [f"{name} {rng.choice('<>')} {rng.randrange(10)}" for name in "xy"]
    rng.shuffle(parts)
    return Subscription.parse(" and ".join(parts[: rng.randint(1, 2)]))


def random_notification(rng: Random) -> Notification:
    return Notification({"x": rng.randrange(10), "y": rng.randrange(10)})


def _random_faults(rng: Random) -> Faults:
    if rng.random() < 0.3:
        return CALM
    return Faults(
        latency_s=0.002,
        jitter_s=rng.choice([0.0, 0.005, 0.05]),
        loss=rng.choice([0.0, 0.01, 0.2]),
        duplication=rng.choice([0.0, 0.01, 0.2]),
    )
