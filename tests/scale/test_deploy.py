"""Checks of deploy/, docker-compose.yml and the Dockerfile. Files are parsed, interpolated and executed if possible."""

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
    """Interpolate like compose: ${NAME:-default} and ${NAME:?message}."""

    def value(match: re.Match[str]) -> str:
        name, kind, rest = match.group("name"), match.group("kind"), match.group("rest")
        if setting := environment.get(name):
            return setting
        if kind == ":?":
            raise KeyError(f"{name}: {rest}")
        assert kind == ":-", f"{match.group()} has neither a default nor an error message"
        return rest or ""

    return re.sub(r"\$\{(?P<name>[A-Z_]+)(?:(?P<kind>:[-?])(?P<rest>[^}]*))?\}", value, text)


def compose(**environment: str) -> dict[str, Any]:
    content = yaml.safe_load(interpolate(COMPOSE, {**SECRETS, **environment}))
    assert isinstance(content, dict)
    return content


def services(*profiles: str, **environment: str) -> dict[str, Any]:
    every_service: dict[str, Any] = compose(**environment)["services"]
    return {
        name: service
        for name, service in every_service.items()
        if not service.get("profiles") or set(service["profiles"]) & set(profiles)
    }


def example_environment(*sections: str) -> dict[str, str]:
    """Return deploy/env.example with secrets filled in and the given sections uncommented."""
    variables, section = {}, ""
    for line in (ROOT / "deploy/env.example").read_text().splitlines():
        if match := re.match(r"# With --profile (\w+):", line):
            section = match.group(1)
        if match := re.match(r"(#?)([A-Z_]+)=(.*)", line):
            is_off, name, value = match.groups()
            if not is_off or section in sections:
                variables[name] = value or SECRETS.get(name, "")
    return variables


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_missing_secret_stops_compose(name: str) -> None:
    """There is no default password. The error of compose names the variable."""
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
def test_profile_has_its_services(profiles: tuple[str, ...], expected: set[str]) -> None:
    """Each profile has its services, and every dependency exists and has a health check or completes."""
    chosen = services(*profiles)
    assert set(chosen) == expected
    for name, service in chosen.items():
        for needed, condition in service.get("depends_on", {}).items():
            assert needed in chosen, f"{name} waits for {needed}, which is not in {profiles}"
            if condition["condition"] == "service_completed_successfully":
                assert chosen[needed]["restart"] == "no"
            elif needed == "web":
                assert "HEALTHCHECK" in (ROOT / "Dockerfile").read_text()
            else:
                assert "healthcheck" in chosen[needed]


def test_example_environment_matches_the_profiles() -> None:
    """Uncommenting a section of deploy/env.example configures the web processes for that profile."""
    plain = services(**example_environment())
    assert plain["web"]["environment"]["REDIS_URL"] in {None, ""}
    assert plain["postgres"]["image"].startswith("postgres:")
    wide = services("redis", "citus", **example_environment("redis", "citus"))
    assert wide["web"]["environment"]["REDIS_URL"] == "redis://redis:6379/0"
    assert wide["postgres"]["image"] == wide["worker-1"]["image"] == "citusdata/citus:13.1.0"
    assert "shared_preload_libraries=citus" in wide["postgres"]["command"]
    # The same major version, so that the data directory of a plain installation works for the coordinator.
    assert plain["postgres"]["image"].startswith("postgres:17")


def test_services_run_with_minimal_privileges() -> None:
    """Read-only root, no capabilities, no new privileges, no published database ports, and a user other than root."""
    chosen = services("redis", "citus")
    for name in OURS | {"nginx"}:
        service = chosen[name]
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    assert not any("ports" in chosen[name] for name in ("postgres", "redis", "worker-1", "worker-2"))
    users = re.findall(r"^USER (.+)$", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert users == ["10001:10001"]
    assert chosen["web"]["ports"] == ["127.0.0.1:8000:8000"]


def test_image_contains_the_server() -> None:
    """Every package and folder of the server is copied and not excluded by .dockerignore."""
    copied = set(re.findall(r"^COPY (?:--from=\S+ )?(\S+)", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE))
    assert {"manage.py", "ariadne", "ingest", "viewer", "templates", "static", "compact_client"} <= copied
    ignored = {line.strip("/*") for line in (ROOT / ".dockerignore").read_text().split()}
    assert not ignored & copied


def test_health_check_detects_a_running_server(server: Server) -> None:
    """The command of the Dockerfile succeeds for a running server and fails for an unused port."""
    (command,) = re.findall(r"^HEALTHCHECK .*CMD (\[.+\])$", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    _, *arguments = json.loads(command)
    for port, code in ((str(urlsplit(server.url).port), 0), ("9", 1)):
        assert subprocess.run([sys.executable, *arguments, port], cwd=ROOT, check=False).returncode == code


def test_compose_volumes_and_files_exist() -> None:
    """Named volumes are declared, and mounted files are in the repository."""
    content = compose()
    for service in content["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (ROOT / source).is_file() if source.startswith("./") else source in content["volumes"], source


def units() -> list[Path]:
    return sorted((ROOT / "deploy/systemd").iterdir())


@pytest.mark.parametrize("unit", units(), ids=lambda unit: unit.name)
def test_units_start_existing_modules(unit: Path) -> None:
    """ExecStart refers to a module of this repository and runs without root."""
    text = unit.read_text()
    assert "[Unit]" in text
    for command in re.findall(r"^ExecStart=(.+)$", text, flags=re.MULTILINE):
        arguments = shlex.split(command)
        assert arguments[:2] == ["/opt/ariadne/.venv/bin/python", "-m"]
        assert (ROOT / f"{arguments[2].replace('.', '/')}.py").is_file()
        assert "NoNewPrivileges=yes" in text
        assert re.search(r"^User=ariadne$", text, flags=re.MULTILINE)


def test_systemd_reload_sends_the_restart_signal() -> None:
    """ExecReload sends the signal on which the supervisor restarts the web processes."""
    assert "ExecReload=/bin/kill -USR2 $MAINPID" in (ROOT / "deploy/systemd/ariadne.service").read_text()
    assert "signal.SIGUSR2, self._request_restart" in (ROOT / "ariadne/runtime/supervisor.py").read_text()


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed, so the units are not verified"
)
@pytest.mark.parametrize("unit", units(), ids=lambda unit: unit.name)
def test_systemd_accepts_the_units(unit: Path, tmp_path: Path) -> None:
    """systemd reports no unknown key and no invalid value."""
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
