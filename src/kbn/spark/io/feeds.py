"""Podcast feeds, RSS 2.0 and Atom, to the records a mapping reads: one per item.

    id           guid, Atom's id, else the link         published    a time: pubDate, updated
    publisher    the channel's title                    feed         the channel's link
    title, link, description, author, language          texts
    category     a list: the item's, else the channel's, nested ones of iTunes after their parent
    keywords     a list                                 duration     seconds
    explicit     true or false                          season, episode   numbers
    audio, audio_type, audio_bytes                      the enclosure

A feed is text from strangers. A document type declaration is refused before anything else is read,
and with it every entity that could name a file or grow without bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from xml.parsers import expat

from kbn.errors import InvalidInputError
from kbn.spark.io.mapping import Field, Mapping
from kbn.spark.io.outcomes import Outcome, Refused, shown

__all__ = ["FEED_MAPPING", "feed_outcomes", "items"]

_ENVELOPE = ("id", "publisher", "published")
_ATOM = "{http://www.w3.org/2005/Atom}"
_ITUNES = "{http://www.itunes.com/dtds/podcast-1.0.dtd}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_CONTENT = "{http://purl.org/rss/1.0/modules/content/}"

FEED_MAPPING = Mapping(
    id="id",
    publisher="publisher",
    time="published",
    attributes={
        "title": Field("title", "string"),
        "description": Field("description", "string"),
        "author": Field("author", "string"),
        "language": Field("language", "string"),
        "category": Field("category", "term"),
        "keywords": Field("keywords", "string"),
        "duration": Field("duration", "integer"),
        "explicit": Field("explicit", "boolean"),
        "season": Field("season", "integer"),
        "episode": Field("episode", "integer"),
    },
)
"""What a feed becomes unless a mapping says otherwise: its categories name terms."""


def feed_outcomes(content: bytes, source: str | None, mapping: Mapping | None) -> Iterator[Outcome]:
    """Each item of a feed as a notification; a bad one is refused alone, a bad feed as a whole.

    >>> feed = b"<rss><channel><item><guid>1</guid><title>Tea</title></item></channel></rss>"
    >>> [outcome.attributes for outcome in feed_outcomes(feed, "tea.xml", None)]
    ['{"title":"Tea"}']
    """
    mapping = FEED_MAPPING if mapping is None else mapping.with_envelope(*_ENVELOPE)
    try:
        found = list(items(content))
    except InvalidInputError as error:
        yield Refused(source, None, shown(content), str(error))
        return
    for position, (record, item) in enumerate(found, start=1):
        try:
            if isinstance(record, InvalidInputError):
                raise record
            yield mapping.row(record, source)
        except InvalidInputError as error:
            yield Refused(source, position, _markup(item), str(error))


def _markup(item: Element) -> str:
    """The item as it was written, for whoever has to find out what is wrong with it."""
    try:
        return ElementTree.tostring(item, encoding="unicode").strip()
    except RecursionError:  # the library goes down one call for each element inside another
        return f"<{item.tag}> with elements nested too deep to be shown"


def items(content: bytes) -> Iterator[tuple[dict[str, Any] | InvalidInputError, Element]]:
    """The items of a feed, each with the record it stands for or what is wrong with it.

    InvalidInputError when the content is no feed.
    """
    root = _parsed(content)
    if root.tag == "rss":
        channel = root.find("channel")
        if channel is None:
            raise InvalidInputError("an RSS feed without a channel")
        common = _of_channel(channel)
        yield from ((_record(_of_rss_item, item, common), item) for item in channel.findall("item"))
    elif root.tag == _ATOM + "feed":
        common = _of_atom_feed(root)
        entries = root.findall(_ATOM + "entry")
        yield from ((_record(_of_entry, entry, common), entry) for entry in entries)
    else:
        raise InvalidInputError(
            f"neither RSS 2.0 nor Atom: the outermost element is <{root.tag[:80]}>"
        )


def _record(read: Any, item: Element, common: dict[str, Any]) -> dict[str, Any] | InvalidInputError:
    try:
        own = {name: value for name, value in read(item).items() if value not in (None, "", [])}
    except InvalidInputError as error:
        return error
    return {**common, **own}


class _Root(Exception):
    """The outermost element has begun: what could declare entities is past."""


def _parsed(content: bytes) -> Element:
    try:
        _refuse_declarations(content)
        return ElementTree.fromstring(content)
    except (ElementTree.ParseError, expat.ExpatError) as error:
        raise InvalidInputError(f"not well-formed XML: {error}") from None
    except (ValueError, LookupError) as error:  # an encoding that is unknown, or does not fit
        raise InvalidInputError(f"XML that cannot be read: {error}") from None


def _refuse_declarations(content: bytes) -> None:
    def refuse(*_: object) -> None:
        raise InvalidInputError(
            "a feed with a document type declaration is refused: it could name files and grow "
            "without bound"
        )

    def begun(*_: object) -> None:
        raise _Root

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = begun
    try:
        parser.Parse(content, True)
    except _Root:
        return


# RSS.


def _of_channel(channel: Element) -> dict[str, Any]:
    found = {
        "publisher": _text(channel, "title"),
        "feed": _text(channel, "link"),
        "language": _text(channel, "language"),
        "author": _text(channel, _ITUNES + "author", "managingEditor", _DC + "creator"),
        "category": _categories(channel),
        "keywords": _keywords(channel),
        "explicit": _explicit(channel),
    }
    return {name: value for name, value in found.items() if value not in (None, "", [])}


def _of_rss_item(item: Element) -> dict[str, Any]:
    enclosure = item.find("enclosure")
    audio = _attributes(enclosure)
    return {
        "id": _text(item, "guid", "link") or audio.get("url"),
        "link": _text(item, "link"),
        "title": _text(item, "title", _ITUNES + "title"),
        "description": _text(
            item, "description", _ITUNES + "summary", _ITUNES + "subtitle", _CONTENT + "encoded"
        ),
        "author": _text(item, _ITUNES + "author", "author", _DC + "creator"),
        "published": _time(_text(item, "pubDate", _DC + "date")),
        "category": _categories(item),
        "keywords": _keywords(item),
        "audio": audio.get("url"),
        "audio_type": audio.get("type"),
        "audio_bytes": _count(audio.get("length")),
        **_episode(item),
    }


# Atom.


def _of_atom_feed(feed: Element) -> dict[str, Any]:
    found = {
        "publisher": _text(feed, _ATOM + "title"),
        "feed": _link(feed, "alternate", "self"),
        "language": feed.get("{http://www.w3.org/XML/1998/namespace}lang"),
        "author": _author(feed),
        "category": _atom_categories(feed),
        "keywords": _keywords(feed),
        "explicit": _explicit(feed),
    }
    return {name: value for name, value in found.items() if value not in (None, "", [])}


def _of_entry(entry: Element) -> dict[str, Any]:
    link = _link(entry, "alternate")
    links = entry.findall(_ATOM + "link")
    audio = _attributes(next((one for one in links if one.get("rel") == "enclosure"), None))
    return {
        "id": _text(entry, _ATOM + "id") or link,
        "link": link,
        "title": _text(entry, _ATOM + "title"),
        "description": _text(entry, _ATOM + "summary", _ATOM + "content"),
        "author": _author(entry),
        "published": _time(_text(entry, _ATOM + "published", _ATOM + "updated")),
        "category": _atom_categories(entry),
        "keywords": _keywords(entry),
        "audio": audio.get("href"),
        "audio_type": audio.get("type"),
        "audio_bytes": _count(audio.get("length")),
        **_episode(entry),
    }


def _link(element: Element, *relations: str) -> str | None:
    links = element.findall(_ATOM + "link")
    for relation in relations:
        for link in links:
            if link.get("rel", "alternate") == relation and link.get("href"):
                return link.get("href")
    return None


def _author(element: Element) -> str | None:
    author = element.find(_ATOM + "author")
    return None if author is None else _text(author, _ATOM + "name")


def _atom_categories(element: Element) -> list[str]:
    given = element.findall(_ATOM + "category")
    texts = [one.get("label") or one.get("term") or "" for one in given]
    return _distinct([*texts, *_itunes_categories(element)])


# What both have.


def _text(element: Element, *tags: str) -> str | None:
    """The text of the first of these children that has any, markup inside left out."""
    for tag in tags:
        for child in element.findall(tag):
            text = " ".join(_text_in(child).split())
            if text:
                return text
    return None


def _text_in(element: Element) -> str:
    """The text of an element and of those inside it, however deep (`itertext` would recurse)."""
    found = []
    rest: list[Element | str | None] = [element]
    while rest:
        part = rest.pop()
        if isinstance(part, Element):
            inside = [each for child in part for each in (child, child.tail)]
            rest += [*reversed(inside), part.text]
        elif part:
            found.append(part)
    return "".join(found)


def _categories(element: Element) -> list[str]:
    plain = [_text_in(one) for one in element.findall("category")]
    return _distinct([*plain, *_itunes_categories(element)])


def _itunes_categories(element: Element) -> Iterator[str]:
    for outer in element.findall(_ITUNES + "category"):
        yield outer.get("text", "")
        for inner in outer.findall(_ITUNES + "category"):
            yield inner.get("text", "")


def _keywords(element: Element) -> list[str]:
    texts = [_text_in(one) for one in element.findall(_ITUNES + "keywords")]
    return _distinct([word for text in texts for word in text.split(",")])


def _distinct(texts: list[str]) -> list[str]:
    tidy = (" ".join(text.split()) for text in texts)
    return [text for text in dict.fromkeys(tidy) if text]


def _episode(item: Element) -> dict[str, Any]:
    return {
        "duration": _duration(_text(item, _ITUNES + "duration")),
        "explicit": _explicit(item),
        "season": _count(_text(item, _ITUNES + "season")),
        "episode": _count(_text(item, _ITUNES + "episode")),
    }


def _attributes(element: Element | None) -> dict[str, str]:
    return {} if element is None else element.attrib


def _count(text: str | None) -> int | None:
    """The number, where it is one: feeds write all sorts of things here, and few ask for it."""
    return int(text) if text is not None and _COUNT.fullmatch(text.strip()) else None


def _time(text: str | None) -> datetime | None:
    """The time as RSS or as Atom writes it; what says -0000, or nothing, for its zone is UTC."""
    if text is None:
        return None
    try:
        iso = text[:4].isdigit()
        found = datetime.fromisoformat(text) if iso else parsedate_to_datetime(text)
        moment = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        raise InvalidInputError(f"published: {text!r:.60} is not a time") from None


_COUNT = re.compile(r"[0-9]{1,18}")
_PARTS = re.compile(r"(?:(?:([0-9]{1,6}):)?([0-9]{1,6}):)?([0-9]{1,9})(?:\.[0-9]+)?")


def _duration(text: str | None) -> int | None:
    """Seconds, from seconds or from [hours:]minutes:seconds.

    >>> _duration("1:02:03"), _duration("02:03"), _duration("3723")
    (3723, 123, 3723)
    """
    if text is None:
        return None
    found = _PARTS.fullmatch(text)
    if found is None:
        raise InvalidInputError(f"duration: {text!r:.60} is neither seconds nor h:mm:ss")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def _explicit(element: Element) -> bool | None:
    """Whether it says so; what is neither yes nor no says nothing."""
    said = (_text(element, _ITUNES + "explicit") or "").lower()
    known = ("yes", "true", "explicit", "no", "false", "clean")
    return known.index(said) < 3 if said in known else None
