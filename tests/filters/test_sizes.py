"""What is counted of subscriptions and notifications, and that reading stops at a bound."""

from __future__ import annotations

import pytest

from kbn.errors import FilterSyntaxError, LimitError
from kbn.filters import Subscription, SubscriptionSize, check_parts, tokenize_filter
from kbn.filters.plans import MAX_NESTING, _nesting


def test_elements_are_counted_at_every_depth_and_only_paired_ones_are_paired() -> None:
    text = 'a #> {1, 2, 3} and b !#>/* {"x", "y"} and c #>/#>/@> {{:A}, {:B, :C}}'
    found = SubscriptionSize.of(Subscription.parse(text, {"": "urn:x#"}))
    assert found == SubscriptionSize(constraints=3, elements=3 + 2 + 5, paired=10, depth=2)


def test_a_text_of_too_many_tokens_is_refused_before_it_is_parsed() -> None:
    text = "x #> {" + "1," * 100 + "1}"
    assert len(tokenize_filter(text, 205).kinds) == 205
    with pytest.raises(LimitError, match="more than 204 words and signs"):
        Subscription.parse(text, tokens_max=204)


def test_json_of_too_many_values_is_refused_before_it_is_read() -> None:
    data = {"all": [{"attribute": "a", "op": "#>", "value": [[1, 2], [3]]}]}
    check_parts(data, 10)
    with pytest.raises(LimitError, match="more than 9 values"):
        check_parts(data, 9)


@pytest.mark.parametrize(
    "text", ["not " * 200_000 + "a = 1", "(" * 200_000, "x not = 1" + " not" * 99]
)
def test_what_is_nested_too_deep_never_reaches_the_grammar(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_grammar() -> None:
        raise AssertionError("the grammar was run")

    monkeypatch.setattr("kbn.filters.plans._grammar", no_grammar)
    with pytest.raises(LimitError, match="nested more than 64 deep"):
        Subscription.parse(text)


@pytest.mark.parametrize("opening, closing", [("(", ")"), ("not ", ""), ("not (", ")")])
def test_the_count_of_nesting_agrees_with_the_grammar(opening: str, closing: str) -> None:
    levels = MAX_NESTING // (2 if opening == "not (" else 1)
    deepest = opening * levels + "kind = class(<urn:a>)" + closing * levels
    twice = f"{deepest} or {deepest}"
    assert len(Subscription.parse(twice).filters[0]) == 1
    assert _nesting(tokenize_filter(twice).kinds) == MAX_NESTING
    with pytest.raises(LimitError):
        Subscription.parse(f"not ({deepest})")


@pytest.mark.parametrize("row", [":" * 60_000, ":." * 30_000, "a:" * 30_000, ". :" * 20_000])
def test_a_row_of_colons_is_refused_after_a_few_tokens(row: str) -> None:
    try:
        tokens = tokenize_filter("x @> a:" + row)
        assert len(tokens.kinds) < 10
    except FilterSyntaxError:
        pass
    with pytest.raises(FilterSyntaxError):
        Subscription.parse("x @> a:" + row)
