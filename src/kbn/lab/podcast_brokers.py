"""The 37 brokers of the podcast experiment: who is whose parent, and how clusters divide them.

`podcast_year` says what the sources leave open, and what is chosen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kbn import data
from kbn.ontology import Ontology

ROOT = "1-1"

# Level by level: the place of each broker's parent in the level above. Subtrees stay together.
_PARENTS = (
    (0, 0, 0, 0),
    (0, 0, 1, 1, 2, 2, 3),
    (0, 0, 1, 2, 2, 3, 3, 4, 5, 6),
    (0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 9),
)
# The places in level 2 whose subtrees are a cluster's brokers.
_SUBTREES = {1: ((0, 1, 2, 3),), 2: ((0, 2), (1, 3)), 3: ((0,), (1,), (2, 3))}
# The columns of SAC'08, Figure 1, by their uppermost categories.
_COLUMNS = (
    ("Arts", "KidsAndFamily", "Music", "Comedy"),
    ("Education", "Business"),
    ("GamesAndHobbies", "GovernmentAndOrganizations"),
    ("Health", "NewsAndPolitics", "Technology", "TVAndFilm"),
    ("ReligionAndSpirituality", "ScienceAndMedicine"),
    ("SocietyAndCulture", "SportsAndRecreation"),
)
LEVELS = len(_PARENTS) + 1


def parents() -> dict[str, str | None]:
    """Each of the 37 brokers, named level-place, and its parent.

    >>> [name for name, parent in parents().items() if parent == ROOT]
    ['2-1', '2-2', '2-3', '2-4']
    """
    found: dict[str, str | None] = {ROOT: None}
    for level, above in enumerate(_PARENTS, 2):
        for place, parent in enumerate(above, 1):
            found[f"{level}-{place}"] = f"{level - 1}-{parent + 1}"
    return found


def level_of(broker: str) -> int:
    """The level of a broker, 1 for the root."""
    return int(broker.partition("-")[0])


def clusters_of_brokers(count: int) -> list[list[str]]:
    """The brokers of each cluster, the root in none; for 1, 2 or 3 clusters."""
    above = parents()

    def subtree(name: str) -> int:
        while (parent := above[name]) != ROOT:
            assert parent is not None
            name = parent
        return int(name.partition("-")[2]) - 1

    others = [name for name in above if name != ROOT]
    return [[name for name in others if subtree(name) in which] for which in _SUBTREES[count]]


def clusters_of_categories(ontology: Ontology, count: int) -> Any:
    """For each category, in the ontology's order, the number of the cluster it belongs to."""
    width = len(_COLUMNS) // count
    home = data.namespace("podcast")
    column = {home + top: at for at, tops in enumerate(_COLUMNS) for top in tops}
    found = []
    for category in ontology.classes:
        tops = [column[iri] for iri in ontology.ancestors(category) if iri in column]
        assert len(tops) == 1, f"{category} is not below exactly one uppermost category"
        found.append(tops[0] // width)
    return np.array(found)
