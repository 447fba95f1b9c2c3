"""Serve static files under hashed names, so that browsers can cache them indefinitely.

The stylesheets of each page are joined into one file, and so are its scripts. The modules that scripts are joined from
are not served.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from whitenoise.compress import Compressor
from whitenoise.storage import CompressedManifestStaticFilesStorage

from viewer import scripts, stylesheets

# The browsable API is disabled, so its files are not collected.
_UNUSED = ["rest_framework"]


class HashedStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    manifest_strict = False

    def stored_name(self, name: str) -> str:
        # Before `collect` has run, for example in tests, files keep their plain names.
        return str(super().stored_name(name)) if self.hashed_files else name

    def create_compressor(self, **options: Any) -> Compressor:
        # Brotli takes seconds, and it is installed only as a dependency of a test tool.
        return Compressor(**options, use_brotli=False)

    def post_process(self, paths: dict[str, Any], dry_run: bool = False, **options: Any) -> Iterator[Any]:
        """Hash and compress the files, and the stylesheet and the script of each page."""
        for name in _joined_modules() & set(paths):
            del paths[name]
            if not dry_run:
                self.delete(name)
        for name, text in () if dry_run else _joined_files():
            Path(self.path(name)).write_text(text)
            paths[name] = (self, name)
        yield from super().post_process(paths, dry_run, **options)


def _joined_files() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each joined file."""
    for names in stylesheets.page_styles():
        yield stylesheets.bundle_name(names), stylesheets.join_styles(names)
    for modules in set(scripts.page_scripts().values()):
        yield scripts.bundle_name(modules), scripts.join_scripts(modules)


def _joined_modules() -> set[str]:
    """Return the names of the modules that are part of a joined file."""
    pages = set(scripts.page_scripts().values())
    return {f"js/{module}.js" for names in pages for module in scripts.module_order(names)}


def collect() -> None:
    """Collect, hash and compress the files. Skips the work, which takes seconds, if nothing has changed."""
    stamp = Path(settings.STATIC_ROOT) / ".collected"
    now = _fingerprint()
    if stamp.exists() and stamp.read_text() == now:
        return
    call_command("collectstatic", verbosity=0, interactive=False, ignore_patterns=_UNUSED)
    stamp.write_text(now)


def _fingerprint() -> str:
    pages = sorted(stylesheets.page_styles()), sorted(scripts.page_scripts().values())
    digest = hashlib.sha256(repr(pages).encode())
    for finder in get_finders():
        for path, storage in finder.list(_UNUSED):
            status = Path(storage.path(path)).stat()
            digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
