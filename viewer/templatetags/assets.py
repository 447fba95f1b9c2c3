"""Template tags for scripts and styles.

Each page has one stylesheet and one script, in `static/css/pages/` and `static/js/pages/`. They import what the page
needs. The wheel and the image contain them bundled under the same names.
"""

from __future__ import annotations

from django import template
from django.conf import settings
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

register = template.Library()


@register.simple_tag
def page_style(name: str) -> SafeString:
    """Load the stylesheet of a page."""
    return format_html('<link rel="stylesheet" href="{}">', static(f"css/pages/{name}.css"))


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
