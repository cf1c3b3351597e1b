"""Podcast feeds: what their items become, and that a hostile one does no harm."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbn.spark.io.feeds import FEED_MAPPING, feed_outcomes
from kbn.spark.io.mapping import Mapping
from kbn.spark.io.outcomes import Outcome, Refused, Row

S = "file:/feed.xml"
NAMESPACES = 'xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"'


def rss(*items: str, channel: str = "") -> bytes:
    inside = "".join(f"<item>{item}</item>" for item in items)
    text = f'<rss version="2.0" {NAMESPACES}><channel><title>Tea Time</title>{channel}{inside}'
    return f"<?xml version='1.0' encoding='UTF-8'?>{text}</channel></rss>".encode()


def atom(*entries: str, feed: str = "") -> bytes:
    inside = "".join(f"<entry>{entry}</entry>" for entry in entries)
    text = f'<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en" {NAMESPACES}>'
    return f"{text}<title>Tea Time</title>{feed}{inside}</feed>".encode()


def read(content: bytes, mapping: Mapping | None = None) -> list[Outcome]:
    return list(feed_outcomes(content, S, mapping))


def only(content: bytes, mapping: Mapping | None = None) -> tuple[Row, dict[str, Any]]:
    (row,) = read(content, mapping)
    assert isinstance(row, Row), row
    return row, json.loads(row.attributes)


def test_an_rss_item_is_a_notification() -> None:
    row, attributes = only(
        rss(
            """
            <guid isPermaLink="false"> ep-7 </guid><link>http://e.org/7</link>
            <title>Green &amp; black</title>
            <description><![CDATA[All <b>about</b> tea]]></description>
            <pubDate>Sun, 15 Nov 2026 11:00:00 +0100</pubDate>
            <category>Food</category><category>Drink</category>
            <itunes:keywords>tea, green tea,,tea</itunes:keywords>
            <itunes:duration>1:02:03</itunes:duration><itunes:explicit>no</itunes:explicit>
            <itunes:author>Ann</itunes:author><itunes:episode>7</itunes:episode>
            <itunes:season>two</itunes:season>
            <enclosure url="http://e.org/7.mp3" length="123" type="audio/mpeg"/>
            """,
            channel="<language>en-ie</language>",
        )
    )
    assert row[:3] == ("ep-7", "Tea Time", datetime(2026, 11, 15, 10, tzinfo=UTC))
    assert attributes == {
        "title": "Green & black",
        "description": "All <b>about</b> tea",
        "author": "Ann",
        "language": "en-ie",
        "category": ["Food", "Drink"],
        "keywords": ["tea", "green tea"],
        "duration": 3723,
        "explicit": False,
        "episode": 7,
    }
    assert FEED_MAPPING.terms == {"category": "term"}


def test_an_atom_entry_is_a_notification() -> None:
    row, attributes = only(
        atom(
            """
            <id>urn:7</id><title type="html">Tea</title><updated>2026-11-15T10:00:00Z</updated>
            <summary>About tea</summary><author><name>Ann</name></author>
            <category term="food" label="Food"/><category term="drink"/>
            <link rel="enclosure" href="http://e.org/7.mp3"/><link href="http://e.org/7"/>
            """
        )
    )
    assert row[:3] == ("urn:7", "Tea Time", datetime(2026, 11, 15, 10, tzinfo=UTC))
    assert attributes == {
        "title": "Tea",
        "description": "About tea",
        "author": "Ann",
        "language": "en",
        "category": ["Food", "drink"],
    }


CATEGORIES = """
<category>Old</category>
<itunes:category text="Society &amp; Culture"><itunes:category text="History"/></itunes:category>
<itunes:category text="Comedy"/>
"""


def test_items_without_categories_have_the_channels() -> None:
    content = rss("<guid>1</guid>", "<guid>2</guid><category>Own</category>", channel=CATEGORIES)
    first, second = (json.loads(row.attributes) for row in read(content) if isinstance(row, Row))
    assert first["category"] == ["Old", "Society & Culture", "History", "Comedy"]
    assert second["category"] == ["Own"]


def test_an_item_is_known_by_guid_link_enclosure_or_content() -> None:
    items = [
        "<guid>g</guid><link>l</link>",
        "<guid/><link>l</link>",
        '<enclosure url="u"/>',
    ]
    assert [row.id for row in read(rss(*items)) if isinstance(row, Row)] == ["g", "l", "u"]
    rules = Mapping.of({"id": "link", "attributes": {"title": None}})
    assert only(rss("<guid>g</guid><link>l</link>"), rules)[0].id == "l"


def test_a_mapping_of_ones_own_sees_every_field() -> None:
    item = '<guid>1</guid><enclosure url="u" length="5" type="t"/><title>T</title>'
    row, attributes = only(rss(item), Mapping.of({}))
    assert (row.id, row.publisher) == ("1", "Tea Time")
    assert attributes == {"audio": "u", "audio_bytes": 5, "audio_type": "t", "title": "T"}
    row, _ = only(rss(item), Mapping.of({"publisher": {"constant": "me"}}))
    assert row.publisher == "me"


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (
            "<guid>1</guid><itunes:duration>an hour</itunes:duration>",
            "duration: 'an hour' is neither",
        ),
        ("<guid>1</guid><itunes:duration>1:2:3:4</itunes:duration>", "duration: '1:2:3:4'"),
        ("<guid>1</guid><pubDate>lately</pubDate>", "published: 'lately' is not a time"),
        ("<guid>1</guid><pubDate>Sun, 99 Nov 2026 10:00:00 GMT</pubDate>", "published: "),
        ("<title>nameless</title>", "id: the id is missing"),
    ],
)
def test_a_bad_item_is_refused_alone(item: str, reason: str) -> None:
    outcomes = read(rss("<guid>0</guid>", item, "<guid>2</guid>"))
    assert [one.id for one in outcomes if isinstance(one, Row)] == ["0", "2"]
    (bad,) = (one for one in outcomes if isinstance(one, Refused))
    assert (bad.source, bad.position) == (S, 2)
    assert bad.reason.startswith(reason)
    assert bad.record is not None
    assert bad.record.startswith("<item")


BOMB = b"""<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">
<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>
<rss version="2.0"><channel><title>&c;</title><item><guid>1</guid></item></channel></rss>"""
THEFT = b"""<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]>
<rss version="2.0"><channel><title>&f;</title></channel></rss>"""


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (BOMB, "a document type declaration is refused"),
        (THEFT, "a document type declaration is refused"),
        (THEFT.decode().encode("utf-16"), "a document type declaration is refused"),
        (b'<!DOCTYPE rss SYSTEM "http://e.org/x.dtd"><rss/>', "document type declaration"),
        (b"<rss><channel><title>&undefined;</title></channel></rss>", "not well-formed XML"),
        (b"", "not well-formed XML: no element found"),
        (b"not xml", "not well-formed XML"),
        (rss("<guid>1</guid>")[:-8], "not well-formed XML"),
        (b"<rss/>", "an RSS feed without a channel"),
        (b"<html/>", "neither RSS 2.0 nor Atom: the outermost element is <html>"),
        (b"<?xml version='1.0' encoding='x-none'?><rss/>", "unknown encoding"),
        (b"<rss>\xff</rss>", "not well-formed XML"),
        (b"\x1f\x8b\x08\x00", "not well-formed XML"),
    ],
)
def test_a_bad_feed_is_refused_as_a_whole(content: bytes, reason: str) -> None:
    (bad,) = read(content)
    assert isinstance(bad, Refused)
    assert (bad.source, bad.position) == (S, None)
    assert reason in bad.reason
    assert bad.record == content.decode("utf-8", "backslashreplace")


def test_a_feed_without_items_has_no_records() -> None:
    assert read(rss()) == []
    assert read(atom()) == []


def test_elements_may_be_nested_as_deep_as_they_like() -> None:
    deep = "<a>" * 20_000 + "</a>" * 20_000
    _, attributes = only(rss(f"<guid>1</guid><title>T</title>{deep}"))
    assert attributes == {"title": "T"}


def test_a_text_may_be_nested_as_deep_as_it_likes() -> None:
    deep = "a<i>b" * 3_000 + "c" + "</i>d" * 3_000
    _, attributes = only(rss(f"<guid>1</guid><title>{deep}</title>"))
    assert attributes == {"title": "ab" * 3_000 + "c" + "d" * 3_000}


def test_an_item_that_is_nested_too_deep_to_be_shown_is_still_refused_with_the_reason() -> None:
    deep = "<a>" * 3_000 + "</a>" * 3_000
    (bad,) = read(rss(f"<guid>1</guid><pubDate>never</pubDate>{deep}"))
    assert isinstance(bad, Refused)
    assert "is not a time" in bad.reason
    assert bad.record == "<item> with elements nested too deep to be shown"


texts = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Z"]), max_size=10)


@given(st.lists(st.tuples(texts, texts), max_size=4))
def test_texts_come_through_as_they_were_written(given: list[tuple[str, str]]) -> None:
    def escaped(text: str) -> str:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

    items = [
        f"<guid>{n}</guid><title>{escaped(title)}</title><category>{escaped(category)}</category>"
        for n, (title, category) in enumerate(given)
    ]
    outcomes = read(rss(*items))
    assert [one.id for one in outcomes if isinstance(one, Row)] == [
        str(n) for n in range(len(given))
    ]
    for outcome, (title, category) in zip(outcomes, given, strict=True):
        assert isinstance(outcome, Row)
        found = json.loads(outcome.attributes)
        assert found.get("title", "") == " ".join(title.split())
        assert found.get("category", []) == [text for text in [" ".join(category.split())] if text]


@given(st.binary(max_size=80), st.integers(0, 300))
def test_whatever_the_bytes_are_there_is_an_outcome_and_no_error(noise: bytes, place: int) -> None:
    whole = rss("<guid>1</guid><title>T</title><itunes:duration>3</itunes:duration>")
    assert read(whole[:place] + noise + whole[place + len(noise) :])
