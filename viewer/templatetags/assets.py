"""The scripts and styles of a page, each page only its own: a browser asks for every file one by one."""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache
from pathlib import Path

from django import template
from django.contrib.staticfiles.finders import find
from django.templatetags.static import static
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()

_IMPORT = re.compile(r'^(?:import|export)\b[^"]*"(\.{1,2}/[\w./-]+)\.js"', re.M)


@register.simple_tag
def styles(*names: str) -> SafeString:
    return format_html_join(
        "\n    ", '<link rel="stylesheet" href="{}">', ((static(f"css/{name}.css"),) for name in names)
    )


@register.simple_tag
def scripts(*names: str) -> SafeString:
    """These modules, and a preload for each that they import: the browser would find those out one level at a time."""
    preloads = (static(f"js/{name}.js") for name in imported(names))
    return format_html(
        "{}\n    {}",
        format_html_join("\n    ", '<link rel="modulepreload" href="{}">', ((address,) for address in preloads)),
        format_html_join(
            "\n    ", '<script type="module" src="{}"></script>', ((static(f"js/{name}.js"),) for name in names)
        ),
    )


@register.simple_tag
def scripts_of_the_next_page(*names: str) -> SafeString:
    """What the page that most readers open next will import, fetched while this one is read."""
    wanted = (static(f"js/{name}.js") for name in (*names, *imported(names)))
    return format_html_join("\n    ", '<link rel="prefetch" href="{}">', ((address,) for address in wanted))


@lru_cache(maxsize=64)
def imported(names: tuple[str, ...]) -> tuple[str, ...]:
    """What the modules import, and what those import; they themselves are left out."""
    found: dict[str, None] = {}
    waiting = list(names)
    while waiting:
        importer = waiting.pop()
        for address in _IMPORT.findall(_source(importer)):
            name = posixpath.normpath(posixpath.join(posixpath.dirname(importer), address))
            if name not in found and name not in names:
                found[name] = None
                waiting.append(name)
    return tuple(sorted(found))


def _source(name: str) -> str:
    path = find(f"js/{name}.js")
    assert isinstance(path, str), f"no module {name}"
    return Path(path).read_text()
