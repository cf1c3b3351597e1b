"""The YAML file of an overlay, checked: whatever it says wrong is refused by file and line.

    routing: hierarchical            # or acyclic (unless said), or general
    ontology: podcast.ttl            # a file or a list; also `reasoning: rdfs`
    advertisements: false
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
      subscribers: 30                # of the simulated population; likewise:
      publishers: 30
      rate: 20                       # notifications a second
      drift: 0.5                     # subscribers a second whose interests change
      seed: 1

Paths are relative to the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf, nan
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

from kbn.broker import Routing, Topology
from kbn.errors import InvalidInputError, MissingDependencyError
from kbn.ontology import LEVELS

KEYS = (
    *("routing", "ontology", "reasoning", "advertisements", "store", "access", "host"),
    *("brokers", "managed"),
)
MANAGED_KEYS = (
    *("trigger_port", "policies", "mib", "load_max"),
    *("subscribers", "publishers", "rate", "drift", "seed"),
)
BROKER_KEYS = ("port", "metrics_port", "parent", "peers")
MODES = ("hierarchical", "acyclic", "general")
T = TypeVar("T")


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
    store: Path | None
    access: Path | None
    host: str
    brokers: tuple[PlannedBroker, ...]
    managed: Management = Management()


def load_topology(
    path: str | Path, ontology_file: Callable[[str, Path], Path | None] | None = None
) -> OverlayPlan:
    """The overlay a YAML file declares.

    `ontology_file` finds an ontology by its name and the file's folder; it gives None for one that
    is not there.
    """
    place = Path(path)
    return _Reading(place, ontology_file or _beside).plan(_composed(place))


def _beside(name: str, folder: Path) -> Path | None:
    return folder / name if (folder / name).is_file() else None


class _Reading:
    """Reads one file. Data is a tree of YAML's nodes: those know their lines."""

    def __init__(self, path: Path, ontology_file: Callable[[str, Path], Path | None]) -> None:
        self._path = path
        self._folder = path.absolute().parent
        self._ontology_file = ontology_file
        self._lines: dict[tuple[str, str], int] = {}

    def plan(self, root: Any) -> OverlayPlan:
        given = self._mapping(root, "the file", KEYS)
        if "brokers" not in given:
            self._fail(root, "brokers is missing: the names of the brokers, each with its port …")
        routing = self._maybe(given, "routing", lambda node: self._choice(node, MODES), "acyclic")
        return OverlayPlan(
            path=self._path,
            routing=cast(Routing, routing),
            ontology=self._maybe(given, "ontology", self._ontologies, ()),
            reasoning=self._maybe(
                given, "reasoning", lambda node: self._choice(node, LEVELS), "rdfs"
            ),
            advertisements=self._maybe(given, "advertisements", self._flag, False),
            store=self._maybe(given, "store", self._store, None),
            access=self._maybe(given, "access", self._file, None),
            host=self._maybe(given, "host", self._text, "127.0.0.1"),
            brokers=self._brokers(given["brokers"], routing),
            managed=self._maybe(given, "managed", self._managed, Management()),
        )

    def _managed(self, node: Any) -> Management:
        given = self._mapping(node, "managed", MANAGED_KEYS)
        read: dict[str, Callable[[Any], Any]] = {
            "trigger_port": self._port,
            "policies": self._path_that_is,
            "mib": lambda one: self._folder / self._text(one),
            "load_max": lambda one: self._number(one, 1.0),
            "subscribers": self._count,
            "publishers": self._count,
            "rate": lambda one: self._number(one, 0.0),
            "drift": lambda one: self._number(one, 0.0),
            "seed": self._count,
        }
        return Management(**{name: read[name](one) for name, one in given.items()})

    def _brokers(self, node: Any, routing: str) -> tuple[PlannedBroker, ...]:
        nodes = self._mapping(node, "brokers", None)
        if not nodes:
            self._fail(node, "brokers: there is none")
        read = {
            name: {} if _is_null(inner) else self._mapping(inner, name, BROKER_KEYS)
            for name, inner in nodes.items()
        }
        links = [
            link
            for name, inner in read.items()
            for link in self._links(name, inner, routing, tuple(nodes))
        ]
        self._check_shape(routing, links, tuple(nodes), node)
        self._check_ports(read)
        ports = {
            name: (
                self._maybe(inner, "port", self._port, 0),
                self._maybe(inner, "metrics_port", self._port, 0),
            )
            for name, inner in read.items()
        }
        order = _in_order(routing, tuple(nodes), links)
        return tuple(PlannedBroker(name, *ports[name], order[name]) for name in order)

    def _links(
        self, name: str, given: Mapping[str, Any], routing: str, known: tuple[str, ...]
    ) -> list[tuple[str, str]]:
        wrong, right = ("peers", "parent") if routing == "hierarchical" else ("parent", "peers")
        if wrong in given:
            self._fail(given[wrong], f"{name}: with {routing} routing a broker has {right}")
        if right not in given:
            return []
        node = given[right]
        several = node.value if _is_list(node) and right == "peers" else [node]
        links = []
        for one in several:
            other = self._text(one)
            if other not in known:
                self._fail(one, f"{name}: there is no broker {other!r}{_guess(other, known)}")
            self._lines[name, other] = _line(one)
            links.append((name, other))
        return links

    def _check_shape(
        self, routing: str, links: list[tuple[str, str]], names: tuple[str, ...], node: Any
    ) -> None:
        """Have `Topology` judge, one link more at a time, to tell on which line it goes wrong."""
        for count in range(1, len(links) + 1):
            try:
                _topology(routing, links[:count], names)
            except InvalidInputError as error:
                raise self._at(self._lines[links[count - 1]], str(error)) from None
        apart = sorted(set(names) - _reached(names[0], links))
        if apart:
            self._fail(node, f"nothing connects {', '.join(apart)} with {names[0]}: add a link")

    def _check_ports(self, read: Mapping[str, Mapping[str, Any]]) -> None:
        taken: dict[int, str] = {}
        for name, inner in read.items():
            for key in ("port", "metrics_port"):
                port = self._maybe(inner, key, self._port, 0)
                if port and port in taken:
                    self._fail(inner[key], f"{name}: port {port} is {taken[port]}'s already")
                taken[port] = name

    # Values.

    def _mapping(self, node: Any, what: str, known: tuple[str, ...] | None) -> dict[str, Any]:
        expected = "names of brokers" if known is None else ", ".join(known)
        if node.id != "mapping":
            self._fail(node, f"{what}: expected {expected}")
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = self._text(key)
            if name in found:
                self._fail(key, f"{what}: {name!r} stands twice")
            if known is not None and name not in known:
                self._fail(
                    key, f"{what}: unknown key {name!r}{_guess(name, known)}; there are {expected}"
                )
            found[name] = value
        return found

    def _maybe(self, given: Mapping[str, Any], key: str, read: Callable[[Any], T], default: T) -> T:
        node = given.get(key)
        return default if node is None or _is_null(node) else read(node)

    def _text(self, node: Any) -> str:
        if node.id != "scalar" or _is_null(node) or not node.value:
            self._fail(node, "expected a text")
        return str(node.value)

    def _choice(self, node: Any, known: tuple[str, ...]) -> str:
        text = self._text(node)
        if text not in known:
            self._fail(
                node, f"{text!r} is unknown{_guess(text, known)}; there are {', '.join(known)}"
            )
        return text

    def _flag(self, node: Any) -> bool:
        if node.tag != "tag:yaml.org,2002:bool":
            self._fail(node, "expected true or false")
        return str(node.value).lower() in ("true", "yes", "on")

    def _port(self, node: Any) -> int:
        text = self._text(node)
        if not text.isascii() or not text.isdigit() or not 0 <= int(text) <= 65535:
            self._fail(node, f"{text!r} is no port: a number from 0 (any that is free) to 65535")
        return int(text)

    def _number(self, node: Any, least: float) -> float:
        text = self._text(node)
        try:
            value = float(text)
        except ValueError:
            value = nan
        if not least <= value < inf:
            self._fail(node, f"{text!r}: expected a number from {least:g} up")
        return value

    def _count(self, node: Any) -> int:
        value = self._number(node, 0.0)
        if value != int(value):
            self._fail(node, f"{node.value!r}: expected a whole number")
        return int(value)

    def _path_that_is(self, node: Any) -> Path:
        path = self._folder / self._text(node)
        if not path.exists():
            self._fail(node, f"there is no file or folder {str(path)!r}")
        return path

    def _ontologies(self, node: Any) -> tuple[Path, ...]:
        return tuple(self._ontology(one) for one in (node.value if _is_list(node) else [node]))

    def _ontology(self, node: Any) -> Path:
        found = self._ontology_file(self._text(node), self._folder)
        if found is None:
            self._fail(node, f"there is no file {str(self._folder / node.value)!r}")
        return found

    def _file(self, node: Any) -> Path:
        path = self._folder / self._text(node)
        if not path.is_file():
            self._fail(node, f"there is no file {str(path)!r}")
        return path

    def _store(self, node: Any) -> Path:
        path = self._folder / self._text(node)
        if path.exists() and not path.is_dir():
            self._fail(node, f"{path} is a file, and should be a folder")
        return path

    def _fail(self, node: Any, reason: str) -> NoReturn:
        raise self._at(_line(node), reason)

    def _at(self, line: int, reason: str) -> InvalidInputError:
        return InvalidInputError(f"{self._path}, line {line}: {reason}")


def _composed(path: Path) -> Any:
    """The file as a tree of nodes."""
    try:
        import yaml
    except ImportError:
        raise MissingDependencyError("an overlay's file", extra="broker") from None
    try:
        text = path.read_text(encoding="utf-8-sig")
        root = yaml.compose(text, yaml.SafeLoader)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot read the overlay: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInputError(f"{path}: not UTF-8 text") from None
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        problem = getattr(error, "problem", None) or error
        raise InvalidInputError(f"{path}, line {line}: not YAML: {problem}") from None
    if root is None:
        raise InvalidInputError(f"{path}: empty, and should declare an overlay's brokers")
    return root


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _is_null(node: Any) -> bool:
    return bool(node.tag == "tag:yaml.org,2002:null")


def _is_list(node: Any) -> bool:
    return bool(node.id == "sequence")


def _guess(given: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(given, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


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
