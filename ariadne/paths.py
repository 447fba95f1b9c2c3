"""Locations of templates, static files and data, in a checkout and in an installed wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_IS_INSTALLED = (_PACKAGE / "templates").is_dir()

PAGES = _PACKAGE if _IS_INSTALLED else _PACKAGE.parent
"""The folder that contains `templates` and `static`."""
ROOT = Path.cwd() if _IS_INSTALLED else _PACKAGE.parent
"""The folder that a relative DATA_DIR starts from. Installed, it is the working directory, not site-packages."""
