"""Static files under hashed names, so that a browser may keep them for ever and never shows an old one.

The imports of ES modules are rewritten too: a module is fetched by the name that its importer was built with.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from whitenoise.compress import Compressor
from whitenoise.storage import CompressedManifestStaticFilesStorage

# The browsable API is off, so nobody asks for its files.
_UNUSED = ["rest_framework"]


class HashedStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    support_js_module_import_aggregation = True
    manifest_strict = False

    def stored_name(self, name: str) -> str:
        # Before `collect` has run (in tests, say) files go by their plain names.
        return str(super().stored_name(name)) if self.hashed_files else name

    def create_compressor(self, **options: Any) -> Compressor:
        # Brotli at its best setting takes seconds, and only where a test tool happened to bring it.
        return Compressor(**options, use_brotli=False)


def collect() -> None:
    """Collect, hash and compress, unless nothing has changed since the last time: that costs seconds."""
    stamp = Path(settings.STATIC_ROOT) / ".collected"
    now = _fingerprint()
    if stamp.exists() and stamp.read_text() == now:
        return
    call_command("collectstatic", verbosity=0, interactive=False, ignore_patterns=_UNUSED)
    stamp.write_text(now)


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for finder in get_finders():
        for path, storage in finder.list(_UNUSED):
            status = Path(storage.path(path)).stat()
            digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
