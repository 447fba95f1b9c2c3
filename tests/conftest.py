"""Real parts for every test: a throwaway Postgres, a server started the way `make up` starts it, a real Chromium."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

ROOT = Path(__file__).resolve().parent.parent
START_TIMEOUT_S = 90.0
# What would point a test's server at somebody's real one.
_NOT_INHERITED = {"DATABASE_URL", "REDIS_URL", "PORT", "DATA_DIR", "DEMO", "PROCESSES", "MAKELEVEL"}


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Postgres of this test run's own, thrown away afterwards."""
    from ariadne.embedded import THROWAWAY, Postgres

    server = Postgres(tmp_path_factory.mktemp("pg"), options={**THROWAWAY, "max_connections": "200"})
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres: Any, django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Point Django at the throwaway server before it makes its test database."""
    from django.db import connections

    connections["default"].settings_dict.update(
        HOST=str(postgres.socket_dir), PORT="", USER="ariadne", PASSWORD="", NAME="postgres"
    )


@dataclass
class Server:
    """A running Ariadne: its address, how to get in, and its supervisor's process."""

    url: str
    ingest_key: str
    logins: dict[str, dict[str, str]]
    data_dir: Path
    process: subprocess.Popen[bytes]

    @property
    def ingest_url(self) -> str:
        return f"{self.url}/ingest"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.ingest_key}"}

    @property
    def database_url(self) -> str:
        from ariadne.embedded import Postgres

        return Postgres(self.data_dir).dsn()

    @property
    def log(self) -> str:
        return (self.data_dir / "up.log").read_text(errors="replace")

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


ServerFactory = Callable[..., Server]


def _start_server(data_dir: Path, **environment: str) -> Server:
    data_dir.mkdir(parents=True, exist_ok=True)
    log, credentials = data_dir / "up.log", data_dir / "credentials.json"
    log.unlink(missing_ok=True)
    inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "ariadne.up"],
            cwd=ROOT,
            env={**inherited, "PORT": "0", "DEMO": "0", "DATA_DIR": str(data_dir), **environment},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        said = log.read_text(errors="replace")
        if "Ariadne is up" in said:
            content = json.loads(credentials.read_text())
            return Server(content["url"], content["ingest_key"], content["logins"], data_dir, process)
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}:\n{said}")
        time.sleep(0.05)
    process.kill()
    raise RuntimeError(f"the server did not come up:\n{log.read_text(errors='replace')}")


def _end(server: Server) -> None:
    if server.process.poll() is None:
        server.process.terminate()
        try:
            server.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            server.process.kill()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for tests that only add to it, each under session ids of its own."""
    running = _start_server(tmp_path_factory.mktemp("server"))
    yield running
    _end(running)


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[ServerFactory]:
    """Start servers of the test's own: `start_server("name", PORT="0", …)`; all are stopped afterwards."""
    with ExitStack() as stack:

        def start(name: str = "server", **environment: str) -> Server:
            running = _start_server(tmp_path / name, **environment)
            stack.callback(_end, running)
            return running

        yield start


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium. Without one the test fails; only ARIADNE_BROWSER=none leaves it out, and never on CI."""
    from playwright.sync_api import sync_playwright

    from tools.browser import ENVIRONMENT, NoBrowser, find, launch_environment

    try:
        path = find()
    except NoBrowser as missing:
        if os.environ.get(ENVIRONMENT) == "none" and not os.environ.get("CI"):
            pytest.skip(str(missing))
        pytest.fail(str(missing))
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=str(path), env=launch_environment(path))
        yield running
        running.close()


SignIn = Callable[..., "Page"]


@pytest.fixture
def sign_in(browser: Browser, server: Server) -> Iterator[SignIn]:
    """Open a page as one kind of person: `sign_in("operator", width=1280, dark=True)`. Script errors fail the test."""
    contexts: list[BrowserContext] = []
    faults: list[str] = []

    def open_page(
        person: str = "operator", *, width: int = 1280, height: int = 800, dark: bool = False, is_new: bool = False
    ) -> Page:
        # Who is not new here has dismissed the hints, which would lie over what a test clicks.
        seen = {"origin": server.url, "localStorage": [{"name": "first-look", "value": "seen"}]}
        context = browser.new_context(
            storage_state={"origins": [] if is_new else [seen], "cookies": []},
            base_url=server.url,
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(f"{page.url}: {error}"))
        login = server.logins[person]
        page.goto("/login/")
        page.fill("input[name=username]", login["username"])
        page.fill("input[name=password]", login["password"])
        page.click("button[type=submit]")
        page.wait_for_url(lambda url: "/login/" not in url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not faults, faults


@pytest.fixture
def page(sign_in: SignIn) -> Page:
    """A page opened by an operator, who may see the least."""
    return sign_in("operator")
