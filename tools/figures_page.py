"""Write docs/FIGURES.md, the definitions of all figures, from their table: `python -m tools.figures_page`."""

from __future__ import annotations

from pathlib import Path

from ingest.storage.figures.table import FIGURES, Figure

PAGE = Path(__file__).resolve().parent.parent / "docs" / "FIGURES.md"
_INTRODUCTION = """\
# Figures

Every figure has one definition, in `ingest/storage/figures/table.py`. Commits, trends, the recount, REST, comparisons
and the pages are derived from it. `python -m tools.figures_page` writes this page.

*Session* is the field of `GET /api/sessions/`, and *hour* the field of `GET /api/trends/`. Figures that have neither
are computed when a page is opened.

| figure | definition | session | hour | better |
|---|---|---|---|---|
"""


def page() -> str:
    """Return the text of the page."""
    return _INTRODUCTION + "".join(map(_line, FIGURES))


def _line(figure: Figure) -> str:
    if not figure.label:
        return ""
    columns = (f"`{name}`" if name else "" for name in (figure.column, figure.hourly))
    return f"| {' | '.join((figure.label, figure.definition, *columns, figure.better))} |\n"


if __name__ == "__main__":
    PAGE.write_text(page())
