"""What happens in every world, by chance, a step at a time: clients do things, things break."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kbn.errors import InvalidInputError

if TYPE_CHECKING:
    from kbn.simulation.world import World


def step(world: World) -> None:
    """Let something happen."""
    table = [*(WITH_LIMITS if world.limits else ()), *ALWAYS]
    table.append((_rehome, 6 if world.is_restless else 1))
    table.append((_refuse, 1))
    happens = world.rng.choices([what for what, _ in table], [weight for _, weight in table])[0]
    happens(world)


def _publish(world: World) -> None:
    world.publish(world.rng.choice(world.publishers))


def _burst(world: World) -> None:
    for _ in range(world.rng.randint(2, 10)):
        _publish(world)


def _stop_reading(world: World) -> None:
    client = world.rng.choice(world.subscribers)
    world.tell(f"{client.name} stops reading")
    client.stop_reading()


def _read(world: World) -> None:
    client = world.rng.choice(world.subscribers)
    world.tell(f"{client.name} reads")
    client.read()


def _crash(world: World) -> None:
    world.crash(world.rng.choice(world.network.topology.brokers))


def _restart(world: World) -> None:
    down = [n for n in world.network.topology.brokers if n not in world.network.brokers]
    if down:
        world.restart(world.rng.choice(down))


def _cut(world: World) -> None:
    network = world.network
    if network.topology.links:
        one, other = world.rng.choice(network.topology.links)
        breaks = world.rng.random() < 0.5
        world.tell(f"{one} - {other} is cut{', and the connection breaks' if breaks else ''}")
        network.cut(one, other)
        if breaks:
            network.reset(one, other)


def _mend(world: World) -> None:
    if world.network.topology.links:
        one, other = world.rng.choice(world.network.topology.links)
        world.tell(f"{one} - {other} is mended")
        world.network.mend(one, other)


def _subscribe(world: World) -> None:
    world.subscribe(world.rng.choice(world.subscribers))


def _unsubscribe(world: World) -> None:
    client = world.rng.choice(world.subscribers)
    interests = world.ledger.interests[client.name]
    if interests:
        id = world.rng.choice(sorted(interests))
        interests[id].given_up_at = world.network.now
        interests[id].is_unsubscribed = True
        client.unsubscribe(id)
        world.tell(f"{client.name} gives up {id}")


def _move(world: World) -> None:
    client = world.rng.choice([*world.subscribers, *world.publishers])
    world.move(client, world.rng.choice(world.network.topology.brokers))


def _rehome(world: World) -> None:
    if "lying" in world.troubles.kinds:
        return  # a broker that forgets where it has moved to is for a person to mend
    name, to = (world.rng.choice(world.network.topology.brokers) for _ in range(2))
    try:
        world.network.move_broker(name, to, _one_to_leave(world, name))
    except InvalidInputError:
        return
    world.tell(f"{name} is to move to {to}")


def _one_to_leave(world: World, name: str) -> str | None:
    """One of several neighbours, in a restless world."""
    broker = world.network.brokers.get(name)
    if broker is None or not world.is_restless:
        return None
    ups = [each.name for each in broker.neighbours.values() if each.role != "child"]
    return world.rng.choice(ups) if ups else None


def _refuse(world: World) -> None:
    """Somebody comes who has no token: nobody may notice."""
    at = world.rng.choice(world.network.topology.brokers)
    name = f"x{len(world.network.clients)}"
    world.tell(f"{name} comes to {at} without a token")
    world.network.client(name, at=at, token="").subscribe("x >= 0")


# With how often each happens, compared to the others.
WITH_LIMITS: list[tuple[Callable[[World], None], int]] = [
    (_burst, 6),
    (_stop_reading, 3),
    (_read, 3),
]
ALWAYS: list[tuple[Callable[[World], None], int]] = [
    (_publish, 24),
    (_crash, 2),
    (_restart, 5),
    (_cut, 3),
    (_mend, 5),
    (_subscribe, 2),
    (_unsubscribe, 1),
    (_move, 2),
]
