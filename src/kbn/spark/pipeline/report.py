"""The page at the end of a pipeline: what came in, who wants it, what went wrong, how long it took.

One HTML file that needs nothing else. `page` makes it of small tables, without Spark.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from kbn.pages import bars, html_table, image, lines, shown, whole_page
from kbn.spark.pipeline.facts import gather
from kbn.spark.pipeline.stages import Job
from kbn.spark.pipeline.state import StageState, State

FILE = "report.html"
LABEL_MAX = 40


def write_report(job: Job, state: State) -> Path:
    """Write the page into the output folder, whole or not at all."""
    text = page(job.config.name, gather(job, state), state.stages)
    fresh = job.out / f".{FILE}.new"
    fresh.write_text(text, encoding="utf-8")
    path = job.out / FILE
    os.replace(fresh, path)
    return path


def page(name: str, facts: Mapping[str, pa.Table], stages: Mapping[str, StageState]) -> str:
    """The page as HTML."""
    with TemporaryDirectory(prefix="kbn-report-") as folder:
        drawing = _Drawing(Path(folder), facts)
        sections = [
            _summary(stages),
            _section("What was published", drawing.when(), drawing.top("terms", "term")),
            _section("Who wants it", drawing.matched(), *drawing.tables("filters", "subscribers")),
            _section("Clients and brokers", drawing.clusters(), drawing.brokers(), drawing.hops()),
            _section(
                "What could not be read, recognised or compiled",
                *drawing.tables("reasons", "unrecognised", "rejected"),
            ),
            _section("How long it took", drawing.timings(stages)),
        ]
    return whole_page(name, "\n".join(part for part in sections if part))


CAPTIONS = {
    "filters": "The filters that bring most: subscriptions × notifications",
    "subscribers": "The subscribers with most matches",
    "reasons": "Quarantined records, by reason",
    "unrecognised": "Names that name no term of the ontology",
    "rejected": "Subscriptions that could not be compiled (some)",
    "terms": "The terms most notifications carry",
    "clusters": "The clusters with most clients",
    "brokers": "What each broker is to hold",
}


class _Drawing:
    """Plots and tables of the facts there are; empty text for those there are not."""

    def __init__(self, folder: Path, facts: Mapping[str, pa.Table]) -> None:
        self._folder = folder
        self._facts = facts

    def tables(self, *names: str) -> list[str]:
        known = [name for name in names if name in self._facts]
        return [html_table(self._facts[name], CAPTIONS[name]) for name in known]

    def when(self) -> str:
        table = self._facts.get("when")
        if table is None:
            return ""
        times, counts = table["time"].to_pylist(), table["notifications"].to_pylist()
        by_day = all(time.hour == 0 for time in times) and len(times) > 1
        one_day = len({time.date() for time in times}) == 1
        form = "%d %b" if by_day else "%H:%M" if one_day else "%d %b %Hh"
        title = "Notifications by day" if by_day else "Notifications by hour (UTC)"
        if len(times) > 31:
            points = [(float(n), float(count)) for n, count in enumerate(counts)]
            label = f"{'days' if by_day else 'hours'} since {times[0]:%d %b %Y %H:%M}"
            return self._image(
                lines(self._at("when"), {"": points}, title=title, x=label, y="notifications")
            )
        heights = {time.strftime(form): float(n) for time, n in zip(times, counts, strict=True)}
        if one_day:
            title += f", {times[0]:%d %b %Y}"
        return self._bars("when", {"": heights}, title, "notifications")

    def top(self, name: str, label: str) -> str:
        return self._of_table(name, label, "notifications", CAPTIONS[name])

    def matched(self) -> str:
        title = "How many subscriptions a notification satisfies"
        return self._of_table("matched", "matches", "notifications", title)

    def clusters(self) -> str:
        return self._of_table("clusters", "cluster", "rows", CAPTIONS["clusters"], y="clients")

    def brokers(self) -> str:
        plot = self._of_table("brokers", "broker", "clients", "Clients per broker")
        return plot + "".join(self.tables("brokers"))

    def hops(self) -> str:
        return self._of_table("hops", "hops", "deliveries", "Brokers a delivery passed")

    def timings(self, stages: Mapping[str, StageState]) -> str:
        seconds = {name: stage.seconds for name, stage in stages.items()}
        rows = {
            "stage": list(seconds),
            "seconds": list(seconds.values()),
            "rows": [", ".join(_rows(stage)) for stage in stages.values()],
            "finished": [stage.finished for stage in stages.values()],
        }
        plot = self._bars("timings", {"": seconds}, "Seconds per stage, the last time it ran", "s")
        return plot + html_table(pa.table(rows), "The stages")

    def _of_table(self, name: str, label: str, height: str, title: str, y: str = "") -> str:
        table = self._facts.get(name)
        if table is None:
            return ""
        heights: dict[str, float] = {}
        columns = (table[label].to_pylist(), table[height].to_pylist())
        for text, number in zip(*columns, strict=True):
            short = _short(str(text))
            heights[short] = heights.get(short, 0.0) + float(number or 0)
        return self._bars(name, {"": heights}, title, y or height)

    def _bars(
        self, name: str, series: Mapping[str, Mapping[str, float]], title: str, y: str
    ) -> str:
        return self._image(bars(self._at(name), series, title=title, y=y))

    def _at(self, name: str) -> Path:
        return self._folder / f"{name}.svg"

    def _image(self, path: Path) -> str:
        return image(path)


def _summary(stages: Mapping[str, StageState]) -> str:
    rows = {name: count for stage in stages.values() for name, count in stage.rows.items()}
    said = {
        "notifications": "notifications",
        "quarantine": "records in quarantine",
        "matches": "matches",
        "totals": "subscribers with matches",
        "rejected": "subscriptions rejected",
        "medoids": "clients with a medoid",
    }
    parts = [f"<b>{shown(rows[name])}</b> {text}" for name, text in said.items() if name in rows]
    return f'<p class="run">{" · ".join(parts)}</p>'


def _section(title: str, *parts: str) -> str:
    inside = [part for part in parts if part]
    if not inside:
        return ""
    return f"<section><h2>{escape(title)}</h2>\n" + "\n".join(inside) + "\n</section>"


def _rows(stage: StageState) -> list[str]:
    return [f"{count:,} {name}" for name, count in stage.rows.items()]


def _short(text: str) -> str:
    return text if len(text) <= LABEL_MAX else text[: LABEL_MAX - 1] + "…"
