"""Knowledge-based networking: publish and subscribe with the terms of an ontology.

Publishers describe what they send with terms of an ontology, subscribers say what they want with
the same terms, and a `Matcher` finds who wants a notification among a million subscriptions.

The names below are loaded when first used, so `import kbn` costs next to nothing: no ontology
library, no array library and no compiler is imported before you ask for something that needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kbn.errors import (
    FilterSyntaxError,
    InvalidInputError,
    KbnError,
    LimitError,
    MissingDependencyError,
    OntologyError,
    RemotePeerError,
    TransportError,
    UnknownTermError,
)

if TYPE_CHECKING:
    from kbn.filters import Bag, Filter, Notification, Subscription
    from kbn.grouping import Groups, publisher_groups
    from kbn.matching import Matcher, Matches
    from kbn.ontology import Class, Individual, Ontology, Property
    from kbn.placement import Clusters, Medoid, Plan, SemanticMap, clusters, plan
    from kbn.simulation import Network
    from kbn.transport import Client, connect

__version__ = "0.1.0"

__all__ = [
    "Bag",
    "Class",
    "Client",
    "Clusters",
    "Filter",
    "FilterSyntaxError",
    "Groups",
    "Individual",
    "InvalidInputError",
    "KbnError",
    "LimitError",
    "Matcher",
    "Matches",
    "Medoid",
    "MissingDependencyError",
    "Network",
    "Notification",
    "Ontology",
    "OntologyError",
    "Plan",
    "Property",
    "RemotePeerError",
    "SemanticMap",
    "Subscription",
    "TransportError",
    "UnknownTermError",
    "__version__",
    "clusters",
    "connect",
    "plan",
    "publisher_groups",
]

# Where a name that is not loaded yet lives. The imports for type checkers above say the same, and
# a test holds the two together.
_HOMES = {
    "Bag": "kbn.filters",
    "Class": "kbn.ontology",
    "Client": "kbn.transport",
    "Clusters": "kbn.placement",
    "Filter": "kbn.filters",
    "Groups": "kbn.grouping",
    "Individual": "kbn.ontology",
    "Matcher": "kbn.matching",
    "Matches": "kbn.matching",
    "Medoid": "kbn.placement",
    "Network": "kbn.simulation",
    "Notification": "kbn.filters",
    "Ontology": "kbn.ontology",
    "Plan": "kbn.placement",
    "Property": "kbn.ontology",
    "SemanticMap": "kbn.placement",
    "Subscription": "kbn.filters",
    "clusters": "kbn.placement",
    "connect": "kbn.transport",
    "plan": "kbn.placement",
    "publisher_groups": "kbn.grouping",
}


def __getattr__(name: str) -> object:
    """Load the room a public name lives in, the first time somebody asks for it."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'kbn' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
