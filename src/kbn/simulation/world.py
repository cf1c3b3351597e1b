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

Some worlds have more troubles (`troubles.py`). Then these are the promises:

- a process that ends and comes back to its broker has been owed everything meanwhile, and may be
  given again what the process before it had not acknowledged. One that ends on its way between
  brokers, or comes back to another, is owed what is published when its subscriptions are in force
  again. Of what a publisher had published when it ended, what was confirmed is owed;
- what a disk has lost that lies is not owed, nor is anything for a subscription it has lost, until
  that is in force again. What was delivered before it was lost may be refused when it comes again.
  All else is owed;
- what a disk has spoilt is not owed either, but only from when its broker has told so. Nobody is
  given anything else than was published;
- what a disk has lost or spoilt, and its publisher brings again, comes out of order. So may what a
  broker has had and does not know of, because a mark is spoilt (`damage.py` says which).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random

from kbn.broker import AnyMessage, NotificationId
from kbn.simulation import happenings
from kbn.simulation.access import TOKEN, AccessTrouble
from kbn.simulation.client import SimulatedClient
from kbn.simulation.damage import Damage
from kbn.simulation.disk import Disk, Losses, SimulatedDisk, Spoilt
from kbn.simulation.drawing import CALM, Contents, random_faults, random_topology
from kbn.simulation.ledger import Interest, Ledger, Published
from kbn.simulation.network import Network
from kbn.simulation.troubles import Troubles, kinds_of_seed
from kbn.simulation.world_limits import WorldLimits, lost_by

HEALING_S_MAX = 30.0
LITTLE_WORK = 60  # in one turn of each broker, in every fourth world: most things take several


class PromiseBrokenError(AssertionError):
    """Something was lost, doubled, disordered or delivered to the wrong client."""


@dataclass(slots=True)
class World:
    """A network in trouble, and a record of what it owes to whom."""

    seed: int
    rng: Random
    network: Network
    access: AccessTrouble
    troubles: Troubles
    ledger: Ledger
    damage: Damage
    gone: dict[str, SimulatedClient] = field(default_factory=dict)
    story: list[str] = field(default_factory=list)
    is_restless: bool = False
    limits: WorldLimits | None = None

    @classmethod
    def swarm(
        cls,
        seed: int,
        *,
        calm: bool = False,
        restless: bool = False,
        rules_change: bool = True,
        troubles: Collection[str] | None = None,
        disks: Callable[[str], Disk] = lambda broker: SimulatedDisk(),
    ) -> World:
        """A world whose shape, clients and fault rates all come from the seed.

        In a restless one brokers move often, and peers in the middle of the network too. In two of
        three the access rules change, unless that is not wanted. `troubles` are those of the seed,
        unless you say which; `disks` makes the disk of each broker.
        """
        rng, limits = Random(seed), WorldLimits.of_seed(seed)
        kinds = kinds_of_seed(seed) if troubles is None else troubles
        topology = random_topology(rng, rng.randint(1, 6))
        faults = CALM if calm else random_faults(rng)
        access = AccessTrouble(seed, topology.brokers, changes=rules_change)
        contents = Contents(rng, terms="terms" in kinds)
        network = Network(
            topology,
            contents.ontology,
            seed=seed,
            faults=faults,
            ticks=True,
            disks=disks,
            advertisements=rng.random() < 0.3,
            authorizer=access.in_force,
            broker_token=TOKEN,
            limits=None if limits is None else limits.clients,
            broker_limits=None if limits is None else limits.broker,
            turn_work=LITTLE_WORK if seed % 4 == 0 else 20_000,
        )
        trouble = Troubles(seed, kinds)
        ledger = Ledger(contents)
        damage = Damage(network, ledger)
        world = cls(seed, rng, network, access, trouble, ledger, damage)
        world.is_restless, world.limits = restless, limits
        network.watch, network.disk_lost = world._look_at, world._disk_lost
        network.noted = damage.noted
        world.tell(f"{topology.routing} {topology.links} {faults} {limits or ''} {sorted(kinds)}")
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
                self.subscribe(client)
        for publisher in self.publishers:
            if self.rng.random() < 0.5:
                publisher.advertise(self.ledger.contents.subscription())
        self.network.run_for(1.0)
        for _ in range(steps):
            happenings.step(self)
            self.access.step(self)
            self.troubles.step(self)
            self.network.run_for(self.rng.expovariate(steps / seconds))
            self._note_in_force()
            self._check_limits()
        self.heal()
        self.check()

    def heal(self) -> None:
        """Mend everything, wait until what was promised is kept, and see that it all goes on."""
        self.tell("healed")
        self.network.heal()
        self.access.restore(self)
        self.troubles.end(self)
        for client in self.subscribers:
            client.read()
        self._wait_until_kept()
        for publisher in self.publishers:
            self.publish(publisher)
        self._wait_until_kept()
        self.network.run_for(2.0)

    def _wait_until_kept(self) -> None:
        end = self.network.now + HEALING_S_MAX
        while self.network.now < end and not self._is_kept():
            self.network.run_for(0.2)
            self._note_in_force()

    def check(self) -> None:
        """Raise `PromiseBrokenError` where a promise is not kept."""
        for publisher in self.publishers:
            if publisher.core.unpublished:
                self._broken(f"{publisher.core.unpublished} of {publisher.name} were never taken")
        for key, client in self.network.clients.items():
            if key[0] == "x" and (client.received or client.confirmed):
                self._broken(f"{key} was let in")
        if untold := self.damage.untold():
            self._broken(untold)
        for client in self.subscribers:
            for process in self.ledger.processes(client):
                self._check_process(process)
            got = self.ledger.received(client)
            must, may = self.expected(client)
            missing, lost = must - got, self._lost_by(client)
            if len(missing) > lost:
                told = f", and was told of {lost}" if self.limits else ""
                self._broken(f"{client.name} never had {_named(missing)}{told}")
            if got - may:
                self._broken(f"{client.name} had {_named(got - may)}, and wanted none")

    def _check_process(self, client: SimulatedClient) -> None:
        for each in client.received:
            if not self.ledger.is_as_published(each.id, each.notification):
                self._broken(f"{client.name} had {dict(each.notification)} for {each.id}")
        got = [each.id for each in client.received]
        if len(set(got)) != len(got):
            twice = {id for id in got if got.count(id) > 1}
            self._broken(f"{client.name} had {_named(twice)} twice")
        self._check_order(client)

    def _check_limits(self) -> None:
        if self.limits is not None:
            for broker in self.network.brokers.values():
                if too_much := self.limits.too_much_at(broker):
                    self._broken(too_much)

    def _check_order(self, client: SimulatedClient) -> None:
        """Within a strand, and apart from what a former broker brings late, or comes again because
        a disk has lost it, or the mark that it came.
        """
        if self.network.topology.routing == "general":
            return
        streams: dict[tuple[str, int, int, bool], list[int]] = {}
        for each in client.received:
            if self.ledger.may_be_late(each.id):
                continue
            stream = (each.id.publisher, each.id.epoch, each.strand, each.is_late)
            streams.setdefault(stream, []).append(each.id.number)
        for (publisher, *_), numbers in streams.items():
            if numbers != sorted(numbers):
                self._broken(f"{client.name} had those of {publisher} in the order {numbers}")

    def _is_kept(self) -> bool:
        return not any(publisher.core.unpublished for publisher in self.publishers) and all(
            not client.core.is_moving
            and len(self.expected(client)[0] - self.ledger.received(client))
            <= self._lost_by(client)
            for client in self.subscribers
        )

    def _lost_by(self, client: SimulatedClient) -> int:
        told = sum(lost_by(process) for process in self.ledger.processes(client))
        return told + self.damage.uncounted[client.name]

    def expected(self, client: SimulatedClient) -> tuple[set[NotificationId], set[NotificationId]]:
        """What a client must have had, and what it may have had."""
        everybody = [*self.publishers, *(c for name, c in self.gone.items() if name[0] == "p")]
        return self.ledger.expected(client, everybody)

    def _note_in_force(self) -> None:
        for client in self.subscribers:
            self.ledger.note_in_force(client, self.network.now)

    # What happens.

    def publish(self, publisher: SimulatedClient) -> None:
        """Let a client publish something."""
        notification = self.ledger.contents.notification()
        number = publisher.publish(notification, durable=True)
        id = NotificationId(publisher.name, publisher.epoch, number, durable=True)
        is_forbidden = not self.access.may_publish(publisher.name)
        self.ledger.publish(
            Published(id, notification, self.network.now, is_forbidden, is_forbidden)
        )
        self.tell(f"{publisher.name} publishes {number}: {dict(notification)}")

    def crash(self, name: str) -> None:
        """Stop a broker, if it runs."""
        if name in self.network.brokers:
            self.tell(f"{name} crashes")
            self.network.crash(name)

    def restart(self, name: str) -> None:
        """Start a broker, if it does not run."""
        if name not in self.network.brokers:
            self.tell(f"{name} starts")
            self.network.restart(name)

    def _disk_lost(self, losses: Losses) -> None:
        lost = _named(losses.publications), sorted(losses.subscriptions)
        self.tell(f"the disk has lost {losses.commits} commits: {lost}")
        self.damage.lost(losses)

    def disk_spoilt(self, name: str, rows: list[Spoilt]) -> None:
        """Rows of a broker that does not run were made unreadable."""
        told = [sorted(row.told_as) for row in rows]
        self.tell(f"the disk of {name} spoils {told}")
        self.damage.spoilt(name, rows)

    def move(self, client: SimulatedClient, to: str) -> None:
        """Let a client move to another broker."""
        self.tell(f"{client.name} is to move to {to}")
        client.move(to)

    def subscribe(self, client: SimulatedClient) -> None:
        """Let a client subscribe to something."""
        subscription = self.ledger.contents.subscription()
        id = client.subscribe(subscription)
        request = client.barrier()
        interest = Interest(subscription, request)
        if not self.access.may_subscribe(client.name, subscription):
            interest.given_up_at = self.network.now
        self.ledger.interests[client.name][id] = interest
        self.tell(f"{client.name} subscribes {id}: {subscription}")

    def _attach(self, name: str, durable: bool) -> None:
        at = self.rng.choice(self.network.topology.brokers)
        how = WorldLimits.usual() if self.limits is None or name[0] == "p" else self.limits
        window, when_slow = how.client_settings(self.rng)
        token = self.access.enter(name)
        self.network.client(
            name, at=at, durable=durable, token=token, window=window, when_slow=when_slow
        )
        self.ledger.interests[name] = {}
        self.tell(f"{name} attaches to {at}{', durable' if durable else ''}")

    # Processes of clients.

    def others_like(self, name: str) -> list[SimulatedClient]:
        """The other clients that publish, or subscribe, as this one does."""
        alike = self.subscribers if name[0] == "s" else self.publishers
        return [each for each in alike if each.name != name]

    def end_process(self, client: SimulatedClient, *, vanishes: bool = False) -> None:
        """The process of a client ends: what nobody has confirmed may be lost."""
        on_its_way = " on its way" if client.core.is_moving else ""
        self.tell(f"the {'machine' if vanishes else 'process'} of {client.name} ends{on_its_way}")
        self.gone[client.name] = self.network.crash_client(client.key, vanishes=vanishes)
        for published in self.ledger.published:
            is_its_own = published.id[:2] == (client.name, client.epoch)
            if is_its_own and published.id.number > client.core.stored_up_to:
                published.is_uncertain, published.is_forbidden = True, False

    def client_returns(self, name: str) -> None:
        """Another process under the name of one that has ended makes the same subscriptions."""
        old = self.gone.pop(name, None)
        if old is None:
            return
        at = self.troubles.where_to_return(self, old)
        self.tell(f"{name} comes back to {at}")
        self.ledger.ended.setdefault(name, []).append(old)
        new = self.network.client_again(old, at, self.access.tell_token_to(name))
        is_on_its_way = old.core.is_moving or old.core.former
        is_kept = old.core.is_durable and at == old.broker and not is_on_its_way
        for id, interest in sorted(self.ledger.interests[name].items()):
            assert new.subscribe(interest.subscription) == id
            if interest.is_unsubscribed:
                new.unsubscribe(id)
            if not is_kept or interest.in_force_at is None:
                interest.begin_again(new.barrier())

    # Access.

    def rules_changed(self) -> None:
        """Note what is owed to nobody any more, now that the rules are others."""
        for name, interests in self.ledger.interests.items():
            for interest in interests.values():
                may = self.access.may_subscribe(name, interest.subscription)
                if not may and interest.given_up_at is None:
                    interest.given_up_at = self.network.now
        for published in self.ledger.published:
            client = self.network.clients.get(published.id.publisher)
            if client is None or client.epoch != published.id.epoch:
                continue
            if published.id.number <= client.core.stored_up_to:
                continue
            if self.access.may_publish(client.name):
                published.is_forbidden = False
            else:
                published.is_uncertain = True

    def _look_at(self, client: str, message: AnyMessage) -> None:
        """A broker sends a client something."""
        interests = self.ledger.interests.get(client)
        if interests is None:
            return
        held = {id: each.subscription for id, each in interests.items()}
        objection = self.access.objection(client, message, held)
        if objection is not None:
            self._broken(objection)

    def _broken(self, what: str) -> None:
        told = "\n".join(self.story)
        raise PromiseBrokenError(f"seed {self.seed}: {what}\n{told}")


def _named(ids: Collection[NotificationId]) -> list[str]:
    return sorted(map(str, ids))
