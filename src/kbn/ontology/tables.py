"""The compiled tables of an ontology: everything `Ontology` answers from, as arrays and strings.

`Tables` is plain data with no behaviour, so that the compiler writes it, the cache stores it, a
pickle carries it and `Ontology` reads it, each without knowing the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kbn.ontology.hierarchy import Hierarchy, Ids, Rows
from kbn.ontology.mappings import Mapping
from kbn.ontology.vocabulary import HIDDEN

Arrays = dict[str, npt.NDArray[np.generic]]


@dataclass(frozen=True, eq=False)
class Facts:
    """What is not an array: names, settings and what a reader should know about the result."""

    reasoning: str
    digest: str
    sources: tuple[str, ...] = ()
    prefixes: tuple[tuple[str, str], ...] = ()
    unsupported: tuple[str, ...] = ()
    unsatisfiable: tuple[str, ...] = ()
    is_skos: bool = False
    mappings: tuple[Mapping, ...] = ()
    """The rows of a layer of mappings (`mapped.py`); none: there is no layer."""
    mapping_notes: tuple[str, ...] = ()
    """What of the files of mappings is not used, a sentence each."""


@dataclass(frozen=True, eq=False)
class Tables:
    """Names are sorted, an id is a place among its kind's names, a component is of `Hierarchy`."""

    facts: Facts
    classes: tuple[str, ...]
    properties: tuple[str, ...]
    individuals: tuple[str, ...]
    class_tree: Hierarchy
    property_tree: Hierarchy
    same: Hierarchy
    types: Rows
    """Individual component -> every class component it is in, ascending."""
    direct_types: Rows
    """The same without those that lie above another."""
    instances: Rows
    """Class component -> every individual component in it, ascending."""
    relation_starts: npt.NDArray[np.int64]
    """Individual component -> its part of the two arrays below, sorted by both."""
    relation_properties: Ids
    relation_objects: Ids
    domains: Rows
    """Property component -> the classes its domain names, by id, ascending."""
    ranges: Rows
    """Property component -> the classes its range names, by id, ascending."""
    disjoint_groups: Rows
    """Class component -> the groups of pairwise disjoint components it was declared in."""
    labels: Labels
    unmapped: Tables | None = None
    """What is below a layer of mappings, if there is one."""

    def arrays(self) -> Arrays:
        """Every array by name; with `Tables.from_arrays` the two ends of cache and pickle."""
        found: Arrays = {}
        for name in _HIERARCHIES:
            tree: Hierarchy = getattr(self, name)
            found.update({f"{name}.{key}": array for key, array in tree.arrays().items()})
        for name in _ROWS:
            rows: Rows = getattr(self, name)
            found[f"{name}.starts"], found[f"{name}.items"] = rows.starts, rows.items
        for name in _PLAIN:
            found[name] = getattr(self, name)
        for name in _NAMES:
            found[name] = packed(getattr(self, name))
        found["labels.terms"] = self.labels.terms
        found["labels.texts"] = self.labels.texts
        if self.unmapped is not None:
            below = self.unmapped.arrays()
            found.update((_UNMAPPED + key, below[key]) for key in below if key not in _SHARED)
            found[_UNMAPPED + "digest"] = packed([self.unmapped.facts.digest])
        return found

    @classmethod
    def from_arrays(cls, facts: Facts, arrays: Arrays) -> Tables:
        """The tables whose `arrays()` these are; a KeyError or ValueError when they are not."""
        parts: dict[str, Any] = {name: unpacked(arrays[name]) for name in _NAMES}
        for name in _HIERARCHIES:
            parts[name] = Hierarchy.from_arrays(_below(name, arrays))
        for name in _ROWS:
            parts[name] = Rows(
                arrays[f"{name}.starts"].astype(np.int64, copy=False),
                arrays[f"{name}.items"].astype(np.int32, copy=False),
            )
        return cls(
            facts=facts,
            unmapped=_unmapped(facts, arrays),
            **parts,
            relation_starts=arrays["relation_starts"].astype(np.int64, copy=False),
            relation_properties=arrays["relation_properties"].astype(np.int32, copy=False),
            relation_objects=arrays["relation_objects"].astype(np.int32, copy=False),
            labels=Labels(arrays["labels.terms"], arrays["labels.texts"]),
        )


class Labels:
    """Labels and synonyms by IRI, kept packed until somebody asks for one.

    Two packed lists of strings of equal length: `terms` has each IRI that has names, `texts` its
    names, one a line, the best first. A line begins with one digit: how well the text names the
    term (`PREFERRED` and its like in `vocabulary.py`).
    """

    __slots__ = ("_by_iri", "terms", "texts")

    def __init__(self, terms: npt.NDArray[np.generic], texts: npt.NDArray[np.generic]) -> None:
        self.terms = terms
        self.texts = texts
        self._by_iri: dict[str, str] | None = None

    @classmethod
    def of(cls, names: dict[str, list[tuple[int, str]]]) -> Labels:
        """Pack `names`; a name's own line breaks become spaces."""
        terms = sorted(names)
        lines = (
            "\n".join(f"{quality}{' '.join(text.split())}" for quality, text in names[term])
            for term in terms
        )
        return cls(packed(terms), packed(lines))

    def get(self, iri: str) -> tuple[str, ...]:
        """The labels of `iri` that are shown, the preferred one first; empty when it has none."""
        return tuple(text for quality, text in self.names(iri) if quality < HIDDEN)

    def names(self, iri: str) -> tuple[tuple[int, str], ...]:
        """Every name of `iri` and how well it names it, best first."""
        lines = self.by_iri.get(iri)
        return tuple((int(line[0]), line[1:]) for line in lines.split("\n")) if lines else ()

    @property
    def by_iri(self) -> dict[str, str]:
        """IRI -> its names, one a line."""
        if self._by_iri is None:
            self._by_iri = dict(zip(unpacked(self.terms), unpacked(self.texts), strict=True))
        return self._by_iri


_HIERARCHIES = ("class_tree", "property_tree", "same")
_ROWS = ("types", "direct_types", "instances", "domains", "ranges", "disjoint_groups")
_PLAIN = ("relation_starts", "relation_properties", "relation_objects")
_NAMES = ("classes", "properties", "individuals")
_SHARED = (*_NAMES, "labels.terms", "labels.texts")
_UNMAPPED = "unmapped."
_SEPARATOR = "\x00"


def packed(strings: Iterable[str]) -> npt.NDArray[np.uint8]:
    """Strings as one array of bytes, each ended by NUL (which no IRI and no label holds)."""
    text = "".join(one.replace(_SEPARATOR, " ") + _SEPARATOR for one in strings)
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)


def unpacked(array: npt.NDArray[np.generic]) -> tuple[str, ...]:
    """The strings that were `packed`."""
    text = array.tobytes().decode("utf-8", "surrogatepass")
    return tuple(text.split(_SEPARATOR)[:-1])


def _unmapped(facts: Facts, arrays: Arrays) -> Tables | None:
    """The tables below a layer, which have the same names and labels."""
    below = _below(_UNMAPPED[:-1], arrays)
    if not below:
        return None
    (digest,) = unpacked(below.pop("digest"))
    plain = replace(facts, digest=digest, mappings=(), mapping_notes=())
    return Tables.from_arrays(plain, {**below, **{key: arrays[key] for key in _SHARED}})


def _below(name: str, arrays: Arrays) -> Arrays:
    start = name + "."
    return {key[len(start) :]: array for key, array in arrays.items() if key.startswith(start)}
