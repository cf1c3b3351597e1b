"""A day of podcasts, made up: feeds as files, who wants what, brokers, a delivery log, a pipeline.

    FOLDER/feeds/feed-0001.xml …     RSS, a few broken and some items with nonsense in them
    FOLDER/subscriptions.parquet     filters as text; a few name categories that do not exist
    FOLDER/deliveries.parquet        how many brokers yesterday's notifications passed
    FOLDER/podcast.ttl               the categories
    FOLDER/pipeline.yaml             what to do with all this

Everything follows from the seed. Publishers write the labels of categories, not their IRIs, and
some misspell them, as publishers do.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from kbn import data
from kbn.ontology import Ontology

if TYPE_CHECKING:
    from numpy.random import Generator

DAY = datetime(2026, 11, 14, tzinfo=UTC)
BROKERS = ("dublin", "cork", "galway", "limerick", "sligo", "wexford")
PARENTS = {
    "cork": "dublin", "galway": "dublin", "limerick": "cork", "sligo": "galway", "wexford": "cork",
}  # fmt: skip
LANGUAGES = ("en", "en-IE", "en-GB", "de", "fr", "ga")
DURATIONS_S = (600, 900, 1200, 1800, 2700, 3600)
MISSPELT = {"Technology": "Tecnology", "Medicine": "Medecine", "Music": "Musik"}
INVENTED = ("True Crime", "Daily Chat")
BAD_FILTERS = (
    "category #>/@> {podcast:Tecnology}",
    "category #>/@> {podcast:TrueCrime}",
    "duration <= ten minutes",
)

_WORDS = (
    "python rust audio radio history rivers bread cheese trains bridges football hurling sailing "
    "chess poetry novels theatre film jazz folk opera drums guitar space stars physics biology "
    "plants bees birds oceans climate energy health sleep running yoga diet money markets housing "
    "startup design fashion travel islands castles cities maps language grammar irish french "
    "schools exams parenting babies games puzzles robots phones security privacy law courts "
    "elections parliament europe africa asia weather farming gardens cooking baking tea coffee "
    "whiskey religion meditation ethics logic maths statistics databases networks satellites"
)
WORDS = tuple(_WORDS.split())

_ADJECTIVES = ("Slow", "Bright", "Late", "Little", "Loud", "Plain", "Odd", "Northern")
_NOUNS = ("Hour", "Bulletin", "Garden", "Harbour", "Notebook", "Signal", "Kitchen", "Almanac")


@dataclass(frozen=True)
class PodcastDay:
    """How much of everything; `write` makes it."""

    feeds: int = 400
    episodes: int = 50
    subscriptions: int = 100_000
    deliveries: int = 50_000
    seed: int = 0

    def write(self, folder: Path) -> Path:
        """Write all files and return the pipeline's YAML file."""
        source = data.path("podcast")
        ontology = Ontology.load(source)
        categories = list(ontology.classes)
        labels = [ontology.label(iri) or ontology.shorten(iri) for iri in categories]
        names = [iri.partition("#")[2] for iri in categories]
        (folder / "feeds").mkdir(parents=True, exist_ok=True)
        for number in range(1, self.feeds + 1):
            path = folder / "feeds" / f"feed-{number:04d}.xml"
            path.write_text(self.feed(number, labels), encoding="utf-8")
        self._write_subscriptions(folder / "subscriptions.parquet", names)
        self._write_deliveries(folder / "deliveries.parquet")
        shutil.copyfile(source, folder / "podcast.ttl")
        (folder / "pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
        return folder / "pipeline.yaml"

    def feed(self, number: int, labels: list[str]) -> str:
        """One feed as RSS text."""
        rng = np.random.default_rng([self.seed, 1, number])
        title = f"The {_pick(rng, _ADJECTIVES)} {_pick(rng, _NOUNS)} {number}"
        usual = rng.choice(len(labels), 3, replace=False, p=_popularity(len(labels)))
        items = [
            self._item(rng, number, n, [labels[c] for c in usual]) for n in range(self.episodes)
        ]
        text = _FEED.format(
            title=escape(title), number=number, language=_pick(rng, LANGUAGES), items="".join(items)
        )
        # One in a hundred was cut off on its way.
        return text[: len(text) // 2] if number % 100 == 3 else text

    def _item(self, rng: Generator, feed: int, number: int, usual: list[str]) -> str:
        chosen = list(dict.fromkeys(usual[c] for c in rng.integers(0, len(usual), 2)))
        words = rng.choice(len(WORDS), 4, replace=False, p=_popularity(len(WORDS)))
        seconds = int(rng.integers(300, 5400))
        # Most is published in the morning and in the early evening.
        hour = float(rng.choice((8.0, 17.5)) + rng.normal(0, 3)) % 24
        published = format_datetime(DAY + timedelta(hours=hour))
        doubtful = rng.random()
        duration: object = seconds
        if doubtful < 0.003:
            duration = "half an hour"
        elif doubtful < 0.005:
            published = "yesterday evening"
        elif doubtful < 0.03:
            chosen[0] = MISSPELT.get(chosen[0], INVENTED[int(doubtful * 1e6) % 2])
        return _ITEM.format(
            title=escape(f"{WORDS[words[0]]} and {WORDS[words[1]]}".capitalize()),
            id=episode_id(feed, number),
            published=published,
            categories="".join(f"<itunes:category text={quoteattr(one)}/>" for one in chosen),
            keywords=", ".join(WORDS[w] for w in words),
            duration=duration,
        )

    def _write_subscriptions(self, path: Path, names: list[str]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        rng = np.random.default_rng([self.seed, 2])
        count = self.subscriptions
        filters = self.filters(rng, names)
        listeners = rng.integers(1, max(2, count * 2 // 5), count).tolist()
        columns = {
            "subscription": [f"s{n:07d}" for n in range(1, count + 1)],
            "subscriber": [f"listener-{n:06d}" for n in listeners],
            "filter": filters,
        }
        pq.write_table(pa.table(columns), path)

    def filters(self, rng: Generator, names: list[str]) -> list[str]:
        """What the subscriptions ask for; about one in 5,000 is wrong."""
        count = self.subscriptions
        categories = rng.choice(len(names), count, p=_popularity(len(names)))
        words = rng.choice(len(WORDS), (count, 2), p=_popularity(len(WORDS)))
        word_counts = rng.choice(3, count, p=(0.1, 0.6, 0.3))
        limits = rng.integers(0, 3 * len(DURATIONS_S), count)
        made = []
        for category, pair, some, limit in zip(
            categories.tolist(), words.tolist(), word_counts.tolist(), limits.tolist(), strict=True
        ):
            parts = [f"category #>/@> {{podcast:{names[category]}}}"]
            if some:
                wanted = ", ".join(f'"{WORDS[w]}"' for w in dict.fromkeys(pair[:some]))
                parts.append(f"keywords #> {{{wanted}}}")
            if limit < len(DURATIONS_S):
                parts.append(f"duration <= {DURATIONS_S[limit]}")
            made.append(" and ".join(parts))
        for place in range(min(17, count - 1), count, 5000):
            made[place] = BAD_FILTERS[place % len(BAD_FILTERS)]
        return made

    def _write_deliveries(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        rng = np.random.default_rng([self.seed, 3])
        count = self.deliveries
        people = min(max(1, self.subscriptions * 2 // 5), max(1, count // 10))
        listener = rng.integers(1, people + 1, count)
        feeds, episodes = (
            rng.integers(1, self.feeds + 1, count),
            rng.integers(0, self.episodes, count),
        )
        # Feeds are published at all brokers. Most of what a listener gets comes from one of them,
        # and some sit far from it.
        near = feeds - feeds % len(BROKERS) + listener % 7 % len(BROKERS)
        usual = (rng.random(count) < 0.7) & (near >= 1) & (near <= self.feeds)
        feeds = np.where(usual, near, feeds)
        far = _distances()[feeds % len(BROKERS), listener % len(BROKERS)]
        columns: dict[str, Any] = {
            "notification": [
                episode_id(f, e) for f, e in zip(feeds.tolist(), episodes.tolist(), strict=True)
            ],
            "subscriber": [f"listener-{n:06d}" for n in listener.tolist()],
            "broker": [BROKERS[n % len(BROKERS)] for n in listener.tolist()],
            "hops": pa.array(far, pa.int32()),
        }
        pq.write_table(pa.table(columns), path)


def _distances() -> Any:
    """How many brokers lie between each two, in the tree below: the way up and down again.

    >>> _distances()[0].tolist(), int(_distances().max())
    ([0, 1, 1, 2, 2, 2], 4)
    """
    ways = []
    for name in BROKERS:
        way = [name]
        while (above := PARENTS.get(way[-1])) is not None:
            way.append(above)
        ways.append(way)
    return np.array([[len(set(one) ^ set(other)) for other in ways] for one in ways])


def episode_id(feed: int, number: int) -> str:
    """The id an episode is published under."""
    return f"urn:episode:{feed:04d}-{number:03d}"


def _popularity(count: int) -> Any:
    """A few are wanted by many, and most by few."""
    weights = 1.0 / (np.arange(count) + 3.0)
    return weights / weights.sum()


def _pick(rng: Generator, several: tuple[str, ...]) -> str:
    return several[int(rng.integers(0, len(several)))]


PIPELINE = f"""\
name: a podcast day
ontology: podcast.ttl
notifications:
  - {{path: "feeds/*.xml", format: rss}}
subscriptions: subscriptions.parquet
brokers: [{", ".join(BROKERS)}]
deliveries: deliveries.parquet
output: out
"""

_FEED = """<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd">
<channel>
<title>{title}</title>
<link>https://podcasts.example/{number}</link>
<language>{language}</language>
{items}</channel>
</rss>
"""

_ITEM = """<item>
<title>{title}</title>
<guid>{id}</guid>
<pubDate>{published}</pubDate>
{categories}
<itunes:keywords>{keywords}</itunes:keywords>
<itunes:duration>{duration}</itunes:duration>
</item>
"""
