"""Where things lie: beside the packages in a checkout, inside this one once it is installed from a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_IS_INSTALLED = (_PACKAGE / "templates").is_dir()

PAGES = _PACKAGE if _IS_INSTALLED else _PACKAGE.parent
"""The folder of `templates` and `static`."""
ROOT = Path.cwd() if _IS_INSTALLED else _PACKAGE.parent
"""What a relative DATA_DIR is meant from: nobody wants data among installed packages."""
