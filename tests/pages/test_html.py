"""One template for every page: links, sections, tables that fit."""

from __future__ import annotations

import pyarrow as pa

from kbn.pages import Section, facts, html_table, whole_page


def test_a_page_links_to_its_sections() -> None:
    text = whole_page("A <run>", [Section("Who wants it?", ["<p>all</p>"]), Section("Times", [])])
    assert "<h1>A &lt;run&gt;</h1>" in text
    assert '<a href="#who-wants-it">Who wants it?</a>' in text
    assert '<section id="who-wants-it">' in text and '<section id="times">' in text


def test_a_page_needs_nothing_from_elsewhere() -> None:
    text = whole_page("t", [Section("s", [])])
    assert "http" not in text and "<script" not in text


def test_numbers_and_the_heads_above_them_are_aligned_alike() -> None:
    text = html_table(pa.table({"name": ["a", "b"], "count": [1200, None]}), "Counts")
    assert '<th scope=col class="n">count</th>' in text and '<td class="n">1,200</td>' in text
    assert "<th scope=col>name</th>" in text and "<td>a</td>" in text


def test_a_table_scrolls_inside_the_page_and_says_what_is_left_out() -> None:
    text = html_table(pa.table({"n": range(1000)}), "Many")
    assert text.startswith('<div class="table">')
    assert "(the first 200 of 1,000 rows)" in text and text.count("<tr>") == 201


def test_names_from_outside_are_text_and_not_markup() -> None:
    bad = "<script>x</script>"
    table = pa.table({bad: [bad]})
    assert "<script>" not in whole_page(bad, [Section(bad, [html_table(table, bad)])])
    assert "<script>" not in facts({bad: bad})
