"""Template tags for scripts and styles. Each page loads only its own modules."""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from django import template
from django.conf import settings
from django.contrib.staticfiles.finders import find
from django.contrib.staticfiles.storage import staticfiles_storage
from django.template import Context
from django.templatetags.static import static
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from viewer.stylesheets import bundle_name

register = template.Library()

_STYLES = "styles"
_IMPORT = re.compile(r'^(?:import|export)\b[^"]*"(\.{1,2}/[\w./-]+)\.js"', re.M)


@register.simple_tag(takes_context=True)
def styles(context: Context, *names: str) -> str:
    """Add stylesheets to the page. `stylesheet` loads all of them at once."""
    _page_styles(context).extend(names)
    return ""


@register.simple_tag(takes_context=True)
def stylesheet(context: Context) -> SafeString:
    """Load the stylesheets of the page: one file if they have been collected, else each on its own."""
    names = _page_styles(context)
    bundle = bundle_name(names)
    files = [bundle] if is_collected(bundle) else [f"css/{name}.css" for name in names]
    return format_html_join("\n    ", '<link rel="stylesheet" href="{}">', ((static(name),) for name in files))


@register.simple_tag
def inline_script(name: str) -> SafeString:
    """Insert a short script that must run before the first paint. The content security policy allows it by its hash."""
    return format_html("<script>{}</script>", mark_safe(settings.INLINE_SCRIPTS[name]))  # noqa: S308 - our own file


def _page_styles(context: Context) -> list[str]:
    values: dict[Any, Any] = context.render_context  # type: ignore[assignment]
    return cast("list[str]", values.setdefault(_STYLES, []))


def is_collected(name: str) -> bool:
    return name in getattr(staticfiles_storage, "hashed_files", {})


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
