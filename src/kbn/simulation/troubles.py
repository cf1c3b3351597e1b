"""Troubles beside those of every world: each in a share of the worlds, by chance from the seed.

- *one way*: a link carries only one direction, between brokers or between a client and its broker;
- *slow*: the turns of a broker take long, so that much happens in one of them, and a crash can come
  between a turn's commit and what it sends;
- *clocks*: the clock of a machine jumps, forward or back; brokers read it when they start, clients
  when they start and when they publish;
- *failing*, *lying*, *spoilt*: disks with errors (`disk.py`);
- *dying*: processes of clients end without a word, and come back under the same name, or never;
- *vanishing*: the same with the whole machine, often in the middle of a move: nobody sees a
  connection closed;
- *terms*: filters and notifications have terms of an ontology (`drawing.py`), and brokers believe
  for a while that theirs is another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from random import Random
from typing import TYPE_CHECKING

from kbn.broker import Peer
from kbn.simulation.client import SimulatedClient

if TYPE_CHECKING:
    from kbn.simulation.world import World

SHARES = {
    "one way": 0.3,
    "slow": 0.3,
    "clocks": 0.3,
    "failing": 0.3,
    "dying": 0.3,
    "terms": 0.3,
    "lying": 0.15,
    "spoilt": 0.2,
    "vanishing": 0.2,
}
RATE = 0.25  # of the steps of a world that has some
TURNS_S = (0.005, 0.05, 0.3, 1.5)
YEAR_S = 3e7
CLOCKS_S = (0.0, 2.0, 3600.0, 50 * YEAR_S, 60 * YEAR_S, 200 * YEAR_S)  # forward, and back again
STEPS_S = (0.01, 0.1, 1.0)  # of a move: its steps take a few milliseconds, or long in trouble
RETURNS = 0.7


def kinds_of_seed(seed: int) -> frozenset[str]:
    """The troubles that a world has."""
    rng = Random(f"troubles of {seed}")
    return frozenset(kind for kind, share in SHARES.items() if rng.random() < share)


class Troubles:
    """The troubles of one world; `counts` says how often each happened."""

    def __init__(self, seed: int, kinds: Collection[str]) -> None:
        self.kinds = kinds
        self.counts: Counter[str] = Counter()
        self._rng = Random(f"what happens in {seed}")
        self._is_over = False
        actions: dict[str, Callable[[World], None]] = {
            "one way": self._cut_one_way,
            "slow": self._slow_down,
            "clocks": self._set_a_clock,
            "failing": self._fail_a_disk,
            "lying": self._let_a_disk_lie,
            "spoilt": self._spoil_a_disk,
            "dying": self._end_a_client,
            "vanishing": self._let_a_machine_vanish,
            "terms": self._believe_in_another_ontology,
        }
        self._actions = {kind: action for kind, action in actions.items() if kind in kinds}

    def step(self, world: World) -> None:
        """Something may happen."""
        if self._actions and self._rng.random() < RATE:
            kind = self._rng.choice(list(self._actions))
            self._actions[kind](world)

    def end(self, world: World) -> None:
        """The world is healed: clients come back, or never do."""
        self._is_over = True
        for name in list(world.gone):
            if self._rng.random() < RETURNS or not world.others_like(name):
                world.client_returns(name)

    def _later(self, world: World, action: Callable[[], None]) -> None:
        world.network.at(world.network.now + self._rng.expovariate(1.0), action)

    def _some_broker(self, world: World) -> str:
        return self._rng.choice(world.network.topology.brokers)

    def _cut_one_way(self, world: World) -> None:
        network, rng = world.network, self._rng
        one, other = self._some_link(world)
        if rng.random() < 0.5:
            one, other = other, one
        world.tell(f"{other.name} does not hear {one.name}")
        self.counts["one way"] += 1
        network.cut_one_way(one, other)
        self._later(world, lambda: network.mend_between(one, other))

    def _some_link(self, world: World) -> tuple[Peer, Peer]:
        links, rng = world.network.topology.links, self._rng
        if links and rng.random() < 0.6:
            one, other = rng.choice(links)
            return Peer("broker", one), Peer("broker", other)
        client = rng.choice([*world.subscribers, *world.publishers])
        return Peer("client", client.key), Peer("broker", client.broker)

    def _slow_down(self, world: World) -> None:
        name, turn_s = self._some_broker(world), self._rng.choice(TURNS_S)
        world.tell(f"each turn of {name} takes {turn_s} s")
        self.counts["slow"] += 1
        world.network.slow_down(name, turn_s)
        self._later(world, lambda: world.network.slow_down(name, 0.0))

    def _set_a_clock(self, world: World) -> None:
        # An epoch that a disk has lost comes from the clock: not from one beyond what epochs hold.
        clocks_s = CLOCKS_S[:-1] if "lying" in self.kinds else CLOCKS_S
        name, jump_s = self._some_broker(world), self._rng.choice(clocks_s)
        world.tell(f"the machine of {name} starts again, its clock {jump_s:g} s ahead")
        world.network.set_clock(name, jump_s)
        self.counts["clocks"] += 1
        world.crash(name)
        self._later(world, lambda: world.restart(name))
        client = self._rng.choice([*world.subscribers, *world.publishers])
        client.ahead_s = self._rng.choice(CLOCKS_S)

    def _fail_a_disk(self, world: World) -> None:
        name = self._some_broker(world)
        world.tell(f"the disk of {name} fails")
        self.counts["failing"] += 1
        world.network.fail_disk(name)
        self._later(world, lambda: world.network.mend_disk(name))

    def _let_a_disk_lie(self, world: World) -> None:
        name = self._some_broker(world)
        world.tell(f"the disk of {name} lies")
        self.counts["lying"] += 1
        world.network.let_disk_lie(name)
        if self._rng.random() < 0.8:
            self._later(world, lambda: None if self._is_over else world.crash(name))
        else:
            self._later(world, lambda: world.network.mend_disk(name))

    def _spoil_a_disk(self, world: World) -> None:
        name = self._some_broker(world)
        world.crash(name)
        spoilt = world.network.spoil_disk(name, self._rng)
        self.counts["spoilt"] += len(spoilt)
        world.disk_spoilt(name, spoilt)
        self._later(world, lambda: world.restart(name))

    def _end_a_client(self, world: World) -> None:
        client = self._rng.choice([*world.subscribers, *world.publishers])
        self._end(world, client, "dying")

    def _let_a_machine_vanish(self, world: World) -> None:
        client = self._rng.choice([*world.subscribers, *world.publishers])
        after_s = 0.0
        if self._rng.random() < 0.8:
            world.move(client, self._some_broker(world))
            after_s = self._rng.choice(STEPS_S) * self._rng.random()
        at = world.network.now + after_s
        world.network.at(at, lambda: self._end(world, client, "vanishing"))

    def _end(self, world: World, client: SimulatedClient, kind: str) -> None:
        is_here = world.network.clients.get(client.key) is client
        if self._is_over or not is_here or not world.others_like(client.name):
            return
        self.counts[kind] += 1
        self.counts["vanishing in a move"] += kind == "vanishing" and client.core.is_moving
        world.end_process(client, vanishes=kind == "vanishing")
        if self._rng.random() < RETURNS:
            self._later(world, lambda: world.client_returns(client.name))

    def where_to_return(self, world: World, client: SimulatedClient) -> str:
        """The broker that a client comes back to: mostly the one it was at."""
        return self._some_broker(world) if self._rng.random() < 0.1 else client.broker

    def _believe_in_another_ontology(self, world: World) -> None:
        name, digest = self._some_broker(world), self._rng.choice(["", "another"])
        world.tell(f"{name} believes in the ontology {digest!r}")
        self.counts["terms"] += 1
        world.network.use_ontology(name, world.ledger.contents.ontology, digest)
