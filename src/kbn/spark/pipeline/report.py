"""The page at the end of a pipeline: what came in, who wants it, what went wrong, how long it took.

One HTML file that needs nothing else. `page` makes it of small tables, without Spark.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from kbn.pages import Section, bars, figures, html_table, lines, tables_beside, whole_page
from kbn.pages import facts as facts_of
from kbn.spark.pipeline.facts import gather
from kbn.spark.pipeline.stages import Job
from kbn.spark.pipeline.state import StageState, State

FILE = "report.html"
LABEL_MAX = 40
BARS_MAX = 31
"""More hours or days than this are a line."""


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
            _section("What was published", drawing.when(), drawing.terms()),
            _section(
                "Who wants it", drawing.matched(), tables=drawing.tables("filters", "subscribers")
            ),
            _section(
                "Clients and brokers",
                *(drawing.clusters(), drawing.brokers(), drawing.hops()),
                tables=drawing.tables("brokers"),
            ),
            _section(
                "What could not be read, recognised or compiled",
                tables=drawing.tables("reasons", "unrecognised", "rejected", "problems"),
            ),
            _section("How long it took", drawing.timings(stages), tables=[_stages_table(stages)]),
        ]
        return whole_page(name, [one for one in sections if one.blocks], lead=_summary(stages))


CAPTIONS = {
    "filters": "The filters with most matches (subscriptions × notifications)",
    "subscribers": "The subscribers with most matches",
    "reasons": "Quarantined records, by reason",
    "unrecognised": "Names that name no term of the ontology",
    "rejected": "Subscriptions that could not be compiled",
    "problems": "Notifications that could not be matched, or hardly as they were meant",
    "terms": "The terms most notifications carry",
    "clusters": "The clusters with most clients",
    "brokers": "What each broker is to hold",
}


class _Drawing:
    """Plots and tables of the facts there are; None and nothing for those there are not."""

    def __init__(self, folder: Path, facts: Mapping[str, pa.Table]) -> None:
        self._folder = folder
        self._facts = facts

    def tables(self, *names: str) -> list[str]:
        known = [name for name in names if name in self._facts]
        return [html_table(self._facts[name], CAPTIONS[name]) for name in known]

    def when(self) -> Path | None:
        table = self._facts.get("when")
        if table is None:
            return None
        times, counts = table["time"].to_pylist(), table["notifications"].to_pylist()
        by_day = all(time.hour == 0 for time in times) and len(times) > 1
        title = f"Notifications by {'day' if by_day else 'hour'}"
        if len(times) > BARS_MAX:
            points = [(float(n), float(count)) for n, count in enumerate(counts)]
            x = f"{'days' if by_day else 'hours'} since {times[0]:%d %b %Y %H:%M} (UTC)"
            return lines(self._at("when"), {"": points}, title=title, x=x, y="notifications")
        form, x = _time_axis(times, by_day)
        heights = {time.strftime(form): float(n) for time, n in zip(times, counts, strict=True)}
        return bars(self._at("when"), {"": heights}, title=title, x=x, y="notifications")

    def terms(self) -> Path | None:
        return self._bars("terms", "term", "notifications", CAPTIONS["terms"])

    def matched(self) -> Path | None:
        title = "How many subscriptions a notification satisfies"
        return self._bars("matched", "matches", "notifications", title, x="subscriptions")

    def clusters(self) -> Path | None:
        return self._bars("clusters", "cluster", "clients", CAPTIONS["clusters"])

    def brokers(self) -> Path | None:
        return self._bars("brokers", "broker", "clients", "Clients per broker")

    def hops(self) -> Path | None:
        title = "How many brokers a delivery passed"
        return self._bars("hops", "hops", "deliveries", title, x="brokers passed (hops)")

    def timings(self, stages: Mapping[str, StageState]) -> Path:
        seconds = {name: stage.seconds for name, stage in stages.items()}
        title = "Time of each stage, the last time it ran"
        return bars(self._at("timings"), {"": seconds}, title=title, x="stage", y="time (s)")

    def _bars(self, name: str, label: str, height: str, title: str, *, x: str = "") -> Path | None:
        """A bar for each row of a table, as high as its column `height` says."""
        table = self._facts.get(name)
        if table is None:
            return None
        heights: dict[str, float] = {}
        columns = (table[label].to_pylist(), table[height].to_pylist())
        for text, number in zip(*columns, strict=True):
            short = _short(str(text))
            heights[short] = heights.get(short, 0.0) + float(number or 0)
        return bars(self._at(name), {"": heights}, title=title, x=x or label, y=height)

    def _at(self, name: str) -> Path:
        return self._folder / f"{name}.svg"


def _time_axis(times: Sequence[datetime], by_day: bool) -> tuple[str, str]:
    """How the times of bars are written, and what the axis says about them."""
    if by_day:
        return "%d %b", f"day of {times[0]:%Y} (UTC)"
    if len({time.date() for time in times}) == 1:
        return "%H", f"hour of {times[0]:%d %b %Y} (UTC)"
    return "%d %b %Hh", f"hour of {times[0]:%Y} (UTC)"


def _summary(stages: Mapping[str, StageState]) -> str:
    rows = {name: count for stage in stages.values() for name, count in stage.rows.items()}
    said = {
        "notifications": ("notification", "notifications"),
        "quarantine": ("record in quarantine", "records in quarantine"),
        "problems": ("problem of a notification", "problems of notifications"),
        "matches": ("match", "matches"),
        "totals": ("subscriber with matches", "subscribers with matches"),
        "rejected": ("subscription rejected", "subscriptions rejected"),
        "medoids": ("client with a medoid", "clients with a medoid"),
    }
    return facts_of({said[name][rows[name] != 1]: rows[name] for name in said if name in rows})


def _section(title: str, *plots: Path | None, tables: Sequence[str] = ()) -> Section:
    drawn = figures([plot for plot in plots if plot is not None])
    return Section(title, [block for block in (drawn, tables_beside(tables)) if block])


def _stages_table(stages: Mapping[str, StageState]) -> str:
    rows = {
        "stage": list(stages),
        "seconds": [stage.seconds for stage in stages.values()],
        "rows": [
            ", ".join(f"{count:,} {name}" for name, count in stage.rows.items())
            for stage in stages.values()
        ],
        "finished": [stage.finished for stage in stages.values()],
    }
    return html_table(pa.table(rows), "The stages")


def _short(text: str) -> str:
    return text if len(text) <= LABEL_MAX else text[: LABEL_MAX - 1] + "…"
