"""Drawing results: one look for every plot, as SVG files that do not change when nothing changed.

matplotlib is imported when something is drawn; without it a `MissingDependencyError` names the
extra. The backend is always the one that writes files, so nothing here needs a screen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbn.errors import MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

WIDTH_INCHES, HEIGHT_INCHES = 7.0, 4.0
LEGEND_ROW_INCHES = 0.22
MARKED_MAX = 40
"""Lines through more points than this have no markers: they would run together."""
BAR_INCHES = 0.26
"""How much each row of horizontal bars adds to the height."""

LABEL_MAX = 10
"""Categories with longer names are rows of horizontal bars, so that their names stay level."""
LEVEL_MAX = 80
"""So many characters of names fit below the plot side by side."""

# Okabe and Ito's colours: told apart by readers who do not see all colours, and in print.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
STYLES = ("-", "--", ":")  # for the second and third round of colours

Series = Mapping[str, Sequence[tuple[float, float]]]  # a name and its points (x, y)


STYLE: dict[Any, Any] = {
    "svg.hashsalt": "kbn",  # with no date, the same figures give the same bytes
    "font.size": 9.5,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.labelcolor": "#444",
    "axes.edgecolor": "#999",
    "axes.axisbelow": True,
    "xtick.color": "#444",
    "ytick.color": "#444",
    "grid.color": "#ddd",
    "legend.frameon": False,
    "figure.constrained_layout.h_pad": 0.1,
    "figure.constrained_layout.w_pad": 0.1,
}


def require() -> None:
    """Raise `MissingDependencyError` when nothing can be drawn, before the work to draw it."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("drawing plots", extra="lab") from error


@contextmanager
def figure(
    path: Path, *, title: str, x: str, y: str, height: float = HEIGHT_INCHES
) -> Iterator[Axes]:
    """Axes to draw on; the figure is written to `path` (.svg or .png) when the block ends."""
    assert x and y, f"{path.name}: say what each axis measures"
    require()
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        drawn = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
        FigureCanvasAgg(drawn)
        axes = drawn.add_subplot()
        axes.set(title=title, xlabel=x, ylabel=y)
        axes.grid(True)
        axes.spines[["top", "right"]].set_visible(False)
        yield axes
        _add_legend(drawn, axes)
        drawn.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _add_legend(drawn: Figure, axes: Axes) -> None:
    """Put the names of the series below the plot, where they cover nothing; one needs none."""
    handles, names = axes.get_legend_handles_labels()
    if len(names) < 2:
        return
    longest = max(map(len, names))
    columns = max(1, min(len(names), 90 // (longest + 6)))
    rows = -(-len(names) // columns)
    drawn.set_figheight(drawn.get_figheight() + LEGEND_ROW_INCHES * rows)
    drawn.legend(handles, names, loc="outside lower left", ncols=columns)


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
    points = [point for each in series.values() for point in each]
    with figure(path, title=title, x=x, y=y) as axes:
        for index, (name, each) in enumerate(series.items()):
            xs, ys = zip(*each, strict=True)
            axes.plot(
                xs,
                ys,
                label=name,
                color=COLOURS[index % len(COLOURS)],
                marker=MARKERS[index % len(MARKERS)],
                markersize=4 if len(xs) <= MARKED_MAX else 0,
                linestyle=STYLES[index // len(COLOURS) % len(STYLES)],
            )
        _set_scale(axes.xaxis, [at for at, _ in points], log_x)
        _set_scale(axes.yaxis, [value for _, value in points], log_y)
    return path


def bars(
    path: Path,
    series: Mapping[str, Mapping[str, float]],
    *,
    title: str,
    x: str,
    y: str,
    log_y: bool = False,
) -> Path:
    """Groups of bars: one group per category, in the first series' order, one bar per series.

    `x` says what the categories are, `y` what the bars measure. Long names make the bars rows.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "load.svg"
    >>> bars(path, {"ours": {"east": 2, "west": 4}}, title="Load", x="broker", y="clients").name
    'load.svg'
    """
    categories = list(next(iter(series.values()), {}))
    heights = [height for each in series.values() for height in each.values()]
    if max(map(len, categories), default=0) > LABEL_MAX and _length(categories) > LEVEL_MAX:
        rows = len(categories) * (1 + len(series) / 4)
        with figure(path, title=title, x=y, y=x, height=1.0 + BAR_INCHES * rows) as axes:
            _draw_bars(axes.barh, series, categories)
            axes.set_yticks(range(len(categories)), categories)
            axes.invert_yaxis()
            axes.grid(False, axis="y")
            axes.margins(y=0.02)
            _set_scale(axes.xaxis, heights, log_y)
        return path
    with figure(path, title=title, x=x, y=y) as axes:
        _draw_bars(axes.bar, series, categories)
        turned = 90 if _length(categories) > LEVEL_MAX else 0
        axes.set_xticks(range(len(categories)), categories, rotation=turned)
        axes.grid(False, axis="x")
        _set_scale(axes.yaxis, heights, log_y)
    return path


def _draw_bars(
    draw: Callable[..., object],
    series: Mapping[str, Mapping[str, float]],
    categories: Sequence[str],
) -> None:
    width = 0.8 / max(1, len(series))
    for index, (name, heights) in enumerate(series.items()):
        present = [(place, heights[c]) for place, c in enumerate(categories) if c in heights]
        shift = (index - (len(series) - 1) / 2) * width
        draw(
            [place + shift for place, _ in present],
            [height for _, height in present],
            width,
            label=name,
            color=COLOURS[index % len(COLOURS)],
        )


def _length(names: Sequence[str]) -> int:
    """How much room names need side by side, in characters."""
    return sum(len(name) + 1 for name in names)


def _set_scale(axis: Axis, values: Sequence[float], log: bool) -> None:
    """A scale with ticks that people read: whole for counts, thousands apart, no offsets."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter, StrMethodFormatter

    known = [float(value) for value in values if value is not None]
    whole = all(value.is_integer() for value in known)
    if log:
        axes = axis.axes
        (axes.set_xscale if axis is axes.xaxis else axes.set_yscale)("log")
        if whole or max(known, default=0.0) >= 1000:
            axis.set_major_formatter(StrMethodFormatter("{x:,.4g}"))
        return
    if whole:
        axis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    if whole or max(map(abs, known), default=0.0) >= 1000:
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    else:
        axis.set_major_formatter(ScalarFormatter(useOffset=False))
