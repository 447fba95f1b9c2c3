"""Optional packages that a command needs."""

from __future__ import annotations

import importlib

from compact.cli import exit_codes


def require(package: str, *, extra: str, hint: str = "") -> None:
    """Stop with the install command if a package is missing."""
    try:
        importlib.import_module(package)
    except ImportError:
        message = f"This command needs the package {package}: pip install 'compact-client[{extra}]'{hint}"
        raise exit_codes.Stop(exit_codes.USAGE, message) from None
