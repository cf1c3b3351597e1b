"""`Ontology`: the loaded, reasoned, compiled whole that matching and clustering ask.

It is immutable and answers from sorted arrays (`tables.py`): names become dense ids, ids become
components (equivalents share one), and a closure is one row of a table. Turning a row back into
names costs a little, so the answers the matcher asks for again and again are remembered.

Two promises hold for every closure: it is reflexive, and a name the ontology does not know relates
only to itself, so that nothing here ever raises on a notification. `require` is the one place
that refuses an unknown name.

`owl:Thing` is above every known class and holds every known individual, and `owl:Nothing` is below
every known class, for whoever asks about them by name; neither is listed among `classes`, nor
among the `ancestors` of a class nor the `types` of an individual unless `thing=True` is passed. An
unsatisfiable class keeps its written place and is not moved below everything: it would otherwise
match every subscription.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from types import MappingProxyType
from typing import Literal, TypeVar

import numpy as np

from kbn.errors import InvalidInputError
from kbn.ontology.hierarchy import Hierarchy, Ids
from kbn.ontology.tables import Arrays, Facts, Tables
from kbn.ontology.terms import Class, Individual, Property, Term
from kbn.ontology.vocabulary import NOTHING, THING, WELL_KNOWN_PREFIXES

Reasoning = Literal["none", "rdfs", "rl", "el", "dl"]
Path = str | PathLike[str]
Answer = TypeVar("Answer")

KINDS: dict[str, type[Term]] = {"class": Class, "property": Property, "individual": Individual}

MEMO_MAX = 65_536
"""How many answers of one kind are remembered before the memory starts afresh."""

_EMPTY: Tables | None = None


class Ontology:
    """What is entailed about named classes, properties and individuals; IRIs are plain strings.

    >>> Ontology.empty().is_subclass("urn:x#A", "urn:x#A")
    True
    >>> Ontology.empty().is_subclass("urn:x#A", "urn:x#B")
    False
    """

    __slots__ = (
        "_ancestors",
        "_class_ids",
        "_dead",
        "_individual_ids",
        "_prefixes",
        "_property_ids",
        "_relations",
        "_tables",
        "_types",
    )

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._class_ids = {iri: number for number, iri in enumerate(tables.classes)}
        self._property_ids = {iri: number for number, iri in enumerate(tables.properties)}
        self._individual_ids = {iri: number for number, iri in enumerate(tables.individuals)}
        self._prefixes = MappingProxyType({**WELL_KNOWN_PREFIXES, **dict(tables.facts.prefixes)})
        self._dead = frozenset(tables.facts.unsatisfiable)
        self._ancestors: dict[str, frozenset[str]] = {}
        self._types: dict[str, frozenset[str]] = {}
        self._relations: dict[str, frozenset[tuple[str, str]]] = {}

    @classmethod
    def load(
        cls,
        paths: Path | Iterable[Path],
        reasoning: Reasoning = "rdfs",
        skos: bool | None = None,
        cache: bool = True,
        *,
        catalogue: Path | Mapping[str, Path] | None = None,
        network: bool = False,
        time_limit_s: float = 600.0,
        progress: Callable[[str], None] | None = None,
    ) -> Ontology:
        """Read, reason over and compile the ontology in `paths`; from the cache when it is there.

        `reasoning` is one of none, rdfs, rl, el and dl (see `kbn.ontology.reasoning`), `skos` says
        whether SKOS concepts are classes (None: when there are concepts and no OWL classes).
        Imports are looked for in `catalogue` (a mapping from ontology IRI to file, a directory, or
        an OASIS catalogue file) and beside the importing file; `network=True` also fetches them.
        `time_limit_s` bounds an external reasoner. `progress` hears what is being done.
        """
        from kbn.ontology.loading import Request, load

        if not isinstance(paths, (str, PathLike, Iterable)):
            raise InvalidInputError(f"paths are strings or Paths, not {paths!r}")
        listed = (paths,) if isinstance(paths, (str, PathLike)) else tuple(paths)
        request = Request(listed, reasoning, skos, catalogue, network, time_limit_s)
        return cls(load(request, use_cache=cache, progress=progress))

    @classmethod
    def empty(cls) -> Ontology:
        """The ontology that knows no term; every name relates only to itself."""
        from kbn.ontology.axioms import Axioms
        from kbn.ontology.compiling import compile_axioms

        # One set of tables for all: they never change, and matchers without an ontology are many.
        global _EMPTY
        if _EMPTY is None:
            _EMPTY = compile_axioms(Axioms(), Facts(reasoning="none", digest=""))
        return cls(_EMPTY)

    def save(self, path: Path) -> None:
        """Write the compiled ontology to a file that `open` maps into memory."""
        from kbn.ontology.saved import save

        save(self._tables, pathlib.Path(path))

    @classmethod
    def open(cls, path: Path) -> Ontology:
        """A compiled ontology that was saved: nothing is parsed or reasoned over again."""
        from kbn.ontology.saved import open_saved

        return cls(open_saved(pathlib.Path(path)))

    # What it holds.

    @property
    def classes(self) -> tuple[str, ...]:
        """The named classes, sorted; without owl:Thing and owl:Nothing."""
        return self._tables.classes

    @property
    def properties(self) -> tuple[str, ...]:
        """The named properties, sorted; annotation properties included."""
        return self._tables.properties

    @property
    def individuals(self) -> tuple[str, ...]:
        """The named individuals, sorted."""
        return self._tables.individuals

    @property
    def reasoning(self) -> str:
        """The level it was reasoned at."""
        return self._tables.facts.reasoning

    @property
    def digest(self) -> str:
        """A hash of what was loaded and how, hex; equal digests mean equal answers."""
        return self._tables.facts.digest

    @property
    def sources(self) -> tuple[str, ...]:
        """The files it was read from, imports last."""
        return self._tables.facts.sources

    @property
    def unsupported(self) -> tuple[str, ...]:
        """What was left out or read differently, a sentence each; empty when nothing was."""
        return self._tables.facts.unsupported

    @property
    def unsatisfiable(self) -> tuple[str, ...]:
        """The classes found to have no possible member, sorted; complete only at dl."""
        return self._tables.facts.unsatisfiable

    @property
    def is_skos(self) -> bool:
        """Whether SKOS concepts were read as classes."""
        return self._tables.facts.is_skos

    def __repr__(self) -> str:
        return (
            f"<Ontology {self.reasoning}: {len(self.classes)} classes, "
            f"{len(self.properties)} properties, {len(self.individuals)} individuals>"
        )

    # Names.

    @property
    def prefixes(self) -> Mapping[str, str]:
        """Prefix -> namespace: the files' own and the well-known ones."""
        return self._prefixes

    def expand(self, curie: str) -> str:
        """The IRI a CURIE such as `wine:Wine` stands for; an IRI is returned as it is."""
        prefix, colon, name = curie.partition(":")
        if not colon:
            raise InvalidInputError(f"{curie!r} is neither an IRI nor a prefixed name")
        if prefix in self._prefixes and not name.startswith("//"):
            return self._prefixes[prefix] + name
        if name.startswith("//") or prefix in ("urn", "mailto", "tag", "file"):
            return curie
        known = ", ".join(f"{name}:" for name in sorted(self._prefixes))
        raise InvalidInputError(f"no prefix {prefix}: is declared; declared are {known}")

    def term(self, name: str) -> Term:
        """The term an IRI or a CURIE names, of its kind; UnknownTermError when there is none.

        A name used as several kinds gives a plain `Term`, which takes its kind from its place.
        """
        iri = name if self.kinds(name) else self.expand(name)
        self.require(iri)
        kinds = self.kinds(iri)
        return KINDS[next(iter(kinds))](iri) if len(kinds) == 1 else Term(iri)

    def shorten(self, iri: str) -> str:
        """The shortest CURIE for `iri`, or `iri` itself when no prefix fits."""
        fitting = [
            f"{prefix}:{iri[len(namespace) :]}"
            for prefix, namespace in self._prefixes.items()
            if namespace and iri.startswith(namespace) and len(iri) > len(namespace)
        ]
        plain = [name for name in fitting if "/" not in name and "#" not in name]
        return min(plain, key=lambda name: (len(name), name), default=iri)

    def label(self, iri: str) -> str | None:
        """The preferred label of `iri`, if it has one."""
        return next(iter(self.labels(iri)), None)

    def labels(self, iri: str) -> tuple[str, ...]:
        """Labels and synonyms of `iri`, the preferred one first."""
        return self._tables.labels.get(iri)

    def names(self, iri: str) -> tuple[tuple[int, str], ...]:
        """Every text that names `iri` in some annotation and how well, best first.

        The qualities are `PREFERRED` and its like in `vocabulary.py`. To find a term by one of its
        names, build a `NameIndex`.
        """
        return self._tables.labels.names(iri)

    def kinds(self, iri: str) -> frozenset[str]:
        """What `iri` is used as: of class, property, individual; empty when unknown."""
        if iri in (THING, NOTHING):
            return frozenset({"class"})
        tables = (
            ("class", self._class_ids),
            ("property", self._property_ids),
            ("individual", self._individual_ids),
        )
        return frozenset(kind for kind, ids in tables if iri in ids)

    def require(self, iri: str, kind: str | None = None) -> None:
        """Raise UnknownTermError, naming the closest terms, unless `iri` is a known `kind`."""
        kinds = self.kinds(iri)
        if not (kind in kinds if kind not in (None, "term") else kinds):
            from kbn.ontology.closest import unknown_term

            raise unknown_term(self, iri, kind or "term", kinds)

    # Classes.

    def is_subclass(self, narrower: str, wider: str) -> bool:
        """Whether every member of `narrower` is entailed to be one of `wider`; reflexive."""
        if narrower == wider:
            return True
        one, other = self._class_ids.get(narrower), self._class_ids.get(wider)
        if one is not None and other is not None:
            # The remembered names, not the arrays: the same few classes come up again and again.
            return wider in self.ancestors(narrower)
        if wider == THING:
            return one is not None or narrower == NOTHING
        return narrower == NOTHING and other is not None

    def ancestors(self, iri: str, *, thing: bool = False) -> frozenset[str]:
        """`iri`, its equivalents, and all classes above; owl:Thing too when `thing` is set."""
        found = self._ancestors.get(iri)
        if found is None:
            found = self._walk(iri, self._class_ids, self._tables.class_tree.above, self.classes)
            if iri == NOTHING:
                found = frozenset({NOTHING, THING, *self.classes})
            found = _remember(self._ancestors, iri, found)
        return found | {THING} if thing and self.is_subclass(iri, THING) else found

    def descendants(self, iri: str) -> frozenset[str]:
        """`iri`, its equivalents, and all classes below; all classes for owl:Thing."""
        if iri == THING:
            return frozenset({THING, NOTHING, *self.classes})
        return self._walk(iri, self._class_ids, self._tables.class_tree.below, self.classes)

    def equivalents(self, iri: str, kind: str = "class") -> frozenset[str]:
        """`iri` and what is entailed equivalent to it (for individuals: the same as it)."""
        match kind:
            case "class":
                alike = self._tables.class_tree.alike
                return self._walk(iri, self._class_ids, alike, self.classes)
            case "property":
                return self.equivalent_properties(iri)
            case "individual":
                return self.same_as(iri)
        raise InvalidInputError(f"kind is class, property or individual, not {kind!r}")

    def are_disjoint(self, one: str, other: str) -> bool:
        """Whether no individual can be in both, by declared disjointness inherited downwards.

        True is entailed; False only means that nothing says so.
        """
        if NOTHING in (one, other):
            return self.is_subclass(one, THING) and self.is_subclass(other, THING)
        first, second = self._class_ids.get(one), self._class_ids.get(other)
        if first is None or second is None:
            return False
        if one in self._dead or other in self._dead:
            return True
        left, right = self._groups_above(first), self._groups_above(second)
        return any(len(left[group] | right[group]) > 1 for group in left.keys() & right.keys())

    def parents(self, iri: str) -> frozenset[str]:
        """The classes directly above `iri`, its equivalents left out; empty for a root."""
        return self._next(iri, upwards=True)

    def children(self, iri: str) -> frozenset[str]:
        """The classes directly below `iri`, its equivalents left out; the roots for owl:Thing."""
        if iri == THING:
            return frozenset(self.roots)
        return self._next(iri, upwards=False)

    @property
    def roots(self) -> tuple[str, ...]:
        """The classes with no class above them but equivalents and owl:Thing, sorted."""
        tree = self._tables.class_tree
        tops = np.flatnonzero(np.diff(tree.parents.starts) == 0).astype(np.int32)
        return tuple(sorted(self.classes[i] for i in tree.expand(tops)))

    def class_index(self, iri: str) -> int | None:
        """The id of a class: its place in `classes`."""
        return self._class_ids.get(iri)

    def ancestor_ids(self, index: int) -> Ids:
        """The ids of the classes at or above class `index`, ascending."""
        return np.sort(np.array(self._tables.class_tree.above(index), dtype=np.int32))

    @property
    def class_tree(self) -> Hierarchy:
        """The compiled class hierarchy, for kernels that work on ids."""
        return self._tables.class_tree

    @property
    def property_tree(self) -> Hierarchy:
        """The compiled property hierarchy, for kernels that work on ids."""
        return self._tables.property_tree

    # Properties.

    def is_subproperty(self, narrower: str, wider: str) -> bool:
        """Whether `narrower` between two individuals entails `wider` between them; reflexive."""
        if narrower == wider:
            return True
        one, other = self._property_ids.get(narrower), self._property_ids.get(wider)
        if one is None or other is None:
            return False
        return self._tables.property_tree.is_below(one, other)

    def property_ancestors(self, iri: str) -> frozenset[str]:
        """`iri`, its equivalents, and all properties above."""
        above = self._tables.property_tree.above
        return self._walk(iri, self._property_ids, above, self.properties)

    def property_descendants(self, iri: str) -> frozenset[str]:
        """`iri`, its equivalents, and all properties below."""
        below = self._tables.property_tree.below
        return self._walk(iri, self._property_ids, below, self.properties)

    def equivalent_properties(self, iri: str) -> frozenset[str]:
        """`iri` and the properties entailed equivalent to it."""
        alike = self._tables.property_tree.alike
        return self._walk(iri, self._property_ids, alike, self.properties)

    def domains(self, iri: str) -> frozenset[str]:
        """The classes that the domain of property `iri` names; empty when it has none.

        A domain that is a union names its members, so this tells what a property is about and
        not that whatever has it is in each of them. Without a domain of its own, a property has
        those of the properties above it, and the range of an inverse is one.
        """
        number = self._property_ids.get(iri)
        if number is None:
            return frozenset()
        tables = self._tables
        found = tables.domains[tables.property_tree.component_of[number]]
        return frozenset(self.classes[i] for i in found)

    # Individuals.

    def same_as(self, iri: str) -> frozenset[str]:
        """`iri` and the individuals entailed to be the same as it."""
        return self._walk(iri, self._individual_ids, self._tables.same.alike, self.individuals)

    def is_instance(self, individual: str, iri: str) -> bool:
        """Whether `individual` is entailed to be in class `iri`."""
        number = self._individual_ids.get(individual)
        if number is None:
            return False
        return iri == THING or iri in self.types(individual)

    def types(self, iri: str, *, thing: bool = False) -> frozenset[str]:
        """Every class individual `iri` is entailed to be in; owl:Thing too when `thing` is set."""
        found = self._types.get(iri)
        if found is None:
            found = _remember(self._types, iri, self._types_in(iri, direct=False))
        return found | {THING} if thing and iri in self._individual_ids else found

    def direct_types(self, iri: str) -> frozenset[str]:
        """The lowest of the `types` of individual `iri`, with their equivalents."""
        return self._types_in(iri, direct=True)

    def instances(self, iri: str) -> frozenset[str]:
        """Every individual entailed to be in class `iri`; all of them for owl:Thing."""
        if iri == THING:
            return frozenset(self.individuals)
        number = self._class_ids.get(iri)
        if number is None:
            return frozenset()
        tables = self._tables
        found = tables.instances[tables.class_tree.component_of[number]]
        return frozenset(self.individuals[i] for i in tables.same.expand(found))

    def related(self, iri: str, name: str) -> frozenset[str]:
        """Every individual to which `iri` is entailed to have property `name`."""
        return frozenset(node for one, node in self.relations(iri) if one == name)

    def relations(self, iri: str) -> frozenset[tuple[str, str]]:
        """Every (property, individual) entailed of `iri`, wider properties and sameAs included."""
        found = self._relations.get(iri)
        if found is None:
            found = _remember(self._relations, iri, self._relations_of(iri))
        return found

    # How answers are made.

    def _walk(
        self,
        iri: str,
        ids: dict[str, int],
        step: Callable[[int], list[int]],
        names: tuple[str, ...],
    ) -> frozenset[str]:
        number = ids.get(iri)
        if number is None:
            return frozenset({iri})
        return frozenset([names[i] for i in step(number)])

    def _next(self, iri: str, *, upwards: bool) -> frozenset[str]:
        number = self._class_ids.get(iri)
        if number is None:
            return frozenset()
        tree = self._tables.class_tree
        rows = tree.parents if upwards else tree.children
        return frozenset(self.classes[i] for i in tree.expand(rows[tree.component_of[number]]))

    def _types_in(self, iri: str, *, direct: bool) -> frozenset[str]:
        number = self._individual_ids.get(iri)
        if number is None:
            return frozenset()
        tables = self._tables
        rows = tables.direct_types if direct else tables.types
        found = rows[tables.same.component_of[number]]
        return frozenset(self.classes[i] for i in tables.class_tree.expand(found))

    def _relations_of(self, iri: str) -> frozenset[tuple[str, str]]:
        number = self._individual_ids.get(iri)
        if number is None:
            return frozenset()
        tables = self._tables
        component = int(tables.same.component_of[number])
        start, stop = tables.relation_starts[component], tables.relation_starts[component + 1]
        return frozenset(
            (self.properties[p], self.individuals[i])
            for name, node in zip(
                tables.relation_properties[start:stop],
                tables.relation_objects[start:stop],
                strict=True,
            )
            for p in tables.property_tree.members[name]
            for i in tables.same.members[node]
        )

    def _groups_above(self, number: int) -> dict[int, set[int]]:
        """Disjointness group -> the members of it at or above class `number`."""
        tables = self._tables
        found: dict[int, set[int]] = {}
        for component in tables.class_tree.ancestors[tables.class_tree.component_of[number]]:
            for group in tables.disjoint_groups[component]:
                found.setdefault(int(group), set()).add(int(component))
        return found

    def __reduce__(self) -> tuple[Callable[[Facts, Arrays], Ontology], tuple[Facts, Arrays]]:
        return _rebuilt, (self._tables.facts, self._tables.arrays())


def _rebuilt(facts: Facts, arrays: Arrays) -> Ontology:
    return Ontology(Tables.from_arrays(facts, arrays))


def _remember(memory: dict[str, Answer], iri: str, answer: Answer) -> Answer:
    if len(memory) >= MEMO_MAX:
        memory.clear()
    memory[iri] = answer
    return answer
