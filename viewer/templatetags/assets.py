"""Template tags for scripts and styles. Each page loads only its own modules."""

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
    urls = (static(f"css/{name}.css") for name in names)
    return format_html_join("\n    ", '<link rel="stylesheet" href="{}">', ((url,) for url in urls))


@register.simple_tag
def scripts(*names: str) -> SafeString:
    """Load modules and preload their imports. Without preloads, the browser would discover them level by level."""
    preloads = (static(f"js/{name}.js") for name in imports_of(names))
    modules = (static(f"js/{name}.js") for name in names)
    return format_html(
        "{}\n    {}",
        format_html_join("\n    ", '<link rel="modulepreload" href="{}">', ((url,) for url in preloads)),
        format_html_join("\n    ", '<script type="module" src="{}"></script>', ((url,) for url in modules)),
    )


@register.simple_tag
def prefetch_scripts(*names: str) -> SafeString:
    """Prefetch the modules of the page that most users open next."""
    urls = (static(f"js/{name}.js") for name in (*names, *imports_of(names)))
    return format_html_join("\n    ", '<link rel="prefetch" href="{}">', ((url,) for url in urls))


@lru_cache(maxsize=64)
def imports_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return all modules that the given modules import, directly or not, without the given ones."""
    imports: set[str] = set()
    pending = list(names)
    while pending:
        importer = pending.pop()
        for path in _IMPORT.findall(_read_module(importer)):
            name = posixpath.normpath(posixpath.join(posixpath.dirname(importer), path))
            if name not in imports and name not in names:
                imports.add(name)
                pending.append(name)
    return tuple(sorted(imports))


def _read_module(name: str) -> str:
    path = find(f"js/{name}.js")
    assert isinstance(path, str), f"no module {name}"
    return Path(path).read_text()
