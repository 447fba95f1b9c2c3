"""Locked dependencies are installed with uv, or with pip where uv does not work."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
INSTALL = ROOT / "tools" / "install.py"
UV_LOCK = ROOT / "requirements" / "uv.txt"
BROKEN_UV = "#!/bin/sh\necho 'error: no index' >&2\nexit 2\n"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one wheel, and a lock file for it."""
    folder = tmp_path_factory.mktemp("wheels")
    files = {
        "amphora.py": b"CONTENT = 'oil'\n",
        "amphora-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: amphora\nVersion: 1.0\n",
        "amphora-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()},{len(content)}"
        for name, content in files.items()
    ]
    files["amphora-1.0.dist-info/RECORD"] = "\n".join([*rows, "amphora-1.0.dist-info/RECORD,,", ""]).encode()
    wheel = folder / "amphora-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (folder / "lock.txt").write_text(f"amphora==1.0 --hash=sha256:{digest}\n")
    (folder / "wrong.txt").write_text(f"amphora==1.0 --hash=sha256:{digest[::-1]}\n")
    return folder


@pytest.fixture(scope="module")
def new_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environments") / "new"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder


@pytest.fixture
def environment(new_environment: Path, tmp_path: Path) -> Path:
    """A new virtual environment in a folder with a space."""
    return shutil.copytree(new_environment, tmp_path / "new environment", symlinks=True)


def install(environment: Path, lock: Path, path: str) -> subprocess.CompletedProcess[str]:
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(lock.parent), "PIP_CONFIG_FILE": os.devnull}
    offline |= {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(lock.parent), "UV_OFFLINE": "1"}
    return subprocess.run(
        [str(environment / "bin" / "python"), str(INSTALL), str(lock)],
        env={**os.environ, **offline, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def content(environment: Path) -> str:
    command = [str(environment / "bin" / "python"), "-c", "import amphora; print(amphora.CONTENT, amphora.__cached__)"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_uv_installs_where_it_is_on_path(environment: Path, wheels: Path) -> None:
    """The output is a pipe, and still says what happens."""
    result = install(environment, wheels / "lock.txt", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert result.returncode == 0, result.stderr
    assert "Resolved 1 package" in result.stdout
    assert "1 packages, " in result.stdout
    assert content(environment).startswith("oil")
    assert list(environment.rglob("__pycache__/amphora.*.pyc")), "compiled when it was installed"


@pytest.mark.parametrize("uv", [BROKEN_UV, None])
def test_pip_installs_where_uv_does_not_work(environment: Path, wheels: Path, tmp_path: Path, uv: str | None) -> None:
    """A uv that fails, and no uv in the index."""
    (tmp_path / "bin").mkdir()
    if uv:
        (tmp_path / "bin" / "uv").write_text(uv)
        (tmp_path / "bin" / "uv").chmod(0o755)
    result = install(environment, wheels / "lock.txt", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert result.returncode == 0, result.stderr
    assert f"uv does not work here: {'error: no index' if uv else 'not found'}" in result.stdout
    assert "Installing collected packages" in result.stdout
    assert content(environment).startswith("oil")


def test_a_wrong_hash_installs_nothing(environment: Path, wheels: Path) -> None:
    """The error names the package."""
    result = install(environment, wheels / "wrong.txt", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert result.returncode != 0
    assert "amphora" in result.stderr
    assert content(environment) == ""


def test_the_version_of_uv_is_that_of_the_test_tools() -> None:
    """One version, with its hashes, in both lock files."""
    lock = UV_LOCK.read_text()
    assert lock.startswith("uv==")
    assert lock in (ROOT / "requirements" / "dev.txt").read_text()
