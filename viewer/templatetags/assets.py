"""Template tags for scripts and styles. Each page loads only its own modules."""

from __future__ import annotations

from typing import Any, cast

from django import template
from django.conf import settings
from django.contrib.staticfiles.storage import staticfiles_storage
from django.template import Context
from django.templatetags.static import static
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from viewer.scripts import bundle_name as scripts_bundle
from viewer.scripts import page_scripts
from viewer.stylesheets import bundle_name as styles_bundle

register = template.Library()

_STYLES = "styles"
_SCRIPTS = "scripts"


@register.simple_tag(takes_context=True)
def styles(context: Context, *names: str) -> str:
    """Add stylesheets to the page. `stylesheet` loads all of them at once."""
    _page_names(context, _STYLES).extend(names)
    return ""


@register.simple_tag(takes_context=True)
def stylesheet(context: Context) -> SafeString:
    """Load the stylesheets of the page: one file if they have been collected, else each on its own."""
    names = _page_names(context, _STYLES)
    bundle = styles_bundle(names)
    files = [bundle] if is_collected(bundle) else [f"css/{name}.css" for name in names]
    return format_html_join("\n    ", '<link rel="stylesheet" href="{}">', ((static(name),) for name in files))


@register.simple_tag
def inline_script(name: str) -> SafeString:
    """Insert a short script that must run before the first paint. The content security policy allows it by its hash."""
    return format_html("<script>{}</script>", mark_safe(settings.INLINE_SCRIPTS[name]))  # noqa: S308 - our own file


def _page_names(context: Context, kind: str) -> list[str]:
    values: dict[Any, Any] = context.render_context  # type: ignore[assignment]
    return cast("list[str]", values.setdefault(kind, []))


def is_collected(name: str) -> bool:
    return name in getattr(staticfiles_storage, "hashed_files", {})


@register.simple_tag(takes_context=True)
def scripts(context: Context, *names: str) -> str:
    """Add modules to the page. `modules` loads all of them at once."""
    _page_names(context, _SCRIPTS).extend(names)
    return ""


@register.simple_tag(takes_context=True)
def modules(context: Context) -> SafeString:
    """Load the modules of the page: one file if they have been collected, else each with its imports."""
    names = tuple(dict.fromkeys(_page_names(context, _SCRIPTS)))
    bundle = scripts_bundle(names)
    files = [bundle] if is_collected(bundle) else [f"js/{name}.js" for name in names]
    return format_html_join("\n    ", '<script type="module" src="{}"></script>', ((static(name),) for name in files))


@register.simple_tag
def prefetch_page(template_name: str) -> SafeString:
    """Prefetch the script of the page that most users open next. `app.js` starts it when this page has loaded."""
    bundle = scripts_bundle(page_scripts()[template_name])
    if not is_collected(bundle):
        return mark_safe("")
    return format_html('<template data-prefetch><link rel="prefetch" href="{}"></template>', static(bundle))
