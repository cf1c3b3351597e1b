"""From file names to compiled tables: read, resolve imports, reason, compile, remember.

The steps of one load:

1. Read the files, fetch what is given by its address, and hash all. With the cache on, an entry
   for the same content, options and imports ends the load here.
2. Collect the triples, following `owl:imports` breadth first through the catalogue. An import that
   is not found is stated in `unsupported`, not an error: most ontologies are useful without.
3. Extract axioms, let the chosen level add what it entails, compile.
4. Write the result to the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from os import PathLike
from pathlib import Path

from kbn.errors import InvalidInputError, OntologyError
from kbn.ontology import vocabulary as v
from kbn.ontology.axiom_extraction import extract_axioms
from kbn.ontology.axioms import Axioms
from kbn.ontology.catalogue import Catalogue
from kbn.ontology.compiling import compile_axioms
from kbn.ontology.contradiction import Contradiction, inconsistent
from kbn.ontology.documents import Document, read_document
from kbn.ontology.fetching import Fetcher, is_address
from kbn.ontology.tables import Facts, Tables
from kbn.ontology.triples import Triple

LEVELS = ("none", "rdfs", "rl", "el", "dl")
IMPORTS_MAX = 1_000
"""How many documents one load may pull in."""
BYTES_MAX = 8 * 1024**3
"""How many bytes all documents of one load may hold, unless the caller says less."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What the caller asked to load, and how."""

    paths: tuple[str | PathLike[str], ...]
    reasoning: str = "rdfs"
    skos: bool | None = None
    catalogue: str | PathLike[str] | Mapping[str, str | PathLike[str]] | None = None
    network: bool = False
    offline: bool = False
    time_limit_s: float = 600.0
    bytes_max: int = BYTES_MAX

    def __post_init__(self) -> None:
        if not self.paths:
            raise InvalidInputError("no ontology file was given")
        for path in self.paths:
            if not isinstance(path, (str, PathLike)):
                raise InvalidInputError(f"a path is a string or a Path, not {path!r}")
        if self.reasoning not in LEVELS:
            raise InvalidInputError(
                f"reasoning is one of {', '.join(LEVELS)}, not {self.reasoning!r}"
            )
        if not self.time_limit_s > 0:
            raise InvalidInputError(f"time_limit_s must be positive, not {self.time_limit_s}")
        if not self.bytes_max > 0:
            raise InvalidInputError(f"bytes_max must be positive, not {self.bytes_max}")


@dataclass
class Corpus:
    """The documents of one load: those asked for, then their imports."""

    documents: list[Document]
    imported_from: int = 0
    """Where the imports start in `documents`."""
    notes: list[str] = field(default_factory=list)

    def triples(self) -> Iterator[Triple]:
        """The triples of all documents."""
        for document in self.documents:
            yield from document.triples()

    def prefixes(self) -> dict[str, str]:
        """The prefixes of all documents; of two that differ the first document's counts."""
        found: dict[str, str] = {}
        for document in self.documents:
            for prefix, namespace in document.prefixes().items():
                found.setdefault(prefix, namespace)
        return found

    def digest(self, request: Request, axioms: Axioms) -> str:
        """A hash of the content and of every option that changes the answers.

        The name of a file is one only where the file has IRIs relative to it.
        """
        names = axioms.classes | axioms.properties | axioms.individuals
        parts = [document.digest for document in self.documents]
        parts += [one.base for one in self.documents if one.is_base_of_any(names)]
        parts += [request.reasoning, str(request.skos), *sorted(self.notes)]
        return sha256("\n".join(parts).encode()).hexdigest()


def load(request: Request, *, use_cache: bool, progress: Progress | None = None) -> Tables:
    """The compiled tables for `request`."""
    say = progress or (lambda _: None)
    asked: list[Document] = []
    fetcher = Fetcher(request.offline, say)
    for path in request.paths:
        asked.append(_read(path, request.bytes_max - _bytes(asked), fetcher))
    if use_cache:
        from kbn.ontology import cache

        found = cache.find(request, asked)
        if found is not None:
            say("found in the cache")
            return found
    of_imports = fetcher if request.network or request.offline else None
    catalogue = Catalogue.of(request.catalogue, of_imports)
    try:
        tables, corpus = _build(request, asked, catalogue, say)
    except Contradiction as found:
        raise inconsistent(found, [document.name for document in asked]) from None
    if use_cache:
        cache.keep(request, corpus, catalogue, tables)
    return tables


def _read(path: str | PathLike[str], bytes_max: int, fetcher: Fetcher) -> Document:
    if not is_address(path):
        return read_document(Path(path), bytes_max)
    found = fetcher.get(str(path), bytes_max)
    if found is None:
        raise OntologyError("was never fetched, and now nothing may be", path=str(path))
    return found


def _build(
    request: Request, asked: list[Document], catalogue: Catalogue, say: Progress
) -> tuple[Tables, Corpus]:
    from kbn.ontology.reasoning import reason

    say(f"reading {', '.join(document.name for document in asked)}")
    corpus = Corpus(list(asked), len(asked))
    triples = _following_imports(corpus, catalogue, request.bytes_max, say)
    axioms = extract_axioms(triples, skos=request.skos)
    say(f"reasoning at level {request.reasoning}")
    reason(axioms, corpus, request)
    facts = Facts(
        reasoning=request.reasoning,
        digest=corpus.digest(request, axioms),
        sources=tuple(document.name for document in corpus.documents),
        prefixes=tuple(sorted(corpus.prefixes().items())),
        unsupported=(*corpus.notes, *axioms.notes),
        is_skos=axioms.is_skos,
    )
    say("compiling")
    return compile_axioms(axioms, facts), corpus


def _bytes(documents: list[Document]) -> int:
    return sum(len(document.content) for document in documents)


def _following_imports(
    corpus: Corpus, catalogue: Catalogue, bytes_max: int, say: Progress
) -> Iterator[Triple]:
    """The triples of the corpus, which grows by what its documents import."""
    known = {document.digest for document in corpus.documents}
    here: set[str] = set()
    place = 0
    wanted: list[tuple[str, Document]] = []
    while place < len(corpus.documents):
        document = corpus.documents[place]
        place += 1
        wanted.extend((yield from _noting_imports(document, here)))
        if place == len(corpus.documents):
            # Only now are all ontologies named by the files themselves known.
            for iri, importer in wanted:
                catalogue.bytes_left = bytes_max - _bytes(corpus.documents)
                _take_import(corpus, catalogue, iri, importer, here, known, say)
            wanted = []


def _noting_imports(
    document: Document, here: set[str]
) -> Generator[Triple, None, list[tuple[str, Document]]]:
    """The triples of `document`; returns its imports and adds its own names to `here`."""
    imports: list[tuple[str, Document]] = []
    for triple in document.triples():
        subject, predicate, node = triple
        if predicate == v.IMPORTS and isinstance(node, str):
            imports.append((node, document))
        elif predicate == v.TYPE and node == v.ONTOLOGY:
            here.add(subject.rstrip("#/"))
        elif predicate == v.OWL + "versionIRI" and isinstance(node, str):
            here.add(node.rstrip("#/"))
        yield triple
    return imports


def _take_import(
    corpus: Corpus,
    catalogue: Catalogue,
    iri: str,
    importer: Document,
    here: set[str],
    known: set[str],
    say: Progress,
) -> None:
    if iri.rstrip("#/") in here:
        return
    here.add(iri.rstrip("#/"))
    found = catalogue.resolve(iri, importer)
    if found is None:
        corpus.notes.append(f"import <{iri}> of {Path(importer.name).name} was not found")
        return
    if found.digest in known:
        return
    if len(corpus.documents) >= IMPORTS_MAX:
        raise OntologyError(f"more than {IMPORTS_MAX} documents are imported", path=importer.name)
    say(f"importing {found.name}")
    known.add(found.digest)
    corpus.documents.append(found)
