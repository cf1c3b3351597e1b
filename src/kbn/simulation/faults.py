"""What can go wrong on a simulated link, and how long things take there."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Faults:
    """How a link behaves. Probabilities are per message; times in seconds.

    `jitter_s` of more than nothing lets messages overtake each other.
    """

    latency_s: float = 0.001
    jitter_s: float = 0.0
    loss: float = 0.0
    duplication: float = 0.0

    @property
    def is_reliable(self) -> bool:
        """Whether a link delivers everything once, in order."""
        return not (self.jitter_s or self.loss or self.duplication)

    def arrivals(self, rng: Random) -> list[float]:
        """After how long a message arrives: never, once, or twice."""
        if self.is_reliable:
            return [self.latency_s]
        copies = (rng.random() >= self.loss) + (rng.random() < self.duplication)
        return [self.latency_s + self.jitter_s * rng.random() for _ in range(copies)]
