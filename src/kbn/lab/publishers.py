"""Publishers and subscribers drawn as the Stuttgart thesis draws them, and what becomes of them.

A publisher has a number of attributes, drawn evenly, and that many of Ω, drawn evenly; its limit of
connections is drawn evenly too. Subscribers come when all publishers are there, in ten parts, and
each wants one of the combinations on offer; after each part, publishers drawn at random send a
notification each, and what has arrived so far is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kbn.grouping import Groups

NAMES = tuple("ABCDEFGHIJKLMNOP")
POINTS = 25
PARTS = 10


@dataclass(frozen=True)
class Setting:
    """One line of a figure: which strategy, for which publishers."""

    strategy: str
    publishers: int
    omega: int = 10
    attributes: tuple[int, int] = (3, 4)
    connections: tuple[int, int] | None = None
    order: str = "descending"

    @property
    def label(self) -> str:
        """What a figure's legend says."""
        said = f"strategy {self.strategy}"
        if self.strategy in ("3", "3.1"):
            said += f" {self.order}"
        if self.connections:
            said += f", {self.connections[0]}-{self.connections[1]} connections"
        return f"{said}, {self.attributes[0]}-{self.attributes[1]} of {self.omega}"

    def by(self, strategy: str, order: str = "descending") -> Setting:
        """The same publishers under another strategy."""
        return replace(self, strategy=strategy, order=order)

    def drawn(self, seed: int) -> list[tuple[list[str], int | None]]:
        """The publishers: attributes and limit of each. All strategies get the same."""
        # Limits have rng of their own, so that the attributes are the same with any or none.
        rng, limits = Random(f"{seed} {self.omega} {self.attributes}"), Random(f"{seed} limits")
        least, most = self.connections or (0, 0)
        is_limited = self.connections is not None and self.strategy not in ("1", "2")
        made: list[tuple[list[str], int | None]] = []
        for _ in range(self.publishers):
            chosen = rng.sample(NAMES[: self.omega], rng.randint(*self.attributes))
            made.append((chosen, limits.randint(least, most) if is_limited else None))
        return made


def grow(setting: Setting, seed: int) -> Iterator[tuple[int, Groups]]:
    """The groups as publishers arrive, after each of POINTS equal parts of them."""
    from kbn.grouping import Groups

    groups = Groups(
        NAMES[: setting.omega], strategy=setting.strategy, order=setting.order, seed=seed
    )
    step = max(1, setting.publishers // POINTS)
    for number, (attributes, limit) in enumerate(setting.drawn(seed), start=1):
        groups.arrive(number, attributes, limit)
        if number == setting.publishers and setting.strategy == "4":
            groups.reorder()
        if number % step == 0 or number == setting.publishers:
            yield number, groups


def grown(setting: Setting, seed: int) -> Groups:
    """The groups when all publishers have arrived."""
    return [groups for _, groups in grow(setting, seed)][-1]


def served(
    groups: Groups, subscribers: int, deliveries: int, seed: int
) -> Iterator[tuple[int, int, int]]:
    """Let subscribers come and publishers send, until about so many deliveries were made.

    After each part: the subscribers there are, what they received so far, and how much in vain.
    """
    rng = Random(f"{seed} subscribers")
    advertised = sorted((c for each in groups.clusters for c in each.combinations), key=sorted)
    publishers = list(groups.connections)
    received = in_vain = there = 0
    for part in range(1, PARTS + 1):
        while there < subscribers * part // PARTS:
            groups.subscribe(there, rng.choice(advertised))
            there += 1
        while received < deliveries * part / PARTS:
            told = groups.deliver(rng.choice(publishers))
            received += told.received
            in_vain += told.false_positives
        yield there, received, in_vain


def facts(groups: Groups) -> dict[str, Any]:
    """What the thesis reports of a system when all have arrived."""
    from statistics import fmean, pstdev

    clusters = groups.clusters
    rates = [cluster.false_positive_rate for cluster in clusters]
    return {
        "clusters": len(clusters),
        "connections": mean_connections(groups),
        "rate": groups.false_positive_rate(),
        "rate per cluster": fmean(rates),
        "sd per cluster": pstdev(rates),
        "largest": max(len(cluster.combinations) for cluster in clusters),
    }


def mean_connections(groups: Groups) -> float:
    """To how many clusters a publisher is connected on average."""
    used = groups.connections
    return sum(map(len, used.values())) / len(used)
