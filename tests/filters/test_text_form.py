"""The text language: what it means, how it fails, and that it comes back as it went out."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.filters.small_worlds import POOLS, random_constraint, random_value

from kbn.errors import FilterSyntaxError, InvalidInputError, KbnError, LimitError
from kbn.filters import Bag, Constraint, Filter, Operator, Subscription, lexing
from kbn.filters.lexing import MAX_TEXT
from kbn.filters.operators import words
from kbn.filters.parsing import parse, parse_lines
from kbn.filters.plans import MAX_NESTING
from kbn.ontology.terms import Class, Term

PREFIXES = {"wine": "urn:wine#", "podcast": "urn:podcast#", "": "urn:own#"}


def one(text: str) -> Constraint:
    """The single constraint of a text."""
    (part,) = parse(text, PREFIXES).filters
    (constraint,) = part.constraints
    return constraint


@pytest.mark.parametrize(
    ("text", "operator", "operand"),
    [
        ("x = 12", "=", 12),
        ("x=-3.5", "=", -3.5),
        ("x >= 1e9", ">=", 1e9),
        ("x < +.5", "<", 0.5),
        ("x <3", "<", 3),
        ("x = true", "=", True),
        (r'x = "a \"b\" \u00e9 \n"', "=", 'a "b" é \n'),
        (r'x = "\ud83d\ude00"', "=", "😀"),
        ("x = 'it\\'s'", "=", "it's"),
        ('x = b"00ff 10"', "=", b"\x00\xff\x10"),
        ("x <= -inf", "<=", float("-inf")),
        ("x = wine:Wine", "=", Term("urn:wine#Wine")),
        ("x = :Own", "=", Term("urn:own#Own")),
        ("x @> class(wine:Red)", "@>", Class("urn:wine#Red")),
        ("x isa <http://x/y?a=b&c#d>", "@=", Class("http://x/y?a=b&c#d")),
        ("x ont_prop [wine:by, wine:Me]", "@*", [Term("urn:wine#by"), Term("urn:wine#Me")]),
        ("x = {}", "=", Bag()),
        ('x #> {1, "a", {2, {}}}', "#>", [1, "a", [2, []]]),
        ("x super_bag/more_specific {wine:A}", "#>/@>", [Term("urn:wine#A")]),
        ("x #>/!@> {wine:A}", "#>/!@>", [Term("urn:wine#A")]),
        ("x !#> {1}", "!#>", [1]),
        ("x not prefix 'a'", "!>*", "a"),
        ("not x >* 'a'", "!>*", "a"),
        ("! x in 'abc'", "!*>", "abc"),
        ("not not x < 3", "<", 3),
        ("not x < 3", ">=", 3),
        ("not x @= wine:A", "@!=", Class("urn:wine#A")),
        ("NOT x @~ wine:A", "@!~", Term("urn:wine#A")),
    ],
)
def test_one_constraint(text: str, operator: str, operand: object) -> None:
    assert one(text) == Constraint("x", operator, operand)


def test_every_operator_has_a_symbol_and_a_word() -> None:
    assert len(words()) == 2 * len(Operator)
    for name, operator in words().items():
        if operator is not Operator.EXISTS and operator.symbol not in ("@*",):
            operand = {"@": "wine:A", "#": "{}"}.get(operator.symbol[0], "'a'")
            assert one(f"x {name} {operand}").operator is operator


@pytest.mark.parametrize(
    "name", ["contains", "prefix", "any", "class", "inf", "a.b-c", "été", "_x", "in"]
)
def test_operator_words_may_also_name_attributes(name: str) -> None:
    assert one(f"{name} any") == Constraint(name, "any")
    assert one(f"{name} {name if name == 'contains' else '='} 'a'").attribute == name


def test_other_names_go_in_backquotes() -> None:
    assert one(r"`a \` b ` = 1").attribute == "a ` b "
    assert one("`and` = 1").attribute == "and"


def test_and_binds_tighter_than_or_and_not_tighter_than_both() -> None:
    made = parse("a = 1 or b = 2 and not c = 3")
    assert made == parse("(a = 1) || (b = 2 && (!(c = 3)))")
    assert len(made.filters) == 2
    assert parse("not (a = 1 and b = 2)") == parse("a != 1 or b != 2")
    assert parse("not (a = 1 or b < 2)") == parse("a != 1 and b >= 2")
    assert len(parse("(a=1 or a=2) and (b=1 or b=2) and (c=1 or c=2)").filters) == 8


def test_comments_and_declarations() -> None:
    made = parse(
        """# wines
        prefix v: <http://v#>   # declared here
        prefix w: <http://w#>
        x @> v:Red # the rest of the line
        and y #> {w:A}
        #"""
    )
    assert made == parse("x @> <http://v#Red> and y #> {<http://w#A>}")


def test_the_ontologys_prefixes_and_terms_are_used() -> None:
    from tests.filters.test_acceptance import ANIMALS

    made = parse("x @> <human>", ontology=ANIMALS)
    assert made == Subscription(Filter([Constraint("x", "@>", Class("human"))]))


def test_a_file_of_lines() -> None:
    text = "# first\nprefix p: <urn:p#>\n\na = 1\nb @> p:C or c any\n"
    assert [*parse_lines(text)] == [parse("a = 1"), parse("b @> <urn:p#C> or c any")]
    with pytest.raises(FilterSyntaxError) as caught:
        list(parse_lines("a = 1\nb = \n"))
    assert "line 2" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "position", "hint"),
    [
        ("x containz 'a'", 2, "did you mean contains"),
        ("x = wien:A", 4, "did you mean wine:"),
        ("x = q:A", 4, "declared are"),
        ("x = ", 3, "ends too early"),
        ("x == 2", 3, "unexpected '='"),
        ("x", 1, "an operator"),
        ("", 0, "an attribute"),
        ("x = 1 y = 2", 6, "`and`"),
        ("x = {1, 2", 9, "`}`"),
        ("x = tea", 4, 'write "tea"'),
        ("dc:a = 1", 0, "backquotes"),
        ("x = 'abc", 4, "not closed"),
        ("x & y", 2, "write `and`"),
        ("x = 2026-01-01T00:00:00", 4, "time zone"),
        ("x = 2026-13-01T00:00:00Z", 4, "not a time"),
        ('x = b"0"', 4, "hexadecimal"),
        ("x = 99999999999999999999", 4, "64 bits"),
        ("x = 1e999", 4, "too large"),
        ("x = '\\q'", 4, "escape"),
        ("x = '\\ud800'", 4, "surrogate"),
        ("x < true", 4, "takes a number"),
        ("x #>/foo {1}", 2, "there is no operator"),
        ("x #>/more_specifc {<a>}", 2, "more_specific"),
        ("not x any", 4, "absent"),
        ("x not any", 2, "absent"),
        ("not true", 4, "match nothing"),
        ("x @* [class(<a>), <b>]", 5, "expected a property"),
        ("prefix a:b <urn:c> x = 1", 7, "declaration"),
        ("x = [<a>, <b>]", 4, "does not take"),
        ("x = <a b>", 4, "unexpected '<'; if this starts an IRI, it is not closed"),
        ("x = 2026-11-15", 4, "a time needs a clock and a zone as well: 2026-11-15T00:00:00Z"),
        ("x = 12abc", 4, "'12abc' is not a number"),
    ],
)
def test_errors_show_where_and_what(text: str, position: int, hint: str) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse(text, PREFIXES)
    assert caught.value.position == position
    assert hint in str(caught.value)
    line = str(caught.value).splitlines()
    assert line[2].index("^") - 2 == position


@pytest.mark.parametrize(
    "text",
    [
        "(" * (MAX_NESTING + 1) + "x = 1" + ")" * (MAX_NESTING + 1),
        "not " * (MAX_NESTING + 1) + "x = 1",
        "x = " + "{" * 17 + "}" * 17,
        "x " + "#</" * 40 + "# {}",
        "(" * 100_000,
        "x = {" + "{" * 100_000,
        " and ".join(f"(a{i} = 1 or b{i} = 1)" for i in range(30)),
        " or ".join(f"a = {i}" for i in range(2000)),
        " and ".join(f"a{i} = 1" for i in range(300)),
        "x" * (MAX_TEXT + 1),
    ],
    ids=range(10),
)
def test_limits_are_errors_of_ours(text: str) -> None:
    with pytest.raises((LimitError, FilterSyntaxError)):
        parse(text)


def test_only_text_is_parsed() -> None:
    with pytest.raises(InvalidInputError):
        parse(b"x = 1")  # type: ignore[arg-type]


FRAGMENTS = [
    "x", "y.z", "`q q`", "=", "!=", "#>/@>", "#<", "!*", "@*", "(", ")", "{", "}", "[", "]", ",",
    "!",
    "and", "or", "not", "any", "true", "1", "-2.5", "inf", '"s"', "'t", "b\"0f\"", "<urn:a>", "w:A",
    "class(", "prefix", "2026-01-01T00:00:00Z", "#", "\n", "&&", "||", "contains", "/", "\\", "\0",
]  # fmt: skip


scraps = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map(" ".join)


@given(st.one_of(st.text(max_size=60), scraps))
@settings(max_examples=600)
def test_the_parser_never_crashes(text: str) -> None:
    try:
        made = parse(text, {"w": "urn:w#"})
    except KbnError as error:
        assert str(error)
    else:
        assert parse(made.to_text()) == made


names = st.one_of(
    st.sampled_from(["x", "and", "a b", "prefix", "`", "\\", "é", "#", "a:b", "\n", "true"]),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=8),
)
texts = st.text(st.characters(codec="utf-8"), max_size=12)


@given(st.integers(0, 2**48), names, texts)
@settings(max_examples=400)
def test_what_is_printed_parses_back(seed: int, name: str, text: str) -> None:
    random = Random(seed)
    parts = [
        Filter(random_constraint(random, None, random.choice([name, "x"])) for _ in range(n))
        for n in (random.randrange(4), random.randrange(1, 3))
    ]
    parts.append(Filter([Constraint(name, "=", text), Constraint(name, "#>", [Term(text or "t")])]))
    made = Subscription(parts)
    assert parse(made.to_text()) == made
    prefixes = {"p": "urn:", "q": text[:4] or "urn:x", "": "A", "odd prefix": "p"}
    assert parse(made.to_text(prefixes), prefixes) == made


@given(st.integers(0, 2**48))
def test_text_keeps_numbers_as_they_are(seed: int) -> None:
    value = random_value(Random(seed), POOLS[0], 0)
    back = one(str(Constraint("x", "=", value))).operand
    assert type(back) is type(value) and back == value


def test_printing_uses_prefixes_and_says_kinds_where_needed() -> None:
    text = "alarm @= wine:Alert and s @* [wine:in, wine:Me] and x @> class(wine:A) and y = wine:B"
    made = parse(text, PREFIXES)
    assert made.to_text(PREFIXES) == text
    assert str(Constraint("x", "!#>/@>", [Class("c")])) == "not x #>/@> {class(<c>)}"


def test_the_lexer_has_no_possessive_groups() -> None:
    """Python before 3.11.5 gets them wrong, and Debian 12 has 3.11.2 (cpython issue 106052)."""
    assert not re.search(r"\)[*+?]\+|\(\?>", lexing._TOKEN.pattern)
