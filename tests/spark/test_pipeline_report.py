"""The page of a pipeline, from small tables and without Spark."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

from kbn.ontology import Ontology
from kbn.pages import whole_page
from kbn.spark.pipeline.facts import short_filter
from kbn.spark.pipeline.report import page
from kbn.spark.pipeline.state import StageState

STAGES = {"ingest": StageState({}, {}, {"notifications": 3, "quarantine": 1}, 1.5, "today")}


class Open(HTMLParser):
    """Which elements are open at the end: none, when the page is well formed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(text: str) -> Open:
    parser = Open()
    parser.feed(text)
    assert parser.open == []
    return parser


def hours(count: int) -> pa.Table:
    times = [datetime(2026, 11, 14) + timedelta(hours=n) for n in range(count)]
    return pa.table({"time": times, "notifications": list(range(count))})


@pytest.mark.parametrize("count", [1, 24, 30, 100])
def test_a_page_is_well_formed_however_long_the_time(count: int) -> None:
    seen = parsed(page("a <day>", {"when": hours(count)}, STAGES)).seen
    assert seen.count("img") == 2  # the hours, and the timings


def test_what_there_is_nothing_to_say_about_is_left_out() -> None:
    text = page("empty", {}, STAGES)
    assert "Who wants it" not in text and "Clients and brokers" not in text
    parsed(text)


def test_the_page_of_a_pipeline_has_the_style_of_every_page() -> None:
    style = re.search("<style>.*</style>", whole_page("t", []), re.DOTALL)
    assert style and style[0] in page("p", {}, STAGES)


VEHICLES = """
@prefix v: <https://example.org/vehicles#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
v:Car a owl:Class .
"""


def test_filters_are_shown_with_short_names(tmp_path: Path) -> None:
    (tmp_path / "v.ttl").write_text(VEHICLES, encoding="utf-8")
    ontology = Ontology.load(tmp_path / "v.ttl", cache=False)
    car = "https://example.org/vehicles#Car"
    assert short_filter(f"a #>/@> {{class(<{car}>)}}", ontology) == "a #>/@> {v:Car}"
    assert short_filter(f"a @= <{car}> and b < 3 and c > 2", ontology) == (
        "a @= v:Car and b < 3 and c > 2"
    )
    unknown = "a @= class(<https://example.com/Boat>)"
    assert short_filter(unknown, ontology) == unknown


def test_a_filter_of_codes_is_shown_with_labels(tmp_path: Path) -> None:
    file = tmp_path / "codes.ttl"
    file.write_text(
        "@prefix c: <urn:codes/> . c:018 a <http://www.w3.org/2002/07/owl#Class> ; "
        '<http://www.w3.org/2000/01/rdf-schema#label> "music" .'
    )
    shown = short_filter("topic @> class(<urn:codes/018>)", Ontology.load(file, cache=False))
    assert shown == "topic @> c:018 (music)"


def test_names_from_outside_are_text_and_not_markup() -> None:
    bad = pa.table({"attribute": ["c"], "text": ["<script>x</script>"], "notifications": [1]})
    text = page("<b>", {"unrecognised": bad}, STAGES)
    assert "<script>" not in text and "<title>&lt;b&gt;</title>" in text
