"""Implication, row by row; the random suite is in test_covering_properties."""

from __future__ import annotations

import pytest
from tests.filters.test_acceptance import ANIMALS

from kbn.filters import Subscription


def follows(premise: str, conclusion: str) -> bool:
    wide, narrow = Subscription.parse(f"x {conclusion}"), Subscription.parse(f"x {premise}")
    return wide.covers(narrow, ANIMALS)


@pytest.mark.parametrize(
    ("premise", "conclusion"),
    [
        ("= 3", "any"),
        ("@> <cow>", "any"),
        ("not contains 'a'", "any"),
        ("@> <human>", "@> <mammal>"),
        ("@~ <human>", "@> <mammal>"),
        ("@> <human>", "@> <person>"),
        ("= class(<human>)", "@> <mammal>"),
        ("= class(<human>)", "@~ <person>"),
        ("@< <mammal>", "@< <cow>"),
        ("@~ <mammal>", "@< <cow>"),
        ("@~ <human>", "@~ <person>"),
        ("@!~ <human>", "@!~ <person>"),
        ("@~ <human>", "@!~ <cow>"),
        ("@> <cow>", "@!~ <mammal>"),
        ("@< <mammal>", "@!~ <cow>"),
        ("@> <cow>", "!= class(<mammal>)"),
        ("@= <human>", "@= <mammal>"),
        ("= individual(<john>)", "@= <mammal>"),
        ("@!= <mammal>", "@!= <cow>"),
        ("@= <human>", "@!= <cow>"),
        ("@~ <john>", "@= <human>"),
        ("@= <cow>", "!= individual(<john>)"),
        ("@= <cow>", "@!~ <johnny>"),
        ("@* [<grazes>, <grass>]", "@* [<eats>, <grass>]"),
        ("not @> <mammal>", "not @> <cow>"),
        ("not @< <cow>", "not @< <mammal>"),
        ("not @* [<eats>, <grass>]", "not @* [<grazes>, <grass>]"),
        ("< 10", "< 20"),
        ("< 10", "<= 10"),
        ("<= 9", "< 10"),
        ("> 5", "!= 3"),
        (">= 5", "> 4.5"),
        ("= 5", "> 4"),
        ("< 9007199254740993", "<= 9007199254740993"),
        ("<= 1", "<= inf"),
        ("= 3", "!= 4"),
        ("< 'b'", "!= 'c'"),
        ("> 2026-01-01T00:00:00Z", "> 2025-01-01T00:00:00Z"),
        ("prefix 'abc'", "prefix 'ab'"),
        ("prefix 'xab'", "contains 'ab'"),
        ("suffix 'abx'", "* 'ab'"),
        ("suffix 'abc'", "suffix 'c'"),
        ("contains 'abc'", "contains 'b'"),
        ("in 'ab'", "in 'cabd'"),
        ("prefix 'b'", ">= 'b'"),
        ("prefix 'b'", "> 'azz'"),
        ("prefix 'b'", "< 'c'"),
        ("prefix 'a'", "!= 'b'"),
        ("prefix 'a'", "not prefix 'b'"),
        ("prefix 'q'", "not in 'abc'"),
        ("in 'abc'", "not contains 'd'"),
        ("< 'b'", "not prefix 'b'"),
        ("suffix 'a'", "prefix ''"),
        ("not contains 'a'", "not contains 'ab'"),
        ("not contains 'a'", "not prefix 'ba'"),
        ("#> {1, 2}", "#> {1}"),
        ("#= {1, 2}", "#> {1}"),
        ("#= {1}", "#< {1, 2}"),
        ("#< {1}", "#< {1, 2}"),
        ("#= {1}", "= {1}"),
        ("= {1}", "#= {1}"),
        ("#> {1}", "#> {}"),
        ("#>/@> {<cow>, <human>}", "#>/@> {<mammal>}"),
        ("#= {class(<cow>)}", "#=/@> {<mammal>}"),
        ("#</@> {<cow>}", "#</@> {<mammal>, <human>}"),
        ("#>/< {3}", "#>/< {4}"),
        ("#>/< {3}", "#>/any {1}"),
        ("#=/= {1}", "#=/<= {1}"),
        ("#> {5}", "#>/> {4}"),
        ("#</#< {{1}, {2}}", "#</#< {{1, 3}, {2}, {4}}"),
        ("#> {1}", "!= {2}"),
        ("#> {1}", "not #= {}"),
        ("not #> {1}", "not #> {1, 2}"),
        ("not #< {1, 2}", "not #< {1}"),
        ("= {1}", "not #> {2}"),
        ("#>/@* {[<grazes>, <grass>]}", "#>/@* {[<eats>, <grass>]}"),
        ("#< {}", "#= {}"),
        ("#>/@= {<human>}", "#>/@!= {<cow>}"),
        ("= true", "!= false"),
        ("!= {1}", "not #= {1}"),
    ],
)
def test_what_follows(premise: str, conclusion: str) -> None:
    assert follows(premise, conclusion)
    assert follows(premise, premise) and follows(conclusion, conclusion)


@pytest.mark.parametrize(
    ("premise", "conclusion"),
    [
        ("any", "= 3"),
        ("@> <mammal>", "@> <cow>"),
        ("@< <cow>", "@< <mammal>"),
        ("@> <cow>", "@~ <cow>"),
        ("@~ <human>", "= class(<human>)"),
        ("@!~ <cow>", "@!~ <human>"),
        ("@> <mammal>", "@!~ <cow>"),
        ("@> <human>", "@!~ <person>"),
        ("@= <mammal>", "@= <human>"),
        ("@= <mammal>", "@!= <cow>"),
        ("@= <human>", "@!= <mammal>"),
        ("@!= <cow>", "@!= <mammal>"),
        ("@* [<eats>, <grass>]", "@* [<grazes>, <grass>]"),
        ("< 20", "< 10"),
        ("<= 10", "< 10"),
        ("!= 3", "> 5"),
        ("> 5", "!= 7"),
        ("> 5", "!= 'a'"),
        ("any", "!= 3"),
        ("= 3", "!= 'a'"),
        ("!= 3", "!= 4"),
        ("> 5", "< 9"),
        ("< inf", "< 5"),
        ("prefix 'ab'", "prefix 'abc'"),
        ("contains 'ab'", "prefix 'ab'"),
        ("prefix 'a'", "< 'ab'"),
        ("prefix 'b'", "> 'b'"),
        ("prefix 'ab'", "suffix 'ab'"),
        ("prefix 'a'", "not suffix 'b'"),
        ("contains 'a'", "not in 'ba'"),
        ("prefix 'a'", "!= 'ab'"),
        ("suffix 'b'", ">= 'b'"),
        ("#> {1}", "#> {1, 1}"),
        ("#> {1}", "#= {1}"),
        ("#> {1}", "#< {1}"),
        ("#< {1, 2}", "#< {1}"),
        ("#> {1}", "!= {1, 2}"),
        ("#>/@> {<mammal>}", "#>/@> {<cow>}"),
        ("#> {1}", "#> {true}"),
        ("#>/@> {<cow>}", "#>/@> {<mammal>, <mammal>}"),
        ("#>/any {1}", "#> {1}"),
        ("not #> {1, 2}", "not #> {1}"),
        ("= {1}", "not #> {1}"),
        ("#</@> {<mammal>}", "#</@> {<cow>}"),
    ],
)
def test_what_does_not_follow(premise: str, conclusion: str) -> None:
    assert not follows(premise, conclusion)


def test_disjoint_classes_that_share_an_individual_prove_nothing() -> None:
    from tests.filters.small_worlds import SmallOntology

    torn = SmallOntology.stated(typed={("i", "A"), ("i", "B")}, apart={("A", "B")})
    wide, narrow = Subscription.parse("x @!= <A>"), Subscription.parse("x @= <B>")
    assert not wide.covers(narrow, torn)


def test_attributes_are_not_mixed_up() -> None:
    assert not Subscription.parse("x > 1").covers(Subscription.parse("y > 2"))
    assert Subscription.parse("x > 1").covers(Subscription.parse("y > 2 and x > 2"))


def test_a_bare_term_is_read_as_every_kind_it_can_be() -> None:
    bare, tagged = Subscription.parse("x @> <new>"), Subscription.parse("x @> class(<new>)")
    assert bare.covers(tagged) and not tagged.covers(bare)
    assert Subscription.parse("x @!~ <other>").covers(Subscription.parse("x = <new>"))
