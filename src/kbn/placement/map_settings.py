"""What a semantic map goes by, as one value and as text: its weights, and who wins a tie.

All who work out medoids for one overlay use the same settings: its brokers, the publishers that are
placed, and its policy servers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields

from kbn.config import or_one_of
from kbn.errors import InvalidInputError
from kbn.ontology import Ontology
from kbn.placement.semantic_map import SemanticMap, Ties, Weights


@dataclass(frozen=True)
class MapSettings:
    """How far apart terms are, and which of two equally near ones is the medoid."""

    weights: Weights = field(default_factory=Weights)
    ties: Ties = Ties.INDIVIDUAL_FIRST

    def map_of(self, ontology: Ontology) -> SemanticMap:
        """The semantic map of an ontology by these settings."""
        return SemanticMap(ontology, self.weights, self.ties)

    @property
    def weights_text(self) -> str:
        """The weights as `weights_of` reads them."""
        return ",".join(f"{name}={weight}" for name, weight in asdict(self.weights).items())

    def arguments(self) -> list[str]:
        """The options that tell a command of kbn to go by these settings."""
        return ["--weights", self.weights_text, "--ties", self.ties.value]


def weights_of(text: str) -> Weights:
    """The weights that a text such as `to_superclass=30,to_related=7` gives; the others stay.

    >>> weights_of("to_superclass=30, to_related=7")
    Weights(to_superclass=30, to_subclass=100, to_instance=1, to_related=7)
    """
    known = [each.name for each in fields(Weights)]
    given: dict[str, int] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, value = (each.strip() for each in part.partition("="))
        if name not in known:
            raise InvalidInputError(f"there is no weight {name!r:.60}{or_one_of(name, known)}")
        if name in given:
            raise InvalidInputError(f"the weight {name} is given twice")
        if not (value.isascii() and value.isdigit() and len(value) <= 9):
            raise InvalidInputError(f"{part!r:.60}: a weight is written {name}=30, a whole number")
        given[name] = int(value)
    return Weights(**given)
