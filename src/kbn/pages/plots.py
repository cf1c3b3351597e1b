"""Drawing results: one look for every plot, as SVG files that do not change when nothing changed.

matplotlib is imported when something is drawn; without it a `MissingDependencyError` names the
extra. The backend is always the one that writes files, so nothing here needs a screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kbn.errors import MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE_INCHES = (7.0, 4.2)
LEGEND_INSIDE_MAX = 6

# Okabe and Ito's colours: told apart by readers who do not see all colours, and in print.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
STYLES = ("-", "--", ":")  # for the second and third round of colours

Series = Mapping[str, Sequence[tuple[float, float]]]  # a name and its points (x, y)


@contextmanager
def figure(path: Path, *, title: str, x: str, y: str) -> Iterator[Axes]:
    """Axes to draw on; the figure is written to `path` (.svg or .png) when the block ends."""
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("drawing plots", extra="lab") from error
    # A fixed salt and no date: the same figures give the same bytes.
    with mpl.rc_context({"svg.hashsalt": "kbn", "font.size": 10, "axes.grid": True}):
        drawn = Figure(figsize=SIZE_INCHES, layout="constrained")
        FigureCanvasAgg(drawn)
        axes = drawn.add_subplot()
        axes.set(title=title, xlabel=x, ylabel=y)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        yield axes
        _add_legend(axes)
        drawn.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _add_legend(axes: Axes) -> None:
    """A short legend lies where there is room, a long one beside the plot; one name needs none."""
    names = axes.get_legend_handles_labels()[1]
    if len(names) > LEGEND_INSIDE_MAX:
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    elif len(names) > 1:
        axes.legend(frameon=False)


def lines(
    path: Path,
    series: Series,
    *,
    title: str,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
) -> Path:
    """One line per series through its points; series differ in colour and in marker.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "hops.svg"
    >>> lines(path, {"ours": [(1, 2), (2, 4)]}, title="Hops", x="brokers", y="hops").name
    'hops.svg'
    """
    with figure(path, title=title, x=x, y=y) as axes:
        for index, (name, points) in enumerate(series.items()):
            xs, ys = zip(*points, strict=True)
            axes.plot(
                xs,
                ys,
                label=name,
                color=COLOURS[index % len(COLOURS)],
                marker=MARKERS[index % len(MARKERS)],
                linestyle=STYLES[index // len(COLOURS) % len(STYLES)],
            )
        if log_x:
            axes.set_xscale("log")
        elif all(float(at).is_integer() for points in series.values() for at, _ in points):
            axes.locator_params(axis="x", integer=True)
        if log_y:
            axes.set_yscale("log")
    return path


def bars(
    path: Path,
    series: Mapping[str, Mapping[str, float]],
    *,
    title: str,
    y: str,
    log_y: bool = False,
) -> Path:
    """Groups of bars: one group per category, in the first series' order, one bar per series.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "load.svg"
    >>> bars(path, {"ours": {"east": 2, "west": 4}}, title="Load", y="clients").name
    'load.svg'
    """
    categories = list(next(iter(series.values()), {}))
    width = 0.8 / max(1, len(series))
    with figure(path, title=title, x="", y=y) as axes:
        for index, (name, heights) in enumerate(series.items()):
            present = [(place, heights[c]) for place, c in enumerate(categories) if c in heights]
            shift = (index - (len(series) - 1) / 2) * width
            axes.bar(
                [place + shift for place, _ in present],
                [height for _, height in present],
                width=width,
                label=name,
                color=COLOURS[index % len(COLOURS)],
            )
        crowded = len(categories) > 12
        slanted = not crowded and sum(len(category) for category in categories) > 60
        axes.set_xticks(
            range(len(categories)),
            categories,
            rotation=90 if crowded else 30 if slanted else 0,
            ha="right" if slanted else "center",
        )
        if log_y:
            axes.set_yscale("log")
    return path
