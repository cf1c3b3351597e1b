"""A cluster as one of its members sees it: who feeds it, whom it feeds, and what passed lately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kbn.filters import Filter
from kbn.ontology import Ontology
from kbn.peering.buffer import Buffer
from kbn.peering.messages import CLUSTERS_MAX, Attach, Held, Mark
from kbn.peering.seen import Progress, Seen, least
from kbn.peering.summary import filter_text, is_covered, summarised

Marks = tuple[Mark, ...]


@dataclass(slots=True)
class Child:
    """One that we feed, and what it and those below it want."""

    name: str
    filters: tuple[Filter, ...]


@dataclass(slots=True)
class Missed:
    """What is to be asked for once more: what these filters accept, after the marks."""

    filters: tuple[Filter, ...]
    marks: Marks


@dataclass(slots=True)
class Membership:
    """Our place in one cluster.

    `parents` are those we should have, by the coordinator's word (of a root, all publishers);
    `attached` those that feed us, which after a move is somebody else for a moment.
    """

    cluster: int
    ontology: Ontology | None = None
    attributes: tuple[str, ...] = ()
    filters: tuple[Filter, ...] = ()
    from_source: bool = False
    parents: dict[str, str] = field(default_factory=dict)
    attached: dict[str, bool] = field(default_factory=dict)  # name: as a source
    asked_at: dict[str, float] = field(default_factory=dict)
    children: dict[int, Child] = field(default_factory=dict)
    buffer: Buffer = field(default_factory=Buffer)
    seen: Seen = field(default_factory=Seen)
    progress: Progress = field(default_factory=Progress)
    heard: Counter[frozenset[str]] = field(default_factory=Counter)
    had_parent: bool = False
    summary: tuple[Filter, ...] = ()
    missed: list[Missed] = field(default_factory=list)

    def summarise(self) -> bool:
        """Work out anew what is wanted here and below; whether that is another than before."""
        wanted = [
            *self.filters,
            *(each for child in self.children.values() for each in child.filters),
        ]
        before, self.summary = self.summary, summarised(wanted, self.ontology)
        return set(before) != set(self.summary)

    def covers(self, filters: Iterable[Filter]) -> bool:
        """Whether all that these accept comes here already."""
        return all(is_covered(each, self.summary, self.ontology) for each in filters)

    def attach(self) -> Attach:
        """What to say to a parent that is to feed us from now on."""
        missed = list(self.missed)
        if self.had_parent:
            missed.append(Missed(self.summary, self.progress.marks()))
        filters = summarised((each for one in missed for each in one.filters), self.ontology)
        marks: Marks = missed[0].marks if missed else ()
        for one in missed[1:]:
            marks = least(marks, one.marks)
        return Attach(
            self.cluster,
            self.from_source,
            tuple(map(filter_text, self.summary)),
            tuple(map(filter_text, filters)),
            marks,
        )

    def held(self) -> Held:
        return Held(self.cluster, self.attributes, tuple(self.parents), self.from_source)

    def count_heard(self, attributes: frozenset[str]) -> None:
        """Count, as the root, what the cluster hears."""
        if attributes in self.heard or len(self.heard) < CLUSTERS_MAX:
            self.heard[attributes] += 1
