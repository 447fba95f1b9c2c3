"""Template tags for scripts and styles.

Each page has one stylesheet and one script, in `static/css/pages/` and `static/js/pages/`. They import what the page
needs. The wheel and the image contain them bundled under the same names.
"""

from __future__ import annotations

import posixpath
import re
from functools import cache
from pathlib import Path

from django import template
from django.conf import settings
from django.contrib.staticfiles.finders import find
from django.templatetags.static import static
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

_IMPORT = re.compile(r'^@import "([\w./-]+)";$', re.M)


@register.simple_tag
def page_style(name: str) -> SafeString:
    """Load the stylesheet of a page, and what it imports at the same time."""
    sheet = f"css/pages/{name}.css"
    imported = ((static(other),) for other in imported_styles(sheet))
    preloads = format_html_join("", '\n    <link rel="preload" as="style" href="{}">', imported)
    return format_html('<link rel="stylesheet" href="{}">{}', static(sheet), preloads)


@cache
def imported_styles(name: str) -> tuple[str, ...]:
    """Return the stylesheets that one imports, directly or not. A bundle imports none.

    In a checkout, the browser would find them one level after the other, before it can paint. Preloading modules too
    delays the first paint, which does not need them.
    """
    path = find(name)
    assert isinstance(path, str), f"no stylesheet {name}"
    folder, text = posixpath.dirname(name), Path(path).read_text()
    names = [posixpath.normpath(posixpath.join(folder, other)) for other in _IMPORT.findall(text)]
    return tuple(dict.fromkeys(other for name in names for other in (name, *imported_styles(name))))


@register.simple_tag
def page_script(name: str) -> SafeString:
    """Load the script of a page."""
    return format_html('<script type="module" src="{}"></script>', static(f"js/pages/{name}.js"))


@register.simple_tag
def prefetch_page(name: str) -> SafeString:
    """Prefetch the script of the page that most users open next. `app.js` starts it when this page has loaded."""
    address = static(f"js/pages/{name}.js")
    return format_html('<template data-prefetch><link rel="prefetch" href="{}"></template>', address)


@register.simple_tag
def inline_script(name: str) -> SafeString:
    """Insert a short script that must run before the first paint. The content security policy allows it by its hash."""
    return format_html("<script>{}</script>", mark_safe(settings.INLINE_SCRIPTS[name]))  # noqa: S308 - our own file
