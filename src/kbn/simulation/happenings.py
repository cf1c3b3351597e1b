"""What happens in a world from moment to moment: one of these, drawn by its weight.

Some are what clients do, others what goes wrong. Troubles that last are in `troubles.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kbn.errors import InvalidInputError

if TYPE_CHECKING:
    from kbn.simulation.world import World


class Happening(NamedTuple):
    """Something that may happen, and how often against the others."""

    act: Callable[[World], None]
    weight: int


def draw(world: World) -> Happening:
    """What happens next."""
    happenings = [*(WITH_LIMITS if world.limits else ()), *ALWAYS]
    happenings.append(Happening(move_broker, 6 if world.is_restless else 1))
    happenings.append(Happening(bring_stranger, 1))
    drawn: Happening = world.rng.choices(happenings, [each.weight for each in happenings])[0]
    return drawn


def publish(world: World) -> None:
    world.publish(world.rng.choice(world.publishers))


def publish_many(world: World) -> None:
    for _ in range(world.rng.randint(2, 10)):
        publish(world)


def stop_reading(world: World) -> None:
    client = world.rng.choice(world.subscribers)
    if not client.core.is_moving:
        world.tell(f"{client.name} stops reading")
        client.stop_reading()


def read_again(world: World) -> None:
    client = world.rng.choice(world.subscribers)
    world.tell(f"{client.name} reads")
    client.read()


def crash_broker(world: World) -> None:
    world.crash(world.rng.choice(world.network.topology.brokers))


def restart_broker(world: World) -> None:
    down = [n for n in world.network.topology.brokers if n not in world.network.brokers]
    if down:
        world.restart(world.rng.choice(down))


def cut_link(world: World) -> None:
    if world.network.topology.links:
        one, other = world.rng.choice(world.network.topology.links)
        breaks = world.rng.random() < 0.5
        world.tell(f"{one} - {other} is cut{', and the connection breaks' if breaks else ''}")
        world.network.cut(one, other)
        if breaks:
            world.network.reset(one, other)


def mend_link(world: World) -> None:
    if world.network.topology.links:
        one, other = world.rng.choice(world.network.topology.links)
        world.tell(f"{one} - {other} is mended")
        world.network.mend(one, other)


def subscribe(world: World) -> None:
    world.subscribe(world.rng.choice(world.subscribers))


def unsubscribe(world: World) -> None:
    client = world.rng.choice(world.subscribers)
    interests = world.ledger.interests[client.name]
    if interests:
        id = world.rng.choice(sorted(interests))
        interests[id].given_up_at = world.network.now
        interests[id].is_unsubscribed = True
        client.unsubscribe(id)
        world.tell(f"{client.name} gives up {id}")


def move_client(world: World) -> None:
    client = world.rng.choice([*world.subscribers, *world.publishers])
    to = world.rng.choice(world.network.topology.brokers)
    world.tell(f"{client.name} is to move to {to}")
    client.move(to)


def move_broker(world: World) -> None:
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


def bring_stranger(world: World) -> None:
    """Somebody comes who has no token: nobody may notice."""
    at = world.rng.choice(world.network.topology.brokers)
    name = f"x{len(world.network.clients)}"
    world.tell(f"{name} comes to {at} without a token")
    world.network.client(name, at=at, token="").subscribe("x >= 0")


WITH_LIMITS = (Happening(publish_many, 6), Happening(stop_reading, 3), Happening(read_again, 3))
ALWAYS = (
    Happening(publish, 24),
    Happening(crash_broker, 2),
    Happening(restart_broker, 5),
    Happening(cut_link, 3),
    Happening(mend_link, 5),
    Happening(subscribe, 2),
    Happening(unsubscribe, 1),
    Happening(move_client, 2),
)
