"""The stylesheets of each page, joined into one file when static files are collected.

Templates name them with `{% styles %}`. The frame's come first.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import find

_STYLES = re.compile(r"{%\s*styles((?:\s+\"[\w/-]+\")+)\s*%}")
_URL = re.compile(r"""url\((["']?)(?!data:|/|#)([^"')]+)\1\)""")


def page_styles() -> set[tuple[str, ...]]:
    """Return the stylesheets of each page: those of the frame, and those that its template adds."""
    engines: list[dict[str, Any]] = settings.TEMPLATES
    root = Path(engines[0]["DIRS"][0])
    base = _style_names((root / "base.html").read_text())
    return {tuple(base + _style_names(path.read_text())) for path in root.rglob("*.html") if path.name != "base.html"}


def _style_names(template: str) -> list[str]:
    return [name.strip('"') for match in _STYLES.findall(template) for name in match.split()]


def bundle_name(names: Iterable[str]) -> str:
    """Return the name of the file that contains these stylesheets."""
    return f"css/page-{hashlib.sha256(' '.join(names).encode()).hexdigest()[:12]}.css"


def join_styles(names: Iterable[str]) -> str:
    """Return the text of stylesheets, with addresses relative to the folder `css`."""
    parts = []
    for name in names:
        path = find(f"css/{name}.css")
        assert isinstance(path, str), f"no stylesheet {name}"
        folder = posixpath.dirname(name)

        def rewrite(match: re.Match[str], folder: str = folder) -> str:
            return f'url("{posixpath.normpath(posixpath.join(folder, match[2]))}")'

        parts.append(_URL.sub(rewrite, Path(path).read_text()))
    return "\n".join(parts)
