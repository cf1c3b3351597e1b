"""The simulated population of a managed overlay."""

from __future__ import annotations

import asyncio

from tests.transport.overlay import run

from kbn import data
from kbn.ontology import Ontology
from kbn.placement import SemanticMap
from kbn.transport.population import Population


class Publisher:
    """Publishes, or waits for a broker that is away."""

    def __init__(self, name: str, *, is_stuck: bool) -> None:
        self.name = name
        self.published = 0
        self._is_stuck = is_stuck

    async def publish(self, notification: object) -> None:
        if self._is_stuck:
            await asyncio.Event().wait()
        self.published += 1


def test_a_publisher_whose_broker_is_away_holds_up_no_other() -> None:
    async def story() -> None:
        ontology = Ontology.load(data.path("conference"))
        stuck, free = Publisher("stuck", is_stuck=True), Publisher("free", is_stuck=False)
        async with Population(SemanticMap(ontology), "", [], seed=1) as population:
            subject = sorted(ontology.classes)[0]
            population._publishers = [(stuck, subject), (free, subject)]
            for _ in range(50):
                await asyncio.wait_for(population.publish(), 10.0)
                await asyncio.sleep(0)
        assert free.published > 10
        assert stuck.published == 0

    run(story())
