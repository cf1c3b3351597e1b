"""Mappings as a layer: files of all forms, what rows do, and what they must not do."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from kbn.errors import OntologyError
from kbn.filters import Notification, Subscription, explain, matches_by_definition
from kbn.matching import Matcher
from kbn.ontology import Class, Individual, Mappings, Ontology, chain

HEAD = "# curie_map:\n#   a: urn:a#\n#   b: urn:b#\n"
COLUMNS = "subject_id\tpredicate_id\tpredicate_modifier\tobject_id\tconfidence\n"
PREFIXES = (
    "@prefix a: <urn:a#> .\n@prefix b: <urn:b#> .\n"
    "@prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
    "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
    "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
)
VEHICLES = PREFIXES + (
    "a:Car rdfs:subClassOf a:Thing . a:Boat a owl:Class . b:Auto rdfs:subClassOf b:Vehicle .\n"
    "b:Ship rdfs:subClassOf b:Vehicle . b:Auto owl:disjointWith b:Ship .\n"
    "a:herbie a a:Car . b:herbie a owl:NamedIndividual . a:owns a owl:ObjectProperty .\n"
    "b:has a owl:ObjectProperty . a:jim a owl:NamedIndividual ; a:owns a:herbie .\n"
)


def written(folder: Path, text: str, name: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def table(folder: Path, *rows: str, name: str = "rows.sssom.tsv") -> Path:
    return written(folder, HEAD + COLUMNS + "".join(row + "\n" for row in rows), name)


@pytest.fixture
def vehicles(tmp_path: Path) -> Ontology:
    return Ontology.load(written(tmp_path, VEHICLES, "v.ttl"), cache=False)


def row(first: str, relation: str, second: str, sure: str = "", modifier: str = "") -> str:
    return f"{first}\tskos:{relation}\t{modifier}\t{second}\t{sure}"


def test_an_exact_row_works_both_ways_and_a_broad_one_does_not(
    tmp_path: Path, vehicles: Ontology
) -> None:
    exact = vehicles.with_mappings(table(tmp_path, row("a:Car", "exactMatch", "b:Auto")))
    assert exact.is_subclass("urn:a#Car", "urn:b#Vehicle")
    assert exact.is_subclass("urn:b#Auto", "urn:a#Thing")
    assert "urn:b#Auto" in exact.types("urn:a#herbie")
    broad = vehicles.with_mappings(table(tmp_path, row("a:Car", "broadMatch", "b:Auto")))
    assert broad.is_subclass("urn:a#Car", "urn:b#Vehicle")
    assert not broad.is_subclass("urn:b#Auto", "urn:a#Car")
    narrow = vehicles.with_mappings(table(tmp_path, row("b:Auto", "narrowMatch", "a:Car")))
    assert narrow.digest == broad.digest != vehicles.digest
    assert exact.unmapped.digest == vehicles.digest
    assert not exact.unmapped.is_subclass("urn:a#Car", "urn:b#Vehicle")


def test_confidence_close_rows_and_negated_rows(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        row("a:Car", "exactMatch", "b:Auto", "0.7"),
        row("a:Boat", "closeMatch", "b:Ship"),
        row("a:Boat", "exactMatch", "b:Ship", modifier="Not"),
        row("a:Boat", "exactMatch", "b:Ship"),
    )
    assert [each.line for each in Mappings.load(path).used] == [5]
    assert [each.line for each in Mappings.load(f"{path}?threshold=0.8&close").used] == [6]


def test_alignments_and_bridges_are_read_with_their_lines(tmp_path: Path) -> None:
    bridge = written(
        tmp_path, PREFIXES + "a:Car skos:exactMatch b:Auto .\na:Boat rdfs:subClassOf b:Ship .\n",
        "bridge.ttl",
    )  # fmt: skip
    found = [(each.subject, each.relation, each.line) for each in Mappings.load(bridge).rows]
    assert found == [("urn:a#Car", "same", 6), ("urn:a#Boat", "narrower", 7)]
    cell = (
        '<map><Cell>\n<entity1 rdf:resource="urn:a#Car"/>\n<entity2 rdf:resource="urn:b#Auto"/>\n'
        "<measure>0.9</measure>\n<relation>&lt;</relation>\n</Cell></map>\n"
    )
    alignment = written(
        tmp_path,
        '<?xml version="1.0"?>\n<rdf:RDF xmlns="http://knowledgeweb.semanticweb.org/heterogeneity/'
        'alignment" xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">\n'
        f"<Alignment>\n{cell}</Alignment></rdf:RDF>\n",
        "alignment.rdf",
    )
    (only,) = Mappings.load(alignment).rows
    assert only[:4] == ("urn:a#Car", "narrower", "urn:b#Auto", 0.9)
    assert only.line is not None and 5 <= only.line <= 8


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a:Car\tskos:exactMatch\t\tb:Auto\t1.5", "a number from 0 to 1"),
        ("a:Car\tskos:exactMatch\t\tzz:Auto\t", "no prefix zz:"),
        ("a:Car\tskos:exactMatch\t\t\t", "has no object_id"),
        ("a:Car\tskos:exactMatch\tPerhaps\tb:Auto\t", "predicate_modifier"),
        ("a:Car\tskos:exactMatch\t\tb:Autoo\t", "urn:b#Autoo"),
    ],
)
def test_a_bad_row_is_told_with_file_and_line(
    tmp_path: Path, vehicles: Ontology, line: str, said: str
) -> None:
    path = table(tmp_path, row("a:Boat", "exactMatch", "b:Ship"), line)
    with pytest.raises(OntologyError) as error:
        vehicles.with_mappings(path)
    assert said in str(error.value)
    assert (error.value.path, error.value.line) == (str(path), 6)


def test_disjoint_classes_are_not_made_equal_at_rl(tmp_path: Path) -> None:
    path = table(
        tmp_path, row("a:Car", "exactMatch", "b:Auto"), row("a:Car", "exactMatch", "b:Ship")
    )
    file = written(tmp_path, VEHICLES, "v.ttl")
    assert Ontology.load(file, "rdfs", cache=False).with_mappings(path).mappings
    with pytest.raises(OntologyError) as error:
        Ontology.load(file, "rl", cache=False).with_mappings(path)
    assert error.value.path == str(path) and error.value.line in (5, 6)


def test_explain_names_the_row(tmp_path: Path, vehicles: Ontology) -> None:
    same, below = "a:herbie\towl:sameAs\t\tb:herbie\t", "a:owns\trdfs:subPropertyOf\t\tb:has\t"
    path = table(tmp_path, row("a:Car", "broadMatch", "b:Auto"), same, below)
    mapped = vehicles.with_mappings(path)
    sources = [link.source for link in chain(mapped, "urn:a#Car", "urn:b#Vehicle")]
    assert sources == [f"{path}:5", "ontology"]
    wanted = Subscription.parse("who @* [b:has, b:herbie] and x @= b:Vehicle", ontology=mapped)
    given = {"who": Individual("urn:a#jim"), "x": Individual("urn:b#herbie")}
    said = explain(wanted, given, mapped)
    assert said.matches
    named = {link.source for verdict in said.verdicts for link in verdict.links}
    assert named == {"ontology", *(f"{path}:{line}" for line in (5, 6, 7))}


def test_a_mapped_ontology_is_saved_and_pickled_with_its_layer(
    tmp_path: Path, vehicles: Ontology
) -> None:
    mapped = vehicles.with_mappings(table(tmp_path, row("a:Car", "broadMatch", "b:Auto")))
    mapped.save(tmp_path / "saved")
    for again in (pickle.loads(pickle.dumps(mapped)), Ontology.open(tmp_path / "saved")):
        assert again.is_subclass("urn:a#Car", "urn:b#Auto") and again.digest == mapped.digest
        assert again.mappings == mapped.mappings
        assert again.unmapped.digest == vehicles.digest
        assert not again.unmapped.is_subclass("urn:a#Car", "urn:b#Auto")


class Union:
    """The brute-force reading: pairs of both ontologies, rows as edges, followed step by step."""

    def __init__(self, plain: Ontology, rows: list[tuple[str, str, str]]) -> None:
        self.edges: dict[str, set[str]] = {}
        for name in plain.classes:
            self.edges[name] = set(plain.ancestors(name))
        for one, relation, other in rows:
            self.edges[one].add(other)
            if relation == "exactMatch":
                self.edges[other].add(one)
        self.direct = {each: set(plain.types(each)) for each in plain.individuals}

    def above(self, name: str) -> set[str]:
        seen, waiting = {name}, [name]
        for at in waiting:
            waiting += sorted(self.edges[at] - seen)
            seen |= self.edges[at]
        return seen

    def types(self, name: str) -> set[str]:
        return {up for kind in self.direct[name] for up in self.above(kind)}


@pytest.mark.parametrize("seed", range(40))
def test_random_rows_mean_the_union_with_rows_as_edges(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    names = {side: [f"{side}:C{n}" for n in range(rng.randint(2, 9))] for side in "ab"}
    text = PREFIXES + "".join(f"{each} a owl:Class .\n" for side in "ab" for each in names[side])
    for side in "ab":
        for _ in range(rng.randint(0, 10)):
            one, other = rng.choice(names[side]), rng.choice(names[side])
            text += f"{one} rdfs:subClassOf {other} .\n"
        text += "".join(f"{side}:i{n} a {rng.choice(names[side])} .\n" for n in range(3))
    rows = [
        (*rng.sample([rng.choice(names["a"]), rng.choice(names["b"])], 2),
         rng.choice(("exactMatch", "broadMatch")))
        for _ in range(rng.randint(1, 8))
    ]  # fmt: skip
    plain = Ontology.load(written(tmp_path, text, "u.ttl"), cache=False)
    mapped = plain.with_mappings(table(tmp_path, *(row(a, how, b) for a, b, how in rows)))
    full = [(plain.expand(a), how, plain.expand(b)) for a, b, how in rows]
    union = Union(plain, full)
    for name in plain.classes:
        assert mapped.ancestors(name) == union.above(name)
        for up in union.above(name) - {name}:
            links = chain(mapped, name, up)
            assert links[0].first == name and links[-1].second == up
            assert all(a.second == b.first for a, b in pairwise(links))
    for name in plain.individuals:
        assert mapped.types(name) == union.types(name)
    _index_agrees(mapped, rng)


def _index_agrees(mapped: Ontology, rng: Random) -> None:
    matcher = Matcher(mapped)
    wanted = {}
    for key in range(30):
        operator = rng.choice(
            ("x @> <{}>", "x @~ <{}>", "x !@> <{}>", "y @= <{}>", "z #>/@> {{<{}>}}")
        )
        wanted[key] = Subscription.parse(
            operator.format(rng.choice(mapped.classes)), ontology=mapped
        )
        matcher.add(wanted[key], key)
    for _ in range(20):
        one, two = (Class(rng.choice(mapped.classes)) for _ in range(2))
        given = Notification(
            {"x": one, "y": Individual(rng.choice(mapped.individuals)), "z": [one, two]}
        )
        found = {
            key for key, each in wanted.items()
            if any(matches_by_definition(filter, given, mapped) for filter in each.filters)
        }  # fmt: skip
        assert set(matcher.match(given)) == found
