"""The YAML file of an overlay, checked: whatever it says wrong is refused by file and line.

    routing: hierarchical            # or acyclic (unless said), or general
    ontology: podcast.ttl            # a file or a list; also `reasoning: rdfs`
    advertisements: false
    unknown_terms: tell              # or refuse, or ignore: what the ontology does not know
    store: stores                    # a folder; without it nothing outlives the processes
    host: 127.0.0.1
    brokers:
      dublin: {port: 7431}           # without a port, one that is free
      cork: {parent: dublin}
      galway: {parent: dublin}       # among equals: {peers: [dublin, cork]}
    managed:                         # for `kbn overlay up --managed`; all of it may be left out
      trigger_port: 7499             # without one, one that is free
      policies: policies             # a file or a folder; those that come with kbn, unless said
      mib: mib.db                    # without it the policy server forgets when it ends
      load_max: 2.0
      weights: {to_superclass: 30}   # of the semantic map; others stay as they are
      ties: individual-first         # or class-first
      subscribers: 30                # of the simulated population; likewise:
      publishers: 30
      rate: 20                       # notifications a second
      drift: 0.5                     # subscribers a second whose interests change
      seed: 1

Paths are relative to the file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kbn.broker import Routing, Topology, UnknownTermsMode
from kbn.config import AS_WRITTEN, Document, Form, Place, Word, did_you_mean
from kbn.errors import InvalidInputError
from kbn.ontology import Reasoning
from kbn.placement import MapSettings, Ties, Weights

FindOntology = Callable[[str, Path], Path | None]
"""Finds an ontology by its name and the folder of the file; None for one that is not there."""


@dataclass(frozen=True, slots=True)
class PlannedBroker:
    """One broker of the file; it connects to `links`, all of which stand before it."""

    name: str
    port: int
    metrics_port: int
    links: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Management:
    """How an overlay is managed, and the population that is simulated in it."""

    trigger_port: int = 0
    policies: Path | None = None
    mib: Path | None = None
    load_max: float = 2.0
    settings: MapSettings = field(default_factory=MapSettings)
    subscribers: int = 30
    publishers: int = 30
    rate: float = 20.0
    drift: float = 0.5
    seed: int = 1


@dataclass(frozen=True, slots=True)
class OverlayPlan:
    """An overlay as its file declares it, brokers in an order in which they can be started."""

    path: Path
    routing: Routing
    ontology: tuple[Path, ...]
    reasoning: str
    advertisements: bool
    unknown_terms: UnknownTermsMode
    store: Path | None
    access: Path | None
    host: str
    brokers: tuple[PlannedBroker, ...]
    managed: Management = Management()


# The file, as it is written.

Port = Annotated[
    int,
    Meta(
        ge=0,
        le=65535,
        description="a port: a number from 0 (any that is free) to 65535",
        extra=AS_WRITTEN,
    ),
]
Count = Annotated[int, Meta(ge=0, description="a whole number from 0 up", extra=AS_WRITTEN)]
Number = Annotated[
    float,
    Meta(ge=0, le=sys.float_info.max, description="a number from 0 up", extra=AS_WRITTEN),
]
Load = Annotated[
    float,
    Meta(ge=1, le=sys.float_info.max, description="a number from 1 up", extra=AS_WRITTEN),
]


class BrokerForm(Form, frozen=True):
    """One broker."""

    port: Port | None = None
    metrics_port: Port | None = None
    parent: Word | None = None
    peers: Word | list[Word] | None = None


Weight = Annotated[
    int,
    Meta(ge=1, le=100, description="a whole number from 1 to 100", extra=AS_WRITTEN),
]


class WeightsForm(Form, frozen=True):
    """What a step on the semantic map costs; what is not said is as in `Weights`."""

    to_superclass: Weight = 100
    to_subclass: Weight = 100
    to_instance: Weight = 1
    to_related: Weight = 1


class ManagedForm(Form, frozen=True):
    """How the overlay is managed; what is not said is as in `Management`."""

    trigger_port: Port = 0
    policies: Word | None = None
    mib: Word | None = None
    load_max: Load = 2.0
    weights: WeightsForm | None = None
    ties: Literal["individual-first", "class-first"] = "individual-first"
    subscribers: Count = 30
    publishers: Count = 30
    rate: Number = 20.0
    drift: Number = 0.5
    seed: Count = 1


Brokers = Annotated[
    dict[Word, BrokerForm | None],
    Meta(min_length=1, description="names of brokers, each with its port, its peers or its parent"),
]


class OverlayForm(Form, frozen=True):
    """The whole file."""

    brokers: Brokers
    routing: Routing | None = None
    ontology: Word | list[Word] | None = None
    reasoning: Reasoning | None = None
    advertisements: bool | None = None
    unknown_terms: UnknownTermsMode | None = None
    store: Word | None = None
    access: Word | None = None
    host: Word | None = None
    managed: ManagedForm | None = None


def load_topology(path: str | Path, ontology_file: FindOntology | None = None) -> OverlayPlan:
    """The overlay a YAML file declares; InvalidInputError names the line and key of a mistake."""
    root = Document.read(path, "the overlay").root
    form = root.convert(OverlayForm)
    folder = Path(path).absolute().parent
    routing: Routing = form.routing or "acyclic"
    return OverlayPlan(
        path=Path(path),
        routing=routing,
        ontology=_ontologies(form.ontology, root.at("ontology"), folder, ontology_file or _beside),
        reasoning=form.reasoning or "rdfs",
        advertisements=bool(form.advertisements),
        unknown_terms=form.unknown_terms or "tell",
        store=_store(form.store, root.at("store"), folder),
        access=_file(form.access, root.at("access"), folder),
        host=form.host or "127.0.0.1",
        brokers=_brokers(form.brokers, routing, root.at("brokers")),
        managed=_managed(form.managed or ManagedForm(), root.at("managed"), folder),
    )


# Paths.


def _beside(name: str, folder: Path) -> Path | None:
    return folder / name if (folder / name).is_file() else None


def _ontologies(
    form: str | list[str] | None, place: Place, folder: Path, find: FindOntology
) -> tuple[Path, ...]:
    named = [(form, place)] if isinstance(form, str) else _numbered(form or [], place)
    return tuple(_ontology(name, there, folder, find) for name, there in named)


def _ontology(name: str, place: Place, folder: Path, find: FindOntology) -> Path:
    found = find(name, folder)
    if found is None:
        raise place.error(f"there is no file {str(folder / name)!r}")
    return found


def _file(name: str | None, place: Place, folder: Path) -> Path | None:
    if name is not None and not (folder / name).is_file():
        raise place.error(f"there is no file {str(folder / name)!r}")
    return None if name is None else folder / name


def _store(name: str | None, place: Place, folder: Path) -> Path | None:
    path = None if name is None else folder / name
    if path is not None and path.exists() and not path.is_dir():
        raise place.error(f"{path} is a file, and should be a folder")
    return path


def _managed(form: ManagedForm, place: Place, folder: Path) -> Management:
    given = msgspec.structs.asdict(form)
    weights, ties = given.pop("weights"), given.pop("ties")
    said = {} if weights is None else msgspec.structs.asdict(weights)
    given["settings"] = MapSettings(Weights(**said), Ties(ties))
    given["mib"] = None if form.mib is None else folder / form.mib
    if form.policies is not None:
        given["policies"] = folder / form.policies
        if not given["policies"].exists():
            reason = f"there is no file or folder {str(given['policies'])!r}"
            raise place.at("policies").error(reason)
    return Management(**given)


def _numbered(names: list[str], place: Place) -> list[tuple[str, Place]]:
    return [(name, place.at(number)) for number, name in enumerate(names)]


# Brokers.


def _brokers(
    forms: Mapping[str, BrokerForm | None], routing: Routing, place: Place
) -> tuple[PlannedBroker, ...]:
    given = {name: form or BrokerForm() for name, form in forms.items()}
    named = {
        link: there
        for name, form in given.items()
        for link, there in _links(name, form, routing, place.at(name), tuple(given))
    }
    _check_shape(routing, named, tuple(given), place)
    _check_ports(given, place)
    order = _in_order(routing, tuple(given), list(named))
    return tuple(
        PlannedBroker(name, given[name].port or 0, given[name].metrics_port or 0, order[name])
        for name in order
    )


def _links(
    name: str, form: BrokerForm, routing: Routing, place: Place, known: tuple[str, ...]
) -> list[tuple[tuple[str, str], Place]]:
    """The links that a broker names, and where it names them."""
    if routing == "hierarchical" and form.peers is not None:
        raise place.at("peers").error("with hierarchical routing a broker has parent, not peers")
    if routing != "hierarchical" and form.parent is not None:
        raise place.at("parent").error(f"with {routing} routing a broker has peers, not parent")
    key, given = ("peers", form.peers) if form.parent is None else ("parent", form.parent)
    named = (
        [(given, place.at(key))]
        if isinstance(given, str)
        else _numbered(given or [], place.at(key))
    )
    for other, there in named:
        if other not in known:
            raise there.error(f"there is no broker {other!r}{did_you_mean(other, known)}")
    return [((name, other), there) for other, there in named]


def _check_shape(
    routing: Routing, links: Mapping[tuple[str, str], Place], names: tuple[str, ...], place: Place
) -> None:
    """Have `Topology` judge, one link more at a time, to tell which link is wrong."""
    for count, (_, there) in enumerate(links.items(), start=1):
        try:
            _topology(routing, list(links)[:count], names)
        except InvalidInputError as error:
            raise there.error(str(error)) from None
    apart = sorted(set(names) - _reached(names[0], links))
    if apart:
        raise place.error(f"nothing connects {', '.join(apart)} with {names[0]}; add a link")


def _check_ports(given: Mapping[str, BrokerForm], place: Place) -> None:
    taken: dict[int, str] = {}
    for name, form in given.items():
        for key, port in (("port", form.port), ("metrics_port", form.metrics_port)):
            if port and port in taken:
                reason = f"port {port} is the port of {taken[port]} already; choose another"
                raise place.at(name, key).error(reason)
            if port:
                taken[port] = name


def _once(links: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Links without those that both ends name."""
    found: dict[frozenset[str], tuple[str, str]] = {}
    for one, other in links:
        found.setdefault(frozenset((one, other)), (one, other))
    return list(found.values())


def _topology(routing: str, links: list[tuple[str, str]], names: tuple[str, ...]) -> Topology:
    if routing == "hierarchical":
        parents: dict[str, str | None] = {name: None for name in names}
        return Topology.hierarchy({**parents, **dict(links)})
    return (Topology.peers if routing == "acyclic" else Topology.general)(_once(links), names)


def _reached(start: str, links: Iterable[tuple[str, str]]) -> set[str]:
    beside: dict[str, set[str]] = {}
    for one, other in links:
        beside.setdefault(one, set()).add(other)
        beside.setdefault(other, set()).add(one)
    found, waiting = {start}, [start]
    while waiting:
        for name in beside.get(waiting.pop(), set()) - found:
            found.add(name)
            waiting.append(name)
    return found


def _in_order(
    routing: str, names: tuple[str, ...], links: list[tuple[str, str]]
) -> dict[str, tuple[str, ...]]:
    """Each broker with those it connects to, all of them before it.

    A child connects to its parent. Equals do not care who connects: the later to the earlier.
    """
    place = {name: number for number, name in enumerate(names)}
    if routing != "hierarchical":
        links = [
            (one, other) if place[one] > place[other] else (other, one)
            for one, other in _once(links)
        ]
    to: dict[str, tuple[str, ...]] = {
        name: tuple(other for one, other in links if one == name) for name in names
    }
    ordered: dict[str, tuple[str, ...]] = {}
    while len(ordered) < len(names):  # the shape is checked, so each round finds some
        for name in names:
            if name not in ordered and all(other in ordered for other in to[name]):
                ordered[name] = to[name]
    return ordered
