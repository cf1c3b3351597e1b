"""Pages of results: tables and plots in one HTML file that needs nothing else."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

MEDIA_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}

# A page is for reading; the whole of a longer table is in its parquet file.
MAX_ROWS = 200


def whole_page(title: str, body: str) -> str:
    """The page: `title` is text, `body` is HTML.

    >>> "<title>Tea</title>" in whole_page("Tea", "<p>Hot.</p>")
    True
    """
    return _PAGE.replace("{title}", escape(title)).replace("{body}", body)


def image(path: Path) -> str:
    """A plot, inside the page.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "dot.svg"
    >>> _ = path.write_text("<svg/>")
    >>> image(path)
    '<img alt="plot: dot" src="data:image/svg+xml;base64,PHN2Zy8+">'
    """
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    kind = MEDIA_TYPES[path.suffix]
    return f'<img alt="plot: {escape(path.stem)}" src="data:{kind};base64,{data}">'


def html_table(data: pa.Table, caption: str) -> str:
    """The first rows of a table, numbers to the right.

    >>> import pyarrow as pa
    >>> page = html_table(pa.table({"brokers": [3]}), "Sizes")
    >>> page.startswith("<table><caption>Sizes</caption>")
    True
    """
    shown = data.slice(0, MAX_ROWS)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in shown.column_names)
    rows = "\n".join(
        "<tr>" + "".join(_cell(row[name]) for name in shown.column_names) + "</tr>"
        for row in shown.to_pylist()
    )
    if data.num_rows > MAX_ROWS:
        caption += f" (the first {MAX_ROWS} of {data.num_rows} rows)"
    return (
        f"<table><caption>{escape(caption)}</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table>"
    )


def _cell(value: object) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"<td{' class=n' if number else ''}>{escape(shown(value))}</td>"


def shown(value: object) -> str:
    """A value as a table cell shows it: four significant digits, thousands apart.

    >>> shown(1234567), shown(3.14159), shown(12345.678), shown(None), shown("a")
    ('1,234,567', '3.142', '12,346', '', 'a')
    """
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
section { margin-top: 3rem; }
.run, .note { opacity: .75; font-size: .9em; }
.tables { display: flex; flex-wrap: wrap; gap: 2rem; overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #8884; text-align: left; }
.n { text-align: right; font-variant-numeric: tabular-nums; }
img { max-width: 100%; background: #fff; display: block; margin: 1rem 0; }
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""
