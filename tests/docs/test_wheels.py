"""Both distributions can be built and work without the checkout, including templates and static files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from docs.pages import ROOT

SERVER = """
import ariadne, compact, django, viewer
django.setup()
from django.contrib.staticfiles import finders
from django.template.loader import get_template
assert get_template("sessions/session_detail.html") and finders.find("js/app.js") and finders.find("css/tokens.css")
print(*(module.__file__ for module in (ariadne, viewer, compact)), finders.find("js/app.js"), sep="\\n")
"""


def run(*command: str, cwd: Path, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install both wheels into a folder. The dependencies come from the test environment."""
    wheels, site = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("site")
    for source in (ROOT, ROOT / "compact_client"):
        run("-m", "build", "--wheel", "--no-isolation", "--outdir", str(wheels), str(source), cwd=wheels)
    paths = sorted(map(str, wheels.glob("*.whl")))
    assert len(paths) == 2
    run(
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-compile",
        "--target",
        str(site),
        *paths,
        cwd=wheels,
    )
    return site


def test_installed_server_has_pages_and_commands(installed: Path, tmp_path: Path) -> None:
    """`python -m ariadne` works in any folder and uses no file of the checkout."""
    environment = {"PYTHONPATH": str(installed), "DATA_DIR": "data", "DJANGO_SETTINGS_MODULE": "ariadne.settings"}
    for line in run("-c", SERVER, cwd=tmp_path, **environment).splitlines():
        assert Path(line).is_relative_to(installed)
    assert "no issues" in run("-m", "ariadne", "check", cwd=tmp_path, **environment)
    assert (tmp_path / "data").is_dir()


def test_installed_client_has_vocabularies_and_templates(installed: Path, tmp_path: Path) -> None:
    """Tokens are counted offline, and `compactctl` starts."""
    program = (
        "import compact; from compact import Message, TiktokenEstimator; print(compact.__file__);"
        "print(TiktokenEstimator().estimate([Message('user', 'hello')], 'gpt-5'))"
    )
    file, tokens = run("-c", program, cwd=tmp_path, PYTHONPATH=str(installed)).splitlines()
    assert Path(file).is_relative_to(installed)
    assert int(tokens) > 0
    assert list((installed / "compact" / "summarizers" / "templates").glob("*.md"))
    assert "dry-run" in run("-m", "compact.cli", "--help", cwd=tmp_path, PYTHONPATH=str(installed))


@pytest.mark.parametrize("folder", [ROOT, ROOT / "compact_client"], ids=["server", "client"])
def test_version_is_defined_once(folder: Path) -> None:
    """Only pyproject.toml defines the version, and the changelog starts with it."""
    version = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["version"]
    assert re.search(r"^## (\S+)", (folder / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == version  # type: ignore[index]
    packages = [folder / name for name in ("ariadne", "ingest", "viewer", "src/compact") if (folder / name).exists()]
    repeated = [file for package in packages for file in package.rglob("*.py") if f'"{version}"' in file.read_text()]
    assert repeated == []
