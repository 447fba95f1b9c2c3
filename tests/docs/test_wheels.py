"""Both distributions can be built and work without the checkout, including templates and static files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest
from docs.pages import ROOT
from wait import wait_until

SERVER = """
import ariadne, compact, django, viewer
django.setup()
from django.contrib.staticfiles import finders
from django.template.loader import get_template
assert get_template("sessions/session_detail.html") and finders.find("css/pages/plain.css")
print(*(module.__file__ for module in (ariadne, viewer, compact)), finders.find("js/pages/plain.js"), sep="\\n")
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
def distributions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Wheel and sdist of both distributions."""
    folder = tmp_path_factory.mktemp("dist")
    for source in (ROOT, ROOT / "compact_client"):
        run("-m", "build", "--no-isolation", "--outdir", str(folder), str(source), cwd=folder)
    files = sorted(folder.iterdir())
    assert [file.suffix for file in files] == [".whl", ".gz", ".whl", ".gz"]
    return files


def wheels(distributions: list[Path]) -> list[str]:
    return [str(file) for file in distributions if file.suffix == ".whl"]


@pytest.fixture(scope="module")
def installed(distributions: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install both wheels into a folder. The dependencies come from the test environment."""
    site = tmp_path_factory.mktemp("site")
    options = ("--quiet", "--no-deps", "--no-index", "--no-compile", "--target", str(site))
    run("-m", "pip", "install", *options, *wheels(distributions), cwd=site)
    return site


def names(distribution: Path) -> set[str]:
    """Return the names of the files of a wheel."""
    with zipfile.ZipFile(distribution) as wheel:
        return set(wheel.namelist())


def test_wheel_contains_bundles_and_no_modules(distributions: list[Path]) -> None:
    """Each page has its script, its stylesheet and their source maps, and nothing has to be joined on the server."""
    scripts = {f"ariadne/static/js/pages/{path.name}" for path in (ROOT / "static/js/pages").iterdir()}
    styles = {f"ariadne/static/css/pages/{path.name}" for path in (ROOT / "static/css/pages").iterdir()}
    inline = {f"ariadne/static/js/inline/{path.name}" for path in (ROOT / "static/js/inline").iterdir()}
    maps = {f"{name}.map" for name in scripts | styles}
    (server, _) = map(Path, wheels(distributions))
    contained = {name for name in names(server) if name.startswith(("ariadne/static/js/", "ariadne/static/css/"))}
    assert contained == scripts | styles | maps | inline


def test_wheel_of_an_sdist_needs_no_bundler(distributions: list[Path], tmp_path: Path) -> None:
    """The sdist contains the bundles, so that a wheel can be built from it without Node.js and without network."""
    (server,) = (file for file in distributions if file.name.startswith("ariadne_server") and file.suffix == ".gz")
    with tarfile.open(server) as archive:
        archive.extractall(tmp_path, filter="data")
    source = tmp_path / server.name.removesuffix(".tar.gz")
    run("-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source), cwd=tmp_path, PATH="")
    (wheel,) = tmp_path.glob("*.whl")
    assert names(wheel) == names(Path(wheels(distributions)[0]))


def test_distributions_pass_the_checks_of_the_package_index(distributions: list[Path], tmp_path: Path) -> None:
    """The metadata is valid, and the wheels contain only what they should."""
    run("-m", "twine", "check", "--strict", *map(str, distributions), cwd=tmp_path)
    # The server is three packages, which pyproject.toml declares.
    run("-m", "check_wheel_contents", "--config", str(ROOT / "pyproject.toml"), wheels(distributions)[0], cwd=tmp_path)
    run("-m", "check_wheel_contents", wheels(distributions)[1], cwd=tmp_path)


@pytest.mark.release
@pytest.mark.timeout(600)
def test_both_work_in_a_clean_environment(distributions: list[Path], tmp_path: Path) -> None:
    """Installed with their dependencies into a new environment, the server starts and the client sends to it."""
    environment = tmp_path / "venv"
    run("-m", "uv", "venv", "--quiet", str(environment), cwd=tmp_path)
    python = str(environment / "bin" / "python")
    run("-m", "uv", "pip", "install", "--quiet", "--python", python, *wheels(distributions), cwd=tmp_path)
    clean = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "DJANGO_SETTINGS_MODULE"}}
    log = tmp_path / "server.log"
    with log.open("wb") as out:
        command = [str(environment / "bin" / "ariadne-server"), "--port", "0", "--data-dir", "data", "--no-demo"]
        server = subprocess.Popen(command, cwd=tmp_path, env=clean, stdout=out, stderr=subprocess.STDOUT)
    try:
        assert wait_until(lambda: "Ariadne is up" in log.read_text(), timeout_s=120), log.read_text()
        credentials = json.loads((tmp_path / "data" / "credentials.json").read_text())
        client = {**clean, "ARIADNE_URL": credentials["url"], "ARIADNE_API_KEY": credentials["ingest_key"]}
        program = (
            "from compact import *; e = AriadneExporter();"
            "m = CompactManager(CompactConfig(model='gpt-5', max_context_tokens=4_000, exporter=e));"
            "m.preflight('s', [{'role': 'user', 'content': 'Go on. ' * 200} for _ in range(40)]); print(e.flush(20))"
        )
        result = subprocess.run([python, "-c", program], env=client, capture_output=True, text=True, check=True)
        assert result.stdout == "True\n", result.stderr
        page = urllib.request.urlopen(f"{credentials['url']}/login/", timeout=10).read().decode()
        styles = re.findall(r'href="(/static/[^"]+\.css)"', page)
        assert styles
        for address in styles:
            assert urllib.request.urlopen(credentials["url"] + address, timeout=10).status == 200
    finally:
        server.terminate()
        assert server.wait(timeout=60) == 0


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
    assert re.search(r"^## \[(\S+)\]", (folder / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == version  # type: ignore[index]
    packages = [folder / name for name in ("ariadne", "ingest", "viewer", "src/compact") if (folder / name).exists()]
    repeated = [file for package in packages for file in package.rglob("*.py") if f'"{version}"' in file.read_text()]
    assert repeated == []


def test_both_have_one_minor_version_with_upgrade_notes() -> None:
    """The server uses modules of the library, so it requires the same minor version."""
    server, client = (
        tomllib.loads((folder / "pyproject.toml").read_text())["project"] for folder in (ROOT, ROOT / "compact_client")
    )
    minor = ".".join(server["version"].split(".")[:2])
    assert client["version"].startswith(f"{minor}.")
    assert f"compact-client~={minor}.0" in server["dependencies"]
    assert f"to {minor}.0" in (ROOT / "docs" / "howto" / "upgrade.md").read_text()
