"""Pages of results: one template for every page, in one HTML file that needs nothing else.

A page has a title, a lead, links to its sections, and the sections; a section has a heading, a lead
and blocks: plots side by side, tables that scroll inside the page when they are too large for it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

MEDIA_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}

# A page is for reading; the whole of a longer table is in its parquet file.
MAX_ROWS = 200


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: `title` is text, `lead` and the blocks are HTML."""

    title: str
    blocks: Sequence[str]
    lead: str = ""

    @property
    def anchor(self) -> str:
        """What a link to the section names.

        >>> Section("Who wants it", []).anchor
        'who-wants-it'
        """
        return "-".join(re.findall(r"[a-z0-9]+", self.title.lower())) or "section"


def whole_page(title: str, sections: Sequence[Section], *, lead: str = "") -> str:
    """The page: `title` is text, `lead` is HTML.

    >>> "<h2>Results</h2>" in whole_page("A run", [Section("Results", ["<p>none</p>"])])
    True
    """
    links = "".join(
        f'<a href="#{section.anchor}">{escape(section.title)}</a>' for section in sections
    )
    body = "\n".join([lead, f"<nav>{links}</nav>", *(_section(one) for one in sections)])
    return _PAGE.replace("{title}", escape(title)).replace("{body}", body)


def _section(section: Section) -> str:
    head = f'<section id="{section.anchor}">\n<h2>{escape(section.title)}</h2>'
    return "\n".join([head, section.lead, *section.blocks, "</section>"])


def facts(values: Mapping[str, object]) -> str:
    """A few figures that sum a page up, each large over its name.

    >>> facts({"notifications": 1200})
    '<dl class="facts"><div><dt>notifications</dt><dd>1,200</dd></div></dl>'
    """
    each = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(shown(value))}</dd></div>"
        for name, value in values.items()
    )
    return f'<dl class="facts">{"".join(each)}</dl>'


def figures(paths: Sequence[Path]) -> str:
    """Plots inside the page, side by side where there is room; empty when there are none.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "dot.svg"
    >>> _ = path.write_text("<svg/>")
    >>> figures([path]).count("<img"), figures([])
    (1, '')
    """
    return f'<div class="figures">{"".join(image(path) for path in paths)}</div>' if paths else ""


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


def tables_beside(tables: Sequence[str]) -> str:
    """Tables side by side where there is room; empty when there are none.

    >>> tables_beside(["<table></table>"]), tables_beside([])
    ('<div class="tables"><table></table></div>', '')
    """
    return f'<div class="tables">{"".join(tables)}</div>' if tables else ""


def html_table(data: pa.Table, caption: str) -> str:
    """The first rows of a table; columns of numbers are aligned to the right.

    >>> import pyarrow as pa
    >>> page = html_table(pa.table({"brokers": [3]}), "Sizes")
    >>> "<caption>Sizes</caption>" in page and '<td class="n">3</td>' in page
    True
    """
    rows = data.slice(0, MAX_ROWS).to_pylist()
    if data.num_rows > MAX_ROWS:
        caption += f" (the first {MAX_ROWS} of {data.num_rows:,} rows)"
    numeric = {name for name in data.column_names if _is_numeric([row[name] for row in rows])}
    head = "".join(_cell("th scope=col", name, name in numeric) for name in data.column_names)
    body = "\n".join(
        f"<tr>{''.join(_cell('td', row[name], name in numeric) for name in row)}</tr>"
        for row in rows
    )
    return (
        f'<div class="table"><table><caption>{escape(caption)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def _is_numeric(values: Sequence[object]) -> bool:
    given = [value for value in values if value is not None]
    return bool(given) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in given
    )


def _cell(tag: str, value: object, numeric: bool) -> str:
    kind = ' class="n"' if numeric else ""
    return f"<{tag}{kind}>{escape(shown(value))}</{tag.split()[0]}>"


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
:root { color-scheme: light dark; --line: #8883; --soft: #8881; --mark: #0072b2; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto 4rem;
  padding: 0 1.5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; margin: 0 0 .5rem; padding-top: 1rem; border-top: 2px solid var(--mark); }
p { max-width: 60rem; margin: .5rem 0; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin: 1rem 0; }
a { color: light-dark(var(--mark), #56b4e9); }
section { margin-top: 2.5rem; }
.question { font-size: 1.1rem; }
.question::first-letter { text-transform: uppercase; }
.run, .note, .question span { opacity: .75; font-size: .875rem; }
.facts { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1rem 0; }
.facts div { display: flex; flex-direction: column-reverse; padding: .6rem 1rem;
  background: var(--soft); border-radius: .4rem; }
.facts dt { font-size: .875rem; opacity: .75; }
.facts dd { margin: 0; font-size: 1.4rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.figures { display: grid; gap: 1rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 34rem), 1fr)); align-items: start; }
img { width: 100%; max-width: 44rem; background: #fff; border: 1px solid var(--line);
  border-radius: .4rem; }
.tables { display: flex; flex-wrap: wrap; gap: 0 2.5rem; align-items: flex-start; }
.tables > * { flex: 0 1 auto; }
.table { max-width: 100%; max-height: 36rem; overflow: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .875rem; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; white-space: nowrap; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; max-width: 36rem; overflow-wrap: break-word; }
th { position: sticky; top: 0; background: Canvas; vertical-align: bottom; }
.n { text-align: right; font-variant-numeric: tabular-nums; }
tbody tr:hover { background: var(--soft); }
@media print { .table { max-height: none; } section { break-inside: avoid-page; } }
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""
