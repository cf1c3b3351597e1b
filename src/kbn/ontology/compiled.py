"""`Ontology`: the loaded, reasoned, compiled whole that matching and placement ask.

An ontology is immutable and answers from sorted arrays (`tables.py`). Each name has a dense id,
equivalent names share a component, and a closure is one row of a table. It costs a little to turn a
row into names, so the answers that the matcher asks for most are remembered.

Two promises hold for every closure. It is reflexive; and a name that the ontology does not know
relates only to itself, so no question about a notification raises an error. Only `require`, and
`term` which calls it, refuse an unknown name.

`owl:Thing` is above every known class and holds every known individual; `owl:Nothing` is below
every known class. You get these answers when you ask about the two by name. They are not among
`classes`. For any other name, `ancestors` and `types` include owl:Thing only with `thing=True`, and
`descendants` never includes owl:Nothing. An unsatisfiable
class keeps the place where it was declared: if it were moved below all classes, it would match
every subscription.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Mapping as MappingOf
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from kbn.errors import InvalidInputError
from kbn.ontology.hierarchy import Hierarchy, Ids, Rows
from kbn.ontology.named_hierarchy import NamedHierarchy
from kbn.ontology.prefixes import expand_curie, full_iri, shorten_iri
from kbn.ontology.steps import Steps
from kbn.ontology.tables import Arrays, Facts, Tables
from kbn.ontology.terms import Class, Individual, Property, Term
from kbn.ontology.vocabulary import NOTHING, THING, WELL_KNOWN_PREFIXES

if TYPE_CHECKING:
    from kbn.ontology.mappings import Mapping, Mappings

Reasoning = Literal["none", "rdfs", "rl", "el", "dl"]
Path = str | PathLike[str]
Result = TypeVar("Result")

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
        "_classes",
        "_individuals",
        "_prefixes",
        "_properties",
        "_relations",
        "_steps",
        "_tables",
        "_types",
        "_unmapped",
        "_unsatisfiable",
    )

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._classes = NamedHierarchy(tables.classes, tables.class_tree)
        self._properties = NamedHierarchy(tables.properties, tables.property_tree)
        self._individuals = NamedHierarchy(tables.individuals, tables.same)
        self._prefixes = MappingProxyType({**WELL_KNOWN_PREFIXES, **dict(tables.facts.prefixes)})
        self._unsatisfiable = frozenset(tables.facts.unsatisfiable)
        self._ancestors: dict[str, frozenset[str]] = {}
        self._types: dict[str, frozenset[str]] = {}
        self._relations: dict[str, frozenset[tuple[str, str]]] = {}
        self._steps: dict[str, Steps] = {}
        self._unmapped: Ontology | None = None

    @classmethod
    def load(
        cls,
        paths: Path | Iterable[Path],
        reasoning: Reasoning = "rdfs",
        skos: bool | None = None,
        cache: bool = True,
        *,
        catalogue: Path | MappingOf[str, Path] | None = None,
        network: bool = False,
        offline: bool = False,
        time_limit_s: float = 600.0,
        bytes_max: int | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> Ontology:
        """Read, reason over and compile the ontology in `paths`, or take it from the cache.

        `reasoning` is one of none, rdfs, rl, el and dl (see `kbn.ontology.reasoning`), `skos` says
        whether SKOS concepts are classes (None: when there are concepts and no OWL classes).
        Imports are looked for in `catalogue` (a mapping from ontology IRI to file, a directory, or
        an OASIS catalogue file) and beside the importing file; `network=True` also fetches them.
        A path may be an http or https address, which is fetched; `offline=True` fetches nothing
        and takes what was fetched before.
        `time_limit_s` bounds an external reasoner, `bytes_max` what all files together may hold.
        `progress` is called with each step, as a text.
        """
        from kbn.ontology.loading import BYTES_MAX, Request, load

        if not isinstance(paths, (str, PathLike, Iterable)):
            raise InvalidInputError(f"paths are strings or Paths, not {paths!r}")
        listed = (paths,) if isinstance(paths, (str, PathLike)) else tuple(paths)
        request = Request(
            listed,
            reasoning,
            skos,
            catalogue,
            network,
            offline,
            time_limit_s,
            bytes_max or BYTES_MAX,
        )
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

    def with_mappings(self, mappings: Mappings | Path | Iterable[Path]) -> Ontology:
        """This ontology with a layer of mappings over it, instead of the layer it has, if any.

        `mappings` are `Mappings`, or files of them. An OntologyError names the file and the line of
        a row that has a term nobody knows or, at level rl and above, makes a class impossible.
        `unmapped` is the ontology without the layer.
        """
        from kbn.ontology.mapped import check_mapped, layer_of, mapped_tables
        from kbn.ontology.mappings import Mappings

        rows = mappings if isinstance(mappings, Mappings) else Mappings.load(mappings)
        plain = self.unmapped
        layer = layer_of(plain, rows)
        if not layer.used:
            return plain
        found = Ontology(mapped_tables(plain.tables, layer, rows.digest))
        check_mapped(found)
        return found

    @property
    def unmapped(self) -> Ontology:
        """This ontology without its layer of mappings; itself, when it has none."""
        if self._unmapped is None and self._tables.unmapped is not None:
            self._unmapped = Ontology(self._tables.unmapped)
        return self._unmapped or self

    @property
    def mappings(self) -> tuple[Mapping, ...]:
        """The rows of the layer of mappings that it has; empty without a layer."""
        return self._tables.facts.mappings

    @property
    def mapping_notes(self) -> tuple[str, ...]:
        """What of the files of mappings is not used, one sentence each."""
        return self._tables.facts.mapping_notes

    @property
    def tables(self) -> Tables:
        """What it answers from, for the rest of this room."""
        return self._tables

    def save(self, path: Path) -> None:
        """Write the compiled ontology to a file that `open` maps into memory."""
        from kbn.ontology.saved import save

        save(self._tables, pathlib.Path(path))

    @classmethod
    def open(cls, path: Path) -> Ontology:
        """Map a saved ontology into memory; nothing is parsed or reasoned over again."""
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
        """The axioms that were left out or read differently, one sentence each."""
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
    def prefixes(self) -> MappingOf[str, str]:
        """Prefix -> namespace: the files' own and the well-known ones."""
        return self._prefixes

    def expand(self, curie: str) -> str:
        """The IRI a CURIE such as `wine:Wine` stands for; an IRI is returned as it is."""
        return expand_curie(curie, self._prefixes)

    def full_iri(self, name: str) -> str:
        """What `name` stands for in a notification: a term that is known by this very name, or else
        the name with its prefix expanded. Where no prefix fits, the name as it is; never an error.
        """
        found = full_iri(name, self._prefixes)
        return name if found != name and self.kinds(name) else found

    def term(self, name: str) -> Term:
        """The term that an IRI or a CURIE names; UnknownTermError when there is none.

        The result is a `Class`, `Property` or `Individual`. A name that is used as several kinds
        gives a plain `Term`, whose kind follows from where it is used.
        """
        iri = name if self.kinds(name) else self.expand(name)
        self.require(iri)
        kinds = self.kinds(iri)
        return KINDS[next(iter(kinds))](iri) if len(kinds) == 1 else Term(iri)

    def shorten(self, iri: str) -> str:
        """The shortest CURIE for `iri`, or `iri` itself when no prefix fits."""
        return shorten_iri(iri, self._prefixes)

    def label(self, iri: str) -> str | None:
        """The preferred label of `iri`, if it has one."""
        return next(iter(self.labels(iri)), None)

    def labels(self, iri: str) -> tuple[str, ...]:
        """Labels and synonyms of `iri`, the preferred one first."""
        return self._tables.labels.get(iri)

    def names(self, iri: str) -> tuple[tuple[int, str], ...]:
        """Every text that names `iri` in some annotation, with its rank: the lowest is the best.

        Ranks are `PREFERRED` and the other constants beside it in `vocabulary.py`. To find a
        term by one of its names, build a `NameIndex`.
        """
        return self._tables.labels.names(iri)

    def kinds(self, iri: str) -> frozenset[str]:
        """The kinds that `iri` is used as: class, property, individual; empty when unknown."""
        if iri in (THING, NOTHING):
            return frozenset({"class"})
        kinds = (
            ("class", self._classes),
            ("property", self._properties),
            ("individual", self._individuals),
        )
        return frozenset(kind for kind, known in kinds if iri in known.ids)

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
        one, other = self._classes.ids.get(narrower), self._classes.ids.get(wider)
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
            found = self._classes.above(iri)
            if iri == NOTHING:
                found = frozenset({NOTHING, THING, *self.classes})
            found = _remember(self._ancestors, iri, found)
        return found | {THING} if thing and self.is_subclass(iri, THING) else found

    def descendants(self, iri: str) -> frozenset[str]:
        """`iri`, its equivalents, and all classes below; all classes for owl:Thing."""
        if iri == THING:
            return frozenset({THING, NOTHING, *self.classes})
        return self._classes.below(iri)

    def equivalents(self, iri: str, kind: str = "class") -> frozenset[str]:
        """`iri` and the terms that are entailed to be equivalent to it, or the same individual."""
        match kind:
            case "class":
                return self._classes.alike(iri)
            case "property":
                return self.equivalent_properties(iri)
            case "individual":
                return self.same_as(iri)
        raise InvalidInputError(f"kind is class, property or individual, not {kind!r}")

    def are_disjoint(self, one: str, other: str) -> bool:
        """Whether two classes can have no common individual.

        True follows from disjointness declared for them or for classes above them; False only means
        that nothing says so.
        """
        if NOTHING in (one, other):
            return self.is_subclass(one, THING) and self.is_subclass(other, THING)
        first, second = self._classes.ids.get(one), self._classes.ids.get(other)
        if first is None or second is None:
            return False
        if one in self._unsatisfiable or other in self._unsatisfiable:
            return True
        left, right = self._disjoint_groups_above(first), self._disjoint_groups_above(second)
        return any(len(left[group] | right[group]) > 1 for group in left.keys() & right.keys())

    def parents(self, iri: str) -> frozenset[str]:
        """The classes directly above `iri`, without its equivalents; empty for a root."""
        return self._neighbours(iri, upwards=True)

    def children(self, iri: str) -> frozenset[str]:
        """The classes directly below `iri`, without its equivalents; the roots for owl:Thing."""
        if iri == THING:
            return frozenset(self.roots)
        return self._neighbours(iri, upwards=False)

    @property
    def roots(self) -> tuple[str, ...]:
        """The classes with no class above them but equivalents and owl:Thing, sorted."""
        tops = np.flatnonzero(np.diff(self.class_tree.parents.starts) == 0).astype(np.int32)
        return tuple(sorted(self._classes.named(tops)))

    def class_index(self, iri: str) -> int | None:
        """The id of a class: its place in `classes`."""
        return self._classes.ids.get(iri)

    def ancestor_ids(self, index: int) -> Ids:
        """The ids of the classes at or above class `index`, ascending."""
        return np.sort(np.array(self._tables.class_tree.above(index), dtype=np.int32))

    def hierarchy_of(self, kind: str) -> NamedHierarchy:
        """The order among the terms of a kind; individuals are ordered by sameness alone."""
        return {
            "class": self._classes,
            "property": self._properties,
            "individual": self._individuals,
        }[kind]

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
        one, other = self._properties.ids.get(narrower), self._properties.ids.get(wider)
        if one is None or other is None:
            return False
        return self._tables.property_tree.is_below(one, other)

    def property_ancestors(self, iri: str) -> frozenset[str]:
        """`iri`, its equivalents, and all properties above."""
        return self._properties.above(iri)

    def property_descendants(self, iri: str) -> frozenset[str]:
        """`iri`, its equivalents, and all properties below."""
        return self._properties.below(iri)

    def equivalent_properties(self, iri: str) -> frozenset[str]:
        """`iri` and the properties entailed equivalent to it."""
        return self._properties.alike(iri)

    def domains(self, iri: str) -> frozenset[str]:
        """The classes that the domain of property `iri` names; empty when it has none.

        A union names all its members: these are the classes a property is about, and an individual
        that has the property need not be in each of them. A property without a domain of its own
        has those of the properties above it. The range of an inverse counts as a domain.
        """
        component = self._properties.component(iri)
        if component is None:
            return frozenset()
        return frozenset(self.classes[i] for i in self._tables.domains[component])

    def ranges(self, iri: str) -> frozenset[str]:
        """The classes that the range of property `iri` names; read as `domains` reads its own."""
        component = self._properties.component(iri)
        if component is None:
            return frozenset()
        return frozenset(self.classes[i] for i in self._tables.ranges[component])

    # Individuals.

    def same_as(self, iri: str) -> frozenset[str]:
        """`iri` and the individuals entailed to be the same as it."""
        return self._individuals.alike(iri)

    def is_instance(self, individual: str, iri: str) -> bool:
        """Whether `individual` is entailed to be in class `iri`."""
        if individual not in self._individuals.ids:
            return False
        return iri == THING or iri in self.types(individual)

    def types(self, iri: str, *, thing: bool = False) -> frozenset[str]:
        """Every class individual `iri` is entailed to be in; owl:Thing too when `thing` is set."""
        found = self._types.get(iri)
        if found is None:
            found = _remember(self._types, iri, self._types_of(iri, direct=False))
        return found | {THING} if thing and iri in self._individuals.ids else found

    def direct_types(self, iri: str) -> frozenset[str]:
        """The lowest of the `types` of individual `iri`, with their equivalents."""
        return self._types_of(iri, direct=True)

    def instances(self, iri: str) -> frozenset[str]:
        """Every individual entailed to be in class `iri`; all of them for owl:Thing."""
        if iri == THING:
            return frozenset(self.individuals)
        component = self._classes.component(iri)
        if component is None:
            return frozenset()
        return self._individuals.named(self._tables.instances[component])

    def related(self, iri: str, name: str) -> frozenset[str]:
        """Every individual to which `iri` is entailed to have property `name`."""
        return frozenset(node for one, node in self.relations(iri) if one == name)

    def relations(self, iri: str) -> frozenset[tuple[str, str]]:
        """Every (property, individual) entailed of `iri`, wider properties and sameAs included."""
        found = self._relations.get(iri)
        if found is None:
            found = _remember(self._relations, iri, self._relations_of(iri))
        return found

    # How far terms are apart.

    def steps_to(self, kind: str, one: str, others: Sequence[str], most: int) -> list[int | None]:
        """How many steps each of some terms of a kind is from one; None if more than `most`.

        >>> from kbn.data import namespace, path
        >>> animals, of = Ontology.load(path("animals")), namespace("animals")
        >>> animals.steps_to("class", of + "JackRussell", [of + "Dogs", of + "Cats"], 2)
        [1, None]
        """
        return self.steps(kind).to(one, others, most)

    def steps(self, kind: str) -> Steps:
        """The distances among the terms of a kind."""
        found = self._steps.get(kind)
        if found is None:
            terms = self.hierarchy_of(kind)
            if kind == "individual":
                tables = self._tables
                towards = Rows(tables.relation_starts, tables.relation_objects)
                found = Steps.among_related(terms, towards)
            else:
                found = Steps.in_hierarchy(terms)
            self._steps[kind] = found
        return found

    # Computing answers.

    def _neighbours(self, iri: str, *, upwards: bool) -> frozenset[str]:
        component = self._classes.component(iri)
        if component is None:
            return frozenset()
        rows = self.class_tree.parents if upwards else self.class_tree.children
        return self._classes.named(rows[component])

    def _types_of(self, iri: str, *, direct: bool) -> frozenset[str]:
        component = self._individuals.component(iri)
        if component is None:
            return frozenset()
        rows = self._tables.direct_types if direct else self._tables.types
        return self._classes.named(rows[component])

    def _relations_of(self, iri: str) -> frozenset[tuple[str, str]]:
        component = self._individuals.component(iri)
        if component is None:
            return frozenset()
        tables = self._tables
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

    def _disjoint_groups_above(self, number: int) -> dict[int, set[int]]:
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


def _remember(memory: dict[str, Result], iri: str, answer: Result) -> Result:
    if len(memory) >= MEMO_MAX:
        memory.clear()
    memory[iri] = answer
    return answer
