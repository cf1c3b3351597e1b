"""Planning: deciding which cluster lives on which broker.

A planner is a function from clusters and brokers to the broker of each cluster. `taxonomic` lays
the hierarchy of clusters over the hierarchy of brokers, top to bottom; `traffic` puts clusters near
to those they exchange notifications with; `other_planners` has those of other systems. Add your own
to `PLANNERS`.

A cluster that draws more load than one broker may have lives on several: its main broker and its
helpers. `balancing` decides who helps whom; the plan itself is in `plans`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any

from kbn.config import or_one_of
from kbn.errors import InvalidInputError
from kbn.ontology import Ontology
from kbn.placement.other_planners import balanced, rendezvous, topic
from kbn.placement.plans import Plan, PlannedCluster, broker_names
from kbn.placement.taxonomic import Clusters, clusters
from kbn.placement.traffic import traffic

Planner = Callable[..., Mapping[str, str] | Mapping[str, tuple[str, ...]]]
"""Clusters and brokers (distinct, the top of the hierarchy first) to each cluster's broker.

Instead of one broker it may name several: the main one, then the helpers.
"""


def plan(
    ontology: Ontology,
    brokers: Iterable[str],
    planner: str | Planner = "taxonomic",
    *,
    order: Iterable[str] | None = None,
    **options: Any,
) -> Plan:
    """Decide which cluster of `ontology` lives on which of `brokers`, named from the top down.

    `planner` is the name of one of `PLANNERS`, or a function like them; it is given `options`.
    `order` is passed to `clusters`.

    >>> from kbn.data import namespace, path
    >>> made = plan(Ontology.load(path("animals")), ["top", "left", "right"])
    >>> made.broker_for(namespace("animals") + "Dixie")
    'right'
    """
    named = broker_names(brokers)
    choose, name = _planner(planner)
    parts = clusters(ontology, order)
    _check_options(name, choose, options)
    chosen = choose(parts, named, **options)
    if not isinstance(chosen, Mapping):
        given = "nothing" if chosen is None else f"a {type(chosen).__name__}"
        raise InvalidInputError(
            f"{_called(name)} returned {given}; it returns a broker for each cluster, in a dict"
        )
    assignments = {key: _as_tuple(on) for key, on in chosen.items()}
    _check_chosen(name, parts, named, assignments)
    planned = tuple(
        PlannedCluster(
            key, rank, assignments[key][0], parts.members(key), helpers=assignments[key][1:]
        )
        for rank, key in enumerate(parts.keys(), start=1)
    )
    return Plan(ontology.digest, name, named, planned)


def taxonomic(parts: Clusters, brokers: Sequence[str], /) -> dict[str, str]:
    """Give each broker the same number of clusters, in order.

    The clusters that remain, the most specific ones, go to the first brokers, one each.
    """
    keys = list(parts.keys())
    each = len(keys) // len(brokers)
    evenly = each * len(brokers)
    placed = {key: brokers[place // each] for place, key in enumerate(keys[:evenly])}
    return placed | dict(zip(keys[evenly:], brokers, strict=False))


UNNAMED = "unnamed"
"""What a plan says of a planner that is a function without a name."""

PLANNERS: dict[str, Planner] = {
    "taxonomic": taxonomic,
    "traffic": traffic,
    "balanced": balanced,
    "topic": topic,
    "rendezvous": rendezvous,
}
"""The planners `plan` knows by name; add yours here."""


def _as_tuple(chosen: str | Iterable[str]) -> tuple[str, ...]:
    return (chosen,) if isinstance(chosen, str) else tuple(chosen)


def _planner(planner: str | Planner) -> tuple[Planner, str]:
    if not isinstance(planner, str):
        return planner, _name_of(planner)
    if planner in PLANNERS:
        return PLANNERS[planner], planner
    raise InvalidInputError(f"there is no planner {planner!r}{or_one_of(planner, PLANNERS)}")


def _name_of(planner: Planner) -> str:
    """What messages and plans call a planner that was passed: the function's name, if it has one.

    >>> from functools import partial
    >>> _name_of(taxonomic), _name_of(partial(taxonomic)), _name_of(lambda parts, brokers: {})
    ('taxonomic', 'taxonomic', 'unnamed')
    """
    function = planner.func if isinstance(planner, partial) else planner
    name = str(getattr(function, "__name__", type(function).__name__))
    return name if name.isidentifier() else UNNAMED


def _called(name: str) -> str:
    return "the planner you passed" if name == UNNAMED else f"the planner {name!r}"


def _check_options(name: str, choose: Planner, options: Mapping[str, Any]) -> None:
    try:
        signature(choose).bind(None, None, **options)
    except TypeError as error:
        raise InvalidInputError(f"{_called(name)}: {error}") from None


def _check_chosen(
    name: str, parts: Clusters, brokers: tuple[str, ...], assignments: Mapping[str, tuple[str, ...]]
) -> None:
    if assignments.keys() != parts.keys() or not all(assignments.values()):
        raise InvalidInputError(f"{_called(name)} must choose a broker for each cluster")
    for key, on in assignments.items():
        for broker in on:
            if broker not in brokers:
                raise InvalidInputError(f"{_called(name)} chose {broker!r}, which is no broker")
        if len(set(on)) < len(on):
            raise InvalidInputError(f"{_called(name)} chose a broker twice for <{key}>")
