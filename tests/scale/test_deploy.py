"""deploy/, docker-compose.yml and the Dockerfile say what they mean: parsed, interpolated, run where possible."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from live_server import ROOT, Server

COMPOSE = (ROOT / "docker-compose.yml").read_text()
SECRETS = {"POSTGRES_PASSWORD": "p4ss", "ARIADNE_SECRET_KEY": "s3cret"}
OURS = {"migrate", "web", "distribute"}


def interpolate(text: str, environment: dict[str, str]) -> str:
    """Compose's own rules: ${NAME:-default} and ${NAME:?message}."""

    def value(match: re.Match[str]) -> str:
        name, kind, rest = match.group("name"), match.group("kind"), match.group("rest")
        if found := environment.get(name):
            return found
        if kind == ":?":
            raise KeyError(f"{name}: {rest}")
        assert kind == ":-", f"{match.group()} has neither a default nor a demand"
        return rest or ""

    return re.sub(r"\$\{(?P<name>[A-Z_]+)(?:(?P<kind>:[-?])(?P<rest>[^}]*))?\}", value, text)


def compose(**environment: str) -> dict[str, Any]:
    content = yaml.safe_load(interpolate(COMPOSE, {**SECRETS, **environment}))
    assert isinstance(content, dict)
    return content


def services(*profiles: str, **environment: str) -> dict[str, Any]:
    found: dict[str, Any] = compose(**environment)["services"]
    return {
        name: service
        for name, service in found.items()
        if not service.get("profiles") or set(service["profiles"]) & set(profiles)
    }


def example_environment(*sections: str) -> dict[str, str]:
    """deploy/env.example with its secrets filled in and the named sections uncommented."""
    found, section = {}, ""
    for line in (ROOT / "deploy/env.example").read_text().splitlines():
        if match := re.match(r"# With --profile (\w+):", line):
            section = match.group(1)
        if match := re.match(r"(#?)([A-Z_]+)=(.*)", line):
            is_off, name, value = match.groups()
            if not is_off or section in sections:
                found[name] = value or SECRETS.get(name, "")
    return found


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_a_missing_secret_stops_compose(name: str) -> None:
    """There is no default password: compose asks for it by name."""
    with pytest.raises(KeyError, match=f"{name}: set it in .env"):
        interpolate(COMPOSE, {key: value for key, value in SECRETS.items() if key != name})


@pytest.mark.parametrize(
    ("profiles", "expected"),
    [
        ((), {"postgres", "migrate", "web"}),
        (("redis",), {"postgres", "migrate", "web", "redis", "nginx"}),
        (("citus",), {"postgres", "migrate", "web", "worker-1", "worker-2", "distribute"}),
    ],
)
def test_each_profile_has_its_services(profiles: tuple[str, ...], expected: set[str]) -> None:
    """The profiles of docs/SCALING.md, and what each waits for exists in it and has a healthcheck or an end."""
    found = services(*profiles)
    assert set(found) == expected
    for name, service in found.items():
        for needed, condition in service.get("depends_on", {}).items():
            assert needed in found, f"{name} waits for {needed}, which is not in {profiles}"
            if condition["condition"] == "service_completed_successfully":
                assert found[needed]["restart"] == "no"
            elif needed == "web":
                assert "HEALTHCHECK" in (ROOT / "Dockerfile").read_text()
            else:
                assert "healthcheck" in found[needed]


def test_the_example_environment_fits_the_profiles() -> None:
    """Uncommenting a section of deploy/env.example gives that profile's engines to the web processes."""
    plain = services(**example_environment())
    assert plain["web"]["environment"]["REDIS_URL"] in {None, ""}
    assert plain["postgres"]["image"].startswith("postgres:")
    wide = services("redis", "citus", **example_environment("redis", "citus"))
    assert wide["web"]["environment"]["REDIS_URL"] == "redis://redis:6379/0"
    assert wide["postgres"]["image"] == wide["worker-1"]["image"] == "citusdata/citus:13.1.0"
    assert "shared_preload_libraries=citus" in wide["postgres"]["command"]
    # The same major version: a plain installation's data directory can become the coordinator's.
    assert plain["postgres"]["image"].startswith("postgres:17")


def test_no_service_of_ours_has_rights_it_does_not_need() -> None:
    """Read-only root, no capabilities, no new privileges; Postgres is not published; the image's user is not root."""
    found = services("redis", "citus")
    for name in OURS | {"nginx"}:
        service = found[name]
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    assert not any("ports" in found[name] for name in ("postgres", "redis", "worker-1", "worker-2"))
    users = re.findall(r"^USER (.+)$", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert users == ["10001:10001"]
    assert found["web"]["ports"] == ["127.0.0.1:8000:8000"]


def test_the_image_holds_what_the_server_needs() -> None:
    """Every package and folder that the server imports or serves is copied, and .dockerignore does not hide it."""
    copied = set(re.findall(r"^COPY (?:--from=\S+ )?(\S+)", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE))
    assert {"manage.py", "ariadne", "ingest", "viewer", "templates", "static", "compact_client"} <= copied
    ignored = {line.strip("/*") for line in (ROOT / ".dockerignore").read_text().split()}
    assert not ignored & copied


def test_the_health_check_tells_a_server_from_none(server: Server) -> None:
    """The command in the Dockerfile, against a server that answers and a port where none does."""
    (command,) = re.findall(r"^HEALTHCHECK .*CMD (\[.+\])$", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    _, *arguments = json.loads(command)
    for port, code in ((str(urlsplit(server.url).port), 0), ("9", 1)):
        assert subprocess.run([sys.executable, *arguments, port], cwd=ROOT, check=False).returncode == code


def test_every_volume_and_file_of_compose_exists() -> None:
    """Named volumes are declared, mounted files are in the repository."""
    content = compose()
    for service in content["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (ROOT / source).is_file() if source.startswith("./") else source in content["volumes"], source


def units() -> list[Path]:
    return sorted((ROOT / "deploy/systemd").iterdir())


@pytest.mark.parametrize("unit", units(), ids=lambda unit: unit.name)
def test_units_start_modules_that_exist(unit: Path) -> None:
    """ExecStart names a module of this repository and an environment file that may be missing."""
    text = unit.read_text()
    assert "[Unit]" in text
    for command in re.findall(r"^ExecStart=(.+)$", text, flags=re.MULTILINE):
        arguments = shlex.split(command)
        assert arguments[:2] == ["/opt/ariadne/.venv/bin/python", "-m"]
        assert (ROOT / f"{arguments[2].replace('.', '/')}.py").is_file()
        assert "NoNewPrivileges=yes" in text
        assert re.search(r"^User=ariadne$", text, flags=re.MULTILINE)


def test_systemd_reload_renews_and_does_not_stop() -> None:
    """The signal of ExecReload is the one that the supervisor renews on."""
    assert "ExecReload=/bin/kill -USR2 $MAINPID" in (ROOT / "deploy/systemd/ariadne.service").read_text()
    assert "signal.SIGUSR2, self._request_restart" in (ROOT / "ariadne/runtime/supervisor.py").read_text()


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze here: units only read, not verified"
)
@pytest.mark.parametrize("unit", units(), ids=lambda unit: unit.name)
def test_systemd_accepts_the_units(unit: Path, tmp_path: Path) -> None:
    """systemd itself finds no unknown key and no bad value; the program need not be installed to say so."""
    folder = tmp_path / "units"
    folder.mkdir()
    for other in units():
        text = re.sub(r"/opt/ariadne/.venv/bin/python", "/bin/true", other.read_text())
        (folder / other.name).write_text(text)
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(folder / unit.name)], capture_output=True, text=True, check=False
    )
    complaints = [line for line in result.stderr.splitlines() if "ariadne" in line]
    assert complaints == []
