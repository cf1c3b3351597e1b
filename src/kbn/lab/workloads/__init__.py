"""Workloads: named, seeded streams of subscriptions and tables of notifications.

Each is a source of (subscription, key) pairs, made chunk by chunk so that five million of them never
stand in memory at once, and of an Arrow table of notifications. The same seed gives the same stream.

| name       | subscriptions                                             | notifications               |
|------------|-----------------------------------------------------------|-----------------------------|
| podcast    | one category (#>/@>) and 0-3 of 80 keywords (#>)          | 2-4 categories, 4 keywords, 13 more attributes |
| equalities | 1-6 string equalities over 20 attributes, 160 values each | all 20 attributes           |
| ranges     | 1-6 ranges over 20 attributes, 0.1 % matching             | all 20 attributes, uniform  |
| wide       | 10 ranges of width 0.4 over 20 attributes                 | all 20 attributes, uniform  |
| service    | 2-4 of: category, code, keywords, range, not a state, prefix; 10 % are two such | all six |
| mixed      | 1-6 equalities of few values and ranges, in a `Mixture`   | as the mixture says         |
| u20, z20   | mixed: 20 attributes, even or skewed; 1-6 constraints, 0.1 % matching | all 20 attributes |
| u100, z100 | the same over 100 attributes                              | 20 of the 100               |
| s20        | mixed: 1-6 equalities of texts, 160 values                | all 20 attributes           |
| w20        | mixed: ten wide ranges                                    | all 20 attributes           |
| operators  | one constraint of each operator in turn, and an id        | every kind of value, an id  |
| literature | seven kinds about bags of classes, years and journals     | 8-15 of 30,000 classes by Zipf, a year, a journal |

`literature-plain` and `literature-negated` are of one kind each, to be compared.
`FromFiles` is a workload of one's own subscriptions and notifications.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable

from kbn.errors import InvalidInputError
from kbn.lab.workloads.contract import CHUNK, Pair, Workload
from kbn.lab.workloads.equalities import Equalities
from kbn.lab.workloads.from_files import FromFiles
from kbn.lab.workloads.literature import Literature
from kbn.lab.workloads.mixed import NEUTRAL, Mixed, Mixture
from kbn.lab.workloads.operators import Operators
from kbn.lab.workloads.podcast import Podcast
from kbn.lab.workloads.ranges import Ranges, wide
from kbn.lab.workloads.service import Service
from kbn.wording import close_names, did_you_mean

__all__ = [
    "CHUNK",
    "NAMES",
    "Equalities",
    "FromFiles",
    "Literature",
    "Mixed",
    "Mixture",
    "Operators",
    "Pair",
    "Podcast",
    "Ranges",
    "Service",
    "Workload",
    "workload",
]


def _neutral(name: str) -> Callable[[int], Workload]:
    return lambda _: Mixed(NEUTRAL[name], name)


_MAKERS: dict[str, Callable[[int], Workload]] = {
    "podcast": lambda _: Podcast(),
    "operators": lambda subscriptions: Operators(ids=subscriptions),
    "equalities": lambda _: Equalities(),
    "ranges": lambda _: Ranges(),
    "wide": lambda _: wide(),
    "service": lambda _: Service(),
    "mixed": lambda _: Mixed(),
    **{name: _neutral(name) for name in NEUTRAL},
    "literature": lambda _: Literature(),
    "literature-plain": lambda _: Literature("literature-plain", ("plain",)),
    "literature-negated": lambda _: Literature("literature-negated", ("negated",)),
}
NAMES = tuple(_MAKERS)


def workload(name: str, subscriptions: int = 100_000) -> Workload:
    """The workload of that name, to be asked for that many subscriptions.

    >>> workload("equalities").name
    'equalities'
    """
    if name not in _MAKERS:
        hint = did_you_mean(close_names(name, NAMES)) or f"; there are {', '.join(NAMES)}"
        raise InvalidInputError(f"there is no workload '{name}'{hint}")
    return _MAKERS[name](subscriptions)
