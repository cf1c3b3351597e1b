"""What a world draws from its generator: topologies, faults, subscriptions, notifications."""

from __future__ import annotations

from functools import cache
from random import Random

from kbn import data
from kbn.broker import Topology
from kbn.filters import Bag, Notification, Subscription
from kbn.ontology import Class, Individual, Ontology
from kbn.simulation.faults import Faults

CALM = Faults(latency_s=0.002)
CLASSES = ["Animal", "Cats", "Burmese", "Dogs", "GermanShepherd", "JackRussell", "Person", "Cow"]
INDIVIDUALS = ["Dixie", "Gus", "Ray", "Tillie", "John"]


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


def random_faults(rng: Random) -> Faults:
    if rng.random() < 0.3:
        return CALM
    return Faults(
        latency_s=0.002,
        jitter_s=rng.choice([0.0, 0.005, 0.05]),
        loss=rng.choice([0.0, 0.01, 0.2]),
        duplication=rng.choice([0.0, 0.01, 0.2]),
    )


@cache
def animals() -> Ontology:
    """The small ontology of the worlds that have one."""
    return Ontology.load(data.path("animals"))


class Contents:
    """Subscriptions and notifications about x and y; with `terms`, about animals too."""

    def __init__(self, rng: Random, *, terms: bool) -> None:
        self._rng = rng
        self.ontology = animals() if terms else None

    def subscription(self) -> Subscription:
        """Narrow and wide ones, so that some cover others."""
        rng = self._rng
        parts = [f"{name} {rng.choice('<>')} {rng.randrange(10)}" for name in "xy"]
        rng.shuffle(parts)
        parts = parts[: rng.randint(1, 2)]
        if self.ontology is not None and rng.random() < 0.6:
            # In place of a part, so that it is no narrower than the others.
            parts[0] = self._constraint()
        return Subscription.parse(" and ".join(parts), ontology=self.ontology)

    def notification(self) -> Notification:
        rng = self._rng
        found: dict[str, object] = {"x": rng.randrange(10), "y": rng.randrange(10)}
        if self.ontology is not None:
            found["kind"] = Class(self._term(CLASSES))
            found["who"] = Individual(self._term(INDIVIDUALS))
            if rng.random() < 0.5:
                kinds = [Class(self._term(CLASSES)) for _ in range(rng.randint(1, 3))]
                found["kinds"] = Bag(*kinds)
        return Notification(found)

    def matches(self, subscription: Subscription, notification: Notification) -> bool:
        """Whether a notification is wanted: the meaning, without an index."""
        return subscription.matches(notification, self.ontology)

    def _constraint(self) -> str:
        a_class = f"animals:{self._rng.choice(CLASSES)}"
        return self._rng.choice(
            [
                f"kind @> {a_class}",
                f"kind @< {a_class}",
                f"kind @!~ {a_class}",
                f"who @= {a_class}",
                f"who @!= {a_class}",
                f"kinds #>/@> {{{a_class}}}",
            ]
        )

    def _term(self, names: list[str]) -> str:
        assert self.ontology is not None
        return self.ontology.expand(f"animals:{self._rng.choice(names)}")
